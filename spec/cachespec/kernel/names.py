"""Which integers of a state are names, which are ranks, and how a state is renamed.

A *name* (a key, a request, a sender) means nothing but its identity: states that differ by a permutation of
interchangeable names behave alike. A *rank* (a sequence number, an epoch) means nothing but its order and adjacency.
Both are said once, in the annotations of the state and of the operations; everything here is derived from those.

    Key = Annotated[int, Name("key")]
    Epoch = Annotated[int, Rank("epoch")]

    class State(NamedTuple):
        order: Queue[Key]
        links: Annotated[tuple[Link, ...], IndexedBy("sender")]

Negative integers in the place of a name stand for "none" and are never renamed.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cachespec.kernel.containers import FrozenMap, FrozenQueue, Map, Queue

Permutations = Mapping[str, tuple[int, ...]]
"""For each sort of name, where each name goes: `permutations["key"][old] == new`."""

Renaming = Callable[[Any, Permutations], Any]

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Name:
    """Marks an integer as a name of the given sort."""

    sort: str


@dataclass(frozen=True, slots=True)
class Rank:
    """Marks an integer of which only order and adjacency matter, within the nearest `RankScope`."""

    sort: str


@dataclass(frozen=True, slots=True)
class IndexedBy:
    """Marks a tuple whose position is a name of the given sort."""

    sort: str


@dataclass(frozen=True, slots=True)
class RankScope:
    """Marks a value whose ranks are compared with each other and with no others."""


def apart(count: int) -> tuple[tuple[int, ...], ...]:
    """Names from 0 on of which none is like another, as a component's `interchangeable` says it."""
    return tuple((name,) for name in range(count))


def unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type hint without its annotations, and the annotations."""
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return inner, tuple(notes)
    return hint, ()


def note_of(notes: tuple[Any, ...], kind: type) -> Any:
    """The first annotation of the given class, or None."""
    return next((note for note in notes if type(note) is kind), None)


def with_fields(record: type[Record], **types: object) -> type[Record]:
    """The class of a record in which some fields are of other types, and behind which further ones may stand.

    Composites need it: the state of one that is made of other parts has the same fields, and names and ranks in them
    are found by what the fields are declared to be.
    """
    hints = {**get_type_hints(record, include_extras=True), **types}
    make: Any = namedtuple  # noqa: PYI024  # a class of which the fields are known at run time only
    made: type[Record] = make(record.__name__, tuple(hints))
    made.__annotations__ = hints
    return made


def joined(name: str, record: type[Record], *others: type) -> type[Record]:
    """The class of a record that has the fields of other records, too; where both have one, its own.

    Composites need it: a setting of a part is a setting of the whole, and is declared once. Fields without a default
    come first.
    """
    records = (*others, record)
    hints = {field: hint for part in records for field, hint in get_type_hints(part, include_extras=True).items()}
    defaults = {field: value for part in records for field, value in getattr(part, "_field_defaults", {}).items()}
    fields = (*(field for field in hints if field not in defaults), *defaults)
    make: Any = namedtuple  # noqa: PYI024  # a class of which the fields are known at run time only
    made = make(name, fields, defaults=tuple(defaults.values()), module=record.__module__)
    made.__annotations__ = {field: hints[field] for field in fields}
    made.__doc__, made.parts = record.__doc__, records
    return cast("type[Record]", made)


@cache
def hints_of(owner: type) -> Mapping[str, Any]:
    """The annotations of a NamedTuple or dataclass, with their notes."""
    return get_type_hints(owner, include_extras=True)


@cache
def renaming(hint: Any) -> Renaming | None:
    """The function that renames a value of this type, or None where there is nothing to rename."""
    inner, notes = unwrap(hint)
    name = note_of(notes, Name)
    if name is not None:
        sort = name.sort
        return lambda value, to: to[sort][value] if value >= 0 and sort in to else value
    indexed = note_of(notes, IndexedBy)
    if indexed is not None:
        return _renaming_of_indexed(indexed.sort, renaming(get_args(inner)[0]))
    origin = get_origin(inner)
    if origin in (Map, FrozenMap):
        return _renaming_of_map(*(renaming(argument) for argument in get_args(inner)))
    if origin in (Queue, FrozenQueue):
        return _renaming_of_queue(renaming(get_args(inner)[0]))
    if origin is tuple:
        return _renaming_of_tuple(get_args(inner))
    if origin is Union or origin is type(int | None):
        return _renaming_of_optional(get_args(inner))
    if isinstance(inner, type) and hasattr(inner, "_fields"):
        return _renaming_of_record(inner)
    if is_dataclass(inner) and isinstance(inner, type):
        return _renaming_of_dataclass(inner)
    return None


def _renaming_of_indexed(sort: str, element: Renaming | None) -> Renaming:
    def rename(value: Any, to: Permutations) -> Any:
        items = value if element is None else tuple(element(item, to) for item in value)
        if sort not in to:
            return items
        moved = list(items)
        for old, new in enumerate(to[sort]):
            moved[new] = items[old]
        return tuple(moved)

    return rename


def _renaming_of_map(key: Renaming | None, item: Renaming | None) -> Renaming | None:
    if key is None and item is None:
        return None

    def rename(value: Any, to: Permutations) -> Any:
        return FrozenMap.of((key(k, to) if key else k, item(v, to) if item else v) for k, v in value.items())

    return rename


def _renaming_of_queue(key: Renaming | None) -> Renaming | None:
    if key is None:
        return None
    return lambda value, to: FrozenQueue((key(k, to), weight) for k, weight in value.items())


def _renaming_of_tuple(arguments: tuple[Any, ...]) -> Renaming | None:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        element = renaming(arguments[0])
        return None if element is None else lambda value, to: tuple(element(item, to) for item in value)
    parts = tuple(renaming(argument) for argument in arguments)
    if not any(parts):
        return None
    return lambda value, to: tuple(part(item, to) if part else item for part, item in zip(parts, value, strict=True))


def _renaming_of_optional(arguments: tuple[Any, ...]) -> Renaming | None:
    present = [argument for argument in arguments if argument is not type(None)]
    inner = renaming(present[0]) if len(present) == 1 else None
    return None if inner is None else lambda value, to: None if value is None else inner(value, to)


def _renaming_of_record(record: Any) -> Renaming | None:
    hints = hints_of(record)
    parts = tuple(renaming(hints[field]) for field in record._fields)
    if not any(parts):
        return None
    return lambda value, to: record._make(
        part(item, to) if part else item for part, item in zip(parts, value, strict=True)
    )


def _renaming_of_dataclass(owner: Any) -> Renaming | None:
    hints = hints_of(owner)
    parts = {field.name: renaming(hints[field.name]) for field in fields(owner)}
    if not any(parts.values()):
        return None
    return lambda value, to: owner(
        **{name: part(getattr(value, name), to) if part else getattr(value, name) for name, part in parts.items()}
    )
