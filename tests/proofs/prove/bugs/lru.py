"""A bug for each claim that is proved of the cache by recency."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.lru import state, transitions

BUGS = (
    Bug(state.initial, "used=0", "used=1", "LRU-2/initial"),
    Bug(transitions.without, "order=cache.order.remove(key)", "order=cache.order", "LRU-1/pop"),
    Bug(transitions.stored, "cache.used - cache.entries.get(key, 0) + size", "cache.used + size", "LRU-2/put"),
    Bug(transitions.without, "pinned=cache.pinned.remove(key)", "pinned=cache.pinned", "LRU-3/pop"),
    Bug(transitions.get, "total=cache.total + 1", "total=cache.total", "LRU-4/get"),
    Bug(transitions.get, "hits=cache.hits + 1", "hits=cache.hits", "LRU-4/counted/get"),
    Bug(transitions.stat, "reported_total=cache.total", "reported_total=0", "LRU-4/report/stat"),
    Bug(transitions.pop, "if not cache.entries.has", "if cache.entries.has", "popped/pop"),
    Bug(transitions.pin, "pinned=cache.pinned.set(op.key, ", "used=cache.used + 0 * (", "pinned/pin"),
    Bug(transitions.touch, "return recent(cache, op.key), DONE", "return without(cache, op.key), DONE", "LRU-5/touch"),
    Bug(transitions.evict_oldest, "return without(cache, ", "return recent(cache, ", "LRU-6/evict"),
    Bug(transitions.put, "if cannot_fit(config, cache, op.key, op.size):", "if False:", "LRU-6/room/put"),
    Bug(
        transitions.evict_oldest,
        "cache.order.oldest_outside(cache.pinned, NOBODY)",
        "cache.order.oldest(NOBODY)",
        "LRU-7/evict",
    ),
    Bug(transitions.stored, "recent(cache, key)._replace", "cache._replace", "LRU-7/order/put"),
    Bug(transitions.put, "return cache, TOO_LARGE", "return without(cache, op.key), TOO_LARGE", "LRU-8/put"),
    Bug(transitions.lacks_room, "> config.capacity", ">= config.capacity", "fits/put"),
    Bug(transitions.begin_or_store, "stored(cache, key, size)", "stored(cache, key, size - 1)", "fits/put"),
    Bug(transitions.cannot_fit, "> config.capacity", ">= config.capacity", "accepted/put"),
    Bug(transitions.clear, "hits=0, total=0", "hits=0, total=cache.total", "cleared/clear"),
    Bug(transitions.clear, "cache.order.oldest(NOBODY)", "NOBODY", "LRU-6/clear"),
    Bug(transitions.pin, "cache.entries.get(op.key, 0)", "-cache.entries.get(op.key, 0)", "defined/pin"),
)
