"""The calls on the ring, named as in the engine where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.ring.configuration import Content, Id, Place, Reader

WRITER, MEMORY, READER = "writer", "ring", "reader"


@dataclass(frozen=True, slots=True)
class Allocate(Operation):
    """`allocate_buf(size)`, the payload written, and a handle to the chunk for each reader.

    Returns the address as it is given out, laps included, and the id; refused where the engine raises `MemoryError`.
    """

    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    content: Content


@dataclass(frozen=True, slots=True)
class Read(Operation):
    """A reader presents the handle that it was given for this content: `access_buf`, and the id is compared.

    Returns the payload, unit for unit; stale where the id is another one (the engine raises `ValueError`). The handle
    is answered, in either case.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (READER, MEMORY)
    reader: Reader
    content: Content
    identity: Id
    place: Place
    segment: int


@dataclass(frozen=True, slots=True)
class Revoke(Operation):
    """The handle will not be presented: its request is aborted or its reader has died, and the writer is told."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (READER, WRITER)
    reader: Reader
    content: Content
    identity: Id
    place: Place
    segment: int


@dataclass(frozen=True, slots=True)
class Free(Operation):
    """`free_buf(is_free, want)`: chunks without a handle that is not answered go, from the oldest on.

    Returns the ids that are free.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    want: int


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """`clear()`: nothing that is in the ring is wanted any more."""

    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)


@dataclass(frozen=True, slots=True)
class Restart(Operation):
    """The writer dies, and another begins with a segment of its own; what the first one knew is lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
