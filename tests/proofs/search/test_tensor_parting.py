"""Triples compared while a scope is explored: how many, which, and where tensors part from the specification."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.command_line import ran

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.search import tensor
from cacheproof.search.result import Ending, Exploration, Parting
from cacheproof.search.tasks import Task, shares_of
from cacheproof.search.tensor.refinement import Comparison
from cacheproof.tensor_models import model_of
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.kernel import MISS
from cachespec.lru.configuration import Config as LruConfig

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

LRU = LruConfig(capacity=3, sizes=(1, 1, 2), lookups=1, pins=1)
ENCODER = EncoderConfig(capacity=2, sizes=(1, 2), requests=((0,), (1,)), failures=1)


def explored(config: Any, share: float, plan: Plan | None = None) -> Exploration:
    component = component_named("lru" if isinstance(config, LruConfig) else "encoder_cache")
    return tensor.explore(component, component.normative, config, plan, share=share)


@pytest.mark.parametrize("config", [LRU, ENCODER], ids=["lru", "encoder"])
@pytest.mark.parametrize("symmetry", [False, True])
def test_every_step_is_compared(config: Any, symmetry: bool) -> None:
    found = explored(config, 1.0, Plan(symmetry=symmetry))
    assert (found.triples, found.parting, found.ending) == (found.transitions, None, Ending.EXHAUSTED)


def test_a_share_is_spread_over_the_scope() -> None:
    found = explored(LRU, 0.25)
    assert found.triples is not None
    assert 0.2 < found.triples / found.transitions < 0.3
    comparison = Comparison(model_of(component_named("lru"), LRU), share=0.25)
    chosen = []
    for portion in (range(10), range(10, 13), range(7)):
        comparison.begin(portion)
        chosen.append(sorted(comparison._steps))
    assert chosen == [[0, 4, 8], [12], [3]]


def test_nothing_is_compared_without_a_share() -> None:
    assert explored(LRU, 0.0).triples == 0


def parting_of(config: Any) -> Parting:
    found = explored(config, 1.0)
    assert (found.ending, found.violations) == (Ending.DIFFERED, ())
    assert found.parting is not None
    return found.parting


def calls(parting: Parting) -> list[str]:
    return [operation.wire_name() for operation in parting.difference.trace.operations]


def test_another_next_state(plant: Plant) -> None:
    plant("cacheimpl.lru.operations.get", "choose($found, $hit, $counted)", "choose($found, $hit, cache)")
    parting = parting_of(LRU)
    assert parting.sentence == "get: total is 0, not 1"
    assert calls(parting) == ["get"]
    assert parting.difference.trace.steps[0].outcome == MISS
    assert (parting.difference.expected.observations["total"], parting.difference.actual.observations["total"]) == (
        1,
        0,
    )


def test_another_outcome(plant: Plant) -> None:
    plant("cacheimpl.lru.operations.touch", "Code.ABSENT", "Code.DONE")
    parting = parting_of(LRU)
    assert "touch: the outcome is" in parting.sentence
    (line,) = parting.difference.statements
    assert line == "outcome: the specification says absent, the target done"


def test_a_way_with_exchanged_names(plant: Plant) -> None:
    """What the specification says on the way has to be performed with the names that the trace has."""
    plant(
        "cacheimpl.lru.operations.put",
        "torch.where($others_pinned, $cache.sizes, 0)",
        "torch.where($cache.pinned, $cache.sizes, 0)",
    )
    plant("cacheimpl.lru.operations.removed", "$cache.pinned & ~$leaving", "$cache.pinned")
    parting = parting_of(LruConfig(capacity=2, sizes=(1, 1, 1), lookups=0, pins=1))
    assert calls(parting) == ["put", "pin", "pop"]
    assert len({operation.key for operation in parting.difference.trace.operations}) == 1  # type: ignore[attr-defined]  # all three have a key


def test_a_guard_that_allows_too_much(plant: Plant) -> None:
    plant(
        "cacheproof.tensor_models.lru.pins_are_left",
        "$cache.pinned.sum() < $config.pins",
        "$cache.pinned.sum() <= $config.pins",
    )
    parting = parting_of(LRU)
    assert parting.sentence == "pin: the guards of the specification do not allow it here"
    assert calls(parting) == ["put", "pin"], "the way to where it is, as the specification goes"


def test_a_field_out_of_bounds(plant: Plant) -> None:
    plant("cacheimpl.recency.with_newest", "length($rest)", "length($rest) + 3")
    parting = parting_of(LRU)
    assert parting.sentence == "put: ranks is 3, outside -1 to 2"
    assert calls(parting) == ["put"]


def test_a_derived_field_that_disagrees(plant: Plant) -> None:
    plant("cacheimpl.lru.operations.removed", "torch.where($leaving, $cache.sizes, 0).sum()", "0")
    parting = parting_of(LRU)
    assert parting.sentence.startswith(("pop: used is 1, not 0", "pop: used is 2, not 0"))
    assert calls(parting) == ["put", "pop"]


def test_an_initial_state_out_of_bounds() -> None:
    model = model_of(component_named("lru"), LRU)
    wrong = replace(model, initial=model.initial._replace(hits=torch.tensor(-1)))
    parting = tensor.TensorSearch(wrong, Plan()).run().parting
    assert parting is not None
    assert (parting.sentence, calls(parting)) == ("hits is -1, outside 0 to 1", [])


# How many are compared ------------------------------------------------------------------------------------------------


def task(component: str, scope: str, engine: str = "tensor") -> Task:
    return Task(component, "normative", scope, engine)


def test_small_runs_compare_all_and_large_ones_share_the_rest() -> None:
    small, middle, large = task("lru", "oversize"), task("lru", "pins"), task("encoder_cache", "budgets")
    shares = shares_of([large, small, middle], 20_000)
    assert shares[small] == shares[middle] == 1.0
    assert shares[large] == pytest.approx(1.02 * (20_000 - 648 - 1_639) / 180_128)
    assert shares_of([large, small], 10**9) == {large: 1.0, small: 1.0}
    assert shares_of([task("lru", "pins", "reference")], 100) == {}


# The command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """`cacheproof ...`: the exit status and what was printed."""
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))

    def call(*arguments: str) -> tuple[int, str]:
        ended = ran(capsys, *arguments)
        return ended.status, ended.out

    return call


PINS = ("check", "lru", "--engine", "tensor", "--scope", "pins", "--jobs", "1", "--variant", "normative")


def test_the_command_says_how_many(check: Any) -> None:
    status, text = check(*PINS)
    assert status == 0
    assert "1,639 steps of the implementation compared with the specification's" in text
    status, text = check(*PINS, "--refine", "500", "--json")
    assert status == 0
    assert 450 < json.loads(text)["triples"] == json.loads(text)["runs"][0]["triples"] < 800
    assert "compared" not in check("check", "lru", "--scope", "pins", "--jobs", "1")[1]


def test_a_difference_is_shown_as_a_trace(check: Any, plant: Plant) -> None:
    plant("cacheimpl.lru.operations.removed", "$cache.pinned & ~$leaving", "$cache.pinned")
    status, text = check(*PINS)
    assert status == 1
    assert [f"{call}(key=" in text for call in ("put", "pin", "pop")] == [True] * 3
    assert "parts from the specification after 3 operations: pop: pinned is" in text
    assert "LRU-1" not in text, "nothing is said of a scope that was not explored"
    status, text = check(*PINS, "--json")
    assert (status, json.loads(text)["ok"]) == (1, False)
    status, text = check("show", "lru.normative.pins.tensor", "--format", "pytest")
    assert status == 0
    assert 'target="torch"' in text


def test_leaving_the_layout_is_a_difference(check: Any, plant: Plant) -> None:
    plant("cacheimpl.recency.with_newest", "length($rest)", "length($rest) + 9")
    status, text = check(*PINS)
    assert status == 1
    assert "parts from the specification after 1 operation: put: ranks is 9, outside -1 to 3" in text


def test_what_explores_the_specification_compares_nothing(check: Any) -> None:
    assert check("check", "lru", "--refine", "5")[0] == 2
