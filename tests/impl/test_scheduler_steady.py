"""Steps that the scheduler foresees: the same answers and the same state as on tensors, whatever comes between."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.planting import Change, planted

from cacheimpl.scheduler import steady
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.output import ForeseenOutput
from cacheimpl.scheduler.settings import Settings
from cacheimpl.scheduler.state import State
from cacheimpl.scheduler.steady import Steady, begun
from cacheproof.device.listing import DifferenceError
from cacheproof.device.tensor.comparing import alike, same
from cacheproof.device.tensor.loads import SPARE

torch.set_num_threads(1)

REQUESTS, BLOCK_SIZE, LONGEST = 6, 4, 48
MEANS_NOTHING = ("parts", "served", "to_serve", "tokens_left", "embeds_left", "closed", "ended")
"""Fields of a round that is over"""


@dataclass(frozen=True)
class Asked:
    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int


def engine(blocks: int, budget: int) -> Scheduler:
    return Scheduler(
        Settings(
            block_size=BLOCK_SIZE,
            num_gpu_blocks=blocks,
            max_num_batched_tokens=budget,
            max_num_seqs=REQUESTS,
            max_model_len=LONGEST,
            max_requests=2 * REQUESTS,
        )
    )


def plain(state: State) -> State:
    """Without what means nothing, and with the free queue from its head on."""
    kv, nothing = state.kv, torch.zeros_like(state.plans)
    queue = kv.order[(kv.head + torch.arange(int(kv.free))) & (kv.order.shape[0] - 2)]
    meaningless: Any = dict.fromkeys(MEANS_NOTHING, nothing)
    return state._replace(kv=kv._replace(order=queue), **meaningless)


class Both:
    """Two engines with one load: one foresees steps, the other takes each on tensors."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        blocks, budget = self.draw.choice((14, 40, 100)), self.draw.choice((20, 40))
        self.ours, self.theirs = engine(blocks, budget), engine(blocks, budget)
        self.theirs._may_foresee = False
        self.number, self.seen = 0, Counter[str]()

    def arrive(self) -> None:
        """Some requests, of which some begin alike."""
        for _ in range(self.draw.randint(0, REQUESTS - self.ours.get_num_unfinished_requests())):
            self.number += 1
            prompt = [self.draw.randrange(2)] * self.draw.randint(1, 20)
            request = Asked(f"r{self.number}", prompt, self.draw.randint(1, LONGEST - 24))
            self.ours.add_request(request)
            self.theirs.add_request(request)

    def step(self) -> None:
        """One step of both."""
        ours, theirs = self.ours.schedule(), self.theirs.schedule()
        assert (ours is None) == (theirs is None)
        self.look(0.1)
        if ours is None or theirs is None:
            return
        self.seen["foreseen" if isinstance(ours, ForeseenOutput) else "on tensors"] += 1
        self.seen["preempted"] += len(theirs.preempted_req_ids)
        if self.draw.random() < 0.5:
            alike("plan", ours.plan, theirs.plan)
            assert ours.num_scheduled_tokens == theirs.num_scheduled_tokens
        assert ours.total_num_scheduled_tokens == theirs.total_num_scheduled_tokens
        if self.draw.random() < 0.05:
            self.abort()
        ended = self.theirs.update_from_output()
        assert self.ours.update_from_output() == ended
        self.seen["ended"] += len(ended)
        assert self.ours.num_free_blocks == self.theirs.num_free_blocks
        self.look(0.1)

    def abort(self) -> None:
        live = f"r{self.draw.randint(1, self.number)}"
        for one in (self.ours, self.theirs):
            one.finish_requests(live)

    def look(self, share: float) -> None:
        """Now and then, both states are compared."""
        if self.draw.random() < share:
            ours, theirs = plain(self.ours.state), plain(self.theirs.state)
            kv = ours.kv._replace(head=theirs.kv.head)
            alike("state", ours._replace(kv=kv), theirs, {**SPARE, "order": 0})


def load(seed: int, rounds: int = 4) -> Counter[str]:
    """What was seen."""
    both = Both(seed)
    for _ in range(rounds):
        both.arrive()
        for _ in range(both.draw.randint(1, 20)):
            both.step()
    both.look(1)
    return both.seen


def loads(seeds: range) -> Counter[str]:
    return sum((load(seed) for seed in seeds), Counter[str]())


FORMS = {"lists": 256, "tensors": 0, "at the boundary": 2}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheimpl.scheduler.core.PATIENCE", 2)
    monkeypatch.setattr(steady, "LEAST_STEPS", 1)
    monkeypatch.setattr(steady, "AHEAD", 3)


@pytest.mark.parametrize("form", FORMS)
def test_foreseen_steps_are_those_on_tensors(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "BLOCK_BY_BLOCK", FORMS[form])
    seen = loads(range(2))
    assert min(seen[what] for what in ("foreseen", "on tensors", "preempted", "ended")) > 0, seen


def test_an_abort_does_not_cost_the_others_their_step() -> None:
    """Five run, and one is aborted while a foreseen step is in flight: the fifth has its token all the same."""
    both = Both(0)
    for number in range(5):
        request = Asked(f"r{number}", [number] * (number + 1), 20)
        both.ours.add_request(request)
        both.theirs.add_request(request)
    both.number = 4
    foreseen = 0
    while not foreseen:
        ours, theirs = both.ours.schedule(), both.theirs.schedule()
        assert ours is not None
        assert theirs is not None
        foreseen = isinstance(ours, ForeseenOutput)
        if foreseen:
            both.ours.finish_requests("r1")
            both.theirs.finish_requests("r1")
        assert both.ours.update_from_output() == both.theirs.update_from_output()
    both.look(1)


@pytest.mark.nightly
def test_many_loads() -> None:
    assert loads(range(10, 200))["foreseen"] > 1000


def test_a_calendar_is_not_tried_at_each_step_where_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cacheimpl.scheduler.core.PATIENCE", 63)
    scheduler = engine(160, 40)
    for number in range(4):
        scheduler.add_request(Asked(str(number), [number] * 3, 40))
    foreseen = []
    for _ in range(30):
        foreseen.append(isinstance(scheduler.schedule(), ForeseenOutput))
        scheduler.update_from_output()
        assert scheduler.block_tables is not None  # an engine that reads the tables in each step
    assert sum(foreseen) <= 4
    again = [isinstance(scheduler.schedule(), ForeseenOutput)]
    same("state", scheduler.state.plans, torch.tensor(1))
    assert len(again) == 1


BUGS = {
    "a request ends one step too late": Change(begun, "int($least) - 1", "int($least)"),
    "a block one step too late": Change(begun, "$blocks * $size - $computed", "$blocks * $size - $computed + 1"),
    "what is not free is given": Change(Steady.__init__, "int($state.kv.free)", "1000"),
    "blocks from before the head": Change(Steady._read_ahead, "(self._head + $known) & $m", "$known & $m"),
    "a stamp that is too late": Change(Steady._register, "stamp[block] = clock", "stamp[block] = clock + 1"),
    "what a new block held is still found": Change(
        Steady._give, "$carried[$block] = -1", "$carried[$block] = $carried[$block]"
    ),
    "tokens that are not produced": Change(Steady.written, "$state.produced + $more", "$state.produced"),
    "a plan of the first step": Change(Steady.plan, "$starts + $step * $tokens", "$starts + 0 * $tokens"),
    "the last step fills nothing": Change(
        Steady.written,
        "$now = self._register(self._calendar[$last % self._size], $clock)",
        "$now = self._register([], $clock)",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    with planted(BUGS[bug]), pytest.raises((DifferenceError, AssertionError, IndexError, ValueError)):
        loads(range(6))
