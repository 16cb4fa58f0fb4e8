"""A bug for each claim that is proved of the cache by recency."""

from __future__ import annotations

from tests.proofs.prove.planted import Bug

from cachespec.lru import state, transitions

BUGS = (
    Bug(state.initial, "used=0", "used=1", "LRU-2/initial"),
    Bug(transitions.without, "$cache.order.remove($key)", "$cache.order", "LRU-1/pop"),
    Bug(transitions.stored, "$cache.used - $cache.entries.get($key, 0)", "$cache.used", "LRU-2/put"),
    Bug(transitions.without, "$cache.pinned.remove($key)", "$cache.pinned", "LRU-3/pop"),
    Bug(transitions.get, "$cache.total + 1", "$cache.total", "LRU-4/get"),
    Bug(transitions.get, "$cache.hits + 1", "$cache.hits", "LRU-4/counted/get"),
    Bug(transitions.stat, "reported_total=$cache.total", "reported_total=0", "LRU-4/report/stat"),
    Bug(transitions.pop, "not $cache.entries.has($op.key)", "$cache.entries.has($op.key)", "popped/pop"),
    Bug(
        transitions.pin,
        "$cache._replace(pinned=$cache.pinned.set($op.key, $y))",
        "$cache._replace(used=$cache.used + 0 * $y)",
        "pinned/pin",
    ),
    Bug(transitions.touch, "recent($cache, $op.key)", "without($cache, $op.key)", "LRU-5/touch"),
    Bug(transitions.evict_oldest, "without($cache, $x)", "recent($cache, $x)", "LRU-6/evict"),
    Bug(transitions.put, "cannot_fit($config, $cache, $op.key, $op.size)", "False", "LRU-6/room/put"),
    Bug(
        transitions.evict_oldest,
        "$cache.order.oldest_outside($cache.pinned, NOBODY)",
        "$cache.order.oldest(NOBODY)",
        "LRU-7/evict",
    ),
    Bug(transitions.stored, "recent($cache, $key)", "$cache", "LRU-7/order/put"),
    Bug(
        transitions.put,
        "if $op.size > $config.capacity:\n    return ($cache, TOO_LARGE)",
        "if $op.size > $config.capacity:\n    return (without($cache, $op.key), TOO_LARGE)",
        "LRU-8/put",
    ),
    Bug(transitions.lacks_room, "$x > $config.capacity", "$x >= $config.capacity", "fits/put"),
    Bug(transitions.begin_or_store, "stored($cache, $key, $size)", "stored($cache, $key, $size - 1)", "fits/put"),
    Bug(transitions.cannot_fit, "$x > $config.capacity", "$x >= $config.capacity", "accepted/put"),
    Bug(
        transitions.clear,
        "$cache._replace(total=0, **$others)",
        "$cache._replace(total=$cache.total, **$others)",
        "cleared/clear",
    ),
    Bug(transitions.clear, "$cache.order.oldest(NOBODY)", "NOBODY", "LRU-6/clear"),
    Bug(transitions.pin, "$cache.entries.get($op.key, 0)", "-$cache.entries.get($op.key, 0)", "defined/pin"),
)
