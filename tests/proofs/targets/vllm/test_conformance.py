"""Lockstep with releases: what is not listed is found, what is listed must occur, and every era is in the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model.finding import Breakdown, Difference
from cacheproof.model.registry import component_named, components, variant_named
from cacheproof.model.target import Target, TargetError
from cacheproof.releases.conformance import EraResult, Trial
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Deviation, Era, Table, table
from cacheproof.targets.vllm.release import Release
from cachespec.kernel import NORMATIVE, UNSUPPORTED, Operation, Outcome
from cachespec.lru import Config, Touch

RELEASE = Release("0.33.0")
ERA = Era("lru", "M3", RELEASE)
CONFIG = Config(capacity=4, sizes=(1, 2, 3, 5), lookups=100, pins=2)
GHOSTS = Deviation("lru", "M3", RELEASE, "touch", "an absent key enters the order")


def behaving_as(tag: str) -> Callable[[Era], Target]:
    """A release that does what a variant of the specification does."""
    component = component_named("lru")
    return lambda era: SpecificationTarget(component, variant_named(component, tag))


def trial(*deviations: Deviation, steps: int = 600) -> Trial:
    return Trial.of(Table((ERA,), {"lru": (CONFIG, CONFIG)}, deviations), ERA, steps=steps, seed=1)


def test_an_era_that_is_true() -> None:
    result = trial().perform(behaving_as("M3"))
    assert (result.agrees, result.steps, result.finding) == (True, 600, None)
    assert result.observables == {"order", "sizes", "used", "hits", "total"}


def test_the_steps_are_shared_out_and_rounded_up() -> None:
    assert trial(steps=601).perform(behaving_as("M3")).steps == 602


def test_an_era_that_is_wrong() -> None:
    result = trial().perform(behaving_as("M2"))
    assert isinstance(result.finding, Difference)
    assert not result.agrees
    assert not result.broke_down


def test_an_operation_that_the_release_lacks_is_no_difference() -> None:
    """The driver says so when it is greeted, and is not asked for it."""
    component = component_named("lru")
    there = [f"lru/operation/{kind.wire_name()}" for kind in component.operations if kind is not Touch]

    class Lacking(SpecificationTarget):
        features = there

        def apply(self, operation: Operation) -> Outcome:
            return UNSUPPORTED if isinstance(operation, Touch) else super().apply(operation)

    result = trial().perform(lambda era: Lacking(component, variant_named(component, "M3")))
    assert (result.agrees, result.finding) == (True, None)
    assert "touch" not in result.operations
    Lacking.features = []
    assert isinstance(
        trial().perform(lambda era: Lacking(component, variant_named(component, "M3"))).finding, Difference
    )


def test_a_deviation_that_is_listed_and_occurs() -> None:
    result = trial(GHOSTS).perform(behaving_as("M2"))
    assert (result.agrees, result.known, result.vanished) == (True, [GHOSTS], [])
    assert "touch" not in result.operations


def test_a_deviation_that_is_listed_and_does_not_occur() -> None:
    result = trial(GHOSTS).perform(behaving_as("M3"))
    assert (result.agrees, result.known, result.vanished) == (False, [], [GHOSTS])


@pytest.mark.parametrize("error", [TargetError("the driver is gone"), KeyboardInterrupt()], ids=["driver", "ctrl-c"])
def test_a_deviation_that_could_not_be_looked_for_has_not_vanished(error: BaseException) -> None:
    """What is listed is left out first, so the first touch is made when it is looked for."""

    class Ending(SpecificationTarget):
        def apply(self, operation: Operation) -> Outcome:
            if isinstance(operation, Touch):
                raise error
            return super().apply(operation)

    component = component_named("lru")
    result = trial(GHOSTS).perform(lambda era: Ending(component, variant_named(component, "M3")))
    assert (result.agrees, result.known, result.vanished, result.steps) == (False, [], [], 600)
    assert (result.broke_down, result.interrupted) == (isinstance(error, TargetError), not result.broke_down)


def test_ctrl_c_between_two_eras_keeps_what_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A good part of the time goes into starting releases."""
    started: list[Era] = []

    def performed(self: Trial, opener: object) -> EraResult:
        started.append(self.era)
        if len(started) == 2:
            raise KeyboardInterrupt
        return EraResult(self.era, seed=1, steps=9)

    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    monkeypatch.setattr(Trial, "perform", performed)
    monkeypatch.setattr("cacheproof.command.conform.needed", lambda release: None)
    monkeypatch.setattr("cacheproof.command.conform.obstacle", lambda there, component: "")
    assert dispatch(["conform", RELEASE.name, "--explore", "none", "--json"]) == ExitStatus.INCONCLUSIVE
    told = json.loads(capsys.readouterr().out)
    assert told["interrupted"]
    assert [(one["component"], one["steps"]) for one in told["results"]] == [(started[0].component, 9)]


def test_a_deviation_of_another_release_is_not_this_ones() -> None:
    other = Deviation("lru", "M3", Release("0.20.2"), "touch", GHOSTS.reason)
    assert isinstance(trial(other).perform(behaving_as("M2")).finding, Difference)


def test_a_driver_that_fails_is_no_verdict() -> None:
    class Broken(SpecificationTarget):
        def apply(self, operation: Operation) -> Outcome:
            raise TargetError("the driver is gone")

    component = component_named("lru")
    result = trial().perform(lambda era: Broken(component, component.normative))
    assert isinstance(result.finding, Breakdown)
    assert (result.broke_down, result.agrees) == (True, False)


def test_every_variant_stands_for_a_release_or_says_why_not() -> None:
    """A variant that is neither compared nor excused is not known to be true; one that is both has a wrong excuse."""
    compared = {(era.component, era.variant) for era in table().eras}
    excused = set(table().undriven)
    there = {(name, tag) for name, one in components().items() for tag in one.variants if tag != NORMATIVE}
    assert compared | excused == there
    assert not compared & excused


def test_the_table_names_what_there_is() -> None:
    for era in table().eras:
        assert variant_named(component_named(era.component), era.variant).tag == era.variant
        assert table().configurations[era.component]


def test_releases_are_in_their_order() -> None:
    assert [one.version for one in table().releases()] == ["0.7.3", "0.11.0", "0.20.2", "0.33.0"]


def test_a_wrong_configuration_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "eras.toml"
    path.write_text('era = []\n[[configuration]]\ncomponent = "lru"\ncapacity = 0\nsizes = [1]\n', encoding="utf-8")
    with pytest.raises(InputError, match="capacity must be positive"):
        table(path)
