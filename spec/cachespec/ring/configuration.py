"""How large the ring is, what is put into it, and what its environment may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name, apart

Content = Annotated[int, Name("content")]
"""The data of a chunk: equal contents are equal bytes."""

Reader = Annotated[int, Name("reader")]
"""One process that has the memory mapped and only reads the chunks."""

Id = int
"""The identity of a chunk, counted up from 0 and around at `modulus`."""

Address = int
"""Units from the beginning of the data, any number of laps ahead: only the residue by `capacity` means something."""

Place = int
"""An address less its laps: units from the beginning of the data."""

BASE = 256
"""What one unit of a field counts to."""


class Config(NamedTuple):
    """Sizes in units: a unit is written at once, such as a byte or a word."""

    capacity: int
    """Units of data that the ring has."""
    modulus: int
    """How many ids there are; 2**31 in the released engines."""
    header: int = 2
    """Units before the payload of a chunk: half of them hold its id, half its size; 8 bytes as released."""
    sizes: tuple[int, ...] = ()
    """Units of payload of each content; its position is the content."""
    readers: int = 1
    """Each is given a handle to each chunk."""
    wants: tuple[int, ...] = ()
    """How many units a caller may want freed; empty: all of them."""
    outstanding: int = 0
    """If positive: no allocation makes the unanswered handles exceed this number. It bounds scopes."""
    clears: int = 0
    """1: the ring may be cleared."""
    revocations: int = 0
    """1: a handle may be given up unread, because its request is aborted or its reader dies."""
    restarts: int = 0
    """How often the writer may die and be started again."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.header < 2 or config.header % 2 == 1:
        return f"header must be two fields of one width, not {config.header} units"
    if config.capacity <= config.header:
        return f"capacity must be greater than the header, {config.header}, not {config.capacity}"
    if config.modulus < 2:
        return f"there must be two ids at least, not {config.modulus}"
    if 2 * max(config.modulus, config.capacity) > BASE ** (config.header // 2):
        return f"ids and sizes must fit fields of {config.header // 2} units with a sign"
    if not config.sizes or min(config.sizes) < 1:
        return "sizes must be given, each of them positive"
    return _invalid_environment(config)


def _invalid_environment(config: Config) -> str | None:
    if config.readers < 1:
        return f"there must be a reader, not {config.readers}"
    if min((*config.wants, config.outstanding, config.restarts)) < 0:
        return "wants, outstanding and restarts must not be negative"
    for name in ("clears", "revocations"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


def size_of(config: Config, content: Content) -> int:
    """The units of payload of this content."""
    return config.sizes[content]


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """All readers. Contents are not: memory shows them as numbers."""
    return {"reader": (tuple(range(config.readers)),), "content": apart(len(config.sizes))}
