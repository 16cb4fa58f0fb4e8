"""The encoder cache manager until 0.10, which is plain Python, beside the specification.

Its entries belong to inputs and are never shared, so it is compared with the era of that time (E0) in calls of which
the era has no fault, and with the normative variant where it grants room.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from icontract import ensure, require

from cacheimpl.encoder_cache.early import EarlyEncoderCacheManager
from cacheimpl.encoder_cache.tables import LARGEST_COUNT
from cacheproof.prove.contract import Beside
from cachespec import encoder_cache
from cachespec.encoder_cache import era_per_request as era
from cachespec.encoder_cache.configuration import Config
from cachespec.encoder_cache.era_states import PerRequestCache
from cachespec.encoder_cache.operations import Allocate, CanAllocate, CheckAndUpdate, FreeInput, FreeRequest, Report
from cachespec.kernel import DONE, FROZEN, HIT
from cachespec.kernel.containers import FrozenMap, FrozenQueue

Sizes = tuple[int, int]
"""Embeddings of the two inputs of one request."""


def config_of(sizes: Sizes, capacity: int) -> Config:
    """One request that shows two contents."""
    return Config(capacity=capacity, sizes=sizes, requests=((0, 1),))


def request_of(sizes: Sizes) -> Any:
    """The same, as an engine has it."""
    return SimpleNamespace(request_id="0", get_num_encoder_tokens=lambda position: sizes[position])


def managers(sizes: Sizes, room: int, cached: tuple[int, ...]) -> tuple[EarlyEncoderCacheManager, PerRequestCache]:
    """Both caches, with these inputs cached and this number of free slots."""
    taken = sum(sizes[position] for position in cached)
    mine = EarlyEncoderCacheManager(taken + room)
    mine.num_free_slots, mine.cached = room, {"0": set(cached)} if cached else {}
    mine._sizes = {("0", position): sizes[position] for position in cached}  # noqa: SLF001  # any state
    its = PerRequestCache(
        free=room,
        cached=FrozenMap.of(((0, position), sizes[position]) for position in cached),
        freed=(),
        promised=FrozenQueue(),
        attempted=FrozenQueue(),
    )
    return mine, its


def same(mine: EarlyEncoderCacheManager, its: PerRequestCache, sizes: Sizes) -> bool:
    """Free slots, cached inputs, and freed inputs."""
    cached = tuple(sorted(mine.get_cached_input_ids(request_of(sizes))))
    return (
        mine.num_free_slots == its.free
        and cached == tuple(position for (_, position), _ in its.cached.items())
        and [(int(name), position) for name, position in mine.freed] == list(its.freed)
    )


def are_sizes(sizes: Sizes, room: int) -> bool:
    """No negative number, and a capacity that the manager takes."""
    return min(*sizes, room) >= 0 and sum(sizes) + room <= LARGEST_COUNT


@require(lambda sizes, room: are_sizes(sizes, room) and sizes[1] <= room)
@ensure(lambda result: result)
def allocate(sizes: Sizes, room: int) -> bool:
    """An input that fits gets its entry, beside the entry of another input."""
    mine, its = managers(sizes, room, (0,))
    mine.allocate(request_of(sizes), 1)
    after, _ = era.allocate(config_of(sizes, sizes[0] + room), its, Allocate(0, 1))
    return same(mine, after, sizes)


@require(are_sizes)
@ensure(lambda result: result)
def free_an_input(sizes: Sizes, room: int, *, second: bool) -> bool:
    """A cached input gives its slots back."""
    position = 1 if second else 0
    mine, its = managers(sizes, room, (0, 1))
    mine.free_encoder_input(request_of(sizes), position)
    after, _ = era.free_input(config_of(sizes, sum(sizes) + room), its, FreeInput(0, position))
    return same(mine, after, sizes)


@require(are_sizes)
@ensure(lambda result: result)
def free_a_request(sizes: Sizes, room: int, *, both: bool) -> bool:
    """All entries of a request go, from its first input to its last."""
    mine, its = managers(sizes, room, (0, 1) if both else (1,))
    mine.free(request_of(sizes))
    after, _ = era.free_request(config_of(sizes, sum(sizes) + room), its, FreeRequest(0))
    return same(mine, after, sizes)


@require(are_sizes)
@ensure(lambda result: result)
def report(sizes: Sizes, room: int) -> bool:
    """Freed inputs are reported once."""
    mine, its = managers(sizes, room, (0, 1))
    mine.free_encoder_input(request_of(sizes), 1)
    config = config_of(sizes, sum(sizes) + room)
    after, outcome = era.report(config, era.free_input(config, its, FreeInput(0, 1))[0], Report())
    told = tuple(part for name, position in mine.get_freed_ids() for part in (int(name), position))
    return told == outcome.values and same(mine, after, sizes)


@require(are_sizes)
@ensure(lambda result: result)
def has_cache(sizes: Sizes, room: int, *, second: bool) -> bool:
    """Whether an input is cached; nothing changes."""
    position = 1 if second else 0
    mine, its = managers(sizes, room, (0,))
    after, outcome = era.has_cache(config_of(sizes, sizes[0] + room), its, CheckAndUpdate(0, position))
    return mine.has_cache(request_of(sizes), position) == (outcome == HIT) and same(mine, after, sizes)


@require(lambda sizes, capacity, budget, pending: min(*sizes, budget, pending, capacity - 1) >= 0)
@require(lambda sizes, capacity, pending: sum(sizes) + capacity + pending <= LARGEST_COUNT)
@ensure(lambda result: result)
def can_allocate(sizes: Sizes, capacity: int, budget: int, pending: int) -> bool:
    """Room is granted as the normative manager grants it, if nothing is shared."""
    variant, config = encoder_cache.COMPONENT.normative, config_of(sizes, capacity)
    _, outcome = variant.call(config, variant.start(config, FROZEN), CanAllocate(0, 0, budget, pending))
    mine = EarlyEncoderCacheManager(capacity)
    granted = mine.can_allocate(request_of(sizes), 0, budget, pending)
    return granted == (outcome == DONE) and mine.num_free_slots == capacity


@require(lambda sizes, capacity: are_sizes(sizes, capacity) and capacity > 0)
@ensure(lambda result: result)
def two_grants(sizes: Sizes, capacity: int) -> bool:
    """A second grant of a pass counts the first, as a caller of the normative manager does."""
    variant, config = encoder_cache.COMPONENT.normative, config_of(sizes, capacity)
    cache, first = variant.call(config, variant.start(config, FROZEN), CanAllocate(0, 0, sum(sizes), 0))
    pending = sizes[0] if first == DONE else 0
    _, second = variant.call(config, cache, CanAllocate(0, 1, sum(sizes), pending))
    mine, request = EarlyEncoderCacheManager(capacity), request_of(sizes)
    granted = [mine.can_allocate(request, position, sum(sizes)) for position in (0, 1)]
    return granted == [first == DONE, second == DONE]


ROOM = "2 inputs of any sizes, any room, together below 2**62"
SIZES = {"sizes": (3, 4), "room": 5}
LEDGER = {
    "allocate": Beside(ROOM, EarlyEncoderCacheManager.allocate, SIZES),
    "free_an_input": Beside(ROOM, EarlyEncoderCacheManager.free_encoder_input, {**SIZES, "second": True}),
    "free_a_request": Beside(ROOM, EarlyEncoderCacheManager.free, {**SIZES, "both": True}),
    "report": Beside(ROOM, EarlyEncoderCacheManager.get_freed_ids, SIZES),
    "has_cache": Beside(ROOM, EarlyEncoderCacheManager.has_cache, {**SIZES, "second": False}),
    "can_allocate": Beside(
        f"{ROOM}, any budget and pending grants",
        EarlyEncoderCacheManager.can_allocate,
        {"sizes": (3, 4), "capacity": 8, "budget": 5, "pending": 2},
    ),
    "two_grants": Beside(
        f"{ROOM}, nothing cached", EarlyEncoderCacheManager.can_allocate, {"sizes": (3, 4), "capacity": 8}
    ),
}
