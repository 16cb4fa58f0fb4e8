"""What transition code may ask of a container."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Map(Protocol[Key, Value]):
    """An immutable map. Every change returns a new version and leaves the old one as it was."""

    def has(self, key: Key) -> bool:
        """Whether the key is there."""
        ...

    def get(self, key: Key, default: Value) -> Value:
        """The key's value, or the default where it is absent."""
        ...

    def set(self, key: Key, value: Value) -> Map[Key, Value]:
        """With the key bound to the value, replacing what was there."""
        ...

    def remove(self, key: Key) -> Map[Key, Value]:
        """Without the key; the same map where it is absent."""
        ...

    @property
    def length(self) -> int:
        """How many keys there are."""
        ...

    @property
    def total(self) -> int:
        """The sum of the values; for maps to integers."""
        ...

    def items(self) -> Iterable[tuple[Key, Value]]:
        """Keys and values, for views and observations only, never for transitions."""
        ...


class Queue(Protocol[Key]):
    """An immutable queue of distinct keys, each with an integer weight, oldest first."""

    def has(self, key: Key) -> bool:
        """Whether the key is there."""
        ...

    def weight(self, key: Key, default: int) -> int:
        """The key's weight, or the default where it is absent."""
        ...

    def push(self, key: Key, weight: int) -> Queue[Key]:
        """With the key as the newest; where it was there already, it moves and takes the new weight."""
        ...

    def push_front(self, key: Key, weight: int) -> Queue[Key]:
        """With the key as the oldest; where it was there already, it moves and takes the new weight."""
        ...

    def remove(self, key: Key) -> Queue[Key]:
        """Without the key; the same queue where it is absent."""
        ...

    def oldest(self, default: Key) -> Key:
        """The oldest key, or the default where the queue is empty."""
        ...

    def oldest_outside(self, excluded: Map[Key, Any], default: Key) -> Key:
        """The oldest key that `excluded` does not have, or the default where there is none."""
        ...

    @property
    def length(self) -> int:
        """How many keys there are."""
        ...

    @property
    def total(self) -> int:
        """The sum of the weights."""
        ...

    def items(self) -> Iterable[tuple[Key, int]]:
        """Keys and weights, oldest first, for views and observations only, never for transitions."""
        ...


class Containers(Protocol):
    """Makes the empty containers of one realisation; an initial state is built with it."""

    def map(self) -> Map[Any, Any]:
        """An empty map."""
        ...

    def queue(self) -> Queue[Any]:
        """An empty queue."""
        ...
