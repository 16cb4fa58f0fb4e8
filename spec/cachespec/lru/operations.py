"""What can be asked of the cache, and the one step that it owes itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.lru.configuration import Key


@dataclass(frozen=True, slots=True)
class Contains(Operation):
    """`key in cache`: changes nothing."""

    key: Key


@dataclass(frozen=True, slots=True)
class Lookup(Operation):
    """`cache[key]`: a hit is counted and becomes the most recent; a miss raises an error and is not counted."""

    key: Key


@dataclass(frozen=True, slots=True)
class Get(Operation):
    """`cache.get(key)`: counted; a hit becomes the most recent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Put(Operation):
    """`cache[key] = value`: stores the value as the most recent, after evicting to make room."""

    key: Key
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Evict(Operation):
    """One iteration of the eviction loop of the call in progress."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("cache", "cache")


@dataclass(frozen=True, slots=True)
class Touch(Operation):
    """`cache.touch(key)`: a present key becomes the most recent."""

    key: Key


@dataclass(frozen=True, slots=True)
class Pop(Operation):
    """`cache.pop(key, None)`: removes the key if present."""

    key: Key


@dataclass(frozen=True, slots=True)
class Pin(Operation):
    """`cache.pin(key)`: protects a present key from eviction."""

    key: Key


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """`cache.clear()`: removes every key, pinned or not, and resets the counters."""


@dataclass(frozen=True, slots=True)
class Stat(Operation):
    """`cache.stat(delta=True)`: returns hits and look-ups since the previous call."""

    returns: ClassVar[tuple[str, ...]] = ("hits", "look-ups")


OPERATIONS: tuple[type[Operation], ...] = (
    Contains,
    Lookup,
    Get,
    Put,
    Evict,
    Touch,
    Pop,
    Pin,
    Clear,
    Stat,
)
