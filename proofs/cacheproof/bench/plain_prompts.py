"""Prompts with dictionaries: contents by exact tuples, a deque of free blocks."""

from __future__ import annotations

import time
from collections import OrderedDict

from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.workload import prompt_of

Content = int


class PlainContents:
    """A number for each content: the content before it, and the tokens of its block."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.numbers: dict[tuple[int, tuple[int, ...]], Content] = {}

    def of_prompt(self, tokens: list[int]) -> list[Content]:
        """The contents of its full blocks."""
        size, numbers, found, parent = self.block_size, self.numbers, [], -1
        for start in range(0, len(tokens) - size + 1, size):
            parent = numbers.setdefault((parent, tuple(tokens[start : start + size])), len(numbers))
            found.append(parent)
        return found


class PlainEngine:
    """Tables, a free queue, and for each content the block that carries it."""

    def __init__(self, block_size: int, blocks: int) -> None:
        self.size = block_size
        self.free_blocks: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self.references = [0] * blocks
        self.carried: dict[int, Content] = {}
        self.copies: dict[Content, int] = {}

    def admit(self, contents: list[Content], tokens: int) -> tuple[list[int], int]:
        """Look up, take slots, register: the table, and the number of hit blocks."""
        table: list[int] = []
        for content in contents[: (tokens - 1) // self.size]:
            if content not in self.copies:
                break
            table.append(self.copies[content])
        found = len(table)
        for block in table:
            if not self.references[block]:
                del self.free_blocks[block]
            self.references[block] += 1
        for place in range(found, -(-tokens // self.size)):
            block, _ = self.free_blocks.popitem(last=False)
            old = self.carried.pop(block, None)
            if old is not None and self.copies.get(old) == block:
                del self.copies[old]
            self.references[block] = 1
            table.append(block)
            if place < len(contents):
                self.carried[block] = contents[place]
                self.copies.setdefault(contents[place], block)
        return table, found

    def free(self, table: list[int]) -> None:
        """Give back the table from its end."""
        for block in reversed(table):
            self.references[block] -= 1
            if not self.references[block]:
                self.free_blocks[block] = None


class PlainBurst(InTurns):
    """One prompt after the other."""

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, repeated: int) -> None:
        self.contents, self.engine = PlainContents(block_size), PlainEngine(block_size, blocks)
        self.count, self.tokens, self.repeated = requests, tokens, repeated

    def turn(self, number: int) -> Work:
        """Serve another burst, or with `repeated` always the same burst."""
        first = 0 if self.repeated else (number + 1) * self.count
        prompts = [prompt_of(first + place, self.tokens) for place in range(self.count)]
        hits = taken = 0
        started = time.process_time()
        tables = []
        for prompt in prompts:
            table, found = self.engine.admit(self.contents.of_prompt(prompt), self.tokens)
            hits, taken = hits + found * self.engine.size, taken + len(table) - found
            tables.append(table)
        seconds = time.process_time() - started
        for table in tables:
            self.engine.free(table)
        return Work(self.count, [hits, taken], seconds)


class PlainCycle(InTurns):
    """One prompt after the other; the contents are known before."""

    def __init__(self, tokens: int, block_size: int, blocks: int, hit: int, times: int) -> None:
        known = PlainContents(block_size)
        self.prompts = [known.of_prompt(prompt_of(number, tokens)) for number in range(times)]
        self.engine, self.tokens, self.hit = PlainEngine(block_size, blocks), tokens, hit

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Serve each prompt once, or with `hit` the first prompt as often."""
        computed = 0
        started = time.process_time()
        for prompt in self.prompts:
            table, found = self.engine.admit(self.prompts[0] if self.hit else prompt, self.tokens)
            self.engine.free(table)
            computed += found * self.engine.size
        return Work(len(self.prompts), [computed], time.process_time() - started)


class PlainHashes(InTurns):
    """Contents by exact tuples, one prompt after the other."""

    def __init__(self, tokens: int, block_size: int, times: int) -> None:
        self.block_size, self.tokens, self.times = block_size, tokens, times

    def turn(self, number: int) -> Work:
        """Name the contents of `times` prompts."""
        prompts = [prompt_of(number * self.times + place, self.tokens) for place in range(self.times)]
        contents = PlainContents(self.block_size)
        started = time.process_time()
        found = [contents.of_prompt(prompt) for prompt in prompts]
        return Work(self.times, [len(one) for one in found], time.process_time() - started)
