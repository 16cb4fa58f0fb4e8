"""How the cache serves a recorded workload."""

from __future__ import annotations

from cachespec.kernel import Check, Code, Demand, Request, Script, Served, Service
from cachespec.lru.configuration import Config
from cachespec.lru.operations import Get, Put


def configure(demand: Demand) -> Config:
    """The sizes of the workload are bytes."""
    return Config(capacity=demand.capacity, sizes=demand.sizes, lookups=0)


def admit(config: Config, request: Request) -> Script:
    """Each content is looked up and, where it is absent, stored."""
    hits = []
    for content in request.contents:
        outcome = yield Get(content)
        hits.append(outcome.code is Code.HIT)
        if outcome.code is Code.MISS:
            yield Put(content, config.sizes[content])
    return Served(tuple(hits))


CHECKS: tuple[Check, ...] = (
    Check(
        "LRU-1",
        "the recency order has as many keys as there are entries",
        lambda c, s: s.order.length == s.entries.length,
    ),
    Check(
        "LRU-2",
        "the byte count equals the sum of the entry sizes and is at most the capacity",
        lambda c, s: s.used == s.entries.total <= c.capacity,
    ),
    Check("LRU-3", "the pinned bytes are at most the bytes held", lambda c, s: s.pinned.total <= s.used),
    Check("LRU-4", "hits are among the look-ups", lambda c, s: s.hits <= s.total),
)

SERVICE: Service[Config] = Service(configure=configure, admit=admit, checks=CHECKS)
