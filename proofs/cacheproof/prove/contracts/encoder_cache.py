"""Calls of the encoder cache on the frozen containers: every property of a state that the specification has holds."""

from __future__ import annotations

from icontract import ensure, require

from cachespec import encoder_cache
from cachespec.encoder_cache.configuration import Config
from cachespec.encoder_cache.operations import Allocate, CanAllocate, FreeInput
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import Operation
from cachespec.kernel.containers import FrozenMap, FrozenQueue

REQUESTS = ((0, 1), (1, 0))
"""Two requests that show the same two contents."""

ABSENT, IDLE, HELD = 0, 1, 2


def possible(sizes: tuple[int, int], states: tuple[int, int], free: int) -> bool:
    """No negative size, contents that are absent, idle or held by the first request, and a capacity."""
    known = all(state in (ABSENT, IDLE, HELD) for state in states)
    return known and min(sizes) >= 0 and free >= 0 and free + sum(sizes) > 0


def cache_of(sizes: tuple[int, int], states: tuple[int, int], free: int) -> Cache:
    """The cache in which the two contents are so."""
    resident = [content for content in (0, 1) if states[content] != ABSENT]
    idle = [content for content in resident if states[content] == IDLE]
    held = [content for content in resident if states[content] == HELD]
    return Cache(
        free=free,
        freeable=free + sum(sizes[content] for content in idle),
        sizes=FrozenMap.of((content, sizes[content]) for content in resident),
        references=FrozenMap.of((content, 1) for content in held),
        held=FrozenMap.of(((0, content), 1) for content in held),
        idle=FrozenQueue((content, sizes[content]) for content in idle),
        freed=FrozenQueue(),
        promised=FrozenQueue(),
        attempted=FrozenQueue(),
    )


def every_property_holds(sizes: tuple[int, int], states: tuple[int, int], free: int, operation: Operation) -> bool:
    """One call: safety afterwards, and every property of the step."""
    variant, component = encoder_cache.COMPONENT.normative, encoder_cache.COMPONENT
    before = cache_of(sizes, states, free)
    config = Config(capacity=free + before.sizes.total, sizes=sizes, requests=REQUESTS)
    after, outcome = variant.step(config, before, operation)
    seen, shown = variant.view(config, before), variant.view(config, after)
    safe = all(one.holds(config, shown) for one in component.safety)
    return safe and all(one.holds(config, seen, operation, outcome, shown) for one in component.steps)


@require(lambda sizes, states, free, position: possible(sizes, states, free) and position in (0, 1))
@ensure(lambda result: result)
def allocate_keeps_every_property(sizes: tuple[int, int], states: tuple[int, int], free: int, position: int) -> bool:
    """`allocate`, whether or not the content is there and fits."""
    return every_property_holds(sizes, states, free, Allocate(0 if position == 0 else 1, 0))


@require(lambda sizes, states, free, needed: possible(sizes, states, free) and needed >= 0)
@ensure(lambda result: result)
def can_allocate_keeps_every_property(sizes: tuple[int, int], states: tuple[int, int], free: int, needed: int) -> bool:
    """`can_allocate`, with any number of embeddings promised before."""
    return every_property_holds(sizes, states, free, CanAllocate(1, 0, sizes[1], needed))


@require(lambda sizes, states, free, position: possible(sizes, states, free) and position in (0, 1))
@ensure(lambda result: result)
def free_keeps_every_property(sizes: tuple[int, int], states: tuple[int, int], free: int, position: int) -> bool:
    """`free_encoder_input`, held or not."""
    return every_property_holds(sizes, states, free, FreeInput(0, 0 if position == 0 else 1))


LEDGER = {
    "allocate_keeps_every_property": "2 contents of any sizes, at most 1 holder each",
    "can_allocate_keeps_every_property": "2 contents of any sizes, at most 1 holder each",
    "free_keeps_every_property": "2 contents of any sizes, at most 1 holder each",
}
