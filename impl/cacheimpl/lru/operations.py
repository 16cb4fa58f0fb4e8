"""Operations of the byte-weighted cache: one engine, out of place, branch-free.

Every operation takes the configuration, the state and its operands (shape [] each) and returns the next state and the
answer. Lifted by `torch.func.vmap`, the same functions step a whole frontier.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.lru.state import Cache, Config, empty
from cacheimpl.recency import oldest_until, queued, with_newest, without
from cacheimpl.table import choose, is_row, row

Result = tuple[Cache, Answer]


def present(cache: Cache, key: Tensor) -> Tensor:
    """[] bool: whether the key is in the cache."""
    return row(queued(cache.ranks), key)


def recent(cache: Cache, key: Tensor) -> Cache:
    """The key becomes the newest."""
    return cache._replace(ranks=with_newest(cache.ranks, is_row(cache.ranks, key)))


def removed(cache: Cache, leaving: Tensor) -> Cache:
    """Keys ([keys] bool) leave order, sizes, pins and the byte count together."""
    return cache._replace(
        ranks=without(cache.ranks, leaving),
        sizes=torch.where(leaving, 0, cache.sizes),
        pinned=cache.pinned & ~leaving,
        used=cache.used - torch.where(leaving, cache.sizes, 0).sum(),
    )


def stored(cache: Cache, key: Tensor, size: Tensor) -> Cache:
    """The key holds so many bytes and is the newest; a pin stays."""
    return recent(cache, key)._replace(
        sizes=torch.where(is_row(cache.sizes, key), size, cache.sizes),
        used=cache.used - row(cache.sizes, key) + size,
    )


def with_room(config: Config, cache: Cache, key: Tensor, size: Tensor) -> Cache:
    """The oldest unpinned keys are evicted until the key fits.

    What the key itself holds counts as free from the start, so its own eviction gains nothing.
    """
    need = cache.used - row(cache.sizes, key) + size - config.capacity
    gains = torch.where(is_row(cache.sizes, key), 0, cache.sizes)
    return removed(cache, oldest_until(cache.ranks, ~cache.pinned, gains, need))


def contains(config: Config, cache: Cache, key: Tensor) -> Result:
    """`key in cache`: changes nothing."""
    return cache, answer(either(present(cache, key), Code.HIT, Code.MISS))


def lookup(config: Config, cache: Cache, key: Tensor) -> Result:
    """`cache[key]`: a hit is counted and becomes the newest; a miss is not counted."""
    is_present = present(cache, key)
    hit = recent(cache, key)._replace(hits=cache.hits + 1, total=cache.total + 1)
    return choose(is_present, hit, cache), answer(either(is_present, Code.HIT, Code.ABSENT))


def get(config: Config, cache: Cache, key: Tensor) -> Result:
    """`cache.get(key)`: always counted; a hit becomes the newest."""
    is_present = present(cache, key)
    counted = cache._replace(total=cache.total + 1)
    hit = recent(counted, key)._replace(hits=cache.hits + 1)
    return choose(is_present, hit, counted), answer(either(is_present, Code.HIT, Code.MISS))


def put(config: Config, cache: Cache, key: Tensor, size: Tensor) -> Result:
    """`cache[key] = value`: stored as the newest after evicting; what the pins leave no room for changes nothing."""
    others_pinned = cache.pinned & ~is_row(cache.pinned, key)
    fits = torch.where(others_pinned, cache.sizes, 0).sum() + size <= config.capacity
    after = stored(with_room(config, cache, key, size), key, size)
    code = torch.where(size > config.capacity, int(Code.TOO_LARGE), either(fits, Code.DONE, Code.REFUSED))
    return choose(fits, after, cache), answer(code)


def touch(config: Config, cache: Cache, key: Tensor) -> Result:
    """`cache.touch(key)`: what is present becomes the newest."""
    is_present = present(cache, key)
    return choose(is_present, recent(cache, key), cache), answer(either(is_present, Code.DONE, Code.ABSENT))


def pop(config: Config, cache: Cache, key: Tensor) -> Result:
    """`cache.pop(key, None)`: removed where present."""
    is_present = present(cache, key)
    gone = removed(cache, is_row(cache.ranks, key))
    return choose(is_present, gone, cache), answer(either(is_present, Code.DONE, Code.ABSENT))


def pin(config: Config, cache: Cache, key: Tensor) -> Result:
    """`cache.pin(key)`: what is present cannot be evicted any more."""
    is_present = present(cache, key)
    held = cache._replace(pinned=cache.pinned | is_row(cache.pinned, key))
    return choose(is_present, held, cache), answer(either(is_present, Code.DONE, Code.ABSENT))


def clear(config: Config, cache: Cache) -> Result:
    """`cache.clear()`: everything goes, pinned or not, and the counters start again."""
    nothing = empty(cache.ranks.shape[0], cache.ranks.device)
    return nothing, answer(torch.full_like(cache.used, int(Code.DONE)))


def stat(config: Config, cache: Cache) -> Result:
    """`cache.stat(delta=True)`: hits and look-ups since the last report; the mark moves."""
    values = torch.stack((cache.hits - cache.reported_hits, cache.total - cache.reported_total))
    marked = cache._replace(reported_hits=cache.hits, reported_total=cache.total)
    code = torch.full_like(cache.used, int(Code.DONE))
    return marked, Answer(code, values, torch.full_like(code, 2))
