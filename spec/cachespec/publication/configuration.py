"""A ring, its readers, and what may go wrong while a chunk is on its way from one process to the others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from cachespec import ring
from cachespec.kernel import apart
from cachespec.ring.configuration import Content

FIELDS = 2
"""Units before the counts of a chunk: one holds its id, one its size."""


class Config(NamedTuple):
    """Sizes in units: what is stored at once, and becomes visible at once."""

    capacity: int
    """Units of data that the ring has."""
    modulus: int
    """How many ids there are."""
    sizes: tuple[int, ...]
    """Units of data of each content; its position is the content."""
    readers: int = 1
    """Each is given a handle to each chunk, and has a count of its own in it."""
    outstanding: int = 0
    """If positive: no chunk is begun that would make the unanswered handles exceed this number. It bounds scopes."""
    buffer: int = 0
    """If positive: no chunk is begun while this number of stores are not yet visible. It bounds what has no barrier."""
    clears: int = 0
    """1: the ring may be cleared."""
    deaths: int = 0
    """1: a reader may die, and another is started in its place."""
    restarts: int = 0
    """How often the writer may die and be started again."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.readers < 1:
        return f"there must be a reader, not {config.readers}"
    if not config.sizes or min(config.sizes) < 1:
        return "sizes must be given, each of them positive"
    if config.capacity < FIELDS + config.readers + min(config.sizes):
        return f"no chunk fits {config.capacity} units"
    if config.modulus < 2:
        return f"there must be two ids at least, not {config.modulus}"
    if min(config.outstanding, config.buffer, config.restarts) < 0:
        return "outstanding, buffer and restarts must not be negative"
    for name in ("clears", "deaths"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


@cache
def ring_config(config: Config) -> ring.Config:
    """The ring that is in it: to that, counts are a part of the payload, as they are in the engine."""
    return ring.Config(capacity=config.capacity, modulus=config.modulus, header=FIELDS)


def size_of(config: Config, content: Content) -> int:
    """The units of data of this content."""
    return config.sizes[content]


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Nothing: memory shows contents as numbers, and has a place for each reader."""
    return {"content": apart(len(config.sizes)), "reader": apart(config.readers)}
