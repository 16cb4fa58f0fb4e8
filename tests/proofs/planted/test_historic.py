"""Historic bugs: what is declared, how a part of a method is changed, and what a run of them says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace as replaced

from cacheproof.command import planted as verb
from cacheproof.command.frame import dispatch, main
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.present.book.planted_page import planted_part
from cacheproof.releases.planted import beside, historic, kept
from cacheproof.releases.planted.child.bugs.declaring import Place
from cacheproof.releases.planted.child.bugs.patterns import PatternError
from cacheproof.releases.planted.child.bugs.planting import recompiled, subclass
from cacheproof.releases.planted.historic import Budget, Judged
from cacheproof.releases.planted.listing import PUT_BACK_INTO, Planted, harmless_in, historic_in, planted_in, reached_by
from cacheproof.releases.planted.trial import open_with_a_bug
from cacheproof.targets.vllm.driven_files import driven_files
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release, installed, needed

AT_LEAST = 30
EVERY = historic_in(PUT_BACK_INTO)
BUDGET = Budget(steps=5_000, violations=4_000, seed=1)
NUMBER = re.compile(r"([a-z-]+)?#[0-9]+")


def test_there_are_many_and_each_has_a_public_number() -> None:
    assert len(EVERY) >= AT_LEAST
    assert len({one.name for one in EVERY}) == len(EVERY)
    for one in EVERY:
        assert one.bug is not None
        assert NUMBER.fullmatch(one.bug.fixed), one.name
        assert not one.bug.reported or NUMBER.fullmatch(one.bug.reported), one.name
        assert one.bug.says.endswith("."), one.name


def test_they_are_put_back_into_one_release_and_are_no_bugs_of_our_own() -> None:
    assert [historic_in(release) for release in table().releases() if release != PUT_BACK_INTO] == [[]] * 3
    assert not {one.name for one in EVERY} & {one.name for one in planted_in(PUT_BACK_INTO)}


def test_a_bug_is_looked_for_first_where_it_is() -> None:
    one = next(one for one in EVERY if one.component == "encoder_cache")
    assert [other.component for other in reached_by(one)] == ["encoder_cache", "scheduler"]
    assert {other.name for other in reached_by(one)} == {one.name}


class Queue:
    """A released class."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def first(self, least: int = 0) -> int:
        """The first that is large enough."""
        for number in self.numbers:
            if number >= least:
                return number
        return -1


class Doubling(Queue):
    """One that is derived from it."""

    def first(self, least: int = 0) -> int:
        """Twice as much."""
        return super().first(least) * 2


def test_one_part_of_a_method_is_changed() -> None:
    @Place("somewhere:Queue").changed("first", "$number >= $least", "$number > $least", fixed="#1")
    def equal_is_not_enough() -> None:
        """An equal number is passed over."""

    assert subclass(Queue, equal_is_not_enough)([1, 2]).first(1) == 2
    assert Queue([1, 2]).first(1) == 1


def test_a_changed_method_still_has_its_base_class() -> None:
    @Place("somewhere:Doubling").changed("first", "$value * 2", "$value * 3", fixed="#1")
    def three_times() -> None:
        """Three times as much."""

    assert subclass(Doubling, three_times)([5]).first() == 15


class Clipped(Queue):
    """One whose answer a later method changes."""

    def last(self) -> int:
        """What is asked for."""
        return self.at_least_none(self.first() - 3)

    def at_least_none(self, number: int) -> int:
        """No negative number."""
        return max(number, 0)


def test_a_method_that_hides_the_bug_is_changed_too() -> None:
    def less() -> None:
        """Two less."""

    place, change = Place("somewhere:Clipped"), ("last", "self.first() - 3", "self.first() - 5")
    hidden = place.changed(*change, fixed="#1")(less)
    shown = place.changed(*change, fixed="#1", also=("at_least_none", "max($number, 0)", "$number"))(less)
    assert subclass(Clipped, hidden)([4]).last() == 0
    assert subclass(Clipped, shown)([4]).last() == -1
    assert Clipped([4]).last() == 1


LEAST = 0


def above_the_least(numbers: list[int]) -> list[int]:
    """A released function that reads a name of its module."""
    return [number for number in numbers if number >= LEAST]


def test_a_changed_function_sees_later_changes_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    @Place("somewhere").changed("above_the_least", "$number >= LEAST", "$number > LEAST", fixed="#1")
    def equal_is_not_enough() -> None:
        """An equal number is left out."""

    changed = recompiled(above_the_least, equal_is_not_enough)
    assert changed([0, 1, 2]) == [1, 2]
    monkeypatch.setitem(globals(), "LEAST", 1)
    assert changed([0, 1, 2]) == [2]
    assert "made_by_planting" not in globals()


def test_a_part_that_is_not_there_is_an_error() -> None:
    @Place("somewhere:Queue").changed("first", "$number < $least", "False", fixed="#1")
    def strange() -> None:
        """Nothing."""

    with pytest.raises(PatternError, match="first has 0 parts like this"):
        recompiled(Queue.first, strange)


def row(name: str = "historic_lru/one", *, found: bool = False, missed: str = "", seed: int = 1) -> Judged:
    how = "difference" if found else ""
    return Judged(name, "#1", "", "LRUCache.touch", "It is wrong.", seed, found=found, how=how, missed=missed)


AS_RELEASED = replaced(row("lru/as-released"), fixed="")


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([row(found=True)], ExitStatus.AS_EXPECTED),
        ([row(found=True), row(missed="needs windows")], ExitStatus.AS_EXPECTED),
        ([row(found=True), row(missed="no observable shows it")], ExitStatus.AS_EXPECTED),
        ([row(found=True), row()], ExitStatus.FELL_SHORT),
        ([row(missed="the driver of lru failed: gone")], ExitStatus.INCONCLUSIVE),
        ([AS_RELEASED, row(found=True)], ExitStatus.AS_EXPECTED),
        ([replaced(AS_RELEASED, found=True), row(found=True)], ExitStatus.FELL_SHORT),
        ([row(missed="the driver of lru failed: gone"), row()], ExitStatus.FELL_SHORT),
    ],
)
def test_what_a_run_is_worth(rows: list[Judged], status: ExitStatus) -> None:
    assert verb.status_of(rows) is status


def test_what_the_driver_lacks_counts_as_not_found() -> None:
    assert verb.rendered_historic([row(found=True), row(missed="needs windows")])[-1].startswith(
        "1 of 2 historic bugs were found; 1 of the others need"
    )


def test_a_bug_out_of_reach_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(historic, "_looks", lambda *_: pytest.fail("it is looked for"))
    lacking = next(one for one in EVERY if one.bug is not None and one.bug.needs)
    judged = historic.judged(lacking, BUDGET)
    assert not judged.found
    assert judged.missed.startswith("needs ")


def test_a_run_goes_on_from_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    monkeypatch.setattr(verb, "needed", lambda release: None)
    looked: list[str] = []

    def judged(planted: Planted, budget: Budget, progress: Show) -> Judged:
        looked.append(planted.name)
        return row(planted.name, found=True, seed=budget.seed)

    def as_released(era: Era, budget: Budget, progress: Show) -> Judged:
        looked.append(f"{era.component}/as-released")
        return replaced(row(looked[-1], seed=budget.seed), fixed="")

    released = ["encoder_cache/as-released", "scheduler/as-released"]
    monkeypatch.setattr(historic, "judged", judged)
    monkeypatch.setattr(historic, "as_released", as_released)
    given = ["planted", PUT_BACK_INTO.name, "--historic", "--component", "encoder_cache", "--json"]
    assert dispatch(given) == ExitStatus.AS_EXPECTED
    first = json.loads(capsys.readouterr().out)
    assert dispatch(given) == ExitStatus.AS_EXPECTED
    assert json.loads(capsys.readouterr().out)["results"] == first["results"]
    assert [row["name"] for row in first["as_released"]] == ["encoder_cache/as-released", "scheduler/as-released"]
    assert looked == [*released, *(one.name for one in EVERY if one.component == "encoder_cache")]
    assert dispatch([*given, "--seed", "2"]) == ExitStatus.AS_EXPECTED
    assert len(looked) == 2 * (len(released) + len(first["results"]))
    assert dispatch([*given, "--anew"]) == ExitStatus.AS_EXPECTED
    assert len(looked) == 3 * (len(released) + len(first["results"]))


def test_runs_with_several_seeds_are_kept_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    for seed in (2, 1, 2):
        kept.write_historic(PUT_BACK_INTO, [row(seed=seed, found=seed == 2)], steps=5, violations=4)
    run = kept.read_historic(PUT_BACK_INTO)
    assert [(one.seed, one.found) for one in run.rows] == [(1, False), (2, True)]
    kept.write_historic(PUT_BACK_INTO, [row("historic_lru/other")], steps=5, violations=4)
    assert kept.read_historic(PUT_BACK_INTO).names == ["historic_lru/other"]


def test_what_the_page_shows_is_of_these_bugs() -> None:
    run = kept.read_historic(PUT_BACK_INTO)
    assert run.names == [one.name for one in EVERY], "run it anew, with --keep"
    says = {one.name: one.bug.says for one in EVERY if one.bug is not None}
    assert {row.name: row.says for row in run.rows} == says
    assert (run.steps, run.violations) == (BUDGET.steps, BUDGET.violations)


def test_the_page_has_a_column_for_each_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    rows = [row("historic_lru/one", seed=1, found=True), row("historic_lru/two", seed=1, missed="needs windows")]
    kept.write_historic(PUT_BACK_INTO, rows, steps=5, violations=4)
    kept.write_historic(
        PUT_BACK_INTO, [row("historic_lru/one", seed=2), row("historic_lru/two", seed=2)], steps=5, violations=4
    )
    first, second = planted_part(["historic", PUT_BACK_INTO.name]).splitlines()[-2:]
    assert first.endswith("| **not found** |")
    assert "lru/one" in first
    assert "**not found**: needs windows" in second
    summary = planted_part(["historic", PUT_BACK_INTO.name, "summary"]).splitlines()[-2:]
    assert [line.split(" | ")[:3] for line in summary] == [["| 1", "1 of 2", "1"], ["| 2", "0 of 2", "0"]]


@pytest.mark.parametrize("words", [[], ["historic"], ["historic", "vllm==0.33.0", "everything"], ["summary", "more"]])
def test_a_marker_without_sense(words: list[str]) -> None:
    with pytest.raises(InputError):
        planted_part(words)


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["planted", PUT_BACK_INTO.name, "--historic", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["bugs"]
    assert [one["name"] for one in listed] == [one.name for one in EVERY]
    assert all(one["fixed"] for one in listed)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("vllm==0.20.2 --historic", "there are historic bugs for vllm==0.33.0, and none for vllm==0.20.2"),
        ("vllm==0.33.0 --historic --component configuration", "and none of configuration for vllm==0.33.0"),
        ("vllm==0.33.0 --historic --only lru/nothing", "there is no bug 'lru/nothing'"),
        ("vllm==0.33.0 --against", "--against is for --historic"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], given: str, says: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["planted", *given.split()])
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (ExitStatus.WRONG_INPUT, 1)
    assert says in said


@pytest.mark.skipif(installed(PUT_BACK_INTO) is None, reason=f"{PUT_BACK_INTO.name} is not installed")
@pytest.mark.parametrize(
    "name", ["historic_lru/touch-of-an-absent-key-leaves-a-ghost", "historic_ring/start-is-the-chunk-just-freed"]
)
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    planted = next(one for one in EVERY if one.name == name)
    judged = historic.judged(planted, BUDGET)
    assert judged.found
    assert judged.how == "difference"


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.skipif(installed(PUT_BACK_INTO) is None, reason=f"{PUT_BACK_INTO.name} is not installed")
@pytest.mark.parametrize(
    "planted",
    [one for one in (*EVERY, *harmless_in(PUT_BACK_INTO)) if one.bug is not None and not one.bug.needs],
    ids=lambda one: str(one.name),
)
def test_each_patch_changes_the_release(planted: Planted) -> None:
    """The driver starts with the patch: no part of a pattern is missing in the release."""
    target = open_with_a_bug(planted.era, planted.name)
    try:
        target.reset(table().configurations[planted.component][0])
    finally:
        target.close()


HARMLESS = harmless_in(PUT_BACK_INTO)


def test_there_are_refactorings_that_change_nothing() -> None:
    assert len(HARMLESS) >= 10
    assert len({one.name for one in HARMLESS}) == len(HARMLESS)
    assert not [one.name for one in HARMLESS if one.bug is None or one.bug.fixed or one.bug.unseen]
    assert len({one.component for one in HARMLESS}) >= 5


def test_bugs_and_refactorings_are_looked_for_beside_the_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked: list[str] = []

    def judged(planted: Planted, *, seed: int, seconds: float, progress: object) -> Judged:
        del seconds, progress
        looked.append(planted.name)
        bug = planted.bug
        assert bug is not None
        return replaced(row(planted.name, found=bool(bug.fixed) or alarm, seed=seed), fixed=bug.fixed)

    monkeypatch.setattr(verb, "needed", lambda release: None)
    monkeypatch.setattr(beside, "judged", judged)
    given = ["planted", PUT_BACK_INTO.name, "--historic", "--against", "--component", "lru", "--json"]
    alarm = False
    assert dispatch(given) == ExitStatus.AS_EXPECTED
    told = json.loads(capsys.readouterr().out)
    assert (told["found"], told["alarms"]) == (1, 0)
    assert looked == [one.name for one in (*EVERY, *HARMLESS) if one.component == "lru"]
    alarm = True
    assert dispatch(given) == ExitStatus.FELL_SHORT
    assert json.loads(capsys.readouterr().out)["alarms"] == len(looked) // 2 - 1


@pytest.mark.skipif(installed(PUT_BACK_INTO) is None, reason=f"{PUT_BACK_INTO.name} is not installed")
def test_each_patch_is_in_a_file_that_the_driver_of_its_component_reads() -> None:
    """So a gate gives most of its time to the component that can show it."""
    release = needed(PUT_BACK_INTO)
    within_reach = [one for one in (*EVERY, *HARMLESS) if one.bug is not None and not one.bug.needs]
    files = {one.name: beside.patched(one) for one in within_reach}
    assert not [name for name, changed in files.items() if len(changed) != 1]
    assert not [one.name for one in within_reach if not files[one.name] <= driven_files(release, one.component)]


def test_the_release_of_a_name() -> None:
    assert Release("0.33.0") == PUT_BACK_INTO
