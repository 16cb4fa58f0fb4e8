"""Operations and outcomes as flat messages: ASCII keys, integers and arrays, derived from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, get_origin, get_type_hints

from cacheproof.errors import InputError
from cachespec.kernel import Code, Observation, Operation, Outcome

Message = dict[str, Any]


def operation_to_message(operation: Operation) -> Message:
    """`Allocate(request=1, input=0)` is `{"op": "allocate", "request": 1, "input": 0}`."""
    named = {field.name: _plain(getattr(operation, field.name)) for field in fields(operation)}
    return {"op": operation.wire_name(), **named}


def operation_from_message(operations: Iterable[type[Operation]], message: Mapping[str, Any]) -> Operation:
    """The operation that a message names, every field checked."""
    by_name = {operation.wire_name(): operation for operation in operations}
    name = message.get("op")
    if not isinstance(name, str) or name not in by_name:
        raise InputError(f"unknown operation {name!r}: there are {', '.join(by_name)}")
    kind = by_name[name]
    wanted = [field.name for field in fields(kind)]
    given = {key: value for key, value in message.items() if key != "op"}
    if sorted(given) != sorted(wanted):
        raise InputError(f"{name} takes {wanted or 'no fields'}, not {sorted(given)}")
    hints = get_type_hints(kind)
    return kind(**{key: _checked(name, key, given[key], several=get_origin(hints[key]) is tuple) for key in wanted})


def outcome_to_message(outcome: Outcome) -> Message:
    """`{"code": "done"}`, with `"values"` where there are any."""
    return {"code": outcome.code.value, **({"values": list(outcome.values)} if outcome.values else {})}


def outcome_from_message(message: Mapping[str, Any]) -> Outcome:
    """The outcome that a message names."""
    try:
        code = Code(message.get("code"))
    except ValueError:
        raise InputError(
            f"unknown code {message.get('code')!r}: there are {', '.join(c.value for c in Code)}"
        ) from None
    values = _checked("outcome", "values", message.get("values", []), several=True)
    return Outcome(code, values)


def observations_to_message(observations: Mapping[str, Observation]) -> Message:
    """Tuples become arrays."""
    return {name: _plain(value) for name, value in observations.items()}


def observations_from_message(message: Mapping[str, Any]) -> dict[str, Observation]:
    """Arrays become tuples; anything but integers and arrays of integers is refused."""
    return {
        name: _checked("observation", name, value, several=isinstance(value, list)) for name, value in message.items()
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _checked(owner: str, key: str, value: Any, *, several: bool) -> Any:
    if several and isinstance(value, list) and all(_is_integer(item) for item in value):
        return tuple(value)
    if not several and _is_integer(value):
        return value
    raise InputError(f"{owner}: {key} must be {'an array of integers' if several else 'an integer'}, not {value!r}")
