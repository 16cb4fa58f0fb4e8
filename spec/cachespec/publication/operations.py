"""The steps of the writer, of memory and of the readers; between any two of them those of the others may fall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.ring.configuration import Content, Reader

WRITER, MEMORY, READER = "writer", "memory", "reader"


@dataclass(frozen=True, slots=True)
class Allocate(Operation):
    """The writer reserves a chunk; nothing is stored yet. Returns address and id."""

    lane: ClassVar[tuple[str, str]] = (WRITER, WRITER)
    content: Content


@dataclass(frozen=True, slots=True)
class _Store(Operation):
    """The writer goes on with the chunk that it has reserved."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)


@dataclass(frozen=True, slots=True)
class WriteHeader(_Store):
    """It stores the id and the size."""


@dataclass(frozen=True, slots=True)
class WriteCounts(_Store):
    """It stores 0 in the count of each reader."""


@dataclass(frozen=True, slots=True)
class WriteData(_Store):
    """It stores the data."""


@dataclass(frozen=True, slots=True)
class Publish(Operation):
    """The writer gives each reader a handle; refused while it has to wait for its stores to be visible."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, READER)


@dataclass(frozen=True, slots=True)
class Appear(Operation):
    """A store becomes visible to the readers: any that waits, but two to the same unit in their order."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (MEMORY, MEMORY)
    which: int


@dataclass(frozen=True, slots=True)
class Open(Operation):
    """A reader takes its oldest handle, and compares the id in the header; stale where it is another one."""

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
    """The reader has all of the data, and stores 1 in its count; returns the data."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (READER, MEMORY)
    reader: Reader


@dataclass(frozen=True, slots=True)
class Free(Operation):
    """The writer looks at the counts, and frees what everybody has; returns the ids."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """Nothing that is in the ring is wanted any more."""

    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)


@dataclass(frozen=True, slots=True)
class ReaderDies(Operation):
    """A reader dies with its handles and what it was reading; the writer is told, and another begins with none."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (READER, WRITER)
    reader: Reader


@dataclass(frozen=True, slots=True)
class Restart(Operation):
    """The writer dies, in the middle of a chunk or not, and another begins with a segment of its own."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (WRITER, MEMORY)
