"""Macros of the scheduler: arrivals at once and rounds as an engine drives them, beside the specification."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from cacheproof.lockstep.macros import scheduler_sorts
from cacheproof.lockstep.macros.campaign import Loads, MacroCampaign, campaign
from cacheproof.lockstep.macros.macro import vocabulary_of
from cacheproof.lockstep.macros.vocabularies.scheduler import Burst, Deliver, Rounds, Transfers, crowded
from cacheproof.lockstep.tally import Limit
from cacheproof.model.burst import Together
from cacheproof.model.registry import component_named
from cacheproof.model.target import TargetError
from cacheproof.targets.factory import open_target
from cacheproof.targets.tensor.bursts import scheduler as bursts
from cachespec.kernel import DONE
from cachespec.scheduler.operations import Add

torch.set_num_threads(1)

SCHEDULER = component_named("scheduler")


def run(target: Any, requests: int, steps: int, seed: int = 1) -> MacroCampaign:
    """A run on loads of so many requests."""
    loads = Loads(vocabulary_of("scheduler"), requests=requests)
    return campaign(SCHEDULER, SCHEDULER.normative, target, loads, Limit(steps), seed)


def seen(found: MacroCampaign) -> set[tuple[str, str]]:
    """Which calls ended how."""
    return {(call, code) for call, codes in found.tally.by_operation().items() for code in codes}


def test_rounds_of_an_engine_are_the_specifications() -> None:
    found = run(bursts.open_bursts("cpu"), 12, 400)
    assert found.finding is None
    assert seen(found) >= {("add", "done"), ("schedule", "done"), ("schedule", "refused"), ("abort", "done")}


SETTINGS = (
    "loads_later",
    "load_failures",
    "failed_loads_end",
    "sends",
    "turns",
    "encoder_decoder",
    "encoder_connector",
    "pooling",
)


def test_loads_are_of_every_sort() -> None:
    vocabulary = vocabulary_of("scheduler")
    configs = [vocabulary.load(8, None, random.Random(seed)) for seed in range(150)]
    assert {SCHEDULER.invalid(config) for config in configs} == {None}
    on = [
        {name for name in SETTINGS if getattr(config, name) and getattr(config, name) != (0,) * 8} for config in configs
    ]
    assert set().union(*on) == {*SETTINGS}


def test_macros_are_drawn_where_they_apply() -> None:
    vocabulary, draw = vocabulary_of("scheduler"), random.Random(1)
    plain = crowded(8, draw)._replace(external=())
    for config, kinds in (
        (plain, set()),
        (scheduler_sorts.elsewhere(plain, draw)._replace(loads_later=(1,) * 8), {Transfers}),
        (scheduler_sorts.from_a_connector(plain, draw), {Deliver}),
    ):
        drawn = {type(vocabulary.draw(config, draw)) for _ in range(300)}
        assert drawn & {Transfers, Deliver} == kinds


@pytest.mark.parametrize(
    ("sort", "calls"),
    [
        ("elsewhere", {"finish_load", "fail_load", "fail_step", "finish_send"}),
        ("from_a_connector", {"bring_output", "lose_output"}),
    ],
)
def test_what_comes_from_elsewhere_is_the_specifications(sort: str, calls: set[str]) -> None:
    def load(requests: int, _: int | None, draw: random.Random) -> Any:
        return getattr(scheduler_sorts, sort)(crowded(requests, draw, items=4), draw)

    loads = Loads(replace(vocabulary_of("scheduler"), load=load), requests=8)
    found = campaign(SCHEDULER, SCHEDULER.normative, bursts.open_bursts("cpu"), loads, Limit(600), 1)
    assert found.finding is None
    assert seen(found) >= {(call, "done") for call in calls}


def test_so_are_those_of_what_the_explorer_lifts() -> None:
    found = run(open_target("torch", SCHEDULER, SCHEDULER.normative), 4, 150)
    assert found.finding is None
    assert ("schedule", "done") in seen(found)


def test_hundreds_arrive_at_once() -> None:
    found = run(bursts.open_bursts("cpu"), 300, 330)
    assert found.finding is None
    assert found.tally.largest > 100


def test_arrivals_of_more_than_64_that_come_in_another_order_are_shrunk_to_their_count() -> None:
    """Where more than 64 come, the last two are swapped: seen in the queue, and not in any answer."""

    class Swapped(bursts.RoundsTarget):
        def arrive(self, asked: Any) -> Any:
            if len(asked) <= 64:
                return super().arrive(asked)
            super().arrive((*asked[:-2], asked[-1], asked[-2]))
            return [(call, DONE) for call in asked]

    found = run(Swapped(), 128, 3000, seed=4)
    assert found.finding is not None
    assert [type(macro) for macro in found.finding.macros] == [Burst]
    assert len(found.finding.calls) == found.finding.macros[0].count == 65
    assert found.finding.statements[0].startswith("waiting: ")
    assert (found.plain, found.tried_plain) == (None, True)


def test_what_is_no_observable_is_compared_too() -> None:
    """After each output no block can be found any more: no observable shows that, but the whole state does."""

    class Wasteful(bursts.RoundsTarget):
        def burst(self, together: Together) -> Any:
            answered = super().burst(together)
            if together.sort == "update":
                carried = torch.full_like(self.state.kv.carried, -1)
                self.state = self.state._replace(kv=self.state.kv._replace(carried=carried))
            return answered

    found = run(Wasteful(), 8, 600)
    assert found.finding is not None
    assert found.finding.statements[0].startswith("kv of the state: ")
    assert {type(macro) for macro in found.finding.macros} == {Burst, Rounds}


def test_a_request_that_is_not_there_is_no_call() -> None:
    target = bursts.open_bursts("cpu")
    target.reset(vocabulary_of("scheduler").load(4, None, random.Random(1)))
    with pytest.raises(TargetError, match="there is no request 9"):
        target.apply(Add(9))
