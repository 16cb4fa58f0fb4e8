"""The cache by recency whose order may hold keys without an entry (`lru` M2, 0.11.0 and 0.20.2), on request only.

Touching what is absent leaves a *ghost* in the order (C-MIR-10). When the eviction loop comes to one, it frees nothing,
the ghost stays the oldest, and the loop goes on for ever. Here the call returns: it answers `DIVERGED`, and its state
the one to which every further turn leads back, with the call still in progress (`doing`). Nothing but `evict` has a
meaning then. Whoever reproduces such an engine has to treat the answer as the end of its process.

Functions are of one engine, out of place, branch-free, as all of this package.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import Answer, Code, answer, either
from cacheimpl.layout import Field, Layout
from cacheimpl.lru import operations, state
from cacheimpl.lru.state import Cache, Config
from cacheimpl.recency import oldest_until, queued, total_of_older
from cacheimpl.table import choose, is_row, row

IDLE, PUTTING, CLEARING = 0, 1, 2
"""Which call is in progress for ever: none, `put`, `clear`."""
NOBODY = -1
"""In the place of a key."""


class GhostCache(NamedTuple):
    """Keys are rows. A key is in the cache where it is present, and in the order where its rank is not negative."""

    ranks: Tensor
    """[keys] int32: 0 is the oldest, ghosts included, -1 is outside the order"""
    present: Tensor
    """[keys] bool: has an entry"""
    sizes: Tensor
    """[keys] int64, bytes: 0 where absent"""
    pinned: Tensor
    """[keys] bool: cannot be evicted"""
    used: Tensor
    """[] int64, bytes: the sum of the sizes (derived)"""
    hits: Tensor
    """[] int64: look-ups that found their key"""
    total: Tensor
    """[] int64: counted look-ups"""
    reported_hits: Tensor
    """[] int64: hits at the time of the last report"""
    reported_total: Tensor
    """[] int64: look-ups at the time of the last report"""
    doing: Tensor
    """[] int32: the call that never ends, or `IDLE`"""
    putting: Tensor
    """[] int32: the key that it puts, or -1"""
    putting_size: Tensor
    """[] int64, bytes, of what it puts"""


Result = tuple[GhostCache, Answer]


def empty(keys: int, device: torch.device | str = "cpu") -> GhostCache:
    """Nothing stored, nothing counted, no call in progress."""
    nothing = state.empty(keys, device)
    idle = torch.zeros((), dtype=torch.int32, device=device)
    values = {**nothing._asdict(), "present": nothing.pinned, "doing": idle, "putting": idle + NOBODY}
    return GhostCache(**values, putting_size=nothing.used)


def derive(cache: GhostCache) -> GhostCache:
    """With the byte count that follows from the sizes."""
    return cache._replace(used=cache.sizes.sum())


def layout(keys: int, capacity: int, largest_size: int, lookups: int) -> Layout[GhostCache]:
    """Bounds for so many keys of at most `largest_size` bytes, and at most so many counted look-ups."""
    plain = {field.name: field for field in state.layout(keys, capacity, largest_size, lookups).fields}
    more = (
        Field("present", (keys,), torch.bool, 0, 1, axes=("key",)),
        Field("doing", (), torch.int32, IDLE, CLEARING),
        Field("putting", (), torch.int32, NOBODY, keys - 1, holds="key"),
        Field("putting_size", (), torch.int64, 0, min(largest_size, capacity)),
    )
    fields = {**plain, **{field.name: field for field in more}}
    return Layout(GhostCache, tuple(fields[name] for name in GhostCache._fields), derive)


# What is as ever, of the keys that are present ----------------------------------------------------------------------


def plain(cache: GhostCache) -> Cache:
    """Without the marks of presence: every key of the order looks present."""
    return Cache(*(getattr(cache, name) for name in Cache._fields))


def changed(cache: GhostCache, after: Cache) -> GhostCache:
    """With the fields of the plain cache replaced."""
    return cache._replace(**after._asdict())


def contains(config: Config, cache: GhostCache, key: Tensor) -> Result:
    """`key in cache`: a ghost is not."""
    return cache, answer(either(row(cache.present, key), Code.HIT, Code.MISS))


def _if_present(cache: GhostCache, key: Tensor, after: Result) -> Result:
    """What the plain operation came to, for a key that is present; else nothing changes, and it is absent."""
    hit = row(cache.present, key)
    return choose(hit, after[0], cache), answer(torch.where(hit, after[1].code, int(Code.ABSENT)))


def lookup(config: Config, cache: GhostCache, key: Tensor) -> Result:
    """`cache[key]`: a hit is counted and becomes the newest; a miss is not counted."""
    after, answered = operations.lookup(config, plain(cache), key)
    return _if_present(cache, key, (changed(cache, after), answered))


def get(config: Config, cache: GhostCache, key: Tensor) -> Result:
    """`cache.get(key)`: always counted; a hit becomes the newest."""
    is_hit = row(cache.present, key)
    hit, _ = operations.get(config, plain(cache), key)
    counted = cache._replace(total=cache.total + 1)
    return choose(is_hit, changed(cache, hit), counted), answer(either(is_hit, Code.HIT, Code.MISS))


def pop(config: Config, cache: GhostCache, key: Tensor) -> Result:
    """`cache.pop(key, None)`: removed where present; a ghost stays."""
    gone = removed(cache, is_row(cache.ranks, key))
    return _if_present(cache, key, (gone, answer(torch.full_like(cache.used, int(Code.DONE)))))


def pin(config: Config, cache: GhostCache, key: Tensor) -> Result:
    """`cache.pin(key)`: what is present cannot be evicted any more."""
    after, answered = operations.pin(config, plain(cache), key)
    return _if_present(cache, key, (changed(cache, after), answered))


def stat(config: Config, cache: GhostCache) -> Result:
    """`cache.stat(delta=True)`: hits and look-ups since the last report; the mark moves."""
    after, answered = operations.stat(config, plain(cache))
    return changed(cache, after), answered


def removed(cache: GhostCache, leaving: Tensor) -> GhostCache:
    """Keys ([keys] bool) leave entries, order, sizes, pins and the byte count together."""
    gone = changed(cache, operations.removed(plain(cache), leaving))
    return gone._replace(present=cache.present & ~leaving)


def stored(cache: GhostCache, key: Tensor, size: Tensor) -> GhostCache:
    """The key holds so many bytes and is the newest; it is a ghost no longer."""
    after = changed(cache, operations.stored(plain(cache), key, size))
    return finished(after._replace(present=cache.present | is_row(cache.present, key)))


def finished(cache: GhostCache) -> GhostCache:
    """No call is in progress."""
    return cache._replace(
        doing=torch.zeros_like(cache.doing),
        putting=torch.full_like(cache.putting, NOBODY),
        putting_size=torch.zeros_like(cache.putting_size),
    )


# What ghosts change -------------------------------------------------------------------------------------------------


def touch(config: Config, cache: GhostCache, key: Tensor) -> Result:
    """`cache.touch(key)`: becomes the newest in the order, present or not (C-MIR-10)."""
    is_present = row(cache.present, key)
    return changed(cache, operations.recent(plain(cache), key)), answer(either(is_present, Code.DONE, Code.ABSENT))


def ghosts(cache: GhostCache) -> Tensor:
    """[keys] bool: in the order, and without an entry."""
    return queued(cache.ranks) & ~cache.present


def put(config: Config, cache: GhostCache, key: Tensor, size: Tensor) -> Result:
    """`cache[key] = value`: the oldest go until there is room, none is left (`FAILED`), or the oldest is a ghost.

    A ghost has no bytes and is never gone, so it stops the loop where it is met with room still lacking: `DIVERGED`.
    """
    need = cache.used - row(cache.sizes, key) + size - config.capacity
    gains = torch.where(is_row(cache.sizes, key), 0, cache.sizes)
    chosen, absent = oldest_until(cache.ranks, ~cache.pinned, gains, need), ghosts(cache)
    leaving = chosen & (total_of_older(cache.ranks, absent) == 0) & ~absent
    met, fits = (chosen & absent).any(), torch.where(leaving, gains, 0).sum() >= need
    evicted = removed(cache, leaving)
    endless = evicted._replace(
        doing=torch.full_like(cache.doing, PUTTING), putting=key.to(cache.putting.dtype), putting_size=size
    )
    after = choose(met, endless, choose(fits, stored(evicted, key, size), evicted))
    never = size > config.capacity
    ended = torch.where(met, int(Code.DIVERGED), either(fits, Code.DONE, Code.FAILED))
    return choose(never, cache, after), answer(torch.where(never, int(Code.TOO_LARGE), ended))


def clear(config: Config, cache: GhostCache) -> Result:
    """`cache.clear()`: the oldest go until no entry is left, so a ghost that is older than an entry is met (C-MIR-10).

    A ghost that is newer than all entries is left in the order.
    """
    before_ghosts = cache.present & (total_of_older(cache.ranks, ghosts(cache)) == 0)
    met, left = (cache.present & ~before_ghosts).any(), removed(cache, before_ghosts)
    endless = left._replace(doing=torch.full_like(cache.doing, CLEARING))
    none = torch.zeros_like(cache.hits)
    begun_again = finished(left)._replace(hits=none, total=none, reported_hits=none, reported_total=none)
    return choose(met, endless, begun_again), answer(either(met, Code.DIVERGED, Code.DONE))


def evict(config: Config, cache: GhostCache) -> Result:
    """One more turn of the call that never ends: it meets the ghost again, and everything is as before."""
    return cache, answer(either(cache.doing == IDLE, Code.ABSENT, Code.DONE))
