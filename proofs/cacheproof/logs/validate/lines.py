"""A line of a log: one call with the known facts, the observables between calls, or the end.

A value that was not logged is `None`; so is an integer inside of an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, get_origin, get_type_hints

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.model.naming import names_in, wrong_operand
from cacheproof.model.protocol import LARGEST_INTEGER, RefusedError, decode_object
from cacheproof.model.registry import AnyComponent
from cachespec.kernel import Code, Operation

Pattern = int | tuple[int | None, ...] | None
"""What was logged of an integer or of an array of integers: `None` stands for whatever is not known."""

KEYS = ("operation", "outcome", "observations", "source")
END = "end"


class Line(NamedTuple):
    """What a line says."""

    called: bool
    """Whether there was a call; else the line only says what could be seen."""
    kind: type[Operation] | None
    """Which call; None where that is not known."""
    operands: Mapping[str, Pattern]
    """Those that are known, or known in part."""
    operation: Operation | None
    """The call, where all of it is known."""
    code: Code | None
    values: Pattern
    observations: Mapping[str, Pattern]
    """Those that the line has; what it has as None is not known."""
    source: str

    @property
    def tells(self) -> bool:
        """Whether it says how the call ended, or shows an observable."""
        return self.code is not None or any(value is not None for value in (self.values, *self.observations.values()))


class End(NamedTuple):
    """The end record."""

    lines: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class _Operand:
    """A field of an operation."""

    name: str
    several: bool


class Reader:
    """Reads the lines of one log, strictly: any bytes give a line or an InputError."""

    def __init__(self, component: AnyComponent, config: Any, own: str | None = None) -> None:
        """`own` is the sort of names that the log gives by itself: any number is one."""
        self._config = config
        self._names = {sort: names for sort, names in names_in(component, config).items() if sort != own}
        self._kinds = {kind.wire_name(): kind for kind in component.operations}
        self._operands = {kind: _operands_of(kind) for kind in component.operations}
        self._unknown = component.unknown if own is None else _anything

    def read(self, raw: bytes) -> Line | End:
        """The line; InputError that says what is wrong with it."""
        message = object_on(raw)
        if END in message:
            return _end(message)
        strange = sorted(set(message) - set(KEYS))
        if strange:
            raise InputError(f"a line has no {shortened(repr(strange[0]))}: there are {', '.join((*KEYS, END))}")
        kind, operands = self._called(message)
        code, values = _outcome(message)
        source = message.get("source", "")
        if not isinstance(source, str):
            raise InputError(f"'source' must be a string, not {shortened(repr(source))}")
        operation = self._whole(kind, operands)
        observations = observations_said(message.get("observations", {}))
        return Line("operation" in message, kind, operands, operation, code, values, observations, source)

    def _called(self, message: Mapping[str, Any]) -> tuple[type[Operation] | None, dict[str, Pattern]]:
        said = _object(message, "operation")
        if "operation" not in message and "outcome" in message:
            raise InputError("an 'outcome' needs the 'operation' that it is the outcome of, or null for one")
        name = said.get("op")
        if name is None:
            if set(said) - {"op"}:
                raise InputError("an operation of which 'op' is not known has no operands")
            return None, {}
        if not isinstance(name, str) or name not in self._kinds:
            raise InputError(f"unknown operation {shortened(repr(name))}: there are {', '.join(self._kinds)}")
        kind = self._kinds[name]
        known = self._operands[kind]
        strange = sorted(set(said) - {"op", *known})
        if strange:
            raise InputError(f"{name} has no {shortened(repr(strange[0]))}: it takes {', '.join(known) or 'nothing'}")
        return kind, {
            operand.name: self._operand(kind, operand, said[operand.name])
            for operand in known.values()
            if said.get(operand.name) is not None
        }

    def _operand(self, kind: type[Operation], operand: _Operand, value: Any) -> Pattern:
        said = pattern(value, f"{kind.wire_name()}: {operand.name}", several=operand.several)
        known = tuple(each for each in said if each is not None) if isinstance(said, tuple) else said
        wrong = wrong_operand(kind, operand.name, known, self._names)
        if wrong is not None:
            raise InputError(f"{kind.wire_name()}: {wrong}")
        return said

    def _whole(self, kind: type[Operation] | None, operands: Mapping[str, Pattern]) -> Operation | None:
        if kind is None or len(operands) < len(self._operands[kind]) or any(map(is_partial, operands.values())):
            return None
        operation = kind(**operands)
        wrong = self._unknown(self._config, operation)
        if wrong is not None:
            raise InputError(f"{kind.wire_name()}: {wrong}")
        return operation


def object_on(raw: bytes) -> dict[str, Any]:
    """The JSON object on a line, or InputError."""
    try:
        return decode_object(raw)
    except RefusedError as error:
        raise InputError(shortened(str(error))) from None


def _anything(_config: Any, _operation: Operation) -> None:
    """Names that are the log's own are looked at once they are read in those of the specification."""


def is_partial(said: Pattern) -> bool:
    """Whether some of an array is not known."""
    return isinstance(said, tuple) and None in said


def agrees(said: Pattern, value: Any) -> bool:
    """Whether the value may be what was logged."""
    if said is None or said == value:
        return True
    if not isinstance(said, tuple) or not isinstance(value, tuple) or len(said) != len(value):
        return False
    return all(one is None or one == other for one, other in zip(said, value, strict=True))


def pattern(value: Any, owner: str, *, several: bool | None) -> Pattern:
    """What a value of the log says; `several` says whether it is an array, None that it may be either."""
    if value is None:
        return None
    if several is not True and _is_integer(value):
        return int(value)
    if several is not False and isinstance(value, list):
        if all(each is None or _is_integer(each) for each in value):
            return tuple(value)
    elif several is None:
        raise InputError(f"{owner} must be an integer or an array of integers, not {shortened(repr(value))}")
    raise InputError(
        f"{owner} must be {'an integer' if several is False else 'an array of integers'}, not {shortened(repr(value))}"
    )


def observations_said(message: Any) -> dict[str, Pattern]:
    """The observables that a log shows; None if it does not know them."""
    if message is None:
        return {}
    if not isinstance(message, dict):
        raise InputError(f"observations must be an object, not {shortened(repr(message))}")
    return {name: pattern(value, shortened(name), several=None) for name, value in message.items()}


def _operands_of(kind: type[Operation]) -> dict[str, _Operand]:
    hints = get_type_hints(kind)
    return {field.name: _Operand(field.name, get_origin(hints[field.name]) is tuple) for field in fields(kind)}


def _outcome(message: Mapping[str, Any]) -> tuple[Code | None, Pattern]:
    """What was logged of the outcome: with a code, values that are left out are none at all, as in the protocol."""
    if message.get("outcome") is None:
        return None, None
    said = _object(message, "outcome")
    strange = sorted(set(said) - {"code", "values"})
    if strange:
        raise InputError(f"an outcome has 'code' and 'values', and no {shortened(repr(strange[0]))}")
    code = None
    if said.get("code") is not None:
        try:
            code = Code(said["code"])
        except ValueError:
            known = ", ".join(each.value for each in Code)
            raise InputError(f"unknown code {shortened(repr(said['code']))}: there are {known}") from None
    return code, pattern(said.get("values", None if code is None else []), "values", several=True)


def _end(message: Mapping[str, Any]) -> End:
    said = _object(message, END)
    if set(message) != {END} or not set(said) <= {"lines", "sha256"}:
        raise InputError("the end record has 'end' alone, with 'lines' and 'sha256'")
    lines, digest = said.get("lines"), said.get("sha256")
    if lines is not None and not _is_integer(lines):
        raise InputError(f"'lines' of the end record must be an integer, not {shortened(repr(lines))}")
    if digest is not None and not isinstance(digest, str):
        raise InputError(f"'sha256' of the end record must be a string, not {shortened(repr(digest))}")
    return End(lines, digest)


def _object(message: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = message.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"'{key}' must be an object, not {shortened(repr(value))}")
    return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER
