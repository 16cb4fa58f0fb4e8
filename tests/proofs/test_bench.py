"""What is measured is the same work, it is counted right, and a contender that does something else is found."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cacheproof.bench import benchmarks, benchmarks_named, kv_blocks
from cacheproof.bench.growth import growth_curves
from cacheproof.bench.measure import Benchmark, Goal, Released, Row, Spread, Work, machine, measured
from cacheproof.bench.oracle import COMPILED, REROOTED, WITH_DIGESTS, YARDSTICK, skewed
from cacheproof.bench.plain import PlainPool
from cacheproof.bench.tensor import loads
from cacheproof.command import bench
from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.targets.vllm.release import Release, installed
from cachespec.kernel import Code, Outcome
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> Iterator[None]:
    """Each turn begins with a collection, which is not to look through what thousands of earlier tests have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def quiet(line: str) -> None:
    """Nobody looks."""


ORACLES = ("encoder_cache", "kv_blocks", "lru")
"""Benchmarks of the specification; the others are of our own implementation."""


@pytest.mark.parametrize("name", [name for name, one in benchmarks().items() if not one.inside and one.peers is None])
def test_contenders_answer_alike_and_are_counted(name: str) -> None:
    (benchmark,) = (one for one in benchmarks_named(name) if one.name == name)
    rows = measured(benchmark, 2, quiet, small=True)
    if name in ORACLES:
        compiled = [] if compiler_of_this_machine() is None else [COMPILED]
        assert [row.contender for row in rows] == [YARDSTICK, REROOTED, WITH_DIGESTS, *compiled]
        assert rows[0].units > 100
    assert {row.repeats for row in rows} == {2}
    assert len({row.units for row in rows}) == 1
    assert len(rows) >= 2
    assert rows[0].units > 0
    assert rows[0].ratio == Spread(1.0, 1.0, 1.0)
    assert all(0 < row.rate.least <= row.rate.median <= row.rate.most for row in rows)
    assert all(row.goal is None and row.met is None for row in rows), "a small run has no goals"


class Clumsy(PlainPool):
    """Planted: takes the newest free block."""

    def _take(self) -> int:
        self.free.move_to_end(next(reversed(self.free)), last=False)
        return super()._take()


def test_a_contender_that_answers_otherwise_is_found() -> None:
    size = kv_blocks.SMALL
    config, turn = kv_blocks.configuration(size), kv_blocks.Arrivals(size)
    planted = replace(
        *kv_blocks.BENCHMARKS,
        contenders=lambda *, small: {"one": PlainPool(config, turn), "other": Clumsy(config, turn)},
    )
    with pytest.raises(InconclusiveError, match="other and one do not answer alike: nothing was measured"):
        measured(planted, 1, quiet)


def test_block_operations_are_those_of_the_calls() -> None:
    """Counted again from the calls and their answers: found, taken, registered for the first time, given back."""
    size = kv_blocks.SMALL
    turn = kv_blocks.Arrivals(size)
    plain = PlainPool(kv_blocks.configuration(size), turn)
    seen: Counter[str] = Counter()

    def apply(operation: Any) -> Outcome:
        if isinstance(operation, FreeRequest):
            seen["given back"] += len(plain.tables[operation.request])
        registered = len(plain.carried)
        outcome = plain.apply(operation)
        if isinstance(operation, Commit):
            seen["registered"] += len(plain.carried) - registered
        if isinstance(operation, AllocateSlots):
            seen["found"] += len(operation.hits)
            seen["taken"] += len(outcome.values)
        if isinstance(operation, GetComputedBlocks) and outcome.code is Code.HIT:
            seen["looked up"] += len(outcome.values)
        return outcome

    units = turn(apply, -1) + turn(apply, 0)
    assert units == sum(seen[kind] for kind in ("found", "taken", "registered", "given back"))
    assert min(seen.values()) > 0
    assert seen["looked up"] == seen["found"]
    assert seen["taken"] == seen["registered"]
    assert seen["taken"] > size.blocks, "after the warm-up, what is taken is evicted"


# How it is measured ---------------------------------------------------------------------------------------------------


class Counting:
    """Does as many units as it is told, and writes down when."""

    def __init__(self, name: str, log: list[str], units: int = 10) -> None:
        self.name, self.log, self.units = name, log, units

    def warm_up(self) -> None:
        self.log.append(f"{self.name} warm")

    def turn(self, number: int) -> Work:
        self.log.append(f"{self.name}{number}")
        return Work(self.units, ["the same"])


def toy(log: list[str], goal: float = 0.0, units: int = 10) -> Benchmark:
    """Two contenders that do next to nothing."""
    return Benchmark(
        "toy",
        "nothing",
        "units",
        "none",
        lambda *, small: {"a": Counting("a", log), "b": Counting("b", log, units)},
        Goal(("b",), goal),
    )


def test_contenders_take_turns_and_another_one_is_first_each_time() -> None:
    log: list[str] = []
    measured(toy(log), 3, quiet)
    assert log == ["a warm", "b warm", "a0", "b0", "b1", "a1", "a2", "b2"]


def test_other_units_are_other_work() -> None:
    with pytest.raises(InconclusiveError, match="nothing was measured"):
        measured(toy([], units=11), 1, quiet)


def test_spread() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)


def test_the_drawn_numbers_are_skewed_and_fixed() -> None:
    drawn = skewed(100, 1, 2000)
    assert drawn == skewed(100, 1, 2000)
    assert drawn != skewed(100, 2, 2000)
    assert set(drawn) <= set(range(100))
    assert sum(number < 25 for number in drawn) > 2 * sum(number >= 75 for number in drawn) > 0


# The verb -------------------------------------------------------------------------------------------------------------


def test_the_verb_reports_rows_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "lru", "kv_blocks", "--small", "--repeats", "2", "--json"]) is ExitStatus.AS_EXPECTED
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is True
    assert {"processor", "cores", "python"} <= said["machine"].keys()
    count = 3 + (compiler_of_this_machine() is not None)
    assert [row["benchmark"] for row in said["rows"]] == ["lru"] * count + ["kv_blocks"] * count
    assert {row["repeats"] for row in said["rows"]} == {2}


def test_how_many_steps_the_figures_apply_to_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "step-256", "step-1024", "--small", "--repeats", "1", "--json"]) is ExitStatus.AS_EXPECTED
    mooncake, servegen = json.loads(capsys.readouterr().out)["notes"]
    assert mooncake.startswith("Mooncake conversations: nothing remained in ")
    assert servegen.startswith("ServeGen images: nothing remained in ")


def test_steps_that_take_requests_alone_are_counted() -> None:
    crowded = loads.served("images in few blocks", list(loads.images(20)), blocks=300)
    assert 0 < crowded.at_once < crowded.steps


@pytest.mark.parametrize(
    ("goal", "status", "word"), [(0.0, ExitStatus.AS_EXPECTED, "met"), (1e18, ExitStatus.FELL_SHORT, "MISSED")]
)
def test_a_missed_goal_is_said(
    goal: float, status: ExitStatus, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "benchmarks_named", lambda name: [toy([], goal)])
    assert dispatch(["bench", "toy"]) is status
    assert word in capsys.readouterr().out


def test_an_unknown_name_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "nothing"]) is ExitStatus.WRONG_INPUT
    assert "there is no benchmark 'nothing': there are " in capsys.readouterr().err


def test_an_interruption_shows_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(benchmark: Benchmark, *rest: Any, **named: Any) -> Any:
        if benchmark.name == "broken":
            raise KeyboardInterrupt
        return measured(benchmark, *rest, **named)

    monkeypatch.setattr(bench, "benchmarks_named", lambda name: [replace(toy([]), name=name)])
    monkeypatch.setattr(bench, "measured", interrupted)
    assert dispatch(["bench", "first", "broken", "--json"]) is ExitStatus.INCONCLUSIVE
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["interrupted"], {row["benchmark"] for row in said["rows"]}) == (False, True, {"first"})


def test_the_machine_is_named() -> None:
    assert machine()["processor"]


# Beside a release -----------------------------------------------------------------------------------------------------


def test_a_release_that_is_not_there_is_said_with_the_command_that_adds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEPROOF_CACHE", str(tmp_path))
    assert dispatch(["bench", "decode", "--with", "vllm==0.33.0"]) is ExitStatus.WRONG_INPUT
    assert "cacheproof target add vllm==0.33.0" in capsys.readouterr().err
    assert dispatch(["bench", "decode", "--with", "sglang"]) is ExitStatus.WRONG_INPUT
    assert "is not a release: write it as in vllm==0.33.0" in capsys.readouterr().err


def beside(log: list[str], goal: Goal) -> Benchmark:
    """The toy, which a release can do too."""
    work = Released("toy", {"size": 1})
    return replace(toy(log), goal=goal, released=lambda small: work, most_repeats=4)


def test_a_release_comes_first_and_goals_are_times_its_rate() -> None:
    def opened(released: Released) -> Counting:
        assert released == Released("toy", {"size": 1})
        return Counting("r", log)

    log: list[str] = []
    for times, met in ((1e-9, True), (1e9, False)):
        rows = measured(beside(log, Goal(("b",), times_the_release=times)), 3, quiet, release=("old", opened))
        assert [(row.contender, row.met) for row in rows] == [("old", None), ("a", None), ("b", met)]
        assert rows[0].ratio == Spread(1.0, 1.0, 1.0)
    assert log[:6] == ["r warm", "a warm", "b warm", "r0", "a0", "b0"]
    alone = measured(beside([], Goal(("b",), times_the_release=1e9)), 3, quiet)
    assert [row.met for row in alone] == [None, None], "without the release there is nothing to be compared with"


def test_ours_in_the_place_of_the_release_come_behind_it() -> None:
    log: list[str] = []
    there = {"ours": lambda small: Released("toy", {}, "ours")}
    inside = replace(beside(log, Goal(("ours",), times_the_release=1e-9)), inside=there)

    def opened(released: Released) -> Counting:
        return Counting(released.ours or "r", log)

    rows = measured(inside, 2, quiet, release=("old", opened))
    assert [(row.contender, row.met) for row in rows] == [("old", None), ("ours", True), ("a", None), ("b", None)]
    assert log[:4] == ["r warm", "ours warm", "a warm", "b warm"]
    with pytest.raises(InputError, match="toy runs in the scheduler of a release: add --with"):
        measured(inside, 2, quiet)


def test_ours_in_the_place_of_the_release_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "schedule"]) is ExitStatus.WRONG_INPUT
    assert "schedule-256 runs in the scheduler of a release: add --with vllm==X" in capsys.readouterr().err


def test_a_release_that_answers_otherwise_is_found() -> None:
    planted = beside([], Goal(()))
    with pytest.raises(InconclusiveError, match="nothing was measured"):
        measured(planted, 1, quiet, release=("old", lambda released: Counting("r", [], 11)))


def test_more_turns_than_the_work_has_are_wrong_input() -> None:
    with pytest.raises(InputError, match="toy has 4 turns at most, not 5"):
        measured(beside([], Goal(())), 5, quiet)


class SelfTimed(Counting):
    """Says that a turn took two seconds."""

    def turn(self, number: int) -> Work:
        return super().turn(number)._replace(seconds=2.0)


def test_who_times_itself_is_believed() -> None:
    timed = replace(toy([]), contenders=lambda *, small: {"a": SelfTimed("a", [], units=10)})
    (row,) = measured(timed, 2, quiet)
    assert row.rate == Spread(5.0, 5.0, 5.0)


RELEASE = "vllm==0.33.0"


@pytest.mark.skipif(installed(Release.parsed(RELEASE)) is None, reason=f"{RELEASE} is not installed")
def test_the_release_answers_as_ours_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "--with", RELEASE, "--small", "--repeats", "2", "--json"]) is ExitStatus.AS_EXPECTED
    said = json.loads(capsys.readouterr().out)
    known = {name for name, one in benchmarks().items() if one.released is not None}
    assert {row["benchmark"] for row in said["rows"] if row["contender"] == RELEASE} == known
    assert known


# Growth ---------------------------------------------------------------------------------------------------------------


def test_growth_curves_have_a_point_for_each_size_and_a_line_for_each_contender() -> None:
    def row(name: str, seconds: float) -> Row:
        rate = Spread(1 / seconds, 0.5 / seconds, 2 / seconds)
        return Row(name, 1, 1, rate, Spread(1.0, 1.0, 1.0), None)

    sized = [
        (replace(toy([]), name=f"toy-{size}"), [row("a", size * 1e-6), row("b<", 2e-3)]) for size in (100, 10, 1000)
    ]
    single = (replace(toy([]), name="other"), [row("a", 1.0)])
    text = growth_curves([*sized, single])
    picture = ET.fromstring(text)
    names = [element.text for element in picture.iter() if element.tag.endswith("}text")]
    assert {"a", "b<", "10", "100", "1,000", "1 ms", "10 ms", "1 us"} <= set(names)
    assert "other: one of the units, over the size" not in names
    lines = [element.attrib["points"].split() for element in picture.iter() if element.tag.endswith("}polyline")]
    (rising, flat) = ([tuple(float(part) for part in point.split(",")) for point in line] for line in lines)
    assert [x for x, _ in rising] == sorted(x for x, _ in rising)
    assert rising[0][1] - rising[1][1] == pytest.approx(rising[1][1] - rising[2][1], abs=0.2), "linear is straight"
    assert rising[0][1] > rising[2][1]
    assert len({y for _, y in flat}) == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 us"), (7e-8, "70 ns"), (1e-6, "1 us")]
)
def test_durations(seconds: float, text: str) -> None:
    assert bench.duration(seconds) == text


def test_a_plot_is_written_whole_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "curves.svg"
    assert dispatch(["bench", "decode", "--small", "--repeats", "1", "--plot", str(plot)]) is ExitStatus.AS_EXPECTED
    assert plot.read_text(encoding="utf-8").count("<polyline") == 3
    missing = tmp_path / "no" / "curves.svg"
    assert dispatch(["bench", "decode", "--small", "--plot", str(missing)]) is ExitStatus.WRONG_INPUT
    assert "there is no folder" in capsys.readouterr().err
