"""Planted bugs of the implementation that only bursts show: macros find them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.impl import kv_blocks_bugs as blocks
from tests.impl import test_scheduler_mutants as rounds
from tests.impl.scheduler_runs import pictured

from cacheproof.lockstep.macros import scheduler_sorts as sorts
from cacheproof.lockstep.macros.campaign import Loads, MacroCampaign, campaign
from cacheproof.lockstep.macros.macro import Vocabulary, vocabulary_of
from cacheproof.lockstep.macros.vocabularies.scheduler import crowded
from cacheproof.lockstep.tally import Limit
from cacheproof.model.registry import component_named
from cacheproof.targets.tensor.bursts import kv_blocks, scheduler
from cachespec.scheduler import Config

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]
OF_BURSTS = [name for name, (by, *_) in blocks.MUTANTS.items() if "crowd" in by]
OF_ROUNDS = list(rounds.MUTANTS)


def with_items(requests: int, _: int | None, draw: random.Random) -> Config:
    """A crowded load, up to four items in each prompt."""
    return crowded(requests, draw, items=4, room=0.3)


def with_images(requests: int, _: int | None, draw: random.Random) -> Config:
    """Of images, some of them the same."""
    return pictured(requests, draw.randrange(1000))


def of_few_blocks(requests: int, _: int | None, draw: random.Random) -> Config:
    """A crowded load in which some requests need more blocks than there are."""
    return crowded(requests, draw, blocks=6)


def from_elsewhere(requests: int, _: int | None, draw: random.Random) -> Config:
    """With KV from an external store."""
    return sorts.elsewhere(with_items(requests, None, draw), draw)


def in_sessions(requests: int, _: int | None, draw: random.Random) -> Config:
    """Of sessions."""
    return sorts.conversing(with_items(requests, None, draw), draw)


def with_a_connector(requests: int, _: int | None, draw: random.Random) -> Config:
    """With images whose encoder outputs a connector has or expects."""
    return sorts.from_a_connector(with_images(requests, None, draw), draw)


def pooling(requests: int, _: int | None, draw: random.Random) -> Config:
    """For a pooling model."""
    return sorts.pooled(with_items(requests, None, draw), draw)


LOADS: dict[str, tuple[Callable[[int, int | None, random.Random], Config], int]] = {
    "idle in the order of the first input": (with_items, 8),
    "what is pinned in vain keeps its age": (with_images, 8),
    "a request that just fits is turned away": (of_few_blocks, 8),
    "blocks that a transfer holds are given back": (from_elsewhere, 8),
    "a failed step keeps its computed tokens": (from_elsewhere, 8),
    "the next turn of a session waits on": (in_sessions, 8),
    "a session that is aborted between turns goes on": (in_sessions, 8),
    "an output is not awaited": (with_a_connector, 8),
    "one output costs compute budget": (with_a_connector, 8),
    "one output is loaded and paid for": (with_a_connector, 4),
    "many outputs cost compute budget": (with_a_connector, 8),
    "an output that is loaded is encoded, too": (with_a_connector, 8),
    "a loaded output has no slots": (with_a_connector, 8),
    "a load is not told to the workers": (with_a_connector, 8),
    "an output that is lost is still expected": (with_a_connector, 8),
    "an output that arrives twice is answered as the first time": (with_a_connector, 8),
    "a prompt as long as a pooling model is refused": (pooling, 8),
}
"""Bugs in what few of all random loads have: loads that have it, and of how many requests."""


def run(component: str, target: Any, requests: int, steps: int, vocabulary: Vocabulary | None = None) -> MacroCampaign:
    """Without shrinking."""
    known = component_named(component)
    loads = Loads(vocabulary or vocabulary_of(component), requests=requests)
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
    own = vocabulary_of("scheduler")
    load, requests = LOADS.get(mutant, (own.load, 8))
    target = scheduler.open_bursts("cpu")
    assert run("scheduler", target, requests, 20_000, replace(own, load=load)).finding is not None


@pytest.mark.nightly
@pytest.mark.parametrize(("load", "requests"), sorted({*LOADS.values()}, key=str))
def test_without_a_bug_nothing_is_found_on_these_loads(load: Any, requests: int) -> None:
    vocabulary = replace(vocabulary_of("scheduler"), load=load)
    assert run("scheduler", scheduler.open_bursts("cpu"), requests, 2000, vocabulary).finding is None
