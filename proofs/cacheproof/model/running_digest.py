"""The digest of a state of any size, kept up to date as the state changes: constant time a change.

A map's digest is the sum, modulo 2**64, of one term for each key with its value; a queue's is the sum of one term for
each key with its weight and the key before it. The links say all of the order, and a change touches at most four of
them, wherever it is; numbers that tell the place in the queue would have to be moved, or would tell the history. So a
digest depends on the content alone: it is the same however a state was reached, computed at once or kept up to date,
over frozen or over rerooting containers.

A term is the first eight bytes of BLAKE2b-512 over JSON. Equal digests are strong evidence of equal states, not a
proof, and none at all against somebody who looks for two states of one digest.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Any

import msgspec

from cachespec.kernel.containers import FrozenMap, FrozenQueue, RerootingMap, RerootingQueue

MASK = (1 << 64) - 1


def _written_out(value: Any) -> Any:
    """A container inside of a container is encoded whole, in every realisation as the frozen one is."""
    if isinstance(value, RerootingMap | RerootingQueue):
        return value.items()
    raise TypeError(f"{value!r} cannot be part of a state")


_encode = msgspec.json.Encoder(enc_hook=_written_out).encode
_from_bytes = int.from_bytes
_ABSENT: Any = object()


def digest_of(state: Any) -> str:
    """The digest of a state over containers of any realisation, as 16 hexadecimal digits.

    It takes constant time for each part of the state that is not a container; for each container, constant time where
    it keeps its digest (`DIGESTED`), else time in proportion to its size.
    """
    return f"{_hashed(_plain(state)):016x}"


def _plain(value: Any) -> Any:
    """The value with every container replaced by its digest."""
    if isinstance(value, DigestedMap | DigestedQueue):
        return [value.digest]
    if isinstance(value, FrozenMap | RerootingMap):
        return [map_digest(value)]
    if isinstance(value, FrozenQueue | RerootingQueue):
        return [queue_digest(value)]
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def map_digest(contents: Any) -> int:
    """The digest of a map, from scratch."""
    return sum(entry(key, value) for key, value in contents.items()) & MASK


def queue_digest(queue: Any) -> int:
    """The digest of a queue, from scratch."""
    order = [(None, 0), *queue.items()]
    return sum(link(before, key, weight) for (before, _), (key, weight) in pairwise(order)) & MASK


def entry(key: Any, value: Any) -> int:
    """The term of a key of a map."""
    return _hashed((key, value))


def link(before: Any, key: Any, weight: int) -> int:
    """The term of a key of a queue; before the oldest there is None."""
    return _hashed((before, key, weight))


def _hashed(value: Any) -> int:
    return _from_bytes(blake2b(_encode(value)).digest()[:8], "big")


class DigestedMap(RerootingMap[Any, Any]):
    """A rerooting map that knows the digest of each of its versions."""

    __slots__ = ("digest",)

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.digest = 0

    def set(self, key: Any, value: Any) -> DigestedMap:
        before = self.get(key, _ABSENT)
        after = super().set(key, value)
        assert isinstance(after, DigestedMap)
        left = 0 if before is _ABSENT else entry(key, before)
        after.digest = (self.digest + entry(key, value) - left) & MASK
        return after

    def remove(self, key: Any) -> DigestedMap:
        before = self.get(key, _ABSENT)
        if before is _ABSENT:
            return self
        after = super().remove(key)
        assert isinstance(after, DigestedMap)
        after.digest = (self.digest - entry(key, before)) & MASK
        return after


class DigestedQueue(RerootingQueue[Any]):
    """A rerooting queue that knows the digest of each of its versions."""

    __slots__ = ("digest",)

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.digest = 0

    def push(self, key: Any, weight: int) -> DigestedQueue:
        digest, _, newest = self._without(key)
        return self._known(super().push(key, weight), digest + link(newest, key, weight))

    def push_front(self, key: Any, weight: int) -> DigestedQueue:
        digest, oldest, _ = self._without(key)
        if oldest is not None:
            behind = self.weight(oldest, 0)
            digest += link(key, oldest, behind) - link(None, oldest, behind)
        return self._known(super().push_front(key, weight), digest + link(None, key, weight))

    def remove(self, key: Any) -> DigestedQueue:
        if not self.has(key):
            return self
        digest, _, _ = self._without(key)
        return self._known(super().remove(key), digest)

    def _without(self, key: Any) -> tuple[int, Any, Any]:
        """The digest, the oldest and the newest key of this queue, the given key left out."""
        oldest, newest = self.oldest(None), self.newest(None)
        if not self.has(key):
            return self.digest, oldest, newest
        before, after = self.before(key, None), self.after(key, None)
        digest = self.digest - link(before, key, self.weight(key, 0))
        if after is not None:
            weight = self.weight(after, 0)
            digest += link(before, after, weight) - link(key, after, weight)
        return digest, after if key == oldest else oldest, before if key == newest else newest

    def _known(self, version: Any, digest: int) -> DigestedQueue:
        assert isinstance(version, DigestedQueue)
        version.digest = digest & MASK
        return version


class _Digested:
    """Makes rerooting containers that know their digests."""

    def map(self) -> DigestedMap:
        return DigestedMap()

    def queue(self) -> DigestedQueue:
        return DigestedQueue()


DIGESTED = _Digested()
