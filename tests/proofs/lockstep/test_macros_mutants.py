"""Planted bugs of the implementation that only bursts show: macros find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.impl import kv_blocks_bugs as blocks
from tests.impl import test_scheduler_mutants as rounds

from cacheproof.lockstep.macros.campaign import Loads, MacroCampaign, campaign
from cacheproof.lockstep.macros.macro import vocabulary_of
from cacheproof.lockstep.tally import Limit
from cacheproof.model.registry import component_named
from cacheproof.targets.tensor.bursts import kv_blocks, scheduler

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]
OF_BURSTS = [name for name, (by, *_) in blocks.MUTANTS.items() if "crowd" in by]
OF_ROUNDS = list(rounds.MUTANTS)


def run(component: str, target: Any, requests: int, steps: int) -> MacroCampaign:
    """Without shrinking."""
    known = component_named(component)
    loads = Loads(vocabulary_of(component), requests=requests)
    return campaign(known, known.normative, target, loads, Limit(steps), 1, seconds_to_shrink=0)


@pytest.mark.parametrize(
    "mutant", [pytest.param(one, marks=[pytest.mark.nightly] if turn % 3 else []) for turn, one in enumerate(OF_BURSTS)]
)
def test_bursts_of_blocks(plant: Plant, mutant: str) -> None:
    by, function, right, wrong = blocks.MUTANTS[mutant]
    plant(function, right, wrong)
    assert run("kv_blocks", kv_blocks.open_bursts("cpu"), 200 if by == "wide crowd" else 12, 20_000).finding is not None


@pytest.mark.nightly
@pytest.mark.parametrize("mutant", OF_ROUNDS)
def test_rounds(plant: Plant, mutant: str) -> None:
    _, function, right, wrong = rounds.MUTANTS[mutant]
    plant(function, right, wrong)
    assert run("scheduler", scheduler.open_bursts("cpu"), 8, 20_000).finding is not None
