"""KV blocks: the pure specification on a pool of 100,000 blocks, as an oracle steps it.

Requests of 250 blocks arrive one after the other; 8 are running. Four consecutive requests share half of their prompt.
Each is looked up, gets its slots and is executed; it is freed after 8 more have arrived. The contents exceed the pool,
so after the warm-up every allocated block is an eviction.

A unit is a block operation: a hit block is touched; a block is taken from the pool, with the content that it loses; a
block is written and registered; a block is given back. The look-up of a prefix is timed but is not a unit.
"""

from __future__ import annotations

from typing import NamedTuple

from cacheproof.bench.measure import Benchmark, Contender, Goal
from cacheproof.bench.oracle import COMPILED, REROOTED, WITH_DIGESTS, contenders_of
from cacheproof.bench.plain import Apply, PlainPool
from cachespec.kernel import Code
from cachespec.kv_blocks import COMPONENT
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks

BLOCK_SIZE = 16
ALIVE = 8
TOGETHER = 4


class Size(NamedTuple):
    """`blocks` in the pool, `length` of a request in blocks, the number of `requests`, and of those in a `turn`."""

    blocks: int
    length: int
    requests: int
    turn: int


WHOLE = Size(blocks=100_000, length=250, requests=800, turn=80)
SMALL = Size(blocks=1_000, length=25, requests=80, turn=16)


def configuration(size: Size) -> Config:
    """Chains of blocks; `TOGETHER` consecutive requests share the first half."""
    half = size.length // 2
    own = size.length - half
    shared = size.requests * own
    chains = tuple(
        (
            *range(shared + request // TOGETHER * half, shared + (request // TOGETHER + 1) * half),
            *range(request * own, (request + 1) * own),
        )
        for request in range(size.requests)
    )
    tokens = size.length * BLOCK_SIZE
    return Config(BLOCK_SIZE, size.blocks, chains, (tokens,) * size.requests, limit=tokens)


class Arrivals:
    """The requests, in a cycle."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def __call__(self, apply: Apply, number: int) -> int:
        """All requests once to warm up, then the number of a turn."""
        size = self.size
        first, count = (0, size.requests) if number < 0 else (number * size.turn, size.turn)
        running: list[int] = []
        operations = 0
        for place in range(first, first + count):
            request = place % size.requests
            operations += self.admit(apply, request)
            running.append(request)
            if len(running) > ALIVE:
                operations += self.free(apply, running.pop(0))
        return operations + sum(self.free(apply, request) for request in running)

    def admit(self, apply: Apply, request: int) -> int:
        """Look up, allocate and execute a request; the block operations: hit, taken, registered."""
        tokens = self.size.length * BLOCK_SIZE
        hits = apply(GetComputedBlocks(request, tokens)).values
        taken = apply(AllocateSlots(request, 0, tokens - len(hits) * BLOCK_SIZE, hits))
        assert taken.code is Code.DONE, taken
        apply(Commit(request, tokens))
        return len(hits) + len(taken.values) + self.size.length - len(hits)

    def free(self, apply: Apply, request: int) -> int:
        """Give back every block of the table."""
        apply(FreeRequest(request))
        return self.size.length


def contenders(*, small: bool) -> dict[str, Contender]:
    """A plain implementation, and the specification, in Python and compiled."""
    size = SMALL if small else WHOLE
    config, turn = configuration(size), Arrivals(size)
    return contenders_of(COMPONENT, config, turn, PlainPool(config, turn))


BENCHMARKS = (
    Benchmark(
        name="kv_blocks",
        about="the specification of KV blocks as an oracle: look up, allocate, execute, free",
        unit="block operations",
        size="100,000 blocks",
        contenders=contenders,
        goal=Goal((REROOTED, WITH_DIGESTS), 50_000),
        further_goals=(Goal((COMPILED,), 1_000_000),),
    ),
)
