"""`cachebox.LRUCache` as the component `lru`: a cache by recency, limited by the size of its values.

cacheproof fit lru --target python:cachebox_lru:Adapter
"""

from cachebox import LRUCache

from cachespec.lru import Config


class Adapter:
    def __init__(self, config: Config) -> None:
        self.cache = LRUCache(config.capacity, getsizeof=lambda key, value: value)

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
        except OverflowError:
            return "too_large"
        return "done"

    def pop(self, key: int) -> str:
        return "absent" if self.cache.pop(key, None) is None else "done"

    def clear(self) -> None:
        self.cache.clear()

    def observe(self) -> dict[str, object]:
        return {"order": list(self.cache.keys()), "sizes": list(self.cache.values()), "used": self.cache.current_size()}
