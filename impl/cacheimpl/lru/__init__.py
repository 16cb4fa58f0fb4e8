"""A cache by recency, limited in bytes, for one engine: branch-free functions over a few tensors."""

from cacheimpl.lru.operations import clear, contains, get, lookup, pin, pop, put, stat, touch
from cacheimpl.lru.state import Cache, Config, derive, empty, layout

__all__ = [
    "Cache",
    "Config",
    "clear",
    "contains",
    "derive",
    "empty",
    "get",
    "layout",
    "lookup",
    "pin",
    "pop",
    "put",
    "stat",
    "touch",
]
