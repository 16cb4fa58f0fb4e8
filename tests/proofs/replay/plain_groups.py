"""Full attention and a sliding window over one pool of blocks, written for these tests alone, block by block."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

Label = tuple[int, int]
"""A group, and the name of a full block."""


class PlainGroups:
    """Group 0 reads all tokens and group 1 the last `window` of them. One request at a time, in steps."""

    def __init__(self, blocks: int, block: int, window: int, step: int) -> None:
        self.block, self.window, self.step = block, window, step
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self.label: dict[int, Label] = {}
        self.copies: dict[Label, list[int]] = {}

    def first(self, group: int, tokens: int) -> int:
        """The first block that is read if these tokens are computed, by the token behind them."""
        return max(0, tokens + 1 - self.window) // self.block if group else 0

    def serve(self, names: tuple[int, ...]) -> int:
        """A request with these full blocks and one token behind them; how many of the blocks were found."""
        found = len(names)
        while not all(self.has(group, names, found) for group in (0, 1)):
            found -= 1
        tables: list[list[int | None]] = [[], []]
        for group in (0, 1):
            first = self.first(group, found * self.block)
            tables[group] = [None] * first + [self.copies[group, name][0] for name in names[first:found]]
            for block in tables[group]:
                if block is not None:
                    del self.free[block]
        self.compute(names, tables, found * self.block)
        for table in tables:
            held = [block for block in table if block is not None]
            for block in held:
                if block not in self.label:
                    self.free[block] = None
                    self.free.move_to_end(block, last=False)
            for block in reversed(held):
                if block in self.label:
                    self.free[block] = None
        return found

    def has(self, group: int, names: tuple[int, ...], count: int) -> bool:
        """Whether the group has what is read behind so many blocks."""
        return all((group, name) in self.copies for name in names[self.first(group, count * self.block) : count])

    def compute(self, names: tuple[int, ...], tables: list[list[int | None]], computed: int) -> None:
        """Step by step; before each step the blocks behind the window go back, the last one first."""
        named, tokens = [computed // self.block] * 2, len(names) * self.block + 1
        while computed < tokens:
            for position in reversed(range(self.first(1, computed))):
                block = tables[1][position]
                if block is not None:
                    self.free[block], tables[1][position] = None, None
            computed = min(computed + self.step, tokens)
            for table in tables:
                while len(table) * self.block < computed:
                    table.append(self.take())
            for group, table in enumerate(tables):
                for position in range(named[group], computed // self.block):
                    block = table[position]
                    assert block is not None
                    self.label[block] = group, names[position]
                    self.copies.setdefault((group, names[position]), []).append(block)
                named[group] = computed // self.block

    def take(self) -> int:
        """The free block that is longest there; nobody finds it any more."""
        block, _ = self.free.popitem(last=False)
        if block in self.label:
            label = self.label.pop(block)
            self.copies[label].remove(block)
            if not self.copies[label]:
                del self.copies[label]
        return block


def plain_hits(requests: Iterable[tuple[int, ...]], capacity: int, block: int, window: int, step: int) -> int:
    """Blocks that were found; beside the capacity each group has a block for the token behind the full ones."""
    plain = PlainGroups(capacity + 2, block, window, step)
    return sum(plain.serve(names) for names in requests)
