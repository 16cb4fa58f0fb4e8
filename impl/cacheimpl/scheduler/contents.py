"""What full blocks hold, as numbers: equal tokens behind equal tokens have one number, and nothing else has.

Numbers are given on the host before a request waits, so what is looked up on the device is exact and there is no hash
to collide. A block with tokens of the output has a number of its own, for what it will hold is not known yet: only the
request itself finds it again, after a preemption.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

Among = tuple[tuple[Any, int], ...]
"""Items of which tokens are in a block, each with the place in it where the item begins, which may be before it."""

Tokens: TypeAlias = "array[int] | list[int]"
"""The tokens of a prompt, as machine words where they fit."""

Key = tuple[int, "bytes | tuple[int, ...]", Among]
"""The number of the block before, the tokens, and the items among them."""

BEGINNING = -1
WORD = "q"
"""Tokens are kept as machine words: of those a key is made, compared and hashed as one piece of memory."""


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

    def of_prompt(self, tokens: Tokens, block_size: int, items: Sequence[tuple[Any, int, int]]) -> list[int]:
        """The numbers of the full blocks of a prompt; `items` are identifier, first token and length of each."""
        blocks = blocks_of(tokens, block_size)
        among = among_blocks(block_size, len(blocks), items)
        numbers, parent = list[int](), BEGINNING
        for block in zip(blocks, among, strict=True):
            number = self._known.get((parent, *block))
            if number is None:
                break
            numbers.append(number)
            parent = number
        known = len(numbers)
        if known < len(blocks):  # nothing can be known behind what is new
            new = self.fresh(len(blocks) - known)
            parents = (parent, *new[:-1])
            keys = list(zip(parents, blocks[known:], among[known:], strict=True))
            self._known.update(zip(keys, new, strict=True))
            self._keys.update(zip(new, keys, strict=True))
            numbers += new
        return numbers

    def fresh(self, count: int) -> list[int]:
        """Numbers that nobody else has."""
        taken = self._free[len(self._free) - count :][::-1]
        del self._free[len(self._free) - count :]
        return taken

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


def packed(tokens: Sequence[int]) -> Tokens:
    """Their own memory; a list where a token does not fit a machine word."""
    try:
        return array(WORD, tokens)
    except OverflowError:
        return list(tokens)


def blocks_of(tokens: Tokens, block_size: int) -> list[Any]:
    """Of each full block what stands for its tokens; for equal tokens it is equal, whatever else is in the prompt."""
    full = len(tokens) // block_size * block_size
    if isinstance(tokens, list):
        parts = (packed(tokens[begin : begin + block_size]) for begin in range(0, full, block_size))
        return [tuple(part) if isinstance(part, list) else part.tobytes() for part in parts]
    memory, size = tokens.tobytes(), block_size * tokens.itemsize
    return [memory[begin : begin + size] for begin in range(0, full * tokens.itemsize, size)]


def among_blocks(block_size: int, blocks: int, items: Sequence[tuple[Any, int, int]]) -> list[Among]:
    """Of each of the first blocks the items among its tokens, in their order."""
    found: list[Among] = [()] * blocks
    for name, start, length in items:
        for place in range(start // block_size, min(blocks, (start + length - 1) // block_size + 1)):
            found[place] = (*found[place], (name, start - place * block_size))
    return found
