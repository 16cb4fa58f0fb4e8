"""The eras of the cache by recency on tensors: explored as the specification is, to the end, and bugs found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cacheimpl.answer import Code
from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheimpl.lru import Config as TensorConfig
from cacheimpl.lru import ghosts
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.search import reference, tensor
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.tensor.refinement import compare
from cacheproof.targets.factory import open_target
from cacheproof.targets.tensor import eras_of
from cacheproof.tensor_models import model_of
from cachespec.lru.configuration import Config

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

LRU = component_named("lru")
COUNTED = Config(capacity=3, sizes=(1, 1, 2), lookups=1, pins=1)
GROWING = Config(capacity=3, sizes=(1, 0, 2), grown=(1, 3, 3), lookups=0, pins=2)
ERAS, GHOSTS = "cacheimpl.lru.eras", "cacheimpl.lru.ghosts"


def seen(found: Exploration) -> tuple[Any, ...]:
    broken = sorted((one.property, len(one.trace.steps)) for one in found.violations)
    return found.states, found.transitions, found.depth, found.digest, found.ending, found.witnessed, broken


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize("config", [COUNTED, GROWING], ids=["counted", "growing"])
@pytest.mark.parametrize("era", ["M3", "M2", "stale-growth"])
def test_an_era_is_explored_as_the_specification_is(era: str, config: Config, symmetry: bool) -> None:
    plan, variant = Plan(symmetry=symmetry), LRU.variants[era]
    ours = tensor.explore(LRU, variant, config, plan, share=1.0)
    assert seen(ours) == seen(reference.explore(LRU, variant, config, plan))
    assert (ours.parting, ours.ending, ours.triples) == (None, Ending.EXHAUSTED, ours.transitions)


def test_every_era_can_be_asked_for() -> None:
    assert {"normative", *eras_of("lru")} == set(LRU.variants)


def test_calls_that_never_end_are_among_what_is_explored() -> None:
    found = tensor.explore(LRU, LRU.variants["M2"], COUNTED, Plan())
    assert found.coverage["put"]["diverged"] > 10
    assert found.coverage["clear"]["diverged"] > 10
    assert set(found.coverage["evict"]) == {"done"}


@pytest.mark.parametrize("era", ["M3", "M2", "stale-growth"])
def test_the_target_is_the_era_that_it_is_compared_with(era: str) -> None:
    target = open_target("torch", LRU, LRU.variants[era])
    config = Config(capacity=6, sizes=(1, 2, 3, 4, 7), grown=(2, 5, 1, 4, 6), lookups=1000, pins=2)
    assert lockstep(LRU, LRU.variants[era], config, target, steps=400, seed=3).finding is None
    assert lockstep(LRU, LRU.normative, config, target, steps=2000, seed=3, seconds_to_shrink=0).finding is not None


@pytest.mark.parametrize("keys", [2, 3, 64, 4096])
def test_a_ghost_ends_the_loop_at_every_size(keys: int) -> None:
    """The function that is explored, with as many keys of one byte as there are bytes, the ghost in their middle."""
    config, cache = TensorConfig(torch.tensor(keys - 1)), ghosts.empty(keys)
    others = torch.arange(keys - 1, dtype=torch.int32)
    middle = (keys - 1) // 2
    cache = cache._replace(
        ranks=torch.cat((torch.where(others < middle, others, others + 1), torch.tensor([middle], dtype=torch.int32))),
        present=torch.arange(keys) < keys - 1,
        sizes=(torch.arange(keys) < keys - 1).long(),
        used=torch.tensor(keys - 1),
    )
    before = cache
    cache, answer = ghosts.put(config, cache, torch.tensor(keys - 1), torch.tensor(keys - 1))
    assert int(answer.code) == Code.DIVERGED
    assert (int(cache.present.sum()), int(cache.doing), int(cache.putting)) == (keys - 1 - middle, 1, keys - 1)
    _, cleared = ghosts.clear(config, before)
    assert int(cleared.code) == (Code.DIVERGED if middle < keys - 1 else Code.DONE)


MUTANTS: dict[str, tuple[str, str, str, str]] = {
    "nothing is evicted before it fails": (
        "M3",
        f"{ERAS}._put_after_evicting",
        "choose($fits, stored(*$rest), $evicted)",
        "choose($fits, stored(*$rest), cache)",
    ),
    "it fails as if refused": ("M3", f"{ERAS}._put_after_evicting", "Code.FAILED", "Code.REFUSED"),
    "its own eviction counts as gain": (
        "M3",
        f"{ERAS}.put_until_pinned",
        "torch.where($x, 0, $cache.sizes)",
        "$cache.sizes",
    ),
    "what shrinks counts twice": (
        "stale-growth",
        f"{ERAS}.put_counting_twice",
        "torch.where($grows, *$rest)",
        "torch.where($grows | True, *$rest)",
    ),
    "its old size is given back": (
        "stale-growth",
        f"{ERAS}.put_counting_twice",
        "$cache.used",
        "$cache.used - row($cache.sizes, key)",
    ),
    "a touch leaves no ghost": (
        "M2",
        f"{GHOSTS}.touch",
        "(changed($cache, $z), answer(either($found, Code.DONE, Code.ABSENT)))",
        "(choose($found, changed($cache, $z), $cache), answer(either($found, Code.DONE, Code.ABSENT)))",
    ),
    "a ghost is evicted": ("M2", f"{GHOSTS}.put", "($chosen & $absent).any", "($chosen & $absent & ~$absent).any"),
    "what is behind a ghost goes": ("M2", f"{GHOSTS}.put", "$chosen & ($y == 0)", "$chosen"),
    "the ghost itself goes": ("M2", f"{GHOSTS}.put", "$x & ~$absent", "$x"),
    "a ghost that is stored stays one": (
        "M2",
        f"{GHOSTS}.stored",
        "$cache.present | is_row($cache.present, $key)",
        "$cache.present",
    ),
    "clearing passes ghosts": (
        "M2",
        f"{GHOSTS}.clear",
        "$cache.present & ~$before_ghosts",
        "$cache.pinned & ~$cache.pinned",
    ),
    "clearing keeps what was counted": (
        "M2",
        f"{GHOSTS}.clear",
        "torch.zeros_like($cache.hits)",
        "$cache.hits",
    ),
    "a call that never ends is over": (
        "M2",
        f"{GHOSTS}.put",
        "torch.full_like($cache.doing, PUTTING)",
        "torch.full_like($cache.doing, IDLE)",
    ),
    "popping takes a ghost": (
        "M2",
        f"{GHOSTS}.pop",
        "_if_present($cache, $key, ($gone, $y))",
        "($gone, answer(either(row($cache.present, $key), Code.DONE, Code.ABSENT)))",
    ),
    "a ghost is found": (
        "M2",
        f"{GHOSTS}.get",
        "$cache.present",
        "queued($cache.ranks)",
    ),
}


def caught(era: str) -> str:
    for config in (COUNTED, GROWING):
        try:
            difference = compare(model_of(LRU, config, "cpu", era)).difference
        except (OutOfBoundsError, RoundTripError) as error:
            return type(error).__name__
        if difference is not None:
            return difference.operation.wire_name()
    return "nothing"


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, plant: Plant) -> None:
    era, where, right, planted = MUTANTS[name]
    plant(where, right, planted)
    assert caught(era) != "nothing"
