"""Plain implementations, the yardsticks: dictionaries that are changed in place, without older versions.

Each answers only the calls of its benchmark. Every measurement checks that the answers equal the specification's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from cacheproof.bench.measure import Work
from cachespec import encoder_cache as encoder
from cachespec import kv_blocks as kv
from cachespec import lru
from cachespec.kernel import DONE, HIT, MISS, REFUSED, Code, Operation, Outcome

Apply = Callable[[Operation], Outcome]
Turn = Callable[[Apply, int], int]
"""Performs the calls of a turn (-1: the warm-up turn); the number of units."""


class Plain:
    """Answers an operation with the method of its wire name."""

    def __init__(self, turn: Turn) -> None:
        self.run = turn
        self.outcomes: list[Outcome] = []
        self.methods: dict[type[Operation], Callable[[Any], Outcome]] = {}

    def warm_up(self) -> None:
        """Run the turn before the first."""
        self.run(self.apply, -1)

    def turn(self, number: int) -> Work:
        """The calls of this turn."""
        self.outcomes = []
        return Work(self.run(self.apply, number), self.outcomes)

    def apply(self, operation: Operation) -> Outcome:
        """One call."""
        method = self.methods.get(type(operation))
        if method is None:
            method = self.methods[type(operation)] = getattr(self, operation.wire_name())
        outcome = method(operation)
        self.outcomes.append(outcome)
        return outcome


class PlainLru(Plain):
    """An ordered dictionary from contents to sizes, the oldest first."""

    def __init__(self, config: lru.Config, turn: Turn) -> None:
        super().__init__(turn)
        self.capacity, self.used = config.capacity, 0
        self.entries: OrderedDict[int, int] = OrderedDict()

    def get(self, op: Any) -> Outcome:
        """A hit becomes the newest."""
        if op.key not in self.entries:
            return MISS
        self.entries.move_to_end(op.key)
        return HIT

    def put(self, op: Any) -> Outcome:
        """Evict the oldest entries until there is room."""
        self.used += op.size - self.entries.pop(op.key, 0)
        while self.used > self.capacity:
            self.used -= self.entries.popitem(last=False)[1]
        self.entries[op.key] = op.size
        return DONE


class PlainEncoderCache(Plain):
    """Sizes, holders and idle entries by content."""

    def __init__(self, config: encoder.Config, turn: Turn) -> None:
        super().__init__(turn)
        self.requests, self.claims = config.requests, config.sizes
        self.free = self.freeable = config.capacity
        self.sizes: dict[int, int] = {}
        self.holders: dict[int, set[tuple[int, int]]] = {}
        self.idle: OrderedDict[int, int] = OrderedDict()
        self.freed: dict[int, None] = {}
        self.attempted: dict[tuple[int, int], None] = {}

    def check_and_update(self, op: Any) -> Outcome:
        """Who finds its content holds it."""
        content = self.requests[op.request][op.input]
        if content not in self.sizes:
            return MISS
        holders = self.holders.setdefault(content, set())
        if (op.request, op.input) not in holders:
            if not holders:
                self.freeable -= self.idle.pop(content)
            holders.add((op.request, op.input))
            self.attempted[op.request, op.input] = None
        return HIT

    def can_allocate(self, op: Any) -> Outcome:
        """Make room if possible."""
        size = self.claims[self.requests[op.request][op.input]]
        if size > op.budget or size + op.pending > self.freeable:
            return REFUSED
        while self.free < size + op.pending:
            content, given_back = self.idle.popitem(last=False)
            self.free += given_back
            del self.sizes[content]
            self.freed[content] = None
        return DONE

    def allocate(self, op: Any) -> Outcome:
        """Create the entry, with this holder."""
        content = self.requests[op.request][op.input]
        size = self.claims[content]
        self.free -= size
        self.freeable -= size
        self.sizes[content] = size
        self.holders[content] = {(op.request, op.input)}
        self.freed.pop(content, None)
        return DONE

    def free_request(self, op: Any) -> Outcome:
        """Release all entries of the request, from the first input to the last."""
        for position, content in enumerate(self.requests[op.request]):
            self._release(op.request, position, content)
        return DONE

    def abandon(self, op: Any) -> Outcome:
        """Release the entries that this attempt has pinned."""
        for position, content in enumerate(self.requests[op.request]):
            if (op.request, position) in self.attempted:
                self._release(op.request, position, content)
        return DONE

    def report(self, op: Any) -> Outcome:  # noqa: ARG002  # as the other methods are called
        """Evictions that still stand; the pass is over."""
        contents = tuple(self.freed)
        self.freed.clear()
        self.attempted.clear()
        return Outcome(Code.DONE, contents)

    def _release(self, request: int, position: int, content: int) -> None:
        holders = self.holders.get(content, set())
        if (request, position) in holders:
            holders.remove((request, position))
            self.attempted.pop((request, position), None)
            if not holders:
                self.idle[content] = self.sizes[content]
                self.freeable += self.sizes[content]


class PlainPool(Plain):
    """Tables, reference counts, a free queue, and for each content the blocks that carry it."""

    def __init__(self, config: kv.Config, turn: Turn) -> None:
        super().__init__(turn)
        self.size, self.chains = config.block_size, config.chains
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(config.blocks))
        self.references: dict[int, int] = {}
        self.tables: dict[int, list[int]] = {}
        self.carried: dict[int, int] = {}
        self.copies: dict[int, list[int]] = {}

    def get_computed_blocks(self, op: Any) -> Outcome:
        """The longest cached prefix that leaves a token."""
        hits = []
        for content in self.chains[op.request][: (op.tokens - 1) // self.size]:
            copies = self.copies.get(content)
            if not copies:
                break
            hits.append(copies[0])
        return Outcome(Code.HIT, tuple(hits)) if hits else MISS

    def allocate_slots(self, op: Any) -> Outcome:
        """Hits are touched, then blocks are taken."""
        for block in op.hits:
            self.references[block] = self.references.get(block, 0) + 1
            self.free.pop(block, None)
        wanted = (op.tokens + self.size - 1) // self.size
        if wanted > len(self.free):
            raise AssertionError("the benchmark has room for all requests")
        taken = [self._take() for _ in range(wanted)]
        self.tables[op.request] = [*op.hits, *taken]
        return Outcome(Code.DONE, tuple(taken))

    def commit(self, op: Any) -> Outcome:
        """Register the full blocks."""
        for block, content in zip(self.tables[op.request], self.chains[op.request], strict=True):
            if block not in self.carried:
                self.carried[block] = content
                self.copies.setdefault(content, []).append(block)
        return DONE

    def free_request(self, op: Any) -> Outcome:
        """Give back the table from its end; all of its blocks stay registered."""
        for block in reversed(self.tables.pop(op.request)):
            self.references[block] -= 1
            if not self.references[block]:
                del self.references[block]
                self.free[block] = None
        return DONE

    def _take(self) -> int:
        block, _ = self.free.popitem(last=False)
        content = self.carried.pop(block, None)
        if content is not None:
            copies = self.copies[content]
            copies.remove(block)
            if not copies:
                del self.copies[content]
        self.references[block] = 1
        return block
