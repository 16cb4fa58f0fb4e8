"""`lru.LRU` of lru-dict as the component `lru`: a cache by recency that counts entries, and all look-ups.

cacheproof fit lru --target python:lru_dict_lru:Adapter
"""

from lru import LRU

from cachespec.lru import Config


class Adapter:
    def __init__(self, config: Config) -> None:
        self.cache: LRU[int, int] = LRU(config.capacity)

    def contains(self, key: int) -> bool:
        return key in self.cache

    def lookup(self, key: int) -> str:
        try:
            return "hit" if self.cache[key] >= 0 else "failed"
        except KeyError:
            return "absent"

    def get(self, key: int) -> bool:
        return self.cache.get(key) is not None

    def put(self, key: int, size: int) -> None:
        self.cache[key] = size

    def pop(self, key: int) -> str:
        return "absent" if self.cache.pop(key, None) is None else "done"

    def clear(self) -> None:
        self.cache.clear()

    def observe(self) -> dict[str, object]:
        hits, misses = self.cache.get_stats()
        return {"order": self.cache.keys()[::-1], "used": len(self.cache), "hits": hits, "total": hits + misses}
