"""Random configurations: they hold, come again, and lead where the listed ones do not."""

from __future__ import annotations

import random
from itertools import combinations, islice

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model import configurations as package
from cacheproof.model.configurations import GENERATORS, configurations, drawn, near
from cacheproof.model.configurations import scheduler as scheduler_configurations
from cacheproof.model.finding import Difference
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scopes_of
from cacheproof.releases.budget import RANDOM
from cacheproof.releases.conformance import Trial
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release
from cachespec.kv_blocks import AllocateSlots
from cachespec.kv_blocks.era_on_demand import allocate
from cachespec.lru import Config
from cachespec.scheduler import Config as SchedulerConfig
from cachespec.scheduler import Schedule
from cachespec.scheduler.configuration import UNSPECIFIED

NEED_EXTERNAL = ("loads_later", "load_failures", "failed_loads_end")
ON_BY_DEFAULT = {"chunked_prefill", "prefix_caching"}
NOT_TOGETHER = {
    (min(pair), max(pair))
    for setting, other in (each.settings for each in UNSPECIFIED if each.settings)
    for pair in ((setting, other), *((setting, late) for late in NEED_EXTERNAL if other == "external"))
    if other not in ON_BY_DEFAULT
} | {("ahead", "pooling"), ("pipelined", "pooling")}
"""Settings of a scheduler that are refused together."""
GENERATED = [era for era in table().eras if era.component in GENERATORS]


def test_every_component_that_releases_are_compared_in_has_one() -> None:
    assert {era.component for era in table().eras} <= set(GENERATORS)


def test_those_of_a_scheduler_have_every_setting_and_most_pairs_of_them() -> None:
    drawn_ones = list(islice(configurations(component_named("scheduler"), 1), 4000))
    plain = SchedulerConfig._field_defaults
    there = [frozenset(name for name in plain if getattr(one, name) != plain[name]) for one in drawn_ones]
    pairs = {pair for names in there for pair in combinations(sorted(names), 2)}
    assert set().union(*there) == set(plain)
    assert pairs == set(combinations(sorted(plain), 2)) - NOT_TOGETHER
    assert {one.ahead for one in drawn_ones} == {1, 2, 3}
    repeated = [one for one in drawn_ones for items in one.items if len({item[0] for item in items}) < len(items)]
    assert repeated
    served = sum(scheduler_configurations.all_can_be_served(one) for one in drawn_ones)
    assert len(drawn_ones) / 2 < served < len(drawn_ones), "some requests can never be served"


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_they_hold_and_differ_and_come_again(name: str) -> None:
    component = component_named(name)
    first = list(islice(configurations(component, 1), 100))
    assert [component.invalid(config) for config in first] == [None] * 100
    assert len(set(first)) > 90
    assert first == list(islice(configurations(component, 1), 100))
    assert first[7] == drawn(component, 1, 7), "a part of a run can be had alone"
    assert first != list(islice(configurations(component, 2), 100))


@pytest.mark.parametrize("era", GENERATED, ids=lambda era: f"{era.component}-{era.variant}-{era.release.version}")
def test_every_one_can_be_run_for_every_era(era: Era) -> None:
    component = component_named(era.component)
    variant = component.variants[era.variant]
    for config in islice(configurations(component, 3, era.has), 8):
        done = lockstep(component, variant, config, SpecificationTarget(component, variant), steps=25, seed=1)
        assert (done.finding, done.tally.steps) == (None, 25)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_those_around_a_scope_hold_and_keep_a_part_of_it(name: str) -> None:
    component, scope = component_named(name), scopes_of(component_named(name))[0].config
    around = [near(component, scope, number) for number in range(1, 60)]
    assert [component.invalid(config) for config in around] == [None] * 59
    assert len(set(around)) > 40
    assert around[7] == near(component, scope, 8)
    kept = [sum(getattr(config, field) == getattr(scope, field) for field in scope._fields) for config in around]
    assert max(kept) >= 0.8 * len(scope._fields)
    assert min(kept) < 0.6 * len(scope._fields)


def test_around_a_scope_of_a_component_without_a_generator_is_the_scope() -> None:
    component = component_named("publication")
    config = scopes_of(component)[0].config
    assert near(component, config, 5) is config


def test_those_that_are_not_suitable_are_drawn_again() -> None:
    lru = component_named("lru")
    found = list(islice(configurations(lru, 1, lambda config: config.capacity == 5), 20))
    assert {config.capacity for config in found} == {5}
    with pytest.raises(InputError, match="lru: none of 2,000 random configurations is suitable"):
        drawn(lru, 1, 0, lambda config: config.capacity > 1_000)


def test_a_generator_of_what_does_not_hold_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(source: random.Random) -> Config:
        return Config(capacity=0, sizes=(source.randint(1, 2),))

    monkeypatch.setattr(package, "GENERATORS", {"lru": wrong})
    with pytest.raises(InputError, match="none of 2,000"):
        drawn(component_named("lru"), 1, 0)
    with pytest.raises(InputError, match="ring has no generator of configurations: there are lru"):
        next(configurations(component_named("ring"), 1))


def test_they_show_what_no_listed_configuration_does() -> None:
    """K1 as it was believed to be until random ones were tried: a count of registered blocks that never goes back."""
    component = component_named("kv_blocks")
    right = component.variants["K1"]

    def never_back(config: object, pool: object, op: object) -> object:
        return allocate(config, pool, op, goes_back=0)  # type: ignore[arg-type]  # a transition of any state

    believed = right.era("believed", "believed", {AllocateSlots: never_back}, {AllocateSlots: "as believed"})  # type: ignore[dict-item]  # the same
    target = SpecificationTarget(component, believed)
    listed = Trial.of(table(), Era("kv_blocks", "K1", Release("0.11.0")), steps=3_000, seed=1)
    assert listed.perform(lambda era: target).agrees
    repeating = islice(configurations(component, 1, lambda config: bool(config.repeats == 1)), 20)
    runs = (lockstep(component, right, config, target, steps=200, seed=1) for config in repeating)
    assert any(isinstance(run.finding, Difference) for run in runs)


def test_settings_that_a_release_does_not_have_together_are_left_out() -> None:
    era = Era("scheduler", "S3", Release("0.33.0"), lacks=("external",), apart=(("ahead", "drafts"),))
    found = list(islice(configurations(component_named("scheduler"), 1, era.has), 60))
    assert all(one.external == () and (one.ahead == 1 or one.drafts == 0) for one in found)
    assert any(one.ahead > 1 for one in found)
    assert any(one.drafts > 0 for one in found)


def test_a_component_has_a_budget_of_its_own() -> None:
    era = next(one for one in table().eras if one.component == "scheduler" and one.variant == "S3")
    listed = Trial.of(table(), era, steps=100, seed=1)
    trial = listed.with_random_configurations()
    budget = RANDOM["scheduler"]
    assert len(trial.drawn) == -(-100 * budget.times // budget.steps_in_each)
    assert all(era.has(config) for config in trial.drawn)
    assert trial.configurations == listed.configurations
    other = Trial.of(table(), Era("lru", "M3", Release("0.33.0")), steps=100, seed=1)
    assert other.with_random_configurations() == other


def test_what_the_listed_configurations_of_a_scheduler_do_not_show_is_found_in_the_budget() -> None:
    """A release that is S3 but for three steps ahead of their output, which no listed configuration has."""
    component = component_named("scheduler")
    era = next(one for one in table().eras if one.component == "scheduler" and one.variant == "S3")
    right = component.variants["S3"]

    def only_two(config: SchedulerConfig, state: object, operation: Schedule) -> object:
        return right.transitions[Schedule](config._replace(ahead=min(config.ahead, 2)), state, operation)

    lagging = right.era("lagging", "two steps ahead", {Schedule: only_two}, {Schedule: "at most two steps ahead"})  # type: ignore[dict-item]  # a transition of any state
    trial = Trial.of(table(), era, steps=1_000, seed=1)
    assert trial.perform(lambda era: SpecificationTarget(component, lagging)).agrees
    found = trial.with_random_configurations().perform(lambda era: SpecificationTarget(component, lagging))
    assert isinstance(found.finding, Difference)


def test_settings_that_a_release_lacks_are_left_out() -> None:
    plain = Era("kv_blocks", "K1", Release("0.11.0"), lacks=("groups", "hashes"))
    trial = Trial.of(table(), plain, steps=4_000, seed=1).in_random_configurations()
    assert len(trial.configurations) == 20
    assert {(config.groups, config.hashes) for config in trial.configurations} == {(0, ())}
