"""The one walk that both sides do: what a request does to an order by recency, and which of its items it needs sent.

MIR-1 rests on this being a single function of (order, items): P0 runs it when it sends, P1 when it accepts.
"""

from __future__ import annotations

from cachespec.kernel import Queue
from cachespec.mirror.configuration import Config

NOBODY = -1
Walk = tuple[Queue[int], tuple[int, ...]]


def lacks_room(config: Config, order: Queue[int], size: int) -> bool:
    """The test of the eviction loop."""
    return order.total + size > config.capacity


def evict_oldest(order: Queue[int]) -> Queue[int]:
    """The body of the eviction loop; one entry less at every turn."""
    return order.remove(order.oldest(NOBODY))


def insert(config: Config, order: Queue[int], key: int) -> Queue[int]:
    """LRU-7, LRU-8: the oldest make room; what is larger than the cache is served and not kept (C-MIR-16)."""
    size = config.sizes[key]
    if size > config.capacity:
        return order
    while lacks_room(config, order, size):
        order = evict_oldest(order)
    return order.push(key, size)


def touch_all(config: Config, order: Queue[int], items: tuple[int, ...]) -> Queue[int]:
    """What the request finds becomes the most recent first, so that its own new items rarely evict it (C-MIR-9)."""
    for key in items:
        if order.has(key):
            order = order.push(key, config.sizes[key])
    return order


def absent(order: Queue[int], items: tuple[int, ...]) -> tuple[int, ...]:
    """For each item 1 where it is not there now; the walk decides again, at the item's own turn."""
    missing: tuple[int, ...] = ()
    for key in items:
        missing = (*missing, 0 if order.has(key) else 1)
    return missing


def walk(config: Config, order: Queue[int], items: tuple[int, ...]) -> Walk:
    """MIR-9: items in prompt order; each is looked up at its own turn, so an earlier item that evicts it is seen.

    Returns the order afterwards, and for each item 1 where it was not there at its turn and has to be sent.
    """
    order = touch_all(config, order, items)
    needed: tuple[int, ...] = ()
    for key in items:
        if order.has(key):
            order, needed = order.push(key, config.sizes[key]), (*needed, 0)
        else:
            order, needed = insert(config, order, key), (*needed, 1)
    return order, needed
