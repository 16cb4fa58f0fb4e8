"""Configurations, operations and outcomes as flat messages: ASCII keys, integers and arrays.

Everything is derived from the declarations; what comes in is checked field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.foundation.misspelt import UnknownNameError, did_you_mean
from cacheproof.model.registry import AnyComponent
from cachespec.kernel import Code, Observation, Operation, Outcome

Message = dict[str, Any]


def object_from(what: str, given: Any) -> Mapping[str, Any]:
    """An object of JSON; raises InputError, which says what is none."""
    if not isinstance(given, dict):
        raise InputError(f"{what} must be an object, not {shortened(repr(given))}")
    return given


def text_from(given: Mapping[str, Any], key: str) -> str:
    """A field that must be there, and a string; raises InputError."""
    value = given.get(key)
    if not isinstance(value, str):
        raise InputError(f"{key} must be a string, not {shortened(repr(value))}")
    return value


def operation_to_message(operation: Operation) -> Message:
    """`Allocate(request=1, input=0)` is `{"op": "allocate", "request": 1, "input": 0}`."""
    named = {field.name: plain(getattr(operation, field.name)) for field in fields(operation)}
    return {"op": operation.wire_name(), **named}


def operation_from_message(operations: Iterable[type[Operation]], message: Mapping[str, Any]) -> Operation:
    """The operation that a message names, every field checked."""
    by_name = {operation.wire_name(): operation for operation in operations}
    name = message.get("op")
    if not isinstance(name, str) or name not in by_name:
        known = did_you_mean(str(name), by_name)
        raise InputError(f"unknown operation {shortened(repr(name))}{known}")
    kind = by_name[name]
    wanted = [field.name for field in fields(kind)]
    given = {key: value for key, value in message.items() if key != "op"}
    if sorted(given) != sorted(wanted):
        raise InputError(f"{name} takes {wanted or 'no fields'}, not {shortened(str(sorted(given)))}")
    several = _several(kind)  # type: ignore[arg-type]  # a class is hashable whatever its instances are
    return kind(**{key: _checked(name, key, given[key], several=several[key]) for key in wanted})


@cache
def _several(kind: type[Operation]) -> Mapping[str, bool]:
    """For each field of an operation, whether it is a tuple."""
    return {name: get_origin(hint) is tuple for name, hint in get_type_hints(kind).items()}


def outcome_to_message(outcome: Outcome) -> Message:
    """`{"code": "done"}`, with `"values"` where there are any."""
    return {"code": outcome.code.value, **({"values": list(outcome.values)} if outcome.values else {})}


def outcome_from_message(message: Mapping[str, Any]) -> Outcome:
    """The outcome that a message names."""
    try:
        code = Code(message.get("code"))
    except ValueError:
        raise InputError(
            f"unknown code {shortened(repr(message.get('code')))}: there are {', '.join(c.value for c in Code)}"
        ) from None
    values = _checked("outcome", "values", message.get("values", []), several=True)
    return Outcome(code, values)


def observations_to_message(observations: Mapping[str, Observation]) -> Message:
    """Tuples become arrays."""
    return {name: plain(value) for name, value in observations.items()}


def observations_from_message(message: Mapping[str, Any]) -> dict[str, Observation]:
    """Arrays become tuples; anything but integers and arrays of integers is refused."""
    return {
        name: _checked("observation", name, value, several=isinstance(value, list)) for name, value in message.items()
    }


def config_to_message(config: Any) -> Message:
    """`Config(capacity=2, sizes=(1, 1))` is `{"capacity": 2, "sizes": [1, 1]}`, defaults included."""
    return {name: plain(value) for name, value in zip(config._fields, config, strict=True)}


def config_from_message(component: AnyComponent, message: Mapping[str, Any]) -> Any:
    """A valid configuration of the component; fields with a default may be left out."""
    kind: Any = component.config
    owner = f"the configuration of {component.name}"
    hints = get_type_hints(kind)
    strange = sorted(set(message) - set(kind._fields))
    if strange:
        raise UnknownNameError(
            f"{owner} has no {shortened(', '.join(strange))}{did_you_mean(strange[0], kind._fields)}"
        )
    missing = [name for name in kind._fields if name not in message and name not in kind._field_defaults]
    if missing:
        raise InputError(f"{owner} needs {', '.join(missing)}")
    config = kind(**{name: _shaped(owner, name, hints[name], value) for name, value in message.items()})
    wrong = component.invalid(config)
    if wrong is not None:
        raise InputError(f"{owner}: {wrong}")
    return config


def _shaped(owner: str, key: str, hint: Any, value: Any) -> Any:
    """The value as its declaration wants it: an integer, or arrays as deep as the tuples that are declared."""
    arguments = get_args(hint)
    if get_origin(hint) is not tuple:
        return _checked(owner, key, value, several=False)
    if not isinstance(value, list | tuple):
        raise InputError(f"{owner}: {key} must be an array, not {shortened(repr(value))}")
    parts = [arguments[0]] * len(value) if arguments[-1:] == (Ellipsis,) else list(arguments)
    if len(parts) != len(value):
        raise InputError(f"{owner}: {key} must be an array of {len(parts)}, not {shortened(repr(value))}")
    return tuple(_shaped(owner, key, part, item) for part, item in zip(parts, value, strict=True))


def plain(value: Any) -> Any:
    """A value as a message holds it: lists for tuples."""
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _checked(owner: str, key: str, value: Any, *, several: bool) -> Any:
    if several and isinstance(value, list) and all(_is_integer(item) for item in value):
        return tuple(value)
    if not several and _is_integer(value):
        return value
    wanted = "an array of integers" if several else "an integer"
    raise InputError(f"{owner}: {shortened(key)} must be {wanted}, not {shortened(repr(value))}")
