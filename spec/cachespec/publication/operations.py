"""The steps of the writer, of memory and of the readers; between any two of them those of the others may fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.ring.configuration import Content, Reader

WRITER, MEMORY, READER = "writer", "memory", "reader"


@dataclass(frozen=True, slots=True)
class Allocate(Operation):
    """The writer reserves a chunk without storing anything. Returns address and id."""

    lane: ClassVar[tuple[str, str]] = (WRITER, WRITER)
    content: Content


@dataclass(frozen=True, slots=True)
class _Store(Operation):
    """The writer goes on with the chunk that it has reserved."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)


@dataclass(frozen=True, slots=True)
class WriteHeader(_Store):
    """The writer stores the id and the size."""


@dataclass(frozen=True, slots=True)
class WriteCounts(_Store):
    """The writer stores 0 in the count of each reader."""


@dataclass(frozen=True, slots=True)
class WriteData(_Store):
    """The writer stores the data."""


@dataclass(frozen=True, slots=True)
class Publish(Operation):
    """The writer gives each reader a handle. REFUSED while its stores are not yet visible."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, READER)


@dataclass(frozen=True, slots=True)
class Appear(Operation):
    """A waiting store becomes visible to the readers; stores to the same unit keep their order."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (MEMORY, MEMORY)
    which: int
    """The position of the store among those that are not visible yet: 0 is the oldest."""


@dataclass(frozen=True, slots=True)
class Open(Operation):
    """A reader takes its oldest handle and compares the id in the header. STALE if they differ."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (READER, MEMORY)
    reader: Reader


@dataclass(frozen=True, slots=True)
class Copy(Operation):
    """The reader copies the next unit of the data."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (READER, MEMORY)
    reader: Reader


@dataclass(frozen=True, slots=True)
class Acknowledge(Operation):
    """The reader has copied all data and stores 1 in its count; returns the data."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (READER, MEMORY)
    reader: Reader


@dataclass(frozen=True, slots=True)
class Free(Operation):
    """The writer reads the counts and frees chunks that every reader has answered; returns their ids."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """Marks every chunk in the ring as no longer needed."""

    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    setting: ClassVar[str] = "clears"


@dataclass(frozen=True, slots=True)
class ReaderDies(Operation):
    """A reader dies with its handles; the writer is told, and a new reader starts without any."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (READER, WRITER)
    setting: ClassVar[str] = "deaths"
    reader: Reader


@dataclass(frozen=True, slots=True)
class Restart(Operation):
    """The writer dies, possibly while writing a chunk, and a new writer starts with its own segment."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
    setting: ClassVar[str] = "restarts"


OPERATIONS: tuple[type[Operation], ...] = (
    Allocate,
    WriteHeader,
    WriteCounts,
    WriteData,
    Publish,
    Appear,
    Open,
    Copy,
    Acknowledge,
    Free,
    Clear,
    ReaderDies,
    Restart,
)
