"""Every bug that is planted in a release is found by its era, and the release as it is agrees."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cacheproof.command.frame import dispatch, main
from cacheproof.command.planted import SEED, STEPS, as_it_should, status, verdict
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model.finding import Answer, Breakdown, Difference, Finding
from cacheproof.model.trace import Trace
from cacheproof.releases.conformance import EraResult
from cacheproof.releases.exploring import explored_of
from cacheproof.releases.planted import kept
from cacheproof.releases.planted.listing import Planted, as_released, compared_with, planted_in
from cacheproof.releases.planted.trial import Fate, perform
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release, add, installed

NEWEST = Release("0.33.0")
RELEASES = table().releases()
KEPT = [release for release in RELEASES if kept.path_of(release).is_file()]
IN_EACH_COMPONENT, IN_ALL = 4, 60
WHOLES = {"engine", "kv_events"}
"""Made of the classes of other components: their bugs are in it, and it has none of its own."""


def components_of(release: Release) -> set[str]:
    return {era.component for era in table().of(release)}


def test_every_part_of_an_engine_has_bugs_of_its_own() -> None:
    planted = planted_in(NEWEST)
    for component in components_of(NEWEST) - WHOLES:
        assert sum(one.component == component for one in planted) >= IN_EACH_COMPONENT, component
    assert len(planted) >= IN_ALL
    assert len({one.name for one in planted}) == len(planted)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release.version))
def test_older_releases_have_bugs_too(release: Release) -> None:
    without = {"configuration"} if release.version == "0.20.2" else set()
    assert {one.component for one in planted_in(release)} == components_of(release) - without - WHOLES


@pytest.mark.parametrize("release", KEPT, ids=lambda release: str(release.version))
def test_what_the_page_shows_is_of_these_bugs(release: Release) -> None:
    run = kept.read(release)
    planted = planted_in(release)
    assert [row.name for row in run.rows if row.name] == [one.name for one in planted], "run it anew, with --keep"
    assert [row.says for row in run.rows if row.name] == [one.bug.says for one in planted if one.bug is not None]
    assert [row.unseen for row in run.rows if row.name] == [one.bug.unseen for one in planted if one.bug is not None]
    assert (run.steps, run.seed) == (STEPS, SEED)
    for row in run.rows:
        assert row.found == (bool(row.name) and not row.unseen), row


def test_all_releases_are_shown() -> None:
    assert KEPT == RELEASES


def test_no_bug_counts_as_hidden_in_vllm() -> None:
    assert [one.name for release in RELEASES for one in planted_in(release) if one.bug and one.bug.unseen] == []


def identified(planted: Planted) -> str:
    return f"{planted.era.release.version}-{planted.name or f'{planted.component}/as-released'}"


ALL = [one for release in RELEASES for one in [*as_released(planted_in(release)), *planted_in(release)]]


def soonest() -> list[Planted]:
    """Of each component of the newest release, the bug that was found after the fewest steps."""
    steps = {row.name: row.steps for row in kept.read(NEWEST).rows if row.found}
    found = [one for one in planted_in(NEWEST) if one.name in steps]
    return [
        min((one for one in found if one.component == component), key=lambda one: steps[one.name])
        for component in sorted(components_of(NEWEST) - WHOLES)
    ]


@pytest.fixture
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explorations of the scopes without a setting, and not compiled: with two, the scheduler's takes minutes."""
    monkeypatch.setattr("cacheproof.releases.planted.trial.explored_of", partial(explored_of, at_once=0))
    monkeypatch.setattr("cacheproof.releases.exploring.can_exhaust", lambda component, variant: False)


@pytest.mark.usefixtures("few_settings")
@pytest.mark.skipif(installed(NEWEST) is None, reason=f"{NEWEST.name} is not installed")
@pytest.mark.parametrize("component", sorted(components_of(NEWEST) - WHOLES))
def test_one_bug_of_each_component_is_found(component: str) -> None:
    planted = next(one for one in soonest() if one.component == component)
    fate = perform(planted, steps=STEPS, seed=SEED, seconds_to_shrink=0.1)
    assert fate.found, fate.result.finding
    assert status([fate]) is ExitStatus.AS_EXPECTED


@pytest.mark.usefixtures("few_settings")
@pytest.mark.skipif(installed(NEWEST) is None, reason=f"{NEWEST.name} is not installed")
@pytest.mark.parametrize("component", ["mirror", "scheduler"])
def test_a_bug_of_a_part_is_found_in_the_whole_engine(component: str) -> None:
    planted = next(one for one in soonest() if one.component == component)
    whole = replace(planted, era=compared_with(NEWEST, "engine"))
    fate = perform(whole, steps=STEPS, seed=SEED, seconds_to_shrink=0.1)
    assert fate.found, fate.result.finding


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("planted", ALL, ids=identified)
def test_every_bug_is_found(planted: Planted) -> None:
    """The first one of an era explores it as well: this takes minutes where it is not compiled yet."""
    add(planted.era.release, progress=print)
    assert as_it_should(perform(planted, steps=STEPS, seed=SEED, seconds_to_shrink=0.1))


def fate(planted: Planted, finding: Finding | None = None, *, interrupted: bool = False) -> Fate:
    """What would have become of it."""
    return Fate(planted, EraResult(planted.era, seed=1, steps=5, finding=finding, interrupted=interrupted), 1.0)


TRACE = Trace("lru", "M3", None, {}, ())
DIFFERENCE = Difference("release", TRACE, Answer(None, {"used": 1}), Answer(None, {"used": 2}))
BREAKDOWN = Breakdown("release", "the driver is gone", TRACE)
BUG = planted_in(NEWEST, "lru")[0]
(RELEASED,) = as_released([BUG])
assert BUG.bug is not None
UNSEEN = replace(BUG, bug=replace(BUG.bug, unseen="nobody looks at it"))


@pytest.mark.parametrize(
    ("planted", "finding", "ends_with", "says"),
    [
        (BUG, DIFFERENCE, ExitStatus.AS_EXPECTED, "start: used"),
        (BUG, None, ExitStatus.FELL_SHORT, "not found"),
        (BUG, BREAKDOWN, ExitStatus.INCONCLUSIVE, "the driver failed: the driver is gone"),
        (RELEASED, None, ExitStatus.AS_EXPECTED, "agrees"),
        (RELEASED, DIFFERENCE, ExitStatus.FELL_SHORT, "differs: start: used"),
        (RELEASED, BREAKDOWN, ExitStatus.INCONCLUSIVE, "the driver failed: the driver is gone"),
        (UNSEEN, None, ExitStatus.AS_EXPECTED, "not found: nobody looks at it"),
        (
            UNSEEN,
            DIFFERENCE,
            ExitStatus.FELL_SHORT,
            "start: used, though it was said that nobody looks at it",
        ),
        (UNSEEN, BREAKDOWN, ExitStatus.INCONCLUSIVE, "the driver failed: the driver is gone"),
    ],
)
def test_what_a_fate_is_worth(planted: Planted, finding: Finding | None, ends_with: ExitStatus, says: str) -> None:
    assert status([fate(planted, finding)]) is ends_with
    assert verdict(fate(planted, finding)).startswith(says)


def test_one_that_falls_short_is_worse_than_a_driver_that_failed() -> None:
    assert status([fate(BUG, BREAKDOWN), fate(BUG), fate(BUG, DIFFERENCE)]) is ExitStatus.FELL_SHORT


def test_the_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["planted", NEWEST.name, "--component", "lru", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["bugs"]
    assert listed[0]["name"] == "lru/touch-does-nothing"
    assert listed[0]["in"] == "LRUCache.touch"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["vllm==0.33.0", "--only", "lru/nothing"], "there is no bug 'lru/nothing'"),
        (["vllm==9.9.9"], "nothing is planted in vllm==9.9.9"),
        (
            ["vllm==0.7.3", "--component", "ring"],
            "nothing is planted in vllm==0.7.3: there are bugs for vllm==0.11.0",
        ),
        (["vllm==0.33.0", "--component", "strange"], "strange"),
        (["vllm==0.33.0", "--component", "lru", "--keep"], "--keep is for a whole table"),
        (["vllm=0.33.0"], "is not a release"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], given: list[str], says: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["planted", *given])
    said = capsys.readouterr().err
    assert ended.value.code == ExitStatus.WRONG_INPUT
    assert says in said
    assert said.count("\n") == 1


def test_a_run_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    with pytest.raises(InputError, match=r"no run is kept of vllm==0\.33\.0: cacheproof planted"):
        kept.read(NEWEST)
    path = kept.write(NEWEST, [fate(RELEASED), fate(BUG, DIFFERENCE)], steps=7, seed=3)
    run = kept.read(NEWEST)
    assert (run.steps, run.seed, [row.found for row in run.rows]) == (7, 3, [False, True])
    path.write_text("{")
    with pytest.raises(InputError, match=path.name):
        kept.read(NEWEST)
