"""`LRUCache`: a mapping in the order of last use, limited in bytes, with pins and counters.

The rules are those of the specification's `lru` (LRU-1 to LRU-8). Nothing enters the order without an entry (C-MIR-10),
so every turn of an eviction frees something, and a call that is refused changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from cacheimpl.counts import amount
from cacheimpl.object_store.caches import CacheInfo
from cacheimpl.processor_cache.errors import (
    AllPinnedError,
    CannotPinError,
    InvalidItemError,
    InvalidSettingError,
    NotThereError,
    TooLargeError,
)

K = TypeVar("K")
V = TypeVar("V")


class Entry(NamedTuple):
    """A value, and its size when it was stored."""

    value: Any
    size: float


class LRUCache(Generic[K, V]):
    """`capacity` is in what `getsizeof` gives for a value: bytes, or, without it, entries."""

    def __init__(self, capacity: float, getsizeof: Callable[[V], float] | None = None) -> None:
        amount("capacity", capacity, InvalidSettingError)
        if getsizeof is not None and not callable(getsizeof):
            raise InvalidSettingError(f"getsizeof must be a function, not {getsizeof!r}")
        self.maxsize, self.currsize = capacity, 0.0
        self.pinned_items: set[K] = set()
        self._getsizeof = getsizeof
        self._entries: OrderedDict[K, Entry] = OrderedDict()
        self._hits = self._total = 0
        self._told = CacheInfo(0, 0)

    # Questions ------------------------------------------------------------------------------------------------------

    def __contains__(self, key: object) -> bool:
        """Changes nothing (LRU-5)."""
        return key in self._entries

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        """Keys, the oldest first."""
        return iter(self._entries)

    def keys(self) -> KeysView[K]:
        """Keys, the oldest first; a copy. No look-up is counted, here and in the next two."""
        return self.cache.keys()

    def values(self) -> ValuesView[V]:
        """Values, the oldest first; a copy."""
        return self.cache.values()

    def items(self) -> ItemsView[K, V]:
        """Keys and values, the oldest first; a copy."""
        return self.cache.items()

    @property
    def order(self) -> Mapping[K, None]:
        """Keys, the oldest first; a copy."""
        return MappingProxyType(dict.fromkeys(self._entries))

    @property
    def cache(self) -> Mapping[K, V]:
        """Keys and values, the oldest first; a copy."""
        return MappingProxyType({key: entry.value for key, entry in self._entries.items()})

    @property
    def capacity(self) -> float:
        """As given."""
        return self.maxsize

    @property
    def usage(self) -> float:
        """The part of the capacity that is taken."""
        return self.currsize / self.maxsize if self.maxsize else 0.0

    def getsizeof(self, value: V) -> float:
        """The size of a value."""
        size = 1 if self._getsizeof is None else self._getsizeof(value)
        if type(size) is int and size >= 0:
            return size
        return amount(f"the size of a value of type {type(value).__name__}", size, InvalidItemError)

    def size_of(self, key: K) -> float | None:
        """The size of an entry when it was stored; None where there is none. Changes nothing."""
        return self._entries[key].size if self._has(key) else None

    def stat(self, *, delta: bool = False) -> CacheInfo:
        """Hits and look-ups so far; with `delta`, since the last call with it."""
        now = CacheInfo(self._hits, self._total)
        if not delta:
            return now
        told, self._told = self._told, now
        return now - told

    # Look-ups -------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        """Counted, and now the newest; a miss is a KeyError, and is not counted (LRU-4)."""
        if not self._has(key):
            raise NotThereError(f"the key {key!r} is not there")
        value: V = self._entries[key].value
        self._hits, self._total = self._hits + 1, self._total + 1
        self._recent(key)
        return value

    def get(self, key: K, default: Any = None) -> Any:
        """Counted; a hit is now the newest."""
        if self._has(key):
            return self[key]
        self._total += 1
        return default

    def touch(self, key: K) -> None:
        """What is present is now the newest; what is not stays out of the order (C-MIR-10)."""
        if self._has(key):
            self._recent(key)

    # Changes --------------------------------------------------------------------------------------------------------

    def __setitem__(self, key: K, value: V) -> None:
        """As `put`."""
        self.put(key, value)

    def put(self, key: K, value: V) -> None:
        """Stored as the newest, behind evicting the oldest that are not pinned, as far as room lacks.

        What the key held counts as room. Raises `TooLargeError`, `AllPinnedError`.
        """
        self._has(key)
        size = self.getsizeof(value)
        if size > self.maxsize:
            raise TooLargeError(f"value too large: it takes {size}, of {self.maxsize} in all")
        self._check_pins(key, size)
        held = self._entries[key].size if key in self._entries else 0
        while self.currsize - held + size > self.maxsize:
            victim = self._next_to_go()
            held = 0 if victim == key else held
            self._remove(victim)
        self.currsize += size - held
        self._entries[key] = Entry(value, size)
        self._recent(key)

    def put_if_fits(self, key: K, value: V) -> bool:
        """As `put`; False, and nothing changed, for what is larger than the whole cache."""
        try:
            self.put(key, value)
        except TooLargeError:
            return False
        return True

    def __delitem__(self, key: K) -> None:
        """Removed, pinned or not; `NotThereError`, a KeyError, for what is absent."""
        if not self._has(key):
            raise NotThereError(f"the key {key!r} is not there")
        self._remove(key)

    def pop(self, key: K, default: Any = None) -> Any:
        """Removed, not counted; what is absent is silently the default."""
        if not self._has(key):
            return default
        value = self._entries[key].value
        self._remove(key)
        return value

    def popitem(self, remove_pinned: bool = False) -> tuple[K, V]:  # noqa: FBT001, FBT002  # the released signature
        """The oldest is removed that is not pinned. Raises `AllPinnedError` where there is none."""
        for key, entry in self._entries.items():
            if remove_pinned or key not in self.pinned_items:
                self._remove(key)
                return key, entry.value
        raise AllPinnedError("there is no entry that may be removed")

    def remove_oldest(self, *, remove_pinned: bool = False) -> None:
        """As `popitem`; nothing for an empty cache."""
        if self._entries:
            self.popitem(remove_pinned=remove_pinned)

    def pin(self, key: K) -> None:
        """What is present is not evicted any more. Raises `CannotPinError` (ValueError) for what is absent (LRU-3)."""
        if not self._has(key):
            raise CannotPinError(f"the key {key!r} is not there, and cannot be pinned")
        self.pinned_items.add(key)

    def clear(self) -> None:
        """Everything goes, pinned or not, and the counters start again."""
        self._entries.clear()
        self.pinned_items.clear()
        self.currsize = 0.0
        self._hits = self._total = 0
        self._told = CacheInfo(0, 0)

    def _recent(self, key: K) -> None:
        """What is there is now the newest."""
        self._entries.move_to_end(key)

    def _next_to_go(self) -> K:
        """The oldest that is not pinned. Raises `AllPinnedError` where there is none."""
        for key in self._entries:
            if key not in self.pinned_items:
                return key
        raise AllPinnedError("all that is left is pinned, and takes too much room")

    def _check_pins(self, key: K, size: float) -> None:
        """Raises `AllPinnedError` where what is pinned leaves too little room, before anything is evicted."""
        pinned = sum(self._entries[other].size for other in self.pinned_items if other != key)
        if pinned + size > self.maxsize:
            raise AllPinnedError(f"what is pinned takes {pinned} of {self.maxsize}, and {size} are needed")

    def _has(self, key: K) -> bool:
        """Whether the key is there. Raises `InvalidItemError` for what can be no key."""
        try:
            return key in self._entries
        except TypeError as error:
            raise InvalidItemError(f"a key must have a hash, and {key!r} has none: {error}") from None

    def _remove(self, key: K) -> None:
        """An entry leaves entries, order, pins and the sum together (LRU-1, LRU-2, LRU-3)."""
        self.currsize -= self._entries.pop(key).size
        self.pinned_items.discard(key)
