"""Messages that are no calls of a component, derived from its declarations; the oracle says how each is refused.

For every operation: a field that is missing, one too many, one of another type, a negative number, and a name that the
configuration does not have. Beside them an operation and a request that nobody has, and configurations that are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_origin

from cacheproof.model.naming import names_in, single_sorts
from cacheproof.model.protocol import Fault
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.serve import Oracle
from cacheproof.model.wire import Message, config_to_message, operation_to_message
from cacheproof.vectors.vector import RefusedStep
from cachespec.kernel import Operation
from cachespec.kernel.names import hints_of, unwrap

STRANGE = "no_such_name"
"""What no operation, field or request is called."""


def refusals(
    component: AnyComponent, variant: AnyVariant, config: Any, way: tuple[Operation, ...]
) -> list[list[RefusedStep]]:
    """Messages that are refused after the calls of `way`: those about each operation together, then all others.

    Raises AssertionError where the oracle does not refuse one.
    """
    names = {sort: max(known, default=-1) for sort, known in names_in(component, config).items()}
    groups = [[{"do": "apply", **message} for message in _wrong_calls(kind, names)] for kind in component.operations]
    groups.append(list(_wrong_requests(component, variant, config)))
    return [[_refused(component, variant, config, way, message) for message in group] for group in groups if group]


def _example(kind: type[Operation]) -> Message:
    """A message of the form of this operation; whether it can be performed does not matter to what is wrong in it."""
    own: Any = kind
    hints = hints_of(own)
    several = {field.name: get_origin(unwrap(hints[field.name])[0]) is tuple for field in fields(own)}
    return {"op": kind.wire_name(), **{name: [0] if is_tuple else 0 for name, is_tuple in several.items()}}


def _wrong_calls(kind: type[Operation], names: dict[str, int]) -> Iterator[Message]:
    right = _example(kind)
    own: Any = kind
    for field in (field.name for field in fields(own)):
        yield {key: value for key, value in right.items() if key != field}
        yield {**right, field: "0"}
        several = isinstance(right[field], list)
        yield {**right, field: 0 if several else [0]}
        yield {**right, field: [-1] if several else -1}
        sort = single_sorts(kind).get(field)
        if sort in names:
            yield {**right, field: names[sort] + 1}
    yield {**right, STRANGE: 0}


def _wrong_requests(component: AnyComponent, variant: AnyVariant, config: Any) -> Iterator[Message]:
    right = {"do": "init", "component": component.name, "variant": variant.tag, **config_to_message(config)}
    yield {"do": "apply", "op": STRANGE}
    yield {"do": "apply"}
    yield {"do": STRANGE}
    yield {"do": "observe", STRANGE: 0}
    yield {"do": "reset", STRANGE: 0}
    yield {**right, STRANGE: 0}
    yield {**right, "component": STRANGE}
    for field in config._fields:
        if field not in config._field_defaults:
            yield {key: value for key, value in right.items() if key != field}
        yield {**right, field: "0"}


def _refused(
    component: AnyComponent, variant: AnyVariant, config: Any, way: tuple[Operation, ...], message: Message
) -> RefusedStep:
    oracle = Oracle()
    start = {"do": "init", "component": component.name, "variant": variant.tag, **config_to_message(config)}
    for request in (start, *({"do": "apply", **operation_to_message(one)} for one in way)):
        answer = oracle.answer(json.dumps(request).encode())
    before = oracle.answer(b'{"do": "observe"}')
    answer = oracle.answer(json.dumps(message).encode())
    assert answer["answer"] == "error", (message, answer)
    assert answer["error"] != Fault.NO_ANSWER.value, answer
    assert oracle.answer(b'{"do": "observe"}') == before, "what is refused changes nothing"
    return RefusedStep(message, answer["error"])
