"""Which calls a scope makes: those of the pool while few events wait, and events are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachespec import kv_blocks
from cachespec.kernel import Operation
from cachespec.kv_events.configuration import Config, pool_config
from cachespec.kv_events.operations import TakeEvents
from cachespec.kv_events.state import CLEARED, Publisher

PoolAlphabet = Callable[[kv_blocks.Config, kv_blocks.Pool], Iterable[Operation]]
Alphabet = Callable[[Config, Publisher], Iterable[Operation]]


def taken_at_any_time(pool: PoolAlphabet) -> Alphabet:
    """Events are taken whether a request runs or not."""

    def alphabet(config: Config, publisher: Publisher) -> Iterable[Operation]:
        if len(publisher.queue) < config.queued:
            yield from pool(pool_config(config), publisher.pool)
        yield TakeEvents()

    return alphabet


def taken_by_steps(pool: PoolAlphabet) -> Alphabet:
    """C-KV-29: a step takes the events at its end, and there is none while no request runs.

    What a step itself tells it takes, even if its last request goes meanwhile. So only the event of a reset may wait
    for ever. An engine that has ended takes nothing.
    """

    def alphabet(config: Config, publisher: Publisher) -> Iterable[Operation]:
        if len(publisher.queue) < config.queued:
            yield from pool(pool_config(config), publisher.pool)
        waits = len(publisher.queue) > 0 and publisher.queue[0].kind != CLEARED
        if (waits or publisher.pool.holdings.length > 0) and not publisher.pool.has_ended():
            yield TakeEvents()

    return alphabet
