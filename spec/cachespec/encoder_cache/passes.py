"""The scheduling pass in progress: what was granted in it, and what its admission attempts have pinned.

It is the callers' side of the component, and the same for every variant: `promised` and `attempted` are fields of each
state. A pass ends with the report.
"""

from __future__ import annotations

from typing import TypeVar

from cachespec.encoder_cache.configuration import NOTHING, Config, Input, Request, positions, size_of
from cachespec.encoder_cache.era_states import CountingCache, PerRequestCache, SharedCache
from cachespec.encoder_cache.operations import CanAllocate
from cachespec.encoder_cache.state import Cache
from cachespec.kernel import Queue

Held = tuple[Request, Input]

NO_ONE: Held = (NOTHING, NOTHING)

AnyCache = TypeVar("AnyCache", Cache, SharedCache, PerRequestCache, CountingCache)


def has_members(queue: Queue[Held]) -> bool:
    """The test of the loop that empties a queue."""
    return queue.length > 0


def emptied(queue: Queue[Held]) -> Queue[Held]:
    """Without its members; the body makes it shorter."""
    while has_members(queue):
        queue = queue.remove(queue.oldest(NO_ONE))
    return queue


def promise(config: Config, cache: AnyCache, op: CanAllocate) -> AnyCache:
    """A grant is recorded. A caller that does not count its earlier grants of the pass as pending has given them up."""
    size = size_of(config, op.request, op.input)
    promised = cache.promised if op.pending >= cache.promised.total else emptied(cache.promised)
    return cache._replace(promised=promised.push((op.request, op.input), size))


def redeem(config: Config, cache: AnyCache, request: Request, position: Input) -> AnyCache:
    """An allocation uses its grant; one without a grant takes the room of the others, and so ends them.

    It also says that the request was admitted: its attempt is over, and cannot be abandoned any more.
    """
    granted = cache.promised.has((request, position))
    promised = cache.promised.remove((request, position)) if granted else emptied(cache.promised)
    return admitted(config, cache._replace(promised=promised), request)


def admitted(config: Config, cache: AnyCache, request: Request) -> AnyCache:
    """What the attempt of the request has pinned stays pinned."""
    for position in positions(config, request):
        cache = cache._replace(attempted=cache.attempted.remove((request, position)))
    return cache


def note(config: Config, cache: AnyCache, request: Request, position: Input) -> AnyCache:
    """Where admissions can be abandoned, what they pin is known."""
    if config.failures == 0:
        return cache
    return cache._replace(attempted=cache.attempted.push((request, position), 1))


def withdraw(config: Config, cache: AnyCache, request: Request) -> AnyCache:
    """The grants and the attempt of the request end."""
    for position in positions(config, request):
        cache = cache._replace(promised=cache.promised.remove((request, position)))
    return admitted(config, cache, request)


def end_pass(cache: AnyCache) -> AnyCache:
    """Nothing is granted any more, and nothing attempted."""
    return cache._replace(promised=emptied(cache.promised), attempted=emptied(cache.attempted))
