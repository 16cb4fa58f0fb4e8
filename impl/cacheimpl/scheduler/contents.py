"""What full blocks hold, as numbers: equal tokens behind equal tokens have one number, and nothing else has.

Numbers are given on the host before a request waits, so what is looked up on the device is exact and there is no hash
to collide. A block with tokens of the output has a number of its own, for what it will hold is not known yet: only the
request itself finds it again, after a preemption.

Prompts are kept as a tree: where a prompt leaves all others, its rest is one piece of memory, however long it is. So
what nobody has seen costs one entry, and what was seen is compared and not looked up block by block.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

WORD = "q"
"""A token is a machine word."""

Among = tuple[tuple[Any, ...], ...]
"""What words do not say of a block: items of which tokens are in it, each with the place in it where the item begins,
which may be before it; tokens that do not fit a word, with their places; and, of the first block, adapter and salt."""

Apart = tuple[tuple[str, Hashable], ...]
"""What else the blocks of a prompt depend on: an adapter, a salt."""


class Tokens:
    """The tokens of a prompt, in memory of their own."""

    __slots__ = ("large", "words")

    def __init__(self, words: array[int], large: tuple[tuple[int, int], ...] = ()) -> None:
        self.words, self.large = words, large
        """`large`: place and token, where one does not fit a word; the word is 0 there"""

    def __len__(self) -> int:
        """How many they are."""
        return len(self.words)


class Rest:
    """Blocks of prompts from where they left all others on, up to where no prompt that is known goes on with them."""

    __slots__ = ("among", "memory", "name", "numbers")

    def __init__(self, name: int, numbers: list[int], memory: bytes, among: dict[int, Among]) -> None:
        self.name = name
        """No other one ever has it"""
        self.numbers, self.memory, self.among = numbers, memory, among
        """Of its blocks, the first to the last; `among` by place, where there is any"""


Branch = tuple[int, int, bytes, "Among | None"]
"""The name of a rest, how many of its blocks come before, and the next block."""


class Contents:
    """So many numbers, which are taken back when neither a request nor a block has them any more."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))[::-1]
        self._root = Rest(0, [], b"", {})
        self._named = 0
        self._branches: dict[Branch, Rest] = {}

    @property
    def left(self) -> int:
        """How many numbers there are to give."""
        return len(self._free)

    def of_prompt(
        self, tokens: Tokens, block_size: int, items: Sequence[tuple[Any, int, int]], apart: Apart = ()
    ) -> list[int]:
        """The numbers of the full blocks of a prompt; `items` are identifier, first token and length of each.

        Requests that are `apart` by anything have no block in common.
        """
        size, full = block_size * tokens.words.itemsize, len(tokens) // block_size
        memory, among = tokens.words.tobytes(), among_blocks(tokens, block_size, items)
        if apart:
            among[0] = (*among.get(0, ()), *apart)
        numbers, rest = list[int](), self._root
        while True:
            known = common(rest, memory, among, len(numbers), full, size)
            numbers += rest.numbers[:known]
            block = len(numbers)
            if block == full:
                return numbers
            branch = rest.name, known, memory[block * size : block * size + size], among.get(block)
            following = self._branches.get(branch)
            if following is None:
                break
            rest = following
        self._named += 1
        new = self.fresh(full - block)
        ahead = {at - block: those for at, those in among.items() if at >= block}
        self._branches[branch] = Rest(self._named, new, memory[block * size : full * size], ahead)
        return numbers + new

    def fresh(self, count: int) -> list[int]:
        """Numbers that are not in use."""
        taken = self._free[len(self._free) - count :][::-1]
        del self._free[len(self._free) - count :]
        return taken

    def keep(self, used: set[int]) -> None:
        """Take back the others.

        A number that is kept has its meaning only while those before it are kept too, for a new one may take their
        place: so a rest ends before the first one that is taken back, and what branched off behind is never found.
        """
        for branch, rest in list(self._branches.items()):
            if used.issuperset(rest.numbers):
                continue
            kept = next(position for position, number in enumerate(rest.numbers) if number not in used)
            if kept == 0:
                del self._branches[branch]
            else:
                rest.memory = rest.memory[: len(rest.memory) // len(rest.numbers) * kept]
                del rest.numbers[kept:]
        self._free = [number for number in range(self.count) if number not in used][::-1]


def common(rest: Rest, memory: bytes, among: dict[int, Among], first: int, full: int, size: int) -> int:
    """How many blocks of a rest are those of a prompt from its block `first` on; `size` of a block in bytes."""
    least, most = 0, min(len(rest.numbers), full - first)
    begin = first * size
    while least < most:  # the first ones are the same; up to which is found by halves
        middle = (least + most + 1) // 2
        here, there = least * size, middle * size
        if rest.memory[here:there] == memory[begin + here : begin + there]:
            least = middle
        else:
            most = middle - 1
    if rest.among or among:
        places = {*rest.among, *(block - first for block in among)}
        apart = (block for block in places if block >= 0 and rest.among.get(block) != among.get(first + block))
        return min((least, *apart))
    return least


def packed(tokens: Sequence[int]) -> Tokens:
    """A copy of them."""
    try:
        return Tokens(array(WORD, tokens))
    except OverflowError:
        large = tuple((position, token) for position, token in enumerate(tokens) if not -(2**63) <= token < 2**63)
        words = list(tokens)
        for position, _ in large:
            words[position] = 0
        return Tokens(array(WORD, words), large)


def among_blocks(tokens: Tokens, block_size: int, items: Sequence[tuple[Any, int, int]]) -> dict[int, Among]:
    """By block, what words do not say; items in their order. Nothing of blocks of which words say all."""
    keys: dict[int, Among] = {}
    for name, start, length in items:
        for block in range(start // block_size, (start + length - 1) // block_size + 1):
            keys[block] = (*keys.get(block, ()), (name, start - block * block_size))
    for position, token in tokens.large:
        block = position // block_size
        keys[block] = (*keys.get(block, ()), (None, token, position - block * block_size))
    return keys
