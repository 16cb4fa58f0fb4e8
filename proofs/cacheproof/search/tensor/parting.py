"""Where the tensor code parts from the specification: a shortest way there, and what each says.

It is no `lockstep.Pair`: no target is called here. Both answers are steps of the exploration, which are looked up.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from torch import Tensor

from cacheproof.model.finding import Answer, Difference
from cacheproof.model.trace import Trace, record
from cacheproof.search.result import Parting
from cacheproof.search.tensor.backwards import Backwards
from cacheproof.search.tensor.refinement import Step, first_difference
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Observation, Operation

TARGET = "torch"


def differed(backwards: Backwards, before: Hashable) -> Parting:
    """In this packed state of the last level, something happens that the specification says otherwise."""
    model, (operations, actual) = backwards.model, backwards.way_to(before)
    found = first_difference(backwards.expansion, actual)
    assert found is not None, "a difference comes again under other names"
    last = [] if found.specification is None else [found.operation]
    trace = _told(model, [*operations, *last])
    expected = _answer(model, found.specification) or Answer(None, _shown_last(trace))
    actually = _answer(model, found.tensors) or Answer(None, {})
    return Parting(Difference(TARGET, trace, expected, actually), found.sentence())


def left_layout(backwards: Backwards, error: ArithmeticError) -> Parting:
    """After some operation in the last level, a state is not one that the layout has."""
    operations, operation = _leaving(backwards)
    trace = _told(backwards.model, [*operations, *([] if operation is None else [operation])])
    expected = Answer(trace.steps[-1].outcome if trace.steps else None, _shown_last(trace))
    return Parting(Difference(TARGET, trace, expected, Answer(None, {})), str(error))


def _leaving(backwards: Backwards) -> tuple[list[Operation], Operation | None]:
    """The operations to the first state in which some operation leaves the layout, and that operation."""
    if not backwards.levels:
        return [], None
    expansion = backwards.expansion
    before = next(place for place, _ in enumerate(backwards.levels[-1]) if _leaves(backwards, place))
    operations, actual = backwards.way_to(backwards.key(before))
    return operations, expansion.leaving(actual)


def _leaves(backwards: Backwards, place: int) -> bool:
    state: Tensor = backwards.levels[-1][place : place + 1]
    return backwards.expansion.leaving(state) is not None


def _told(model: TensorModel, operations: list[Operation]) -> Trace:
    """What the specification says to these calls."""
    return record(model.component, model.variant, model.config, operations, whole_calls=True)


def _answer(model: TensorModel, step: Step | None) -> Answer | None:
    if step is None:
        return None
    outcome, after = step
    return Answer(outcome, _shown(model, after))


def _shown(model: TensorModel, state: Any) -> Mapping[str, Observation]:
    return dict(model.component.observe(model.config, model.variant.view(model.config, state)))


def _shown_last(trace: Trace) -> Mapping[str, Observation]:
    return trace.steps[-1].observations if trace.steps else trace.initial
