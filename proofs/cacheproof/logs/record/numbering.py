"""Names of the engine as the numbers of a configuration, in the order in which they first appear."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Named = TypeVar("Named", bound=Hashable)


class Numbers(Generic[Named]):
    """A number for each name, from 0 on."""

    def __init__(self) -> None:
        self._numbers: dict[Named, int] = {}

    def of(self, name: Named) -> int:
        """The number of the name, a new one if it is new."""
        return self._numbers.setdefault(name, len(self._numbers))

    def known(self, name: Named) -> int | None:
        """The number of the name, None where it has none."""
        return self._numbers.get(name)

    def __len__(self) -> int:
        return len(self._numbers)


class Lives:
    """Requests by name. One whose parts are not those that the name had before is another request of that name."""

    def __init__(self) -> None:
        self.parts: list[list[Hashable]] = []
        """Of each request: the keys of its blocks, or its items."""
        self._now: dict[str, int] = {}

    def grown(self, name: str, first: int, parts: list[Hashable]) -> int:
        """The request has these parts from this place on; its number."""
        number = self._now.get(name)
        if number is not None:
            there = self.parts[number]
            if first <= len(there) and there[first : first + len(parts)] == parts[: len(there) - first]:
                there.extend(parts[len(there) - first :])
                return number
        self._now[name] = len(self.parts)
        self.parts.append(list(parts))
        return self._now[name]

    def number(self, name: str) -> int:
        """The request that has this name now; one of which nothing was said has no parts."""
        return self._now[name] if name in self._now else self.grown(name, 0, [])
