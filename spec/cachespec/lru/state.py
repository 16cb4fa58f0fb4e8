"""The state, what properties read of it, and what an implementation has to show."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Containers, Grouping, Map, Observation, Outcome, Queue
from cachespec.lru.configuration import NOBODY, Config, Key

IDLE, PUTTING, CLEARING = 0, 1, 2


class Cache(NamedTuple):
    """Entries and their order are separate, as released, so that they can disagree where a rule is wrong."""

    entries: Map[Key, int]
    order: Queue[Key]
    used: int
    pinned: Map[Key, int]
    hits: int = 0
    total: int = 0
    reported_hits: int = 0
    reported_total: int = 0
    doing: int = IDLE
    putting: Key = NOBODY
    putting_size: int = 0


class View(NamedTuple):
    """What properties and observations read; order is oldest first."""

    entries: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    used: int
    pinned: tuple[int, ...]
    hits: int
    total: int
    reported_hits: int
    reported_total: int
    in_progress: bool
    clearing: bool
    """Whether the call in progress empties the cache."""


Result = tuple[Cache, Outcome]


def initial(config: Config, containers: Containers) -> Cache:
    """Empty, nothing counted."""
    return Cache(entries=containers.map(), order=containers.queue(), used=0, pinned=containers.map())


def view(config: Config, cache: Cache) -> View:
    """The same for every variant."""
    return View(
        entries=tuple(cache.entries.items()),
        order=tuple(key for key, _ in cache.order.items()),
        used=cache.used,
        pinned=tuple(key for key, _ in cache.pinned.items()),
        hits=cache.hits,
        total=cache.total,
        reported_hits=cache.reported_hits,
        reported_total=cache.reported_total,
        in_progress=cache.doing != IDLE,
        clearing=cache.doing == CLEARING,
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "order": "keys, the oldest first",
        "sizes": "bytes of each key, in the order of `order`",
        "used": "bytes of all entries",
        "hits": "counted look-ups that hit, since the last `clear`",
        "total": "counted look-ups, since the last `clear`",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "order": Grouping(row=("key",)),
        "sizes": Grouping(beside="order"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    sizes = dict(view.entries)
    return {
        "order": view.order,
        "sizes": tuple(sizes.get(key, 0) for key in view.order),
        "used": view.used,
        "hits": view.hits,
        "total": view.total,
    }
