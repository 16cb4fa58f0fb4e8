"""An LRU cache limited in bytes, as other projects write one, and bugs that are planted in it."""

from __future__ import annotations

from collections import OrderedDict

from tests.planting import Change

from cachespec.lru import Config

CACHE = "lru"


class SizedCache:
    """The oldest key is the first one of `sizes`."""

    def __init__(self, config: Config) -> None:
        self.capacity = config.capacity
        self.sizes: OrderedDict[int, int] = OrderedDict()
        self.pinned: set[int] = set()
        self.evictions = self.hits = self.total = 0
        self.mark = (0, 0)

    @property
    def used(self) -> int:
        """Bytes of all entries."""
        return sum(self.sizes.values())

    def contains(self, key: int) -> bool:
        return key in self.sizes

    def get(self, key: int) -> bool:
        self.total += 1
        if key not in self.sizes:
            return False
        self.hits += 1
        self.sizes.move_to_end(key)
        return True

    def lookup(self, key: int) -> str:
        return "hit" if key in self.sizes and self.get(key) else "absent"

    def put(self, key: int, size: int) -> str:
        if size > self.capacity:
            return "too_large"
        if sum(self.sizes[other] for other in self.pinned if other != key) + size > self.capacity:
            return "refused"
        while self.used - self.sizes.get(key, 0) + size > self.capacity:
            self._evict_oldest()
        self.sizes[key] = size
        self.sizes.move_to_end(key)
        return "done"

    def _evict_oldest(self) -> None:
        victim = next(other for other in self.sizes if other not in self.pinned)
        del self.sizes[victim]
        self.evictions += 1

    def touch(self, key: int) -> str:
        if key not in self.sizes:
            return "absent"
        self.sizes.move_to_end(key)
        return "done"

    def pop(self, key: int) -> str:
        self.pinned.discard(key)
        return "done" if self.sizes.pop(key, None) is not None else "absent"

    def pin(self, key: int) -> str:
        if key not in self.sizes:
            return "absent"
        self.pinned.add(key)
        return "done"

    def clear(self) -> None:
        self.sizes.clear()
        self.pinned.clear()
        self.hits = self.total = 0
        self.mark = (0, 0)

    def stat(self) -> tuple[str, list[int]]:
        before, self.mark = self.mark, (self.hits, self.total)
        return "done", [self.hits - before[0], self.total - before[1]]

    def observe(self) -> dict[str, object]:
        return {"order": list(self.sizes), "used": self.used}


FACTORY = SizedCache
BUGS = {
    "the old size counts on growth": Change(SizedCache.put, "self.used - self.sizes.get(key, 0)", "self.used"),
    "a key that is stored again keeps its age": Change(
        SizedCache.put, "self.sizes.move_to_end(key)", "self.sizes.move_to_end(key, last=len(self.sizes) == 1)"
    ),
    "wrong from the third eviction on": Change(
        SizedCache._evict_oldest,
        "self.evictions += 1",
        "self.evictions += 1\nif self.evictions >= 3 and self.sizes:\n    self.sizes.popitem()",
    ),
    "one of the capacity is never used": Change(
        SizedCache.put,
        "self.used - self.sizes.get(key, 0) + size > self.capacity",
        "self.used - self.sizes.get(key, 0) + size >= self.capacity and self.sizes",
    ),
    "an entry that shrinks keeps its bytes": Change(
        SizedCache.put, "self.sizes[key] = size", "self.sizes[key] = max(size, self.sizes.get(key, 0))"
    ),
    "a popped key stays pinned": Change(SizedCache.pop, "self.pinned.discard(key)", "pass"),
    "pins do not end with a clear": Change(SizedCache.clear, "self.pinned.clear()", "pass"),
    "a look-up is no use": Change(SizedCache.get, "self.sizes.move_to_end(key)", "pass"),
    "a pinned key can be evicted": Change(SizedCache._evict_oldest, "other not in self.pinned", "True"),
    "a pinned key cannot grow": Change(SizedCache.put, "other != key", "True"),
    "what is too large empties the cache": Change(
        SizedCache.put, 'return "too_large"', 'self.sizes.clear()\nreturn "too_large"'
    ),
    "a refused key is dropped": Change(
        SizedCache.put, 'return "refused"', 'self.sizes.pop(key, None)\nreturn "refused"'
    ),
    "evicts one more than it needs, in a full cache of three": Change(
        SizedCache.put,
        "self.sizes[key] = size",
        "if len(self.sizes) == 3 and key not in self.sizes:\n    self._evict_oldest()\nself.sizes[key] = size",
    ),
    "the report does not move its mark after two hits": Change(
        SizedCache.stat,
        "before, self.mark = self.mark, (self.hits, self.total)",
        "before, self.mark = self.mark, (min(self.hits, 1), self.total)",
    ),
    "a clear keeps the mark of the report": Change(SizedCache.clear, "self.mark = (0, 0)", "pass"),
    "a touch makes the key the oldest if it is the second": Change(
        SizedCache.touch,
        "self.sizes.move_to_end(key)",
        "self.sizes.move_to_end(key, last=list(self.sizes).index(key) != 1 or len(self.sizes) < 3)",
    ),
    "a key of no bytes is not stored": Change(
        SizedCache.put, "self.sizes[key] = size", "if not size:\n    return 'done'\nself.sizes[key] = size"
    ),
    "an eviction during a growth forgets the key": Change(
        SizedCache._evict_oldest, "del self.sizes[victim]", "del self.sizes[victim]\nself.hits = 0"
    ),
    "a miss after an eviction is not counted": Change(
        SizedCache.get, "self.total += 1", "self.total += key in self.sizes or not self.evictions"
    ),
    "a pin of the oldest key moves it": Change(
        SizedCache.pin,
        "self.pinned.add(key)",
        "if next(iter(self.sizes)) == key and self.pinned:\n    self.sizes.move_to_end(key)\nself.pinned.add(key)",
    ),
}
