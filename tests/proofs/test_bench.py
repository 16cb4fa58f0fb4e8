"""What is measured is the same work, it is counted right, and a contender that does something else is found."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.bench import benchmark_named, benchmarks, kv_blocks
from cacheproof.bench.measure import Benchmark, Goal, Spread, Work, machine, measured
from cacheproof.bench.oracle import REROOTED, WITH_DIGESTS, YARDSTICK, skewed
from cacheproof.bench.plain import PlainPool
from cacheproof.command import bench
from cacheproof.command.frame import dispatch
from cacheproof.errors import ExitStatus, InconclusiveError
from cachespec.kernel import Code, Outcome
from cachespec.kv_blocks.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks


def quiet(line: str) -> None:
    """Nobody looks."""


@pytest.mark.parametrize("name", list(benchmarks()))
def test_contenders_answer_alike_and_are_counted(name: str) -> None:
    rows = measured(benchmark_named(name), 2, quiet, small=True)
    assert [row.contender for row in rows] == [YARDSTICK, REROOTED, WITH_DIGESTS]
    assert {row.repeats for row in rows} == {2}
    assert len({row.units for row in rows}) == 1
    assert rows[0].units > 100
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
        kv_blocks.BENCHMARK,
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
    assert [row["benchmark"] for row in said["rows"]] == ["lru"] * 3 + ["kv_blocks"] * 3
    assert {row["repeats"] for row in said["rows"]} == {2}


@pytest.mark.parametrize(
    ("goal", "status", "word"), [(0.0, ExitStatus.AS_EXPECTED, "met"), (1e18, ExitStatus.FELL_SHORT, "MISSED")]
)
def test_a_missed_goal_is_said(
    goal: float, status: ExitStatus, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "benchmark_named", lambda name: toy([], goal))
    assert dispatch(["bench", "toy"]) is status
    assert word in capsys.readouterr().out


def test_an_unknown_name_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "nothing"]) is ExitStatus.WRONG_INPUT
    assert "there is no benchmark 'nothing': there are encoder_cache, kv_blocks, lru" in capsys.readouterr().err


def test_an_interruption_shows_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(benchmark: Benchmark, *rest: Any, **named: Any) -> Any:
        if benchmark.name == "broken":
            raise KeyboardInterrupt
        return measured(benchmark, *rest, **named)

    monkeypatch.setattr(bench, "benchmark_named", lambda name: replace(toy([]), name=name))
    monkeypatch.setattr(bench, "measured", interrupted)
    assert dispatch(["bench", "first", "broken", "--json"]) is ExitStatus.INCONCLUSIVE
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["interrupted"], {row["benchmark"] for row in said["rows"]}) == (False, True, {"first"})


def test_the_machine_is_named() -> None:
    assert machine()["processor"]
