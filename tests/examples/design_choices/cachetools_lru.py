"""`cachetools.LRUCache` as the component `lru`: a cache by recency, limited by the size of its values.

    cacheproof fit lru --target python:cachetools_lru:Adapter
"""

from copy import copy

from cachespec.lru import Config
from cachetools import LRUCache


class Adapter:
    def __init__(self, config: Config) -> None:
        self.cache = LRUCache(config.capacity, getsizeof=int)

    def contains(self, key: int) -> bool:
        return key in self.cache

    def lookup(self, key: int) -> str:
        try:
            return "hit" if self.cache[key] >= 0 else "failed"
        except KeyError:
            return "absent"

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
        items = [rest.popitem() for _ in range(len(rest))]  # the oldest first
        return {"order": [key for key, _ in items], "sizes": [size for _, size in items], "used": self.cache.currsize}
