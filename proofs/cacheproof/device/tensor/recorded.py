"""Recorded steps beside steps that are not recorded, on the same device with the same operands."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl import scheduler as tensors
from cacheimpl.answer import UNANSWERED
from cacheimpl.captured import CapturedDecode, CapturedRounds, Step
from cacheimpl.kv_blocks import Serving
from cacheimpl.writing import IN_PLACE
from cacheproof.device.listing import Asked, DifferenceError, Found
from cacheproof.device.tensor.comparing import alike, same
from cacheproof.device.tensor.loads import SPARE, scheduler_load, shared_prefixes
from cacheproof.foundation.console import Show
from cacheproof.tensor_models.scheduler import extent_of, tables_of

STEPS, SMALL_STEPS = 4000, 60
TURNS, SMALL_TURNS = 256, 12
ROUNDS, SMALL_ROUNDS = 400, 6
LOOK_EVERY = 16
MOST_TIMES = 10
WITH_FULL_ONES, WITH_EVICTIONS = 0.2, 0.5
"""The share of bursts with requests of full length in them, and of loads in which blocks are evicted by number"""

Fused = Callable[[Serving, int, int], Callable[[Tensor], Step]]


def decode_steps(asked: Asked, found: Found, show: Show) -> None:
    """Random loads: requests come with hits, are served in any order, end, and lack blocks."""
    torch.set_num_threads(1)
    turns, steps = (SMALL_TURNS, SMALL_STEPS) if asked.small else (TURNS, STEPS)
    pair = Pair(asked, turns)
    run(pair, steps, found, lambda done: show(f"recorded-decode: {done:,} steps"))
    found.counts["graphs"] = int(pair.recorded.is_graph)


def run(pair: Pair, steps: int, found: Found, show: Callable[[int], object]) -> None:
    """So many steps of a pair at least; every tensor must stay at its address."""
    addresses = pair.addresses()
    while shows_too_little(found, "steps", steps, ("requests served", "requests that remained")):
        if found.counts.get("steps", 0) % 64 == 0:
            show(found.counts.get("steps", 0))
        pair.come()
        pair.serve(found)
        pair.end()
    pair.look("at the end")
    if pair.addresses() != addresses:
        raise DifferenceError("a tensor is not where it was when the step was recorded")


def shows_too_little(found: Found, what: str, wanted: int, seen: tuple[str, ...]) -> bool:
    """Whether there is more to do: so many of these, and more where something was not seen yet.

    Raises `DifferenceError` where it is never seen: then nothing was shown.
    """
    done, lacking = found.counts.get(what, 0), [one for one in seen if not found.counts.get(one)]
    if lacking and done >= MOST_TIMES * wanted:
        raise DifferenceError(f"there were no {lacking[0]} in {done:,} {what}: nothing was shown")
    return done < wanted or bool(lacking)


class Pair:
    """Two engines that are asked the same: one by way of what is recorded.

    `fused` makes the step that is recorded in place of the engine's own, from the engine, the turns and `most`.
    """

    def __init__(self, asked: Asked, turns: int, fused: Fused | None = None) -> None:
        self.draw, self.turns, device = random.Random(asked.seed), turns, asked.device  # noqa: S311  # not a secret
        self.rows = 2 * turns
        config = shared_prefixes(self.rows, 8, 4, self.draw, device)
        self.limit = int(config.limit)
        blocks = turns * 5
        self.ours, self.theirs = (Serving(config, blocks, checked=False) for _ in range(2))
        self.most = max(1, turns // 5)
        step = None if fused is None else fused(self.ours, turns, self.most)
        self.recorded = CapturedDecode(self.ours, turns, most=self.most, step=step)
        self.running: list[int] = []
        self.steps = 0

    def tensor(self, values: list[int]) -> Tensor:
        """As an operand."""
        return torch.tensor(values, dtype=torch.int64, device=self.ours.pool.tables.device)

    def addresses(self) -> list[int]:
        """Of all that the graph reads and writes."""
        recorded = self.recorded
        return [one.data_ptr() for one in (*self.ours.pool, *self.ours.config, recorded.requests, *recorded.results)]

    def come(self) -> None:
        """Some requests are admitted, behind what they find, and executed."""
        idle = [row for row in range(self.rows) if row not in set(self.running)]
        new = self.draw.sample(idle, self.draw.randint(0, max(0, min(len(idle), self.turns - len(self.running)))))
        if not new:
            return
        rows = self.tensor(new)
        prompts = self.tensor([self.draw.randint(1, self.limit - 4) for _ in new])
        served = []
        for engine in (self.ours, self.theirs):
            hits = engine.get_computed_blocks(rows, prompts)
            left = prompts - hits.lengths * engine.config.block_size
            slots = engine.admit(rows, 0 * rows, left, hits, width=8)
            count = int(slots.served)
            served.append(count)
            engine.commit(rows[:count], prompts[:count], width=8)
        if served[0] != served[1]:
            raise DifferenceError(f"{served[0]} requests are admitted, not {served[1]}")
        self.running += new[: served[0]]

    def serve(self, found: Found) -> None:
        """Some steps of those that run, in an order that changes; whoever remains is asked again, then goes."""
        for _ in range(self.draw.randint(1, 12)):
            self.running = self.with_tokens_left()
            self.draw.shuffle(self.running)
            left = list(self.running)
            while left:
                count = self.step(left, found)
                found.count("requests served", count)
                left = left[count:]
                if left:
                    found.count("requests that remained", len(left))
                    if count == 0:
                        self.free(left[: max(1, len(left) // 2)])
                        left = []

    def step(self, rows: list[int], found: Found) -> int:
        """One step, both ways; returns how many were served."""
        self.recorded.load(self.tensor(rows))
        operands = self.recorded.requests.clone()
        step = self.recorded.step()
        wanted = self.theirs.decode(operands, most=self.most)
        self.steps += 1
        found.count("steps")
        where = f"step {self.steps}"
        same(f"{where}, done", step.done, wanted.done)
        same(f"{where}, executed", step.executed, wanted.executed)
        self.look_at_slots(where, step, operands.tolist())
        if self.steps % LOOK_EVERY == 0:
            self.look(where)
        count = len(rows) - int(step.remaining)
        if count != int(wanted.served):
            raise DifferenceError(f"{where}: {count} are served, not {int(wanted.served)}")
        return count

    def look_at_slots(self, where: str, step: Step, rows: list[int]) -> None:
        """Positions, lengths and slots, from the tables of the other engine, in plain Python."""
        pool, size = self.theirs.pool, int(self.theirs.config.block_size)
        if self.steps % LOOK_EVERY:
            return
        tables, scheduled, done = pool.tables.tolist(), pool.scheduled.tolist(), step.done.tolist()
        lengths = [scheduled[row] if served else 0 for row, served in zip(rows, done, strict=True)]
        positions = [max(0, length - 1) for length in lengths]
        slots = [
            tables[row][place // size] * size + place % size if served else -1
            for row, place, served in zip(rows, positions, done, strict=True)
        ]
        for name, values in (("lengths", lengths), ("positions", positions), ("slots", slots)):
            same(f"{where}, {name}", getattr(step, name), self.tensor(values))

    def look(self, where: str) -> None:
        """Both pools are equal."""
        alike(where, self.ours.pool, self.theirs.pool, SPARE)

    def with_tokens_left(self) -> list[int]:
        """Requests that are not as long as the longest; the others are finished, or end the next step."""
        if self.draw.random() < WITH_FULL_ONES:
            return self.running
        scheduled = self.theirs.pool.scheduled.tolist()
        self.free([row for row in self.running if scheduled[row] >= self.limit])
        return [row for row in self.running if scheduled[row] < self.limit]

    def end(self) -> None:
        """Some are finished, and some blocks cannot be found any more."""
        blocks = self.tensor(self.draw.sample(range(kv_blocks.null_block(self.ours.pool)), 2))
        if self.draw.random() < WITH_EVICTIONS:
            for engine in (self.ours, self.theirs):
                engine.evict_blocks(blocks)
        self.free(self.draw.sample(self.running, self.draw.randint(0, len(self.running) // 2)))

    def free(self, rows: list[int]) -> None:
        """In both engines."""
        if rows:
            for engine in (self.ours, self.theirs):
                engine.free_request(self.tensor(rows))
            gone = set(rows)
            self.running = [row for row in self.running if row not in gone]


# Rounds -------------------------------------------------------------------------------------------------------------


def rounds(asked: Asked, found: Found, show: Show) -> None:
    """Loads with too little room, so that requests are preempted, turned down and taken alone."""
    torch.set_num_threads(1)
    wanted, number = SMALL_ROUNDS if asked.small else ROUNDS, 0
    while shows_too_little(found, "rounds", wanted, ("rounds that went on",)):
        show(f"recorded-rounds: {found.counts.get('rounds', 0):,} rounds")
        one_load(asked, found, asked.seed + number, wanted)
        number += 1


def one_load(asked: Asked, found: Found, seed: int, wanted: int) -> None:
    """All requests of a load, until they are finished."""
    draw = random.Random(seed)  # noqa: S311  # not a secret
    spec = scheduler_load(draw, 4 if asked.small else 48)
    config, extent = tables_of(spec, asked.device), extent_of(spec)
    pool = kv_blocks.empty(config.kv, spec.kv_blocks)
    theirs: tensors.State = tensors.empty(config, pool, spec.ahead)
    recorded = CapturedRounds(config, theirs, extent)
    recorded.prepare()
    theirs = _cloned(theirs)
    waiting = list(range(len(spec.prompts)))
    addresses = [values.data_ptr() for values in leaves(recorded.state)]
    for number in range(40 * len(spec.prompts)):
        for row in waiting[: draw.randint(0, 4)]:
            operand = torch.tensor(waiting.pop(waiting.index(row)), device=asked.device)
            recorded.keep(tensors.add(config, recorded.state, operand)[0])
            theirs, _ = tensors.add(config, theirs, operand)
        theirs, code = tensors.schedule(config, theirs, extent=extent, write=IN_PLACE)
        told = recorded.schedule().summary.tolist()
        where = f"load {seed}, round {number}"
        while told[0] == UNANSWERED:
            found.count("rounds that went on")
            same(f"{where}, code", torch.tensor(told[0]), code)
            theirs, code = tensors.proceed(config, theirs, extent=extent, write=IN_PLACE)
            told = recorded.proceed().summary.tolist()
        same(f"{where}, code", torch.tensor(told[0]), code)
        theirs, _ = tensors.update(config, theirs, torch.zeros_like(config.prompts), extent=extent, write=IN_PLACE)
        told = recorded.update().summary.tolist()
        if told[3] > 0:
            theirs = tensors.release(config, theirs, extent=extent, write=IN_PLACE)
            told = recorded.release().summary.tolist()
        alike(where, _plain(recorded.state), _plain(theirs), SPARE)
        found.count("rounds")
        if found.counts["rounds"] % wanted == 0 or (not waiting and not bool(unfinished(theirs))):
            break
    if [values.data_ptr() for values in leaves(recorded.state)] != addresses:
        raise DifferenceError("a tensor of the state is not where it was when the round was recorded")
    found.counts["graphs"] = found.counts.get("graphs", 0) + 4 * int(recorded.is_graph)


def unfinished(state: tensors.State) -> Tensor:
    """[] bool: whether anybody waits or runs."""
    return ((state.waiting >= 0) | (state.running >= 0)).any()


def leaves(state: Any) -> list[Tensor]:
    """Every tensor of a state."""
    return [one for value in state for one in ([value] if isinstance(value, Tensor) else leaves(value))]


def _cloned(state: Any) -> Any:
    return type(state)(*(value.clone() if isinstance(value, Tensor) else _cloned(value) for value in state))


def _plain(state: tensors.State) -> tensors.State:
    """With what means nothing between rounds left out: the fields of a round that is over."""
    zero = torch.zeros_like(state.plans)
    return state._replace(
        parts=zero, served=zero, to_serve=zero, tokens_left=zero, embeds_left=zero, closed=zero, ended=zero
    )
