"""Random loads for the scheduler, and the tensor code in lockstep with the specification on them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import torch

from cacheimpl import kv_blocks
from cacheimpl import scheduler as tensors
from cacheimpl.answer import UNANSWERED
from cacheimpl.scheduler.layout import Flat, flat
from cacheimpl.writing import IN_PLACE, Writing
from cacheproof.targets.tensor.model import outcome_of
from cacheproof.targets.tensor.scheduler import decode, tables_of
from cachespec.kernel import FROZEN, Operation, Outcome
from cachespec.scheduler import COMPONENT, NORMATIVE_SCHEDULER, Config, State
from cachespec.scheduler.operations import Abort, Add, ResetEncoderCache, ResetPrefixCache, Schedule, Update

Extent = tensors.Extent


def crowded(requests: int, seed: int, *, items: int = 2, room: float = 0.4) -> Config:
    """A load with too few blocks, slots, tokens and places for its requests, some of which begin alike."""
    draw = random.Random(f"{requests} {seed}")
    block_size = draw.choice((1, 2, 4))
    longest = 12 * block_size
    prompts = tuple(draw.randint(1, longest - 2) for _ in range(requests))
    outputs = tuple(draw.randint(1, 2 * block_size + 2) for _ in range(requests))
    groups = tuple(draw.randrange(max(1, requests // 3)) for _ in range(requests))
    lengths = [draw.randint(1, 2 * block_size) for _ in range(max(2, requests // 2))]
    begins = {group: _items_of(draw, longest, lengths, items) for group in sorted({*groups})}
    shared = tuple(draw.randint(0, prompt) for prompt in prompts)
    placed = tuple(
        tuple(item for item in begins[group] if item[1] + item[2] <= prompt)
        for group, prompt in zip(groups, prompts, strict=True)
    )
    needed = sum(-(-(prompt + output) // block_size) for prompt, output in zip(prompts, outputs, strict=True))
    budget = draw.choice((block_size + 1, 3 * block_size, longest))
    config = Config(
        block_size=block_size,
        kv_blocks=max(12, int(needed * room)),
        token_budget=budget * max(1, requests // 8),
        encoder_compute=max(lengths) + draw.randint(0, 3),
        encoder_capacity=max(lengths) + draw.randint(0, 2 * requests),
        max_running=max(1, int(requests * draw.uniform(0.4, 1.2))),
        max_model_len=longest,
        prompts=prompts,
        outputs=outputs,
        items=placed if items else (),
        priorities=tuple(draw.randrange(3) for _ in range(requests)),
        groups=groups,
        shared=shared,
        external=tuple(draw.randint(0, 5) for _ in range(requests)) if draw.random() < 0.2 else (),
        drafts=draw.choice((0, 0, 2)),
        alignment=draw.choice((0, 0, 0, block_size)),
        whole_items=int(draw.random() < 0.2),
        chunked_prefill=int(draw.random() < 0.85),
        long_prefill_threshold=draw.choice((0, 0, 2 * block_size)),
        policy=int(draw.random() < 0.3),
        ahead=draw.choice((1, 2)),
        aborts=1,
        resets=1,
    )
    wrong = COMPONENT.invalid(config)
    return config if wrong is None else config._replace(groups=(), shared=())


def _items_of(draw: random.Random, longest: int, lengths: list[int], most: int) -> tuple[tuple[int, int, int], ...]:
    """Items one behind the other, some of them the same."""
    found, end = [], 0
    for _ in range(draw.randint(0, most)):
        content = draw.randrange(len(lengths))
        start = end + draw.randint(0, max(1, longest // 3))
        end = start + lengths[content]
        found.append((content, start, lengths[content]))
    return tuple(found)


class Tensors:
    """One engine, driven as its caller drives it: `proceed` and `release` as long as there is something left to do."""

    def __init__(self, config: Config, extent: Extent, write: Writing = IN_PLACE, device: str = "cpu") -> None:
        self.config, self.extent, self.write = config, extent, write
        self.tables = tables_of(config, device)
        self.state = tensors.empty(self.tables, kv_blocks.empty(self.tables.kv, config.kv_blocks), config.ahead)
        self.calls = 0
        """Of `proceed` in the last round."""

    def apply(self, op: Operation) -> Outcome:
        """One whole operation."""
        match op:
            case Schedule():
                return self._schedule()
            case Update(accepted):
                return self._update(accepted)
            case Add(request):
                self.state, answer = tensors.add(self.tables, self.state, self._number(request))
            case Abort(request):
                self.state, answer = tensors.abort(self.tables, self.state, self._number(request), write=self.write)
            case ResetPrefixCache():
                self.state, answer = tensors.reset_prefix_cache(self.tables, self.state)
            case _:
                self.state, answer = tensors.reset_encoder_cache(self.tables, self.state)
        return outcome_of(int(answer.code), (), 0)

    def _schedule(self) -> Outcome:
        state, code = tensors.schedule(self.tables, self.state, extent=self.extent, write=self.write)
        self.calls = 0
        while int(code) == UNANSWERED:
            assert int(tensors.remaining(self.tables, state)) > 0
            state, code = tensors.proceed(self.tables, state, extent=self.extent, write=self.write)
            self.calls += 1
        self.state = state
        values, count = tensors.shown(self.tables, state)
        return outcome_of(int(code), values.tolist(), int(count) if int(code) == 0 else 0)

    def _update(self, accepted: int) -> Outcome:
        state, code = tensors.update(
            self.tables, self.state, self._number(accepted), extent=self.extent, write=self.write
        )
        values, count = tensors.finished(self.tables, state)
        while bool((state.ending >= 0).any()):
            state = tensors.release(self.tables, state, extent=self.extent, write=self.write)
        self.state = state
        return outcome_of(int(code), values.tolist(), int(count))

    def decoded(self) -> State:
        """The state as the specification has it."""
        row = dict(zip(Flat._fields, (values.long().tolist() for values in flat(self.state)), strict=True))
        return decode(self.config, row)

    def _number(self, value: int) -> torch.Tensor:
        return torch.tensor(value, device=self.tables.prompts.device)


class Lockstep:
    """Both sides on one random run; `seen` counts what has happened."""

    def __init__(self, config: Config, extent: Extent, seed: int, write: Writing = IN_PLACE) -> None:
        self.config, self.draw = config, random.Random(seed)
        self.left = Tensors(config, extent, write)
        self.right: Any = NORMATIVE_SCHEDULER.initial(config, FROZEN)
        self.seen: Counter[str] = Counter()
        self.step = 0

    def next_operation(self) -> Operation:
        """Mostly arrivals, rounds and updates; sometimes an abort or a reset."""
        requests, chance = range(len(self.config.prompts)), self.draw.random()
        if chance < 0.01:
            return self.draw.choice((ResetPrefixCache(), ResetEncoderCache()))
        live = (*self.right.waiting, *self.right.running)
        if chance < 0.03 and live:
            return Abort(self.draw.choice(live))
        if chance < 0.04:
            return Abort(self.draw.choice(requests))
        fresh = [one for one in requests if one not in live and not self.right.gone.has(one)]
        if chance < 0.35 and fresh:
            return Add(self.draw.choice(fresh))
        if chance < 0.65:
            return Schedule()
        return Update(self.draw.randint(0, self.config.drafts))

    def play(self, steps: int, every: int = 1) -> None:
        """So many operations; outcomes are compared each time, whole states now and then; until all are gone."""
        for _ in range(steps):
            self.step += 1
            op = self.next_operation()
            before = self.right
            self.right, wanted = NORMATIVE_SCHEDULER.step(self.config, self.right, op)
            found = self.left.apply(op)
            assert found == wanted, (self.step, op, found, wanted)
            if self.step % every == 0:
                assert self.left.decoded() == self.right, (self.step, op)
            self._note(op, before)
            if self.right.gone.length == len(self.config.prompts) and not self.right.plans:
                break
        assert self.left.decoded() == self.right

    def _note(self, op: Operation, before: Any) -> None:
        after, seen = self.right, self.seen
        if not isinstance(op, Schedule) or len(after.plans) == len(before.plans):
            return
        plan = after.plans[-1]
        seen["rounds"] += 1
        seen["rounds at once"] += self.left.calls == 0
        seen["preempted"] += len(plan.preempted)
        seen["dropped"] += len(plan.dropped)
        seen["admitted"] += sum(one.request in before.waiting for one in plan.scheduled)
        seen["hits"] += sum(
            one.request in before.waiting and one.start > 0 and not self.config.external for one in plan.scheduled
        )
        seen["encoded"] += sum(len(one.encode) for one in plan.scheduled)
        seen["shared items"] += sum(len(one.relies) > len(one.encode) for one in plan.scheduled)
        seen["several victims"] += len(plan.preempted) > 1
