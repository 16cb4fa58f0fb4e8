"""Which keys there are, and how many bytes there are for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name

Key = Annotated[int, Name("key")]

NOBODY = -1


class Config(NamedTuple):
    """Which keys there are and how many bytes each may take."""

    capacity: int
    """Bytes."""
    sizes: tuple[int, ...]
    """Bytes of each key; its position is the key."""
    grown: tuple[int, ...] = ()
    """A second size in bytes of each key; empty if no key changes its size."""
    lookups: int = 1
    """The maximum number of counted look-ups of a run: the counters are part of the state."""
    pins: int = 0
    """The maximum number of keys pinned at the same time."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.capacity <= 0:
        return f"capacity must be positive, not {config.capacity}"
    if not config.sizes or min((*config.sizes, *config.grown)) < 0:
        return "sizes must be given, none of them negative"
    if config.grown and len(config.grown) != len(config.sizes):
        return f"grown has {len(config.grown)} sizes for {len(config.sizes)} keys"
    if config.lookups < 0 or config.pins < 0:
        return "lookups and pins must not be negative"
    return None


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Keys of the same sizes."""
    grown = config.grown or config.sizes
    classes: dict[tuple[int, int], list[int]] = {}
    for key, size in enumerate(config.sizes):
        classes.setdefault((size, grown[key]), []).append(key)
    return {"key": tuple(tuple(members) for members in classes.values())}
