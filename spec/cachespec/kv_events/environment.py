"""Which calls a scope makes: those of the pool while few events wait, and events are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachespec import kv_blocks
from cachespec.kernel import Operation
from cachespec.kv_events.configuration import Config, pool_config
from cachespec.kv_events.operations import TakeEvents
from cachespec.kv_events.state import CLEARED, Publisher

PoolAlphabet = Callable[[kv_blocks.Config, kv_blocks.Pool], Iterable[Operation]]


def taken_at_any_time(pool: PoolAlphabet, config: Config, publisher: Publisher) -> Iterable[Operation]:
    """Events are taken whether a request runs or not."""
    yield from pool_calls(pool, config, publisher)
    yield TakeEvents()


def taken_by_steps(pool: PoolAlphabet, config: Config, publisher: Publisher) -> Iterable[Operation]:
    """C-KV-29: a step takes the events at its end, and there is none while no request runs.

    What a step itself tells it takes, even if its last request goes meanwhile. So only the event of a reset may wait
    for ever. An engine that has ended takes nothing.
    """
    yield from pool_calls(pool, config, publisher)
    waits = len(publisher.queue) > 0 and publisher.queue[0].kind != CLEARED
    if (waits or publisher.pool.holdings.length > 0) and not publisher.pool.has_ended():
        yield TakeEvents()


def pool_calls(pool: PoolAlphabet, config: Config, publisher: Publisher) -> Iterable[Operation]:
    """The calls of the pool's callers, if there is room for their events."""
    if len(publisher.queue) < config.queued:
        yield from pool(pool_config(config), publisher.pool)
