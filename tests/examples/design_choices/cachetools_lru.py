"""`cachetools.LRUCache` as the component `lru`: a cache by recency, limited by the size of its values.

cacheproof fit lru --target python:cachetools_lru:Adapter
"""

from copy import copy

from cachetools import LRUCache

from cachespec.lru import Config


class Adapter:
    def __init__(self, config: Config) -> None:
        self.cache: LRUCache[int, int] = LRUCache(config.capacity, getsizeof=int)

    def contains(self, key: int) -> bool:
        return key in self.cache

    def lookup(self, key: int) -> str:
        return "absent" if self.cache.get(key) is None else "hit"

    def put(self, key: int, size: int) -> str:
        try:
            self.cache[key] = size
        except ValueError:
            return "too_large"
        return "done"

    def pop(self, key: int) -> str:
        return "absent" if self.cache.pop(key, None) is None else "done"

    def clear(self) -> None:
        self.cache.clear()

    def observe(self) -> dict[str, object]:
        rest = copy(self.cache)
        order = [rest.popitem()[0] for _ in range(len(rest))]  # the oldest first
        return {"order": order, "used": self.cache.currsize}
