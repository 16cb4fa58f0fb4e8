"""Macros of the KV blocks: requests arrive, are executed, go on and are finished, many at a time.

Callers mostly keep the order of a scheduler. One in ten asks for a moment that is over, for too much or for nothing, or
brings along a block that it was not told of.
"""

from __future__ import annotations

import random

from cacheproof.lockstep.macros.macro import Macro, Play, Side, Vocabulary
from cacheproof.model.burst import Extent, Together
from cachespec.kernel import Code, Operation
from cachespec.kv_blocks import AllocateSlots, Commit, EvictBlock, FreeRequest, GetComputedBlocks, ResetPrefixCache
from cachespec.kv_blocks import Withdraw as WithdrawOne
from cachespec.kv_blocks.configuration import Config, limit_of
from cachespec.kv_blocks.state import NO_TABLE, Holding

ODD = 0.1
"""How many callers do not keep the order."""


def holding(side: Side, request: int) -> Holding:
    """How far the request is."""
    found: Holding = side.state.holdings.get(request, NO_TABLE)
    return found


def with_tables(side: Side) -> list[int]:
    """Requests that hold blocks."""
    return [request for request in range(len(side.config.lengths)) if holding(side, request).blocks > 0]


def without_tables(side: Side) -> list[int]:
    """Requests that hold none."""
    return [request for request in range(len(side.config.lengths)) if holding(side, request).blocks == 0]


class Burst(Macro):
    """Requests arrive: all are looked up, then admitted in order; who is left is looked up again, until one is refused.

    Two of three prompts are whole; the others end somewhere. Running requests arrive again, now and then.
    """

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """Rounds of looking up and admitting."""
        left = self.chosen(without_tables(side)) or self.chosen(with_tables(side))[:1]
        while left:
            looked = yield Together("look_up", tuple(self.look_up(side.config, request) for request in left))
            found = {call.request: outcome.values for call, outcome in looked if isinstance(call, GetComputedBlocks)}
            asked = tuple(self.admission(side.config, request, found[request]) for request in left)
            answered = yield Together("admit", asked, Extent.SOME)
            if answered[-1][1].code is Code.REFUSED:
                return
            left = left[len(answered) :]

    def prompt(self, config: Config, request: int) -> int:
        """How many tokens the request has."""
        length, draw = config.lengths[request], self.source(request)
        return max(1, length if draw.random() < 2 / 3 else draw.randint(1, max(1, length)))

    def look_up(self, config: Config, request: int) -> GetComputedBlocks:
        """With its whole prompt."""
        return GetComputedBlocks(request, self.prompt(config, request))

    def admission(self, config: Config, request: int, hits: tuple[int, ...]) -> AllocateSlots:
        """Behind its hits."""
        draw = random.Random(f"{self.seed}/{request}/admitted")  # noqa: S311  # not a secret
        tokens = max(1, self.prompt(config, request) - len(hits) * config.block_size)
        if draw.random() < ODD / 2:
            return AllocateSlots(request, 0, tokens + 2 * config.block_size, hits)
        if draw.random() < ODD / 2:
            return AllocateSlots(request, 0, tokens, (draw.randrange(config.blocks), *hits[1:]))
        return AllocateSlots(request, 0, tokens, hits)


class Run(Macro):
    """Running requests get slots for their next tokens: first those for whom one block is enough, then the others."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """Narrow as far as that goes, then wide."""
        asked = tuple(self.more(side, request) for request in self.chosen(with_tables(side)))
        answered = yield Together("allocate_narrow", asked, Extent.ANY)
        if answered and answered[-1][1].code is Code.REFUSED:
            return
        yield Together("allocate", asked[len(answered) :], Extent.UNTIL_REFUSED)

    def more(self, side: Side, request: int) -> AllocateSlots:
        """Its next tokens."""
        draw, held = self.source(request), holding(side, request)
        left = side.config.lengths[request] - held.computed
        if draw.random() < ODD:
            return AllocateSlots(request, held.computed + draw.randint(0, 2), draw.randint(0, 2), ())
        return AllocateSlots(request, held.computed, max(1, min(left, draw.choice((1, 1, 3, 9)))), ())


class Execute(Macro):
    """What is scheduled was executed; of some only a part."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """All at once."""
        yield Together("commit", tuple(self.part(side, request) for request in self.chosen(with_tables(side))))

    def part(self, side: Side, request: int) -> Commit:
        """Up to where."""
        draw, held = self.source(request), holding(side, request)
        end = min(held.scheduled, side.config.lengths[request])
        return Commit(request, draw.choice((end, end, draw.randint(min(held.computed, end), end))))


class Step(Macro):
    """A decode step: each was executed, and gets a slot for one token; whom that does not serve is served by itself."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """In one go as far as that goes."""
        lengths = side.config.lengths
        going = self.chosen(who for who in with_tables(side) if holding(side, who).scheduled <= lengths[who])
        held = {who: holding(side, who) for who in going}
        calls: list[Operation] = [Commit(who, held[who].scheduled) for who in going]
        calls += [AllocateSlots(who, held[who].scheduled, 1, ()) for who in going]
        answered = yield Together("decode", tuple(calls), Extent.ANY)
        if answered and answered[-1][1].code is Code.REFUSED:
            return
        served = len(answered) // 2
        yield Together("commit", tuple(calls[served : len(going)]))
        yield Together("allocate", tuple(calls[len(going) + served :]), Extent.UNTIL_REFUSED)


class Finish(Macro):
    """Requests are done."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """All at once."""
        yield Together("free", tuple(map(FreeRequest, self.chosen(with_tables(side)))))


class Turnover(Macro):
    """Requests are executed to their end and done, so that what is free can be found; then as many arrive."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """Each at once."""
        running = self.chosen(with_tables(side))
        ends = [min(holding(side, who).scheduled, side.config.lengths[who]) for who in running]
        yield Together("commit", tuple(map(Commit, running, ends)))
        yield Together("free", tuple(map(FreeRequest, running)))
        yield from Burst(self.count, self.seed).play(side)


class Withdraw(Macro):
    """Steps of requests are never executed."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """All at once."""
        yield Together("withdraw", tuple(map(WithdrawOne, self.chosen(with_tables(side)))))


class Evict(Macro):
    """Blocks are forgotten by number; now and then one of them once more."""

    __slots__ = ()

    def play(self, side: Side) -> Play:
        """One after the other."""
        blocks = self.chosen(range(side.config.blocks))
        again = [block for block in blocks if self.source(block).random() < ODD]
        yield Together("evict", tuple(map(EvictBlock, (*blocks, *again))))


class Reset(Macro):
    """The prefix cache is emptied, where nobody holds a block."""

    __slots__ = ()

    def play(self, side: Side) -> Play:  # noqa: ARG002  # nobody is chosen
        """Once, however large the count."""
        yield Together("reset", (ResetPrefixCache(),))


def crowded(
    requests: int, draw: random.Random, *, block_size: int = 2, positions: int = 5, room: float = 0.5, blocks: int = 0
) -> Config:
    """Requests that share prefixes, and a pool of so many blocks, or with room for a part of them."""
    contents: dict[tuple[int, ...], int] = {}
    chains = []
    for _ in range(requests):
        path = [draw.randrange(2 if place or requests < 64 else 8) for place in range(positions)]
        chains.append(tuple(contents.setdefault(tuple(path[: end + 1]), len(contents)) for end in range(positions)))
    lengths = tuple(draw.randint(1, positions * block_size) for _ in range(requests))
    config = Config(
        block_size=block_size,
        blocks=blocks or max(positions, int(requests * positions * room)),
        chains=tuple(chains),
        lengths=lengths,
        limit=positions * block_size,
    )
    assert limit_of(config) == positions * block_size
    return config


def load(requests: int, blocks: int | None, draw: random.Random) -> Config:
    """A crowded pool of some shape."""
    positions = draw.choice((3, 5, 8))
    sizes, room = draw.choice((1, 2, 4)), draw.choice((0.15, 0.3, 0.6))
    return crowded(requests, draw, block_size=sizes, positions=positions, room=room, blocks=blocks or 0)


VOCABULARY = Vocabulary(
    weights={Burst: 6, Run: 6, Execute: 4, Step: 6, Finish: 2, Turnover: 2, Withdraw: 1, Evict: 1, Reset: 1},
    load=load,
    size=lambda config: len(config.lengths),
)
