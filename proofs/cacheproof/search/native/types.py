"""The types of compiled code: what a value of the specification is in C++.

They come from annotations and from values. Everything is a plain value: sequences are views of memory that an arena
owns, and records are structs. A Python object that is known when the code is compiled (a function, a class, a table of
rules) is a `Const` and has no value at run time.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin

from cachespec.kernel import FrozenMap, FrozenQueue, Map, Operation, Queue
from cachespec.kernel.names import hints_of


class Type:
    """Base of all types."""


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """`Int`, `Bool`, `Unit` (None), or `Bottom`: an element of what is always empty."""

    cpp: str


INT, BOOL, UNIT, BOTTOM = Scalar("Int"), Scalar("bool"), Scalar("Unit"), Scalar("Bottom")
TEXT = Scalar("Text")
"""A text, by its number: it can be compared with those that the specification names."""


@dataclass(frozen=True, slots=True)
class EnumType(Type):
    """A member of an enumeration, by its place."""

    owner: type[Enum]


@dataclass(frozen=True, slots=True)
class Holder(Type):
    """A container of values of one type: `Seq`, `Opt`, `Set`, `List` or `Queue`."""

    form: str
    element: Type


@dataclass(frozen=True, slots=True)
class Pairs(Type):
    """`Map` (sorted by key, immutable) or `Dict` (in the order of insertion, changed in place)."""

    form: str
    key: Type
    value: Type


@dataclass(frozen=True, slots=True)
class Tup(Type):
    """A tuple of known length."""

    parts: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Record(Type):
    """A named tuple, a frozen dataclass, or an operation: a class, and the type of each field."""

    owner: type
    fields: tuple[tuple[str, Type], ...]
    number: int = field(init=False, repr=False, compare=False)
    """Its hash, which would go through all that it is made of each time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", hash((self.owner, self.fields)))

    def __hash__(self) -> int:
        return self.number

    def field(self, name: str) -> Type | None:
        """The type of a field, or None where there is no such field."""
        return next((kind for field, kind in self.fields if field == name), None)


@dataclass(frozen=True, slots=True)
class AnyOperation(Type):
    """Any operation: a tag, and the fields of the class that the tag names."""


@dataclass(frozen=True, slots=True)
class Tag(Type):
    """The class of an operation."""


@dataclass(frozen=True)
class Const(Type):
    """A Python object that is known when the code is compiled."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and other.key() == self.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def key(self) -> tuple[object, ...]:
        """Plain values, tuples, dictionaries and partial functions by what they hold, everything else by identity."""
        return key_of(self.value)


def key_of(value: Any) -> tuple[object, ...]:
    """What two objects have in common that are the same to the compiler."""
    if isinstance(value, (int, str, type(None))):
        return (type(value), value)
    if type(value) is tuple:
        return (tuple, *map(key_of, value))
    if type(value) is dict:
        return (dict, *((key_of(key), key_of(item)) for key, item in value.items()))
    if type(value) is partial:
        return (partial, key_of(value.func), key_of(value.args), key_of(value.keywords))
    return (id(value),)


@dataclass(frozen=True, slots=True)
class Closure(Type):
    """A function that was made while running: its source, and the types of what it has taken with it."""

    source: Any
    """The syntax of a lambda or of an inner function with its globals, or the type that a `partial` calls."""
    names: tuple[str, ...]
    kinds: tuple[Type, ...]


SEQ_BOTTOM = Holder("Seq", BOTTOM)
ANY_OPERATION, TAG = AnyOperation(), Tag()


def seq(element: Type) -> Holder:
    """A sequence of any length."""
    return Holder("Seq", element)


def opt(element: Type) -> Type:
    """The type, or None."""
    return element if isinstance(element, Holder) and element.form == "Opt" else Holder("Opt", element)


def is_form(kind: Type, *forms: str) -> bool:
    """Whether it is a container of one of these forms."""
    return isinstance(kind, (Holder, Pairs)) and kind.form in forms


class NoJoinError(Exception):
    """Two types have no common one."""


def join(first: Type, second: Type) -> Type:
    """The least type that holds values of both. Raises NoJoinError."""
    if second in (first, BOTTOM):
        return first
    if first == BOTTOM:
        return second
    if {first, second} == {INT, BOOL}:
        return INT
    if UNIT in (first, second):
        return opt(first if second == UNIT else second)
    if is_form(first, "Opt") or is_form(second, "Opt"):
        return opt(join(_inner(first), _inner(second)))
    found = _joined(first, second) or _joined(second, first)
    if found is None:
        raise NoJoinError(f"{first} and {second}")
    return found


def _inner(kind: Type) -> Type:
    return kind.element if isinstance(kind, Holder) and kind.form == "Opt" else kind


def _joined(first: Type, second: Type) -> Type | None:
    if isinstance(first, Tup) and isinstance(second, Tup):
        if len(first.parts) == len(second.parts):
            return Tup(tuple(join(a, b) for a, b in zip(first.parts, second.parts, strict=True)))
        return seq(join(_all(first), _all(second)))
    if isinstance(first, Holder) and isinstance(second, Tup) and first.form in ("Seq", "Set"):
        return seq(join(first.element, _all(second)))
    if isinstance(first, Holder) and isinstance(second, Holder) and first.form == second.form:
        return Holder(first.form, join(first.element, second.element))
    if isinstance(first, Pairs) and isinstance(second, Pairs) and first.form == second.form:
        return Pairs(first.form, join(first.key, second.key), join(first.value, second.value))
    if isinstance(first, Record) and isinstance(second, Record) and first.owner is second.owner:
        several = zip(first.fields, second.fields, strict=True)
        return Record(first.owner, tuple((name, join(a, b)) for (name, a), (_, b) in several))
    if is_operation(first) and (is_operation(second) or second == ANY_OPERATION):
        return ANY_OPERATION
    if isinstance(first, Pairs) and isinstance(second, Tup) and first.form == "Dict":
        return seq(join(first.key, _all(second)))
    if isinstance(first, Record) and isinstance(second, Tup):
        return _joined(Tup(tuple(kind for _, kind in first.fields)), second)
    return None


def _all(kind: Tup) -> Type:
    element: Type = BOTTOM
    for part in kind.parts:
        element = join(element, part)
    return element


def is_operation(kind: Type) -> bool:
    """Whether it is an operation of a known class."""
    return isinstance(kind, Record) and issubclass(kind.owner, Operation)


def of_hint(hint: Any) -> Type | None:
    """The type that an annotation says; None where it leaves the type open (a function, `Any`, a type variable)."""
    try:
        return _of_hint(hint)
    except _OpenError:
        return None


class _OpenError(Exception):
    """An annotation that does not say the type."""


_SEQUENCES = (Iterable, Iterator, Sequence)
_CHANGEABLE = {list: "List", set: "Set", frozenset: "Set", AbstractSet: "Set"}


def _of_hint(hint: Any) -> Type:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of_hint(arguments[0])
    if hint is None or hint is type(None):
        return UNIT
    if isinstance(hint, type) and origin is None:
        return _of_class(hint)
    if origin in (Union, types.UnionType):
        kind: Type = BOTTOM
        for argument in arguments:
            try:
                kind = join(kind, _of_hint(argument))
            except NoJoinError:
                raise _OpenError from None
        return kind
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return seq(_of_hint(arguments[0]))
        return Tup(tuple(map(_of_hint, arguments)))
    if origin in (Map, FrozenMap):
        return Pairs("Map", *map(_of_hint, arguments))
    if origin in (Queue, FrozenQueue):
        return Holder("Queue", _of_hint(arguments[0]))
    if origin in (dict, Mapping):
        return Pairs("Dict", *map(_of_hint, arguments))
    if origin in _SEQUENCES:
        return seq(_of_hint(arguments[0]))
    if origin in _CHANGEABLE:
        return Holder(_CHANGEABLE[origin], _of_hint(arguments[0]))
    raise _OpenError


def _of_class(owner: type) -> Type:
    if owner in (int, bool, str):
        return {int: INT, bool: BOOL, str: TEXT}[owner]
    if issubclass(owner, Enum):
        return EnumType(owner)
    if owner is Operation or (issubclass(owner, Operation) and owner.__subclasses__()):
        return ANY_OPERATION
    if getattr(owner, "_is_protocol", False):
        raise _OpenError
    if hasattr(owner, "_fields") or is_dataclass(owner):
        return record_of(owner)
    raise _OpenError


_RECORDS: dict[type, Record | None] = {}


def record_of(owner: type) -> Record:
    """The record of a class whose annotations say all types. Raises where they leave one open."""
    if owner not in _RECORDS:
        _RECORDS[owner] = None
        hints = hints_of(owner)
        kinds = {name: of_hint(hints[name]) for name in field_names(owner)}
        if None not in kinds.values():
            _RECORDS[owner] = Record(owner, tuple((name, kind) for name, kind in kinds.items() if kind is not None))
    found = _RECORDS[owner]
    if found is None:
        raise _OpenError
    return found


def field_names(owner: Any) -> tuple[str, ...]:
    """The fields of a named tuple or a dataclass, in their order."""
    return tuple(owner._fields) if hasattr(owner, "_fields") else tuple(each.name for each in dataclasses.fields(owner))


def has_value(kind: Type) -> bool:
    """Whether there is anything of it at run time."""
    return not isinstance(kind, Const)
