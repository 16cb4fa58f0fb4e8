"""How large the ring is, what is put into it, and what its environment may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name

Content = Annotated[int, Name("content")]
"""What is put into a chunk: equal contents are equal bytes."""

Reader = Annotated[int, Name("reader")]
"""One process that has the memory mapped and only reads the chunks."""

Id = int
"""The identity of a chunk, counted up from 0 and around at `modulus`."""

Address = int
"""Units from the beginning of the data, any number of laps ahead: only the residue by `capacity` is a place."""


class Config(NamedTuple):
    """Sizes in units: a unit is what is written at once, a byte or a word."""

    capacity: int
    """Units of data that the ring has."""
    modulus: int
    """How many ids there are; 2**31 in the released engines."""
    header: int = 2
    """Units before the payload of a chunk: the first holds its id, the second its size; 8 bytes as released."""
    sizes: tuple[int, ...] = ()
    """Units of payload of each content; its position is the content."""
    readers: int = 1
    """Each is given a handle to each chunk."""
    wants: tuple[int, ...] = ()
    """How many units a caller may want freed; empty: all of them."""
    outstanding: int = 0
    """If positive: nobody allocates while more than so many handles, less one, are not answered. It bounds scopes."""
    publication: int = 0
    """1: writing a chunk, publishing it and reading it are steps between which the others' steps may fall, and a
    store may become visible after later ones. 0: each is one step."""
    clears: int = 0
    """1: the ring may be cleared."""
    deaths: int = 0
    """1: readers may die and be started again."""
    restarts: int = 0
    """How often the writer may die and be started again."""


def invalid(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.header < 2:
        return f"header must have room for an id and a size, not {config.header} units"
    if config.capacity <= config.header:
        return f"capacity must be greater than the header, {config.header}, not {config.capacity}"
    if config.modulus < 2:
        return f"there must be two ids at least, not {config.modulus}"
    if not config.sizes or min(config.sizes) < 1:
        return "sizes must be given, each of them positive"
    return _invalid_environment(config)


def _invalid_environment(config: Config) -> str | None:
    if config.readers < 1:
        return f"there must be a reader, not {config.readers}"
    if min((*config.wants, config.outstanding, config.restarts)) < 0:
        return "wants, outstanding and restarts must not be negative"
    for name in ("publication", "clears", "deaths"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Contents of one size, and all readers."""
    classes: dict[int, list[int]] = {}
    for content, size in enumerate(config.sizes):
        classes.setdefault(size, []).append(content)
    return {
        "content": tuple(tuple(members) for members in classes.values()),
        "reader": (tuple(range(config.readers)),),
    }
