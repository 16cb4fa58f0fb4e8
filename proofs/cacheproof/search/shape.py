"""The shape of a state type, read once from its annotations, so that walks over states can be compiled from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

from cachespec.kernel import FrozenMap, FrozenQueue, IndexedBy, Map, Name, Queue, Rank, RankScope
from cachespec.kernel.names import hints_of, note_of, unwrap


class Form(Enum):
    """How a value is built from its parts."""

    LEAF = "leaf"
    RECORD = "record"
    """A named tuple: one part a field."""
    FIXED = "fixed"
    """A tuple of known length: one part a position."""
    SEQUENCE = "sequence"
    """A tuple of any length: one part, for every element."""
    MAP = "map"
    """Two parts: key and value."""
    QUEUE = "queue"
    """One part: the key."""
    OPTIONAL = "optional"
    """One part: what is there if it is not None."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A type as the explorer sees it.

    `name` and `rank` are the sorts of a leaf, `indexed` the sort of which a sequence's positions are names, and
    `scope` says that ranks inside are compared with each other only.
    """

    form: Form
    parts: tuple[Shape, ...] = ()
    make: Any = None
    name: str | None = None
    rank: str | None = None
    indexed: str | None = None
    scope: bool = False

    def inside(self) -> tuple[Shape, ...]:
        """This shape and all shapes inside it."""
        return (self, *(shape for part in self.parts for shape in part.inside()))

    def names(self) -> frozenset[str]:
        """The sorts of names that occur in a value of this shape."""
        sorts = (sort for shape in self.inside() for sort in (shape.name, shape.indexed))
        return frozenset(sort for sort in sorts if sort is not None)

    def has_ranks(self) -> bool:
        """Whether any rank occurs in a value of this shape."""
        return any(shape.rank is not None for shape in self.inside())


def shape_of(hint: Any) -> Shape:
    """The shape of a type hint: named tuples, tuples, maps, queues, optionals, and leaves."""
    return _shape_of(hint)


@cache
def _shape_of(hint: Any) -> Shape:
    inner, notes = unwrap(hint)
    name, rank, indexed = (note_of(notes, kind) for kind in (Name, Rank, IndexedBy))
    form, parts, make = _built(inner)
    return Shape(
        form,
        tuple(shape_of(part) for part in parts),
        make,
        name=name.sort if name else None,
        rank=rank.sort if rank else None,
        indexed=indexed.sort if indexed else None,
        scope=note_of(notes, RankScope) is not None,
    )


def _built(inner: Any) -> tuple[Form, tuple[Any, ...], Any]:
    origin, arguments = get_origin(inner), get_args(inner)
    if origin in (Map, FrozenMap):
        return Form.MAP, arguments, None
    if origin in (Queue, FrozenQueue):
        return Form.QUEUE, arguments, None
    if origin in (Union, UnionType):
        return Form.OPTIONAL, tuple(part for part in arguments if part is not type(None)), None
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return Form.SEQUENCE, arguments[:1], None
    if origin is tuple:
        return Form.FIXED, arguments, None
    if isinstance(inner, type) and hasattr(inner, "_fields"):
        hints = hints_of(inner)
        return Form.RECORD, tuple(hints[field] for field in inner._fields), inner
    return Form.LEAF, (), None
