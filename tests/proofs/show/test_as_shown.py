"""What is concluded from what a target shows: which variants answer so, and which properties it breaks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.model.finding import Answer
from cacheproof.model.registry import UNDEFINED, AnyVariant, component_named
from cacheproof.model.scope import scope_named
from cacheproof.model.trace import Trace, record
from cacheproof.present.show.as_shown import answers_as, broken_as_shown
from cachespec.kernel import Code, Operation, Outcome
from cachespec.lru import Config, Put, Touch

LRU = component_named("lru")
CONFIG = Config(capacity=3, sizes=(1, 1, 2), pins=1)


def trace_of(variant: AnyVariant, calls: Sequence[Operation]) -> Trace:
    return record(LRU, variant, CONFIG, calls, whole_calls=True)


def last_answer(trace: Trace) -> Answer:
    return Answer(trace.steps[-1].outcome, trace.steps[-1].observations)


def drawn(component: str, scope: str, calls: int) -> Trace:
    """Calls that the environment may make, drawn with a fixed seed."""
    of, config, draw = (
        component_named(component),
        scope_named(component_named(component), scope).config,
        random.Random(1),
    )
    state, made = of.normative.start(config), list[Operation]()
    for _ in range(calls):
        made.append(draw.choice(list(of.normative.alphabet(config, state))))
        state, _ = of.normative.call(config, state, made[-1])
    return record(of, of.normative, config, made, whole_calls=True)


def undefined(config: Any, state: Any, op: Operation) -> tuple[Any, Outcome]:
    """A transition of a variant that is for other configurations."""
    raise LookupError(f"{op} has no meaning in {config}")


@pytest.mark.parametrize(("component", "scope"), [("block_hash", "image-then-text"), ("scheduler", "shared-item")])
def test_a_variant_that_is_not_for_the_configuration_does_not_answer(component: str, scope: str) -> None:
    of, trace = component_named(component), drawn(component, scope, 15)
    variant = replace(of.normative, tag="made-up", transitions=dict.fromkeys(of.normative.transitions, undefined))
    with pytest.raises(UNDEFINED):
        record(of, variant, trace.config, trace.operations, whole_calls=True)
    assert not answers_as(variant, trace, last_answer(trace))


def test_a_variant_answers_as_the_target_only_if_every_call_does() -> None:
    """C-MIR-10: M2 lets an absent key enter the order."""
    era = LRU.variants["M2"]
    after_touch, after_put = ([Touch(0)], [Touch(0), Put(1, 1)])
    normative, ghost = (trace_of(variant, after_touch) for variant in (LRU.normative, era))
    assert answers_as(era, normative, last_answer(ghost))
    assert not answers_as(LRU.normative, normative, last_answer(ghost))
    earlier = trace_of(LRU.normative, after_put)
    assert not answers_as(era, earlier, last_answer(trace_of(era, after_put))), "they part at the first call"


def test_a_property_counts_only_if_every_state_that_fits_breaks_it() -> None:
    """Without its order, a cache may be in a state that is right: nothing can be said of it."""
    trace = trace_of(LRU.normative, [Put(2, 2), Put(0, 1), Put(2, 2)])
    right = last_answer(trace)
    wrong = Answer(Outcome(Code.DONE), {"order": (2, 0)})
    assert "LRU-7/recency" in broken_as_shown(trace, right, wrong)
    assert broken_as_shown(trace, right, right) == frozenset()
    assert broken_as_shown(trace, right, Answer(right.outcome, {})) == frozenset()
