"""Where a release is searched: in configurations that it has, and a scheduler alone where no era describes it."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import pytest

from cacheproof.lockstep.stalls import Sort
from cacheproof.lockstep.tally import Limit
from cacheproof.model.registry import component_named
from cacheproof.model.target import TargetError
from cacheproof.present.show.violations import messages, searched_message
from cacheproof.present.show.violations_table import rendered_searches
from cacheproof.releases import searching
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era, Table, table
from cacheproof.targets.vllm.release import Release
from cachespec.kernel import FAILED, Operation, Outcome
from cachespec.scheduler import Config as SchedulerConfig

RELEASE = Release("0.20.2")
ALONE = Era("scheduler", "", RELEASE)


@pytest.mark.parametrize("era", table().eras, ids=lambda era: f"{era.component}-{era.variant}-{era.release.version}")
def test_configurations_are_those_that_a_release_has(era: Era) -> None:
    component = component_named(era.component)
    enough = 4 * max(4, len(searching.small(era)))
    drawn = list(islice(searching.configurations(table(), era, 3), enough))
    assert all(component.invalid(config) is None and era.has(config) for config in drawn)
    assert len(set(drawn)) > 2
    assert drawn == list(islice(searching.configurations(table(), era, 3), enough))
    assert set(searching.small(era)) <= set(drawn)


def test_a_scheduler_without_an_era_is_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "needed", lambda release: SimpleNamespace(obstacle=lambda component: ""))
    described = Table((Era("scheduler", "S2", Release("0.11.0")),), {}, ())
    assert searching.without_era(described, [RELEASE, Release("0.11.0")]) == [ALONE]
    monkeypatch.setattr(searching, "needed", lambda release: SimpleNamespace(obstacle=lambda component: "no driver"))
    assert searching.without_era(described, [RELEASE]) == []


def test_a_scheduler_alone_is_seen_to_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the scheduler of S2, and nobody knows that here."""
    component = component_named("scheduler")
    era = component.variants["S2"]
    monkeypatch.setattr(searching, "open_target", lambda *arguments: SpecificationTarget(component, era))
    done = searching.search(table(), ALONE, limit=Limit(steps=780), seed=1)
    assert set(done.stalls) == {Sort.STALL}
    (told,) = [one for one in messages(done) if one["ending"] == "stall"]
    assert (told["property"], told["ending"], told["reach"], told["variant"]) == ("SCH-8", "stall", "engine", "")
    assert told["idle"] >= 2 * len(told["config"]["prompts"])
    assert told["length"] == len(told["operations"]) == len(told["outcomes"]) <= 8
    assert (searched_message(done)["alone"], searched_message(done)["steps"]) == (done.alone, 0)
    assert done.alone >= 780 * searching.CALLS_ALONE


def test_half_of_the_loads_are_wide_and_none_has_drafts_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that fails as soon as a load has drafts: plain ones never have."""
    component = component_named("scheduler")
    loads: list[SchedulerConfig] = []

    class Failing(SpecificationTarget):
        def reset(self, config: SchedulerConfig) -> None:
            loads.append(config)
            super().reset(config)

        def apply(self, operation: Operation) -> Outcome:
            return FAILED if loads[-1].drafts else super().apply(operation)

    monkeypatch.setattr(searching, "open_target", lambda *arguments: Failing(component, component.normative))
    done = searching.search(table(), ALONE, limit=Limit(steps=60), seed=1)
    assert set(done.stalls) == {Sort.FAILED}
    assert any(load.drafts for load in loads)
    assert not any(load.drafts and load.ahead > 1 for load in loads)
    plain = next(place for place, load in enumerate(loads) if load.drafts)
    assert plain > 10, "the plain half comes first"


def test_a_number_that_no_violation_has_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    component = component_named("scheduler")
    era = component.variants["S2"]
    monkeypatch.setattr(searching, "open_target", lambda *arguments: SpecificationTarget(component, era))
    done = searching.search(table(), ALONE, limit=Limit(steps=780), seed=1)
    *_, last = rendered_searches([done], messages(done), [1, 7])
    assert last == "--show 7: there is no violation of this number, but 1 in all"


def test_a_driver_that_is_gone_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(SpecificationTarget):
        def reset(self, config: object) -> None:
            raise TargetError("the driver is gone")

    component = component_named("scheduler")
    monkeypatch.setattr(searching, "open_target", lambda *arguments: Failing(component, component.normative))
    done = searching.search(table(), ALONE, limit=Limit(steps=10), seed=1)
    assert (done.failure, done.stalls) == ("the driver is gone", {})
