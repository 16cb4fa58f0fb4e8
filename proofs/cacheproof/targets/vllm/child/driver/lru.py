"""The release's `LRUCache`, one call at a time. A value is its own size in bytes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from .calls import ABSENT, DONE, HIT, MISS, Calls, Reply, integer, operations_of

MODULES = ("vllm.utils.cache", "vllm.utils")
"""Where the class is: the newest place first."""


def released_class() -> Any:
    """The release's `LRUCache`."""
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        return module.LRUCache
    raise ModuleNotFoundError(f"the release has none of {', '.join(MODULES)}")


class LruDriver:
    """One cache. Before 0.8 the class counts entries, has no sizes, and `stat` has no `delta`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._class = released_class()
        self._weighs = hasattr(self._class, "currsize")
        self._cache: Any = None
        self.operations = operations_of(self, calls, ("stat", not self._weighs))

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new cache of the configured capacity: in bytes, or in entries where the class counts those."""
        capacity = integer(config, "capacity")
        self._cache = self._class(capacity, getsizeof=_itself) if self._weighs else self._class(capacity)

    def observe(self) -> dict[str, Any]:
        """Keys from the oldest to the most recent, ghosts included, their sizes, and the counters."""
        cache = self._cache
        order = list(cache.order if self._weighs else cache.cache)
        sizes = vars(cache)["_Cache__size"] if self._weighs else dict.fromkeys(order, 1)
        return {
            "order": order,
            "sizes": [sizes.get(key, 0) for key in order],
            "used": cache.currsize if self._weighs else len(cache),
            "hits": cache._hits,  # the counters are not public in every release
            "total": cache._total,  # the same
        }

    def do_contains(self, key: int) -> Reply:
        return HIT if key in self._cache else MISS

    def do_lookup(self, key: int) -> Reply:
        """The value of a key plays no part; that there is one does."""
        try:
            self._cache[key]
        except KeyError:
            return ABSENT
        return HIT

    def do_get(self, key: int) -> Reply:
        return MISS if self._cache.get(key) is None else HIT

    def do_put(self, key: int, size: int) -> Reply:
        return self._calls.done(lambda: self._cache.put(key, size), {ValueError: "too_large"})

    def do_touch(self, key: int) -> Reply:
        present = key in self._cache
        touched = self._calls.done(lambda: self._cache.touch(key), {KeyError: "absent"})
        return touched if present else ABSENT

    def do_pop(self, key: int) -> Reply:
        return ABSENT if self._cache.pop(key, None) is None else DONE

    def do_pin(self, key: int) -> Reply:
        return self._calls.done(lambda: self._cache.pin(key), {ValueError: "absent"})

    def do_clear(self) -> None:
        self._cache.clear()

    def do_stat(self) -> Reply:
        return Reply("done", tuple(self._cache.stat(delta=True)))


def _itself(size: int) -> int:
    return size
