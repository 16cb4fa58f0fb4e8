"""A pool of tensors and the specification's, side by side: every burst against its calls one after the other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cacheimpl import kv_blocks as tensors
from cacheimpl.answer import UNANSWERED, Code
from cacheimpl.writing import COPYING, Writing
from cacheproof.lockstep.macros.vocabularies.kv_blocks import crowded as load
from cacheproof.model.registry import component_named
from cacheproof.tensor_models.kv_blocks import decode, tables_of
from cachespec.kernel import Operation, Outcome
from cachespec.kernel.containers import REROOTING
from cachespec.kv_blocks import (
    NORMATIVE_KV_BLOCKS,
    AllocateSlots,
    Commit,
    Config,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    Withdraw,
)
from cachespec.kv_blocks.configuration import limit_of
from cachespec.kv_blocks.state import NO_TABLE, Holding
from cachespec.kv_blocks.state import Pool as Spec

Rows = Sequence[int]


def integers(values: Rows) -> Tensor:
    """As an operand."""
    return torch.tensor(values, dtype=torch.int64)


def row_of(pool: tensors.Pool) -> dict[str, Any]:
    """One state as plain data."""
    return {name: values.tolist() for name, values in zip(pool._fields, pool, strict=True)}


def by_turn(blocks: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """[turns, most]: the blocks that stand one after the other, a row for each turn; anything behind its own."""
    first = (lengths.cumsum(0) - lengths)[:, None]
    return blocks[(first + torch.arange(blocks.shape[0])).clamp(max=blocks.shape[0] - 1)]


class Sides:
    """Both sides of one engine. Each method makes one burst, and fails where an answer differs."""

    def __init__(self, config: Config, write: Writing = COPYING) -> None:
        assert component_named("kv_blocks").invalid(config) is None
        self.config, self.write = config, write
        self.tables = tables_of(config, "cpu")
        self.pool = self.start()
        self.spec: Spec = NORMATIVE_KV_BLOCKS.start(config, REROOTING)
        self.positions = self.pool.tables.shape[1] - 1
        self.refused = False
        """Whether the last one that asked for slots was refused."""

    def call(self, operation: Operation) -> Outcome:
        """One call of the specification."""
        self.spec, outcome = NORMATIVE_KV_BLOCKS.call(self.config, self.spec, operation)
        return outcome

    def holding(self, request: int) -> Holding:
        """How far the request is, as the specification has it."""
        return self.spec.holdings.get(request, NO_TABLE)

    def agree(self) -> None:
        """The whole states are equal."""
        ours = NORMATIVE_KV_BLOCKS.view(self.config, decode(self.config, row_of(self.pool)))
        assert ours == NORMATIVE_KV_BLOCKS.view(self.config, self.spec)

    # What differs where the pool has an index.

    def start(self) -> tensors.Pool:
        """Ours at the beginning."""
        return tensors.empty(self.tables, self.config.blocks)

    def found(self, requests: Tensor, tokens: Tensor) -> tensors.Hits:
        """Of ours."""
        return tensors.get_computed_blocks(self.tables, self.pool, requests, tokens)

    def admitted(self, requests: Tensor, computed: Tensor, tokens: Tensor, hits: tensors.Hits) -> tensors.Slots:
        """Ours."""
        self.pool, slots = tensors.admit(
            self.tables, self.pool, requests, computed, tokens, hits, width=self.positions, write=self.write
        )
        return slots

    def let_go(self, name: str, requests: Tensor) -> Tensor:
        """The codes of ours: `free_request` or `withdraw`."""
        codes: Tensor
        self.pool, codes = getattr(tensors, name)(self.tables, self.pool, requests, write=self.write)
        return codes

    def forgotten(self, name: str, *blocks: Tensor) -> Tensor:
        """The codes of ours: `evict_block`, `evict_blocks` or `reset_prefix_cache`."""
        codes: Tensor
        self.pool, codes = getattr(tensors, name)(self.tables, self.pool, *blocks)
        return codes

    # Both sides.

    def look_up(self, requests: Rows, tokens: Rows) -> tensors.Hits:
        """Both find the same."""
        hits = self.found(integers(requests), integers(tokens))
        blocks = listed(hits.blocks, hits.lengths)
        for request, count, found in zip(requests, tokens, blocks, strict=True):
            assert self.call(GetComputedBlocks(request, count)).values == found
        return hits

    def allocate(self, requests: Rows, computed: Rows, tokens: Rows, width: int, most: int | None = None) -> int:
        """Up to the first that is refused, or needs more than it may; returns how many turns were answered."""
        operands = (integers(values) for values in (requests, computed, tokens))
        self.pool, slots = tensors.allocate_slots(
            self.tables, self.pool, *operands, width=width, most=most, write=self.write
        )
        if most is not None and requests:
            slots = slots._replace(blocks=by_turn(slots.blocks, slots.lengths))
        nothing = [()] * len(requests)
        answered = self.same_slots(slots, requests, computed, tokens, nothing)
        if answered < len(requests) and not bool(slots.refused[: answered + 1].any()):
            request, end = requests[answered], computed[answered] + tokens[answered]
            lacking = end - self.holding(request).blocks * self.config.block_size
            given = int(slots.lengths.sum()) * self.config.block_size
            assert lacking > width * self.config.block_size or (
                most is not None and given + lacking > most * self.config.block_size
            )
        return answered

    def admit(self, requests: Rows, computed: Rows, tokens: Rows, hits: tensors.Hits) -> int:
        """The same with hits, some of which may be gone; returns how many turns were answered: at least one."""
        slots = self.admitted(integers(requests), integers(computed), integers(tokens), hits)
        answered = self.same_slots(slots, requests, computed, tokens, listed(hits.blocks, hits.lengths))
        assert answered > 0
        return answered

    def same_slots(
        self, slots: tensors.Slots, requests: Rows, computed: Rows, tokens: Rows, hits: Sequence[tuple[int, ...]]
    ) -> int:
        """Turn by turn; what is behind the last answer has none."""
        codes, blocks = slots.codes.tolist(), listed(slots.blocks, slots.lengths)
        for turn, request in enumerate(requests):
            if codes[turn] == UNANSWERED:
                assert codes[turn:] == [UNANSWERED] * (len(requests) - turn)
                assert not any(blocks[turn:])
                return turn
            wanted = self.call(AllocateSlots(request, computed[turn], tokens[turn], hits[turn]))
            self.refused = wanted.code.name == Code.REFUSED.name
            assert (Code(codes[turn]).name, blocks[turn]) == (wanted.code.name, wanted.values)
        return len(requests)

    def commit(self, requests: Rows, computed: Rows, width: int | None = None, most: int | None = None) -> None:
        """Each in its turn; all are answered where the width suffices, and who is left where `most` does not is asked.

        `most` is raised until it suffices.
        """
        self.pool, step = tensors.commit(
            self.tables,
            self.pool,
            integers(requests),
            integers(computed),
            width=self.positions if width is None else width,
            most=most,
            write=self.write,
        )
        codes = step.codes
        calls = [Commit(request, count) for request, count in zip(requests, computed, strict=True)]
        answered = len(calls)
        if most is not None:
            answered = next((turn for turn, code in enumerate(codes.tolist()) if code == UNANSWERED), len(calls))
            known = [self.holding(request).blocks > 0 for request in requests]
            assert [code == UNANSWERED for code in codes.tolist()][answered:] == known[answered:]
        self.same_codes(codes[:answered], calls[:answered])
        if answered < len(calls):
            self.commit(requests[answered:], computed[answered:], width, most and most + 1)

    def decode(self, requests: Rows, most: int | None) -> int:
        """Those that it is for are executed, and given slots until a block is lacking; returns how many were served."""
        held = [self.holding(request) for request in requests]
        self.pool, step = tensors.decode(self.tables, self.pool, integers(requests), most=most, write=self.write)
        executed, codes = int(step.executed.sum()), step.codes.tolist()
        size, limit = self.config.block_size, limit_of(self.config)
        settled = [one.cached_blocks + 1 >= one.blocks and 0 < one.scheduled < limit for one in held]
        full = [one.scheduled == one.blocks * size for one in held]
        last = len(requests) if most is None else most
        wanted = next((turn for turn, one in enumerate(settled) if not one or sum(full[: turn + 1]) > last), len(held))
        assert step.executed.tolist() == [turn < wanted for turn in range(len(requests))]
        for request, one in zip(requests[:executed], held, strict=False):
            assert self.call(Commit(request, one.scheduled)).code.name == "DONE"
        given = dict(zip(step.turns.tolist(), step.blocks.tolist(), strict=True))
        for turn in range(executed):
            outcome = self.call(AllocateSlots(requests[turn], held[turn].scheduled, 1, ()))
            assert outcome.code.name == Code(codes[turn]).name
            if outcome.code.name == Code.REFUSED.name:
                assert codes[turn + 1 :] == [UNANSWERED] * (len(requests) - turn - 1)
                return turn
            assert outcome.values == ((given.pop(turn),) if turn in given else ())
        assert set(given) <= {len(requests)}
        assert codes[executed:] == [UNANSWERED] * (len(requests) - executed)
        return executed

    def free(self, requests: Rows) -> None:
        """Each in its turn."""
        self.same_codes(self.let_go("free_request", integers(requests)), [FreeRequest(request) for request in requests])

    def withdraw(self, requests: Rows) -> None:
        """Each in its turn."""
        self.same_codes(self.let_go("withdraw", integers(requests)), [Withdraw(request) for request in requests])

    def evict(self, block: int) -> None:
        """By number."""
        self.same_codes(self.forgotten("evict_block", torch.tensor(block)).reshape(1), [EvictBlock(block)])

    def evict_all(self, blocks: Rows) -> None:
        """By number, one after the other, in one go; the last one is nobody's."""
        padded = integers([*blocks, tensors.null_block(self.pool)])
        codes = self.forgotten("evict_blocks", padded)
        assert codes.tolist()[-1] == int(Code.ABSENT)
        self.same_codes(codes[:-1], [EvictBlock(block) for block in blocks])

    def reset(self) -> None:
        """Of the prefix cache."""
        self.same_codes(self.forgotten("reset_prefix_cache").reshape(1), [ResetPrefixCache()])

    def same_codes(self, codes: Tensor, operations: Sequence[Operation]) -> None:
        """One code for each operation, in order."""
        wanted = [self.call(operation).code.name for operation in operations]
        assert [Code(code).name for code in codes.tolist()] == wanted


def listed(blocks: Tensor, lengths: Tensor) -> list[tuple[int, ...]]:
    """The blocks of each turn."""
    rows = zip(blocks.tolist(), lengths.tolist(), strict=True)
    return [tuple(row[:length]) for row, length in rows]


class Crowd:
    """Random bursts of callers who mostly keep the order of a scheduler, and now and then do not."""

    def __init__(self, sides: Sides, seed: int, most: int) -> None:
        self.sides, self.draw, self.few, self.most = sides, random.Random(seed), random.Random(-1 - seed), most
        self.seen: set[str] = set()

    def play(self, bursts: int, *, look_every: int = 1) -> None:
        """So many bursts; the whole states are compared after every so many of them, and at the end."""
        turns = (
            *(self.run, self.run, self.execute, self.admit, self.admit, self.step),
            *(self.finish, self.take_back, self.forget, self.start_again),
        )
        for count in range(bursts):
            self.draw.choice(turns)()
            if count % look_every == 0:
                self.sides.agree()
        self.sides.agree()

    def some(self, *, new: bool) -> list[int]:
        """Distinct requests, with or without tables, in any order."""
        requests = range(len(self.sides.config.lengths))
        fit = [one for one in requests if (self.sides.holding(one).blocks == 0) is new]
        return self.draw.sample(fit, self.draw.randint(0, min(len(fit), self.most)))

    def run(self) -> None:
        """Running requests get slots for their next tokens; one in ten asks for another moment, or for nothing."""
        requests = self.some(new=False)
        computed, tokens = [], []
        for request in requests:
            held = self.sides.holding(request)
            left = self.sides.config.lengths[request] - held.computed
            odd = self.draw.random() < 0.05
            computed.append(held.computed + (self.draw.randint(0, 2) if odd else 0))
            tokens.append(self.draw.randint(0, 2) if odd else max(1, min(left, self.draw.choice((1, 1, 3, 9)))))
        width, most = self.draw.choice((1, self.sides.positions)), self.few.choice((None, 1, 3, 64))
        answered = self.sides.allocate(requests, computed, tokens, width, most)
        self.seen.add("all run" if answered == len(requests) else "some do not run")

    def step(self) -> None:
        """All that run, and have tokens left, decode for some steps; whoever is not served ends it."""
        lengths = self.sides.config.lengths
        most = self.draw.choice((None, 1, 2))
        for _ in range(self.draw.randint(1, 4)):
            running = [who for who in range(len(lengths)) if self.sides.holding(who).blocks > 0]
            going = [who for who in running if self.sides.holding(who).scheduled <= lengths[who]]
            self.draw.shuffle(going)
            served = self.sides.decode(going, most) if going else 0
            self.seen |= {"a step"} if 0 < served == len(going) else {"a part of a step"}

    def execute(self) -> None:
        """What is scheduled was executed, of some only a part."""
        requests = self.some(new=False)
        held = [self.sides.holding(request) for request in requests]
        ends = [min(one.scheduled, self.sides.config.lengths[who]) for one, who in zip(held, requests, strict=True)]
        parts = [
            self.draw.choice((end, end, self.draw.randint(min(one.computed, end), end)))
            for one, end in zip(held, ends, strict=True)
        ]
        self.sides.commit(requests, parts, most=self.few.choice((None, 1, 3, 64)))

    def admit(self) -> None:
        """New requests are looked up and admitted, again and again until one gets nothing, or all are answered.

        One in ten brings along a block that it was not told of, or asks for too many tokens; running ones are among
        them.
        """
        requests, rounds = [*self.some(new=True), *self.some(new=False)[:2]], 0
        while requests:
            prompts = [self.draw.randint(1, self.sides.config.lengths[request]) for request in requests]
            hits = self.sides.look_up(requests, prompts)
            found = hits.lengths.tolist()
            size = self.sides.config.block_size
            tokens = [max(1, prompt - count * size) for prompt, count in zip(prompts, found, strict=True)]
            for turn in range(len(requests)):
                if self.draw.random() < 0.1:
                    tokens[turn] += 2 * size
                elif self.draw.random() < 0.1:
                    hits.blocks[turn, 0] = self.draw.randrange(self.sides.config.blocks)
                    hits.lengths[turn] = max(1, found[turn])
            answered = self.sides.admit(requests, [0] * len(requests), tokens, hits)
            self.seen.add("hits" if any(found[:answered]) else "no hits")
            rounds += 1
            self.seen.add("rounds" if rounds > 1 else "one round")
            if self.sides.refused:
                self.seen.add("not admitted")
                return
            requests = requests[answered:]

    def finish(self) -> None:
        """Some are done."""
        self.sides.free(self.some(new=False))

    def start_again(self) -> None:
        """All are executed and done, so that most of what is free can be found; then many come at once."""
        running = [who for who in range(len(self.sides.config.lengths)) if self.sides.holding(who).blocks > 0]
        self.draw.shuffle(running)
        ends = [min(self.sides.holding(who).scheduled, self.sides.config.lengths[who]) for who in running]
        self.sides.commit(running, ends)
        self.sides.free(running)
        self.admit()

    def take_back(self) -> None:
        """Steps of some are never executed."""
        self.sides.withdraw(self.some(new=False)[:3])

    def forget(self) -> None:
        """A block is evicted by number, or some are, or everything is where nothing is held."""
        if self.draw.random() < 0.9:
            block, more = self.draw.randrange(self.sides.config.blocks), self.few.choice((None, 0, 1, 4))
            if more is None:
                self.sides.evict(block)
            else:
                self.sides.evict_all([block, *self.few.choices(range(self.sides.config.blocks), k=more)])
        else:
            self.sides.reset()


def crowded(requests: int, seed: int, *, block_size: int = 2, positions: int = 5, room: float = 0.5) -> Config:
    """Requests that share prefixes, and a pool that has room for a part of them."""
    return load(requests, random.Random(seed), block_size=block_size, positions=positions, room=room)
