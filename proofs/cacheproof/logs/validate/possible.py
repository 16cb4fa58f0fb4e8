"""The states of the specification that are still possible, each once, and no more of them than the cap.

While there is one, it is kept over rerooting containers, which step at the speed of dictionaries. From the moment when
there may be two, states are kept over containers that know their digests: equal states are found by these, and compared
whole before one of them is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cacheproof.model.running_digest import DIGESTED, DigestedMap, DigestedQueue, digest_of
from cachespec.kernel.containers import FrozenMap, FrozenQueue, RerootingMap, RerootingQueue

CAP = 256


class CapExceededError(Exception):
    """More states are possible than are followed."""


class Possible:
    """A set of states, in the order in which they were found."""

    def __init__(self, cap: int, states: Iterable[Any] = ()) -> None:
        self.cap = cap
        self._states: list[Any] = []
        self._by_digest: dict[str, list[Any]] | None = None
        for state in states:
            self.add(state)

    @classmethod
    def only(cls, cap: int, state: Any) -> Possible:
        """One state, in whatever realisation it is."""
        alone = cls(cap)
        alone._states.append(state)
        return alone

    def add(self, state: Any) -> bool:
        """Add a state over containers with digests; whether it is a new one.

        Raises:
            CapExceededError: there would be more than the cap.
        """
        if self._by_digest is None:
            self._by_digest = {}
            earlier, self._states = self._states, []
            for each in earlier:
                self.add(each)
        alike = self._by_digest.setdefault(digest_of(state), [])
        if any(state == other for other in alike):
            return False
        if len(self._states) >= self.cap:
            raise CapExceededError
        alike.append(state)
        self._states.append(state)
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    @property
    def alone(self) -> Any:
        """The one state that there is."""
        (state,) = self._states
        return state


def with_digests(value: Any) -> Any:
    """The same state over containers that know their digests; itself where it is so already."""
    if isinstance(value, DigestedMap | DigestedQueue):
        return value
    if isinstance(value, RerootingMap):
        mapped = DIGESTED.map()
        for key, item in value.items():
            mapped = mapped.set(key, with_digests(item))
        return mapped
    if isinstance(value, RerootingQueue):
        queued = DIGESTED.queue()
        for key, weight in value.items():
            queued = queued.push(key, weight)
        return queued
    if isinstance(value, tuple) and not isinstance(value, FrozenMap | FrozenQueue):
        parts = [with_digests(part) for part in value]
        make: Any = getattr(type(value), "_make", type(value))
        return make(parts)
    return value
