"""The tensor search itself: sets of keys, violations with their traces, limits, and what it refuses to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import component_named
from cacheproof.search import campaign, clock, tensor
from cacheproof.search.result import Ending, Snapshot
from cacheproof.search.tasks import tasks_for
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.search.tensor.keys import distinct
from cacheproof.targets.tensor import eras_of
from cacheproof.tensor_models import model_of
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.lru.configuration import Config as LruConfig
from cachespec.lru.operations import Pin, Pop, Put

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

LRU = LruConfig(capacity=3, sizes=(1, 1, 2), lookups=1, pins=1)
ENCODER = EncoderConfig(capacity=2, sizes=(1, 2), requests=((0,), (1,)), failures=1)


def explore(config: Any, plan: Plan | None = None, watch: Callable[[Snapshot], None] | None = None) -> Any:
    component = component_named("lru" if isinstance(config, LruConfig) else "encoder_cache")
    return tensor.explore(component, component.normative, config, plan, watch)


def test_portions_make_no_difference() -> None:
    model = model_of(component_named("lru"), LRU)
    level = Expansion(model).start()
    for _ in range(3):
        level = distinct(torch.cat([edges.target for edges in Expansion(model).edges(level)])).words
    whole, portions = (
        sorted(edge for edges in Expansion(model, size).edges(level) for edge in map(str, edges.listed()))
        for size in (1 << 15, 7)
    )
    assert whole == portions
    assert len(whole) > 100


@pytest.mark.parametrize("symmetry", [False, True])
def test_a_violation_has_a_shortest_trace(plant: Plant, symmetry: bool) -> None:
    plant("cacheimpl.lru.operations.removed", "$cache.pinned & ~$leaving", "$cache.pinned")
    found = explore(LRU, Plan(symmetry=symmetry, until=frozenset({"LRU-3"})))
    assert found.ending is Ending.FOUND
    (violation,) = (violation for violation in found.violations if violation.property == "LRU-3")
    operations = violation.trace.operations
    assert [type(operation) for operation in operations] == [Put, Pin, Pop]
    assert len({operation.key for operation in operations}) == 1
    assert violation.trace.steps[0].observations["order"] == (operations[0].key,)
    assert violation.trace.steps[2].observations["order"] == ()


def test_a_step_property_is_broken_by_its_last_step(plant: Plant) -> None:
    plant("cacheimpl.encoder_cache.accounting.place", "without($cache.freed, $entry)", "$cache.freed")
    found = explore(ENCODER, Plan(until=frozenset({"ENC-7"})))
    (violation,) = (violation for violation in found.violations if violation.property == "ENC-7")
    assert violation.trace.operations[-1].wire_name() == "report"
    reported = violation.trace.steps[-1].outcome.values
    assert set(reported) & set(violation.trace.steps[-1].observations["cached"])
    shorter = explore(ENCODER, Plan(depth=len(violation.trace.steps) - 1))
    assert "ENC-7" not in {violation.property for violation in shorter.violations}


def test_the_first_violation_ends_the_search_with_its_level(plant: Plant) -> None:
    plant("cacheimpl.lru.operations.removed", "$cache.pinned & ~$leaving", "$cache.pinned")
    found = explore(LRU, Plan(first=True))
    assert (found.ending, found.depth) == (Ending.FOUND, 3)


def test_depth_and_limits() -> None:
    shallow = explore(LRU, Plan(depth=2))
    assert (shallow.ending, shallow.depth) == (Ending.DEPTH, 2)
    assert explore(LRU, Plan(limit_states=20)).ending is Ending.STATES
    assert explore(LRU, Plan(limit_seconds=0.0)).ending is Ending.SECONDS


def test_an_interruption_keeps_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", 0.0)
    snapshots: list[Snapshot] = []

    def watch(snapshot: Snapshot) -> None:
        snapshots.append(snapshot)
        if snapshot.depth == 2:
            raise KeyboardInterrupt

    found = explore(LRU, watch=watch)
    assert (found.ending, found.depth) == (Ending.INTERRUPTED, 2)
    assert snapshots[0].depth == 0
    assert found.states == snapshots[-1].states > 1


@pytest.mark.parametrize(
    ("name", "variant", "plan", "reason"),
    [
        ("encoder_cache", "E1", Plan(), "normative"),
        ("lru", "normative", Plan(granularity=Granularity.STEP), "whole calls"),
        ("lru", "normative", Plan(liveness=True, symmetry=False), "liveness"),
    ],
)
def test_what_it_cannot_do_is_said(name: str, variant: str, plan: Plan, reason: str) -> None:
    component = component_named(name)
    with pytest.raises(InputError, match=reason):
        tensor.explore(component, component.variants[variant], LRU, plan)


def test_a_count_that_does_not_fit_in_a_word_is_refused() -> None:
    config = LruConfig(capacity=2, sizes=(1,), lookups=2**63 - 1)
    with pytest.raises(InputError, match="hits has 9223372036854775808 values, more than a word: explore this scope"):
        explore(config, Plan(symmetry=False))


def test_the_runs_of_a_campaign_are_those_it_can_do() -> None:
    lru, publication = component_named("lru"), component_named("publication")
    tasks = tasks_for([lru, publication], engine="tensor")
    assert {(task.component, task.engine) for task in tasks} == {("lru", "tensor")}
    assert {task.variant for task in tasks} == {"normative", *eras_of("lru")}
    run = campaign.perform(tasks[0])
    assert run.judgement.status is ExitStatus.AS_EXPECTED
    assert run.scope.expectation("normative").digest == run.exploration.digest
    with pytest.raises(InputError, match="publication has no tensor code"):
        tasks_for([publication], engine="tensor")
    with pytest.raises(InputError, match="normative variant, not of E1"):
        tasks_for([component_named("encoder_cache")], variant="E1", engine="tensor")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from cacheproof.foundation.errors import MissingExtraError
from cacheproof.search.engines import engine_named
try:
    engine_named("tensor")
except MissingExtraError as error:
    print(error)
"""


def test_without_torch_it_says_which_extra_it_needs() -> None:
    said = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "the engine 'tensor' needs the extra 'torch': pip install 'CHECKOUT_OR_WHEEL[torch]'"
