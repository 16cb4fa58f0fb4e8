"""`Scheduler` by its public face beside the specification: one engine each, and requests with what it reads of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import NeverServedError, TooManyRequestsError
from cacheimpl.scheduler.settings import Settings
from cachespec.kernel import FROZEN, Code, Outcome
from cachespec.scheduler import NORMATIVE_SCHEDULER, Abort, Add, Config, Schedule, Update
from cachespec.scheduler.configuration import items_of, priority_of


@dataclass(frozen=True)
class Place:
    offset: int
    length: int


@dataclass(frozen=True)
class Feature:
    identifier: str
    mm_position: Place


@dataclass(frozen=True)
class Asked:
    """A request with the attributes that a scheduler reads."""

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    priority: int = 0
    mm_features: tuple[Feature, ...] = field(default=())


def asked(config: Config, request: int) -> Asked:
    """A request of a specification's configuration: tokens that it shares with its group, and tokens of its own."""
    shared = config.shared[request] if config.groups else 0
    group = config.groups[request] if config.groups else 0
    tokens = [-1 - (group * 1000 + place) for place in range(shared)]
    tokens += [request * 1000 + place for place in range(shared, config.prompts[request])]
    features = tuple(
        Feature(f"item {content}", Place(start, length)) for content, start, length in items_of(config, request)
    )
    return Asked(str(request), tokens, config.outputs[request], priority_of(config, request), features)


def settings_of(config: Config, rows: int) -> Settings:
    """The same engine, with fewer rows than there are requests."""
    return Settings(
        block_size=config.block_size,
        num_gpu_blocks=config.kv_blocks,
        max_num_batched_tokens=config.token_budget,
        max_num_seqs=config.max_running,
        max_model_len=config.max_model_len,
        max_requests=rows,
        max_items=max((len(items) for items in config.items), default=0),
        encoder_compute_budget=config.encoder_compute,
        encoder_cache_size=config.encoder_capacity,
        long_prefill_token_threshold=config.long_prefill_threshold,
        num_spec_tokens=config.drafts,
        mamba_alignment=config.alignment,
        plans_in_flight=config.ahead,
        disable_chunked_mm_input=config.whole_items == 1,
        enable_chunked_prefill=config.chunked_prefill == 1,
        by_priority=config.policy == 1,
    )


class Both:
    """The scheduler and the specification."""

    def __init__(self, config: Config, rows: int) -> None:
        self.config, self.rows = config, rows
        self.scheduler = Scheduler(settings_of(config, rows))
        self.state: Any = NORMATIVE_SCHEDULER.initial(config, FROZEN)

    def spec(self, op: Any) -> Outcome:
        self.state, outcome = NORMATIVE_SCHEDULER.step(self.config, self.state, op)
        return outcome

    def add(self, request: int) -> bool:
        """Whether there was a row for it."""
        try:
            self.scheduler.add_request(asked(self.config, request))
            found = Code.DONE
        except NeverServedError:
            found = Code.TOO_LARGE
        except TooManyRequestsError:
            return False
        assert self.spec(Add(request)).code is found
        return True

    def abort(self, victims: Sequence[int]) -> None:
        """In one call."""
        for victim in victims:
            self.spec(Abort(victim))
        self.scheduler.finish_requests([str(victim) for victim in victims])

    def schedule(self) -> None:
        wanted, found = self.spec(Schedule()), self.scheduler.schedule()
        if wanted.code is Code.MISS:
            assert found is None
            return
        assert found is not None
        plan = self.state.plans[-1]
        assert list(found.num_scheduled_tokens.items()) == [(str(one.request), one.tokens) for one in plan.scheduled]
        assert found.total_num_scheduled_tokens == sum(one.tokens for one in plan.scheduled)
        assert found.finished_req_ids == {str(one) for one in plan.finished}
        assert found.preempted_req_ids == {str(one) for one in plan.preempted}
        assert found.free_encoder_mm_hashes == [f"item {one}" for one in plan.dropped]
        encoded = {str(one.request): list(one.encode) for one in plan.scheduled if one.encode}
        assert found.scheduled_encoder_inputs == encoded
        assert int(self.scheduler.state.kv.free) == self.state.kv.free.length
        assert int(self.scheduler.state.encoder.freeable) == self.state.encoder.freeable

    def update(self, accepted: int) -> None:
        wanted = self.spec(Update(accepted))
        assert self.scheduler.update_from_output(accepted) == [str(one) for one in wanted.values]
        found = self.scheduler.state.kv.carried[:-1] >= 0
        assert found.nonzero().flatten().tolist() == sorted(block for block, _ in self.state.kv.registered.items())

    def play(self, seed: int, steps: int) -> None:
        """Until all have ended; no more than the rows have room for at once."""
        draw, left = random.Random(seed), list(range(len(self.config.prompts)))
        for _ in range(steps):
            live = [*self.state.waiting, *self.state.running]
            chance = draw.random()
            if left and len(live) < self.rows // 2 and chance < 0.6:
                left = left[self.add(left[0]) :]
            elif live and chance < 0.63:
                self.abort([draw.choice(live)])
            elif len(self.state.plans) < self.config.ahead and chance < 0.85:
                self.schedule()
            elif self.state.plans:
                self.update(draw.randint(0, self.config.drafts))
            assert self.scheduler.get_num_unfinished_requests() == len(self.state.waiting) + len(self.state.running)
