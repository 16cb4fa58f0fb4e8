"""The usual line at speed: one state is possible, and all is known that the line says.

This decides nothing on its own. A line that is not of this form, or not what the specification answers, is taken again
by the validator, which is slower and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cacheproof.foundation.limits import TooSlowError
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.lines import Pattern, agrees
from cacheproof.model.naming import names_in
from cacheproof.model.protocol import LARGEST_INTEGER
from cachespec.kernel import Code, Name, Observation, Operation
from cachespec.kernel.names import note_of, unwrap

Integer = Annotated[int, Meta(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]

QUOTES_BESIDE_OPERANDS = 2 * len(("operation", "op", "its name", "outcome", "code", "its name"))
"""Quotation marks of a line, two for each string, without those of operands and of `values`."""


class _Outcome(msgspec.Struct, forbid_unknown_fields=True):
    """How the call ended."""

    code: Code
    values: tuple[Integer, ...] | UnsetType = UNSET


class _Kind(NamedTuple):
    """How the operation is made of what was decoded, and how many quotation marks its line has."""

    make: Callable[[Any], Operation]
    quotes: int


class FastPath:
    """Steps over the usual lines of one log."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._config = header.config
        self._call = header.variant.call
        self._unknown = header.component.unknown
        names = names_in(header.component, header.config)
        structs = {kind: _struct(kind, names) for kind in header.component.operations}
        known = {kind: struct for kind, struct in structs.items() if struct is not None}
        self._kinds = {struct: _kind(kind) for kind, struct in known.items()}
        line = _line(tuple(known.values()))
        self.seen: set[tuple[type[Operation], Code]] = set()
        """The calls that were taken, each with the code that it was answered."""
        self._decode: Callable[[bytes], Any] | None = None if line is None else msgspec.json.Decoder(line).decode

    @property
    def usable(self) -> bool:
        """Whether there can be such lines: nothing may have happened between them, and names need no translation."""
        header = self._header
        return self._decode is not None and not header.unlogged.operations and header.own_names is None

    def step(self, raw: bytes, state: Any, known: dict[str, Pattern]) -> Any:
        """The state after the line; None where the line has to be looked at more closely.

        `known` has the observables that are logged when they change, and is brought up to date.
        """
        assert self._decode is not None
        try:
            line = self._decode(raw)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, not of this form, nested too deep
            return None
        operation, said, observed = line.operation, line.outcome, line.observations
        kind = self._kinds[type(operation)]
        # a key that occurs twice would not be noticed by the decoder: there would be more quotation marks than this
        quotes = kind.quotes if said.values is UNSET else kind.quotes + 2
        if observed is not UNSET:
            quotes += 2 + 2 * len(observed)
        if line.source is not UNSET:
            quotes += 4
        if raw.count(b'"') != quotes:
            return None
        call = kind.make(operation)
        if self._unknown(self._config, call) is not None:
            return None
        try:
            after, (code, values) = self._call(self._config, state, call)
            if code is not said.code or values != (said.values or ()) or code is Code.DIVERGED:
                return None
            if (observed or known) and not self._shows(after, observed or {}, known):
                return None
        except (TooSlowError, MemoryError):  # the validator would have no answer to it either
            raise
        except Exception:  # noqa: BLE001  # the validator says what it was
            return None
        self.seen.add((type(call), code))
        return after

    def _shows(self, state: Any, observed: Mapping[str, Observation], known: dict[str, Pattern]) -> bool:
        """Whether the state shows what the line has, and what it leaves out because it has not changed."""
        component, variant = self._header.component, self._header.variant
        shown = component.observe(self._config, variant.view(self._config, state))
        if any(name not in shown or shown[name] != value for name, value in observed.items()):
            return False
        if not known:
            return True
        if not all(name in observed or agrees(said, shown[name]) for name, said in known.items()):
            return False
        known.update((name, observed[name]) for name in known if name in observed)
        return True


def _kind(kind: type[Operation]) -> _Kind:
    names = [field.name for field in fields(kind)]
    quotes = QUOTES_BESIDE_OPERANDS + 2 * len(names)
    if not names:
        same = kind()
        return _Kind(lambda _decoded: same, quotes)
    operands = attrgetter(*names)
    if len(names) == 1:
        return _Kind(lambda decoded: kind(operands(decoded)), quotes)  # type: ignore[call-arg]  # its only field
    return _Kind(lambda decoded: kind(*operands(decoded)), quotes)


def _line(operations: tuple[type, ...]) -> type | None:
    """The class of a line that has one of these operations."""
    if not operations:
        return None
    any_of: Any = Union[operations]  # noqa: UP007  # of classes that are known at run time only
    observations: Any = dict[str, Integer | tuple[Integer, ...]] | UnsetType
    parts: list[Any] = [
        ("operation", any_of),
        ("outcome", _Outcome),
        ("observations", observations, UNSET),
        ("source", str | UnsetType, UNSET),
    ]
    return msgspec.defstruct("Line", parts, forbid_unknown_fields=True)


def largest_operands(kind: type[Operation], names: Mapping[str, frozenset[int]]) -> list[int] | None:
    """The largest value of each operand, the smallest is 0; None where its names are not those from 0 on."""
    several, notes = get_type_hints(kind), get_type_hints(kind, include_extras=True)
    found = []
    for field in fields(kind):
        marked = notes[field.name]
        is_tuple = get_origin(several[field.name]) is tuple
        note = note_of(unwrap(get_args(unwrap(marked)[0])[0] if is_tuple else marked)[1], Name)
        known = names.get(note.sort) if note is not None else None
        if known is not None and (not known or known != frozenset(range(len(known)))):
            return None
        found.append(LARGEST_INTEGER if known is None else len(known) - 1)
    return found


def _struct(kind: type[Operation], names: Mapping[str, frozenset[int]]) -> type | None:
    """The operation as the decoder checks it; None where its names are not those from 0 on."""
    most = largest_operands(kind, names)
    if most is None:
        return None
    several = get_type_hints(kind)
    operands: list[tuple[str, Any]] = []
    for field, largest in zip(fields(kind), most, strict=True):
        one = Annotated[int, Meta(ge=0, le=largest)]
        operands.append((field.name, tuple[one, ...] if get_origin(several[field.name]) is tuple else one))
    tag = kind.wire_name()
    return msgspec.defstruct(f"{kind.__name__}Line", operands, tag_field="op", tag=tag, forbid_unknown_fields=True)
