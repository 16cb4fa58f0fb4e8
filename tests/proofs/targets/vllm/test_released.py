"""The real thing: released packages, installed from the package index, in lockstep with their eras."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest

from cacheproof.catalogue.kept import load
from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.stalls import Sort, StallSearch, Watch, search
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import scope_named
from cacheproof.model.wire import operation_from_message
from cacheproof.releases.conformance import Trial, open_released, open_with_readers_apart
from cacheproof.releases.nearest import lines_for
from cacheproof.targets.factory import open_target
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.opening import SHARED
from cacheproof.targets.vllm.release import START, Release, add

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

STEPS = 5_000
STEPS_OF_AN_ERA = 20_000


def identified(era: Era) -> str:
    return f"{era.component}-{era.variant}-{era.release.version}"


@pytest.mark.parametrize("era", table().eras, ids=identified)
def test_the_era_is_true(era: Era) -> None:
    add(era.release, progress=print)
    result = Trial.of(table(), era, steps=STEPS_OF_AN_ERA, seed=2).perform()
    assert result.finding is None, getattr(result.finding, "statements", result.finding)
    assert result.agrees
    assert result.steps >= STEPS_OF_AN_ERA


@pytest.mark.parametrize("era", table().eras, ids=identified)
def test_the_era_is_true_in_random_configurations(era: Era) -> None:
    add(era.release, progress=print)
    result = Trial.of(table(), era, steps=STEPS, seed=3).in_random_configurations().perform()
    assert result.finding is None, getattr(result.finding, "statements", result.finding)
    assert result.agrees
    assert result.steps >= STEPS


@pytest.mark.parametrize("era", [era for era in table().eras if era.component in SHARED], ids=identified)
def test_the_era_is_true_of_readers_in_processes_of_their_own(era: Era) -> None:
    add(era.release, progress=print)
    trial = Trial.of(table(), era, steps=STEPS, seed=4)
    for one in (trial, trial.in_random_configurations()):
        result = one.perform(open_with_readers_apart)
        assert result.finding is None, getattr(result.finding, "statements", result.finding)
        assert result.steps >= STEPS


@pytest.mark.parametrize(
    ("release", "component", "like"),
    [
        ("0.12.0", "lru", "M2"),
        ("0.12.0", "encoder_cache", "E1"),
        ("0.12.0", "encoder_budget", "B4"),
        ("0.12.0", "mirror", "M2"),
        ("0.12.0", "configuration", "M1"),
        ("0.12.0", "ring", "M2"),
        ("0.12.0", "object_store", "M2"),
        ("0.8.5", "lru", "M2"),
        ("0.8.5", "encoder_cache", "E0"),
        ("0.8.5", "encoder_budget", "B4"),
        ("0.8.5", "block_hash", "K0b"),
    ],
)
def test_a_release_that_is_no_era_is_as_one_of_its_neighbours(release: str, component: str, like: str) -> None:
    there = add(Release(release), progress=print)
    eras, undriven = lines_for(table(), Release(release), component, there.obstacle)
    results = {era.variant: Trial.of(table(), era, steps=STEPS, seed=2).perform() for era in eras}
    assert undriven == []
    assert [variant for variant, result in results.items() if result.agrees] == [like]
    assert {variant for variant, result in results.items() if result.broke_down} <= {"ED"}, "0.12.0 has no such manager"


@pytest.mark.parametrize(
    ("component", "right", "wrong"),
    [
        ("lru", "M2", "M3"),
        ("lru", "M3", "M2"),
        ("lru", "stale-growth", "M3"),
        ("lru", "M3", "stale-growth"),
        ("encoder_cache", "E0", "E1"),
        ("encoder_cache", "E1", "E1b"),
        ("encoder_cache", "E1b", "E2"),
        ("encoder_cache", "E2", "normative"),
        ("encoder_cache", "ED", "E2"),
        ("encoder_budget", "B3", "B5"),
        ("encoder_budget", "B4", "B5"),
        ("encoder_budget", "B5", "B4"),
        ("encoder_budget", "B5", "normative"),
        ("configuration", "M1", "M3"),
        ("configuration", "M3", "M1"),
        ("mirror", "M0", "M1"),
        ("mirror", "M1", "M2"),
        ("mirror", "M2", "M1"),
        ("mirror", "M3", "M2"),
        ("block_hash", "K0b", "K1"),
        ("block_hash", "K1", "K0b"),
        ("block_hash", "K1b", "K1"),
        ("block_hash", "K2", "K1b"),
        ("ring", "M1", "M2"),
        ("ring", "M2", "M3"),
        ("ring", "M3", "M2"),
        ("object_store", "M1", "M2"),
        ("object_store", "M2", "M3"),
        ("object_store", "M3", "M2"),
        ("kv_blocks", "K0b", "K1"),
        ("kv_blocks", "K1", "K0b"),
        ("kv_blocks", "K1", "K1b"),
        ("kv_blocks", "K1b", "K1"),
        ("kv_blocks", "K1b", "K2"),
        ("kv_blocks", "K2", "K1b"),
        ("kv_blocks", "K2", "normative"),
        ("scheduler", "S1", "S2"),
        ("scheduler", "S2", "S3"),
        ("scheduler", "S2b", "S3"),
        ("scheduler", "S2b", "S2"),
        ("scheduler", "S3", "S2"),
        ("scheduler", "S3", "normative"),
    ],
)
def test_an_era_of_another_release_is_found_out(component: str, right: str, wrong: str) -> None:
    """The release of `right` is driven, and compared with `wrong`."""
    driven = next(era for era in table().eras if (era.component, era.variant) == (component, right))
    add(driven.release, progress=print)
    trial = Trial.of(table(), dataclasses.replace(driven, variant=wrong), steps=STEPS, seed=2)
    assert isinstance(trial.perform(lambda era: open_released(driven)).finding, Difference)


# In the scopes of the object store the header of a chunk is smaller than in any release.
@pytest.mark.parametrize("era", [era for era in table().eras if era.component != "object_store"], ids=identified)
def test_catalogued_violations_are_the_releases_own(era: Era) -> None:
    """The shortest traces of the era's violations, call by call: the release does and shows the same."""
    component = component_named(era.component)
    variant = variant_named(component, era.variant)
    add(era.release, progress=print)
    target = open_released(era)
    try:
        for kept in load(era.component).values():
            config = scope_named(component, kept.scope).config
            if kept.variant != era.variant or not era.has(config):
                continue
            subject = Subject(component, variant, config)
            calls = [operation_from_message(component.operations, message) for message in kept.operations]
            pair = Pair(subject, target, era.release.name)
            finding = pair.replay(calls, only_offered=True)
            assert finding is None, f"{kept.catalogue}, {kept.rule}: {finding}"
            assert pair.operations == calls or pair.offered == (), "made to the end, or to the call that never returns"
    finally:
        target.close()


@pytest.mark.parametrize("scope", ["shared-memory-cleared", "shared-memory-frozen", "shared-memory-resumed"])
@pytest.mark.parametrize("era", [era for era in table().eras if era.component == "engine"], ids=identified)
def test_items_in_shared_memory_that_are_a_count_and_no_bytes(era: Era, scope: str) -> None:
    """The smallest items of the scopes: no bytes tell a worker whose item it has read."""
    component = component_named("engine")
    config = scope_named(component, scope).config
    assert min(config.sizes) == 1
    assert era.has(config)
    add(era.release, progress=print)
    target = open_released(era)
    try:
        done = lockstep(component, variant_named(component, era.variant), config, target, steps=3_000, seed=5)
    finally:
        target.close()
    assert done.finding is None, getattr(done.finding, "statements", done.finding)
    codes = {code for (operation, code), count in done.tally.outcomes.items() if operation == "execute" and count}
    assert codes == ({"done", "failed"} if scope == "shared-memory-cleared" else {"done"})


def looked_for_stalls(version: str, steps: int) -> StallSearch:
    component = component_named("scheduler")
    add(Release(version), progress=print)
    target = open_target(f"vllm=={version}", component, component.normative, 60.0)
    try:
        return search(target, limit=Limit(steps=steps), seed=1, wanted=(Sort.STALL,))
    finally:
        target.close()


def test_the_scheduler_of_0_11_0_stalls_with_items_that_waiting_requests_hold() -> None:
    """C-ENC-10, with no hint: identical observables and empty steps, twice as many as there are requests."""
    found = looked_for_stalls("0.11.0", 40_000).finding
    assert found is not None
    assert found.idle >= 2 * len(found.config.prompts)
    assert found.shown["waiting"]
    held = found.config.encoder_capacity - int(str(found.shown["encoder_free"]))
    assert held > 0
    component = component_named("scheduler")
    normative = SpecificationTarget(component, component.normative)
    assert Watch(normative, found.config, Tally()).again(found.calls) is None, "all are served"


@pytest.mark.parametrize("version", ["0.20.2", "0.33.0"])
def test_later_schedulers_were_not_seen_to_stall(version: str) -> None:
    done = looked_for_stalls(version, 20_000)
    assert done.finding is None
    assert done.tally.steps >= 20_000


def test_the_list_of_stand_ins_is_complete_and_no_longer() -> None:
    spec = importlib.util.spec_from_file_location("stand_ins", START.parent / "driver" / "stand_ins.py")
    assert spec is not None
    assert spec.loader is not None
    listed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(listed)
    used: set[str] = set()
    for release in table().releases():
        used.update(add(release, progress=print).record["stand_ins"])
    assert used == {*listed.PACKAGES, *listed.MODULES}


@pytest.mark.parametrize("release", table().releases(), ids=str)
def test_what_is_driven_is_the_releases_own(release: Release) -> None:
    files = add(release, progress=print).record["files"]
    assert "vllm/v1/core/encoder_cache_manager.py" in files
    assert {"vllm/utils.py", "vllm/utils/__init__.py", "vllm/utils/cache.py"} & set(files), "the LRU cache"
    assert "vllm/v1/engine/mm_input_cache.py" in files or [name for name in files if "multimodal/cache" in name]
