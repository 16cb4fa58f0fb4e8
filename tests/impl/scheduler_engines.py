"""`Scheduler` by its public face beside the specification: one engine each, and requests with what it reads of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.errors import NeverServedError, TooManyRequestsError, UnknownRequestError
from cacheimpl.scheduler.settings import Settings
from cachespec.kernel import FROZEN, Code, Outcome
from cachespec.scheduler import NORMATIVE_SCHEDULER, Abort, Add, Config, Schedule, Update
from cachespec.scheduler.configuration import (
    STORED,
    adapter_of,
    has_grammar,
    is_sent,
    is_turn,
    items_of,
    later_turns,
    least_output,
    loads_later,
    priority_of,
)
from cachespec.scheduler.counts import rejected_drafts
from cachespec.scheduler.environment import outputs, transfers
from cachespec.scheduler.operations import BringOutput, Compile, FailLoad, FailStep, FinishLoad, ResetRunning
from cachespec.scheduler.requests import has_arrived


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
    min_tokens: int = 0
    lora_request: str | None = None
    structured_output_request: object | None = None


def asked(config: Config, request: int) -> Asked:
    """A request of a specification's configuration: tokens that it shares with its group, and tokens of its own."""
    shared = config.shared[request] if config.groups else 0
    group = config.groups[request] if config.groups else 0
    tokens = [-1 - (group * 1000 + place) for place in range(shared)]
    tokens += [request * 1000 + place for place in range(shared, config.prompts[request])]
    features = tuple(
        Feature(f"item {content}", Place(start, length)) for content, start, length in items_of(config, request)
    )
    adapter = adapter_of(config, request)
    return Asked(
        str(request),
        tokens,
        config.outputs[request],
        priority_of(config, request),
        features,
        least_output(config, request),
        f"adapter {adapter}" if adapter else None,
        "a grammar" if has_grammar(config, request) else None,
    )


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
        enable_prefix_caching=config.prefix_caching == 1,
        pipelined=config.pipelined == 1,
        watermark=config.watermark,
        max_loras=config.max_adapters if any(config.adapters) else 0,
        encoder_decoder=config.encoder_decoder == 1,
        load_failures=config.load_failures == 1,
        failed_loads_end=config.failed_loads_end == 1,
        encoder_connector=any(config.encoder_connector),
        pooling=config.pooling == 1,
    )


def stops_of(config: Config, state: Any, accepted: int) -> dict[str, int]:
    """The stop tokens among what the oldest plan samples; those before `min_tokens` end nothing."""
    found = {}
    for part in state.plans[0].scheduled if config.stops else ():
        stop, known = config.stops[part.request], state.produced.get(part.request, 0)
        sampled = known + 1 + part.drafts - rejected_drafts(part, accepted)
        if part.samples and not part.void and known < stop <= min(sampled, config.outputs[part.request]):
            found[str(part.request)] = stop
    return found


class Both:
    """The scheduler and the specification."""

    def __init__(self, config: Config, rows: int) -> None:
        self.config, self.rows = config, rows
        self.scheduler = Scheduler(settings_of(config, rows))
        self.left_out: set[int] = set()
        self.state: Any = NORMATIVE_SCHEDULER.initial(config, FROZEN)
        for content, phase in self.state.remote.items():
            self.scheduler.expect_output(f"item {content}", arrived=phase == STORED)

    def spec(self, op: Any) -> Outcome:
        self.state, outcome = NORMATIVE_SCHEDULER.step(self.config, self.state, op)
        return outcome

    def add(self, request: int) -> bool:
        """Whether there was a row for it. A turn is left out if the row of the one before was needed."""
        config = self.config
        if is_turn(config, request) and request - 1 in self.left_out:
            self.left_out.add(request)
            return True
        try:
            self.scheduler.add_request(
                asked(config, request),
                external=config.external[request] if config.external else 0,
                load_first=loads_later(config, request),
                send=is_sent(config, request),
                after=str(request - 1) if is_turn(config, request) else None,
            )
            found = Code.DONE
        except NeverServedError:
            found = Code.TOO_LARGE
        except TooManyRequestsError:
            return False
        except UnknownRequestError:
            assert self.state.gone.has(request - 1)
            self.left_out.add(request)
            return True
        assert self.spec(Add(request)).code is found
        return True

    def may_abort(self, request: int) -> bool:
        """All later turns of its session have arrived: an engine cannot tell of turns that it does not know."""
        return all(has_arrived(self.state, turn) for turn in later_turns(self.config, request))

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
        assert found.fetched_encoder_mm_hashes == {f"item {one}" for one in plan.brought}
        encoded = {str(one.request): list(one.encode) for one in plan.scheduled if one.encode}
        assert found.scheduled_encoder_inputs == encoded
        assert int(self.scheduler.state.kv.free) == self.state.kv.free.length
        assert int(self.scheduler.state.encoder.freeable) == self.state.encoder.freeable

    def update(self, accepted: int) -> None:
        stops = stops_of(self.config, self.state, accepted)
        wanted = self.spec(Update(accepted))
        assert self.scheduler.update_from_output(accepted, stops) == [str(one) for one in wanted.values]
        found = self.scheduler.state.kv.carried[:-1] >= 0
        assert found.nonzero().flatten().tolist() == sorted(block for block, _ in self.state.kv.registered.items())

    def transfer(self, op: Any) -> None:
        """A load or a sending ends, or a load fails."""
        wanted, scheduler = self.spec(op), self.scheduler
        name = str(op.request)
        if isinstance(op, FailStep):
            assert scheduler.fail_step(name, op.blocks) == [str(one) for one in wanted.values]
        elif isinstance(op, FailLoad):
            assert scheduler.fail_load(name, op.blocks)
        else:
            assert scheduler.finish_load(name) if isinstance(op, FinishLoad) else scheduler.finish_send(name)
        assert wanted.code is Code.DONE
        known = {str(request): tuple(transfer) for request, transfer in self.state.transfers.items()}
        assert scheduler.transfers == known

    def deliver(self, op: Any) -> None:
        """An encoder output arrives, or is lost."""
        found = self.spec(op).code is Code.DONE
        call = self.scheduler.bring_output if isinstance(op, BringOutput) else self.scheduler.lose_output
        assert call(f"item {op.content}") is found

    def compile(self, request: int) -> None:
        """The grammar of its output is there."""
        found = self.spec(Compile(request)).code is Code.DONE
        assert self.scheduler.grammar_compiled(str(request)) is found

    def reset(self) -> None:
        """All that run are preempted, and nothing is found any more."""
        found = self.spec(ResetRunning()).code is Code.DONE
        assert self.scheduler.reset_prefix_cache(reset_running_requests=True) is found

    def play(self, seed: int, steps: int) -> None:
        """Until all have ended; no more than the rows have room for at once."""
        draw, left = random.Random(seed), list(range(len(self.config.prompts)))
        for _ in range(steps):
            live = [*self.state.waiting, *self.state.running]
            chance = draw.random()
            if left and len(live) < self.rows // 2 and chance < 0.6:
                left = left[self.add(left[0]) :]
            elif 0.6 <= chance < 0.63 and (victims := [one for one in live if self.may_abort(one)]):
                self.abort([draw.choice(victims)])
            elif live and any(self.config.grammars) and 0.63 <= chance < 0.7:
                self.compile(draw.choice(live))
            elif self.config.running_resets and chance > 0.995:
                self.reset()
            elif possible := [*transfers(self.config, self.state)] if draw.random() < 0.3 else []:
                self.transfer(draw.choice(possible))
            elif (arriving := [*outputs(self.config, self.state)]) and draw.random() < 0.05:
                self.deliver(draw.choice(arriving))
            elif len(self.state.plans) < self.config.ahead and chance < 0.85:
                self.schedule()
            elif self.state.plans:
                self.update(draw.randint(0, self.config.drafts))
            unfinished = len(self.state.waiting) + len(self.state.running) + self.state.queued.length
            assert self.scheduler.get_num_unfinished_requests() == unfinished
