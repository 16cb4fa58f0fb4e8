"""Random loads for the scheduler, and the tensor code in lockstep with the specification on them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from cacheimpl import scheduler as tensors
from cacheimpl.writing import IN_PLACE, Writing
from cacheproof.lockstep.macros import scheduler_sorts as sorts
from cacheproof.lockstep.macros.vocabularies import scheduler as loads
from cacheproof.targets.tensor.bursts.scheduler import RoundsTarget
from cachespec.kernel import FROZEN, Operation
from cachespec.scheduler import NORMATIVE_SCHEDULER, Config
from cachespec.scheduler.environment import outputs
from cachespec.scheduler.operations import (
    Abort,
    Add,
    Compile,
    ResetEncoderCache,
    ResetPrefixCache,
    ResetRunning,
    Schedule,
    Update,
)
from cachespec.scheduler.work import normal

Extent = tensors.Extent


def crowded(requests: int, seed: int, *, items: int = 2, room: float = 0.4) -> Config:
    """A load of so many requests."""
    return loads.crowded(requests, random.Random(f"{requests} {seed}"), items=items, room=room)


def bounded(config: Config, seed: int) -> Config:
    """A load with stop tokens, adapters, grammars, stages of a pipeline, a watermark; each in some of the seeds."""
    return loads.bounded(config, random.Random(f"bounded {seed}"))


def of_sort(sort: str, config: Config, seed: int) -> Config:
    """A load with KV from `elsewhere`, of sessions, for an encoder-decoder model, or with an encoder connector."""
    changed: Config = getattr(sorts, sort)(config, random.Random(f"{sort} {seed}"))
    return changed


def pictured(requests: int, seed: int) -> Config:
    """A load of images, some of them the same: a step encodes several, and there is room for few or for many."""
    draw = random.Random(f"pictured {requests} {seed}")
    lengths = [draw.randint(1, 4) for _ in range(draw.randint(2, 4 * requests))]
    items, prompts = [], []
    for _ in range(requests):
        end, placed = draw.randrange(3), []
        for _ in range(draw.randint(0, 4)):
            content = draw.randrange(len(lengths))
            placed.append((content, end, lengths[content]))
            end += lengths[content] + draw.choice((0, 0, 1, 3))
        items.append(tuple(placed))
        prompts.append(end + 1)
    longest = max(prompts) + 4
    return Config(
        block_size=draw.choice((1, 2, 4)),
        kv_blocks=draw.choice((longest + 2, requests * longest, requests * longest)),
        token_budget=draw.choice((longest, 3 * longest, requests * longest)),
        encoder_compute=draw.choice((4, 8, 4 * requests, 16 * requests)),
        encoder_capacity=draw.choice((4, 7, 2 * requests, 4 * requests, 6 * requests)) + draw.randrange(4, 7),
        max_running=draw.choice((max(1, requests // 2), requests)),
        max_model_len=longest,
        prompts=tuple(prompts),
        outputs=tuple(draw.randint(1, 3) for _ in range(requests)),
        items=tuple(items),
        priorities=tuple(draw.randrange(3) for _ in range(requests)),
        drafts=draw.choice((0, 0, 0, 2)),
        alignment=draw.choice((0, 0, 0, 2)),
        whole_items=int(draw.random() < 0.15),
        chunked_prefill=int(draw.random() < 0.85),
        long_prefill_threshold=draw.choice((0, 0, 0, 5)),
        policy=int(draw.random() < 0.2),
        ahead=draw.choice((1, 2)),
        aborts=1,
        resets=1,
    )


class Tensors(RoundsTarget):
    """One engine, driven as its caller drives it."""

    def __init__(self, config: Config, extent: Extent, write: Writing = IN_PLACE, device: str = "cpu") -> None:
        super().__init__(device, extent=extent, write=write)
        self.reset(config)


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
        if any(self.config.grammars) and self.draw.random() < 0.1:
            return Compile(self.draw.choice(requests))
        arriving = [*outputs(self.config, self.right)]
        if arriving and self.draw.random() < 0.05:
            return self.draw.choice(arriving)
        if self.config.running_resets and chance < 0.005:
            return ResetRunning()
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

    def play(self, steps: int, every: int = 1, *, together: int = 0) -> None:
        """So many operations; outcomes are compared each time, whole states now and then; until all are gone.

        The first requests arrive `together`, so many.
        """
        for _ in range(steps):
            op = Add(self.step) if self.step < together else self.next_operation()
            self.step += 1
            before = self.right
            self.right, wanted = NORMATIVE_SCHEDULER.step(self.config, self.right, op)
            found = self.left.apply(op)
            assert found == wanted, (self.step, op, found, wanted)
            if self.step % every == 0:
                assert self.left.decoded() == normal(self.config, self.right), (self.step, op)
            self._note(op, before)
            if self.right.gone.length == len(self.config.prompts) and not self.right.plans:
                break
        assert self.left.decoded() == normal(self.config, self.right)

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
        encoding = sum(len(one.encode) > 0 for one in plan.scheduled)
        seen["encoded"] += sum(len(one.encode) for one in plan.scheduled)
        seen["loaded"] += len(plan.brought)
        seen["loaded one at a time"] += len(plan.brought) > 0 and self.left.calls > 0
        seen["encoding at once"] += encoding > 1 and self.left.calls == 0
        seen["encoding and evicting at once"] += encoding > 1 and len(plan.dropped) > 0 and self.left.calls == 0
        seen["shared items"] += sum(len(one.relies) > len(one.encode) for one in plan.scheduled)
        seen["several victims"] += len(plan.preempted) > 1
        seen["passed over"] += any(
            one in after.waiting
            for part in plan.scheduled
            if part.request in before.waiting
            for one in before.waiting[: before.waiting.index(part.request)]
        )
