"""What full blocks hold, as numbers: equal tokens behind equal tokens have one number, and nothing else has.

Numbers are given on the host when a request arrives, so what is looked up on the device is exact and there is no hash
to collide. A block with tokens of the output has a number of its own, for what it will hold is not known yet: only the
request itself finds it again, after a preemption.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

Key = tuple[int, tuple[int, ...], tuple[Any, ...]]
"""The number of the block before, the tokens, and the items of which tokens are among them, each with its place."""

BEGINNING = -1


class Contents:
    """So many numbers, which are taken back when neither a request nor a block has them any more."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))[::-1]
        self._known: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}

    @property
    def left(self) -> int:
        """How many numbers there are to give."""
        return len(self._free)

    def of_prompt(self, tokens: Sequence[int], block_size: int, items: Sequence[tuple[Any, int, int]]) -> list[int]:
        """The numbers of the full blocks of a prompt; `items` are identifier, first token and length of each."""
        numbers, parent = [], BEGINNING
        for begin in range(0, len(tokens) - block_size + 1, block_size):
            end = begin + block_size
            among = tuple(
                (name, start - begin) for name, start, length in items if begin < start + length and start < end
            )
            parent = self._number((parent, tuple(tokens[begin:end]), among))
            numbers.append(parent)
        return numbers

    def fresh(self, count: int) -> list[int]:
        """Numbers that nobody else has."""
        return [self._free.pop() for _ in range(count)]

    def keep(self, used: Collection[int]) -> None:
        """Take back the others.

        A number that is kept has its meaning only while those before it are kept too, for a new one may take their
        place. Whoever was numbered first comes first here, so the one before is decided before.
        """
        kept = set(used)
        for number in list(self._keys):
            parent = self._keys[number][0]
            if number not in kept or (parent != BEGINNING and parent not in self._keys):
                del self._known[self._keys.pop(number)]
        self._free = [number for number in range(self.count) if number not in kept][::-1]

    def _number(self, key: Key) -> int:
        if key not in self._known:
            number = self._free.pop()
            self._known[key], self._keys[number] = number, key
        return self._known[key]
