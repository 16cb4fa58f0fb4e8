"""The calls on the ring, named as in the engine where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.ring.configuration import Content, Id, Place, Reader

WRITER, MEMORY, READER = "writer", "ring", "reader"


@dataclass(frozen=True, slots=True)
class Allocate(Operation):
    """`allocate_buf(size)`: writes the payload and gives each reader a handle to the chunk.

    Returns the address, laps included, and the id. REFUSED if the engine raises `MemoryError`.
    """

    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    returns: ClassVar[tuple[str, ...]] = ("address", "id")
    content: Content


@dataclass(frozen=True, slots=True)
class Read(Operation):
    """`access_buf`: a reader presents its handle for this content, and the id is compared.

    Returns the payload, unit by unit. STALE if the ids differ (the engine raises `ValueError`). Either way the
    handle is answered.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (READER, MEMORY)
    reader: Reader
    content: Content
    identity: Id
    place: Place
    segment: int
    """The segment of shared memory that the handle is of: 0 is the first, and each restart makes the next."""


@dataclass(frozen=True, slots=True)
class Revoke(Operation):
    """The writer learns that a handle will not be presented: its request was aborted or its reader died."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (READER, WRITER)
    setting: ClassVar[str] = "revocations"
    reader: Reader
    content: Content
    identity: Id
    place: Place
    segment: int
    """The segment of shared memory that the handle is of: 0 is the first, and each restart makes the next."""


@dataclass(frozen=True, slots=True)
class Free(Operation):
    """`free_buf(is_free, want)`: frees chunks whose handles are all answered, from the oldest on.

    Returns the freed ids.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    returns: ClassVar[tuple[str, ...]] = ("id",)
    want: int
    """Units."""


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """`clear()`: marks every chunk in the ring as no longer needed."""

    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    setting: ClassVar[str] = "clears"


@dataclass(frozen=True, slots=True)
class Restart(Operation):
    """The writer dies and loses its state; a new writer starts with its own segment."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    setting: ClassVar[str] = "restarts"


OPERATIONS: tuple[type[Operation], ...] = (
    Allocate,
    Read,
    Revoke,
    Free,
    Clear,
    Restart,
)
