"""A run in parts: they share the calls, and their findings come together, each sort once and minimised."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus
from cacheproof.lockstep import spread
from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.plan import PROFILES, Plan, perform, subjects_from
from cacheproof.lockstep.shrink import shrunk
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Breakdown, Difference
from cacheproof.model.target import Failure
from cacheproof.model.trace import Violation

Task = TypeVar("Task")
Result = TypeVar("Result")


class Here:
    """Workers in this process. What goes to them and comes from them is bytes; the last one is done first."""

    def __init__(self, workers: int, ends_after: int = 99) -> None:
        self.workers, self.ends_after = workers, ends_after

    def shared_out(self, call: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        for done, task in enumerate(reversed(list(tasks))):
            if done == self.ends_after:
                raise KeyboardInterrupt
            result: Result = pickle.loads(pickle.dumps(call(pickle.loads(pickle.dumps(task)))))
            yield result


def plan(target: str = "spec:normative", steps: int | None = 301, driver: str = "lockstep") -> Plan:
    subjects = subjects_from("lru", None, None, [])
    limit = Limit(steps, None if steps else 0.2)
    return Plan(subjects, target, limit, 7, False, PROFILES["ci"], driver, frozenset(), 10.0, around=True)


def silent(line: str) -> None:
    pass


def test_the_parts_share_the_calls() -> None:
    parts = spread.parts_of(plan(), 3)
    assert [part.plan.limit.steps for part in parts] == [101, 100, 100]
    assert parts[0].plan.seed == 7
    assert len({part.plan.seed for part in parts}) == 3
    assert parts == spread.parts_of(plan(), 3)
    assert len(spread.parts_of(plan(steps=2), 3)) == 2
    assert [part.plan.limit.seconds for part in spread.parts_of(plan(steps=None), 2)] == [0.2, 0.2]
    assert [part.plan.reuse for part in spread.parts_of(replace(plan(), reuse=True), 2)] == [True, False]


@pytest.mark.parametrize("driver", ["lockstep", "hypothesis"])
def test_without_a_finding_all_that_was_done_is_counted(driver: str) -> None:
    whole = spread.spread(plan(driver=driver), Here(3), silent)
    assert (whole.finding, whole.tally.steps, whole.interrupted) == (None, 301, False)
    around = whole.around
    assert around is not None
    assert sum(whole.scopes.values()) + around.calls == 301
    assert sum(whole.tally.outcomes.values()) == 301


def test_one_part_is_the_run_itself() -> None:
    whole, alone = spread.spread(plan(), Here(1), silent), perform(plan())
    assert (whole.tally.outcomes, whole.scopes) == (alone.tally.outcomes, alone.scopes)


@pytest.mark.parametrize("driver", ["lockstep", "hypothesis"])
def test_the_same_seed_finds_the_same_and_it_is_minimised_once(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    minimised: list[int] = []

    def counting(pair: object, finding: object, **more: object) -> object:
        minimised.append(1)
        return shrunk(pair, finding, **more)  # type: ignore[arg-type]  # whatever it is called with

    monkeypatch.setattr(spread, "shrunk", counting)
    first, again = (spread.spread(plan("spec:M2", 900, driver), Here(3), silent) for _ in range(2))
    assert isinstance(first.finding, Difference)
    assert len(first.finding.trace.steps) == 1
    assert first.finding == again.finding
    assert (first.others, first.came_again, len(minimised)) == ((), True, 2)


def test_parts_do_not_minimise() -> None:
    found = [spread.performed(part)[1].finding for part in spread.parts_of(plan("spec:M3", 3_000), 4)]
    assert max(len(finding.trace.steps) for finding in found if finding is not None) > 3


def some(kind: str, calls: int) -> Campaign:
    """A part whose finding has so many calls."""
    found = perform(plan("spec:M2")).finding
    assert isinstance(found, Difference)
    trace = replace(found.trace, steps=found.trace.steps * calls)
    if kind == "difference":
        return Campaign(1, finding=replace(found, trace=trace), scope=str(calls))
    if kind == "crash":
        return Campaign(1, finding=Breakdown("spec:M2", "ended", trace, Failure.CRASHED), scope=str(calls))
    return Campaign(1, finding=Violation(kind, "what it says", trace), scope=str(calls))


def test_the_shortest_finding_of_each_sort_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    done = [some("LRU-1", 5), some("difference", 3), Campaign(1), some("LRU-1", 2), some("crash", 4), some("LRU-2", 2)]
    sorts = [
        (finding.property if isinstance(finding, Violation) else type(finding), scope)
        for finding, scope in spread.sorts_of(done)
    ]
    assert sorts == [("LRU-1", "2"), ("LRU-2", "2"), (Difference, "3"), (Breakdown, "4")]
    monkeypatch.setattr(spread, "alike", lambda one, other: False)
    assert len(spread.sorts_of(done)) == 5, "planted: nothing is of one sort"


def test_ctrl_c_keeps_the_parts_that_are_done() -> None:
    whole = spread.spread(plan(), Here(3, ends_after=1), silent)
    assert (whole.interrupted, whole.tally.steps) == (True, 100)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--split", "2"], "--split needs --on"),
        (["--on", "dask"], "'dask' is neither ray nor ray://HOST:PORT"),
        (["--on", "ray", "--macros"], "--on and --examples are of single calls"),
        (["--examples", "redis://h", "--driver", "lockstep"], "--examples is for the driver hypothesis"),
    ],
)
def test_what_the_verb_refuses(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["fuzz", "lru", "--target", "spec:M2", *arguments]) is ExitStatus.WRONG_INPUT
    assert line in capsys.readouterr().err
