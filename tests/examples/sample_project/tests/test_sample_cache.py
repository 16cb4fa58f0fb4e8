"""The adapter is all that a project writes: which call of the cache each operation is."""

import os

from sample_cache import ForgetfulCache, RecencyCache

import cacheproof
from cachespec.lru import Config

CACHE = ForgetfulCache if "SAMPLE_BUG" in os.environ else RecencyCache


class Adapter:
    """What it has no method for (`get`, `lookup`, `pin`, `stat`) this cache does not have: it is left out."""

    def __init__(self, config: Config) -> None:
        self.cache = CACHE(config.capacity)

    def contains(self, key: int) -> bool:
        return str(key) in self.cache

    def put(self, key: int, size: int) -> str:
        return "done" if self.cache.store(str(key), size) else "too_large"

    def touch(self, key: int) -> str:
        return "done" if self.cache.touch(str(key)) else "absent"

    def pop(self, key: int) -> str:
        return "done" if self.cache.drop(str(key)) else "absent"

    def clear(self) -> None:
        self.cache = CACHE(self.cache.capacity)

    def observe(self) -> dict[str, object]:
        order = [int(name) for name in self.cache.sizes]
        return {"order": order, "sizes": self.cache.sizes.values(), "used": self.cache.used}


test_sample_cache = cacheproof.tests_for("lru", Adapter)


def test_by_hand() -> None:
    """Ordinary tests stand beside it."""
    cache = CACHE(2)
    assert cache.store("a", 2)
    assert not cache.store("b", 3)
    assert "a" in cache
