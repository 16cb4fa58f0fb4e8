"""What can be asked of the cache, and the one step that it owes itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.lru.configuration import Key


@dataclass(frozen=True, slots=True)
class Contains(Operation):
    """`key in cache`: pure."""

    key: Key


@dataclass(frozen=True, slots=True)
class Lookup(Operation):
    """`cache[key]`: a hit is counted and becomes the most recent; a miss is an error and is not counted."""

    key: Key


@dataclass(frozen=True, slots=True)
class Get(Operation):
    """`cache.get(key)`: counted; a hit becomes the most recent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Put(Operation):
    """`cache[key] = value`: stored as the most recent, after evicting what room it takes."""

    key: Key
    size: int


@dataclass(frozen=True, slots=True)
class Evict(Operation):
    """One turn of the eviction loop of the call in progress."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("cache", "cache")


@dataclass(frozen=True, slots=True)
class Touch(Operation):
    """`cache.touch(key)`: what is present becomes the most recent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Pop(Operation):
    """`cache.pop(key, None)`: removed if present, silently nothing otherwise."""

    key: Key


@dataclass(frozen=True, slots=True)
class Pin(Operation):
    """`cache.pin(key)`: what is present cannot be evicted any more."""

    key: Key


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """`cache.clear()`: everything goes, pinned or not, and the counters start again."""


@dataclass(frozen=True, slots=True)
class Stat(Operation):
    """`cache.stat(delta=True)`: hits and total since the previous call; returns (hits, total)."""
