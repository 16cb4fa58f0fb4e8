"""The one Hypothesis state machine: it finds, shrinks to the least, repeats itself, and remembers."""

import gc
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.interruption import signals_raised
from cacheproof.lockstep.campaign import Campaign
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.scoped import Scoped
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Breakdown, Difference, Subject
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import Failure, Target, TargetError
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import FAILED, Code, Observation, Operation, Outcome
from cachespec.lru import Config, Pop, Put, Touch

pytest.importorskip("hypothesis")

from hypothesis.configuration import set_hypothesis_home_dir

from cacheproof.lockstep.machine import run_machine

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
LRU = component_named("lru")
CONFIG = Config(capacity=2, sizes=(1, 1, 2), lookups=100, pins=1)
ERA = LRU.variants["M2"]
named = pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Hypothesis keeps its own files in a folder of the test."""
    yield tmp_path
    set_hypothesis_home_dir(None)


def run(home: Path, target: Target, steps: int = 1_000, seed: int = 1, *, reuse: bool = False) -> Campaign:
    pair = Pair(Subject(LRU, LRU.normative, CONFIG), target, "a target")
    return run_machine(Scoped({"": pair}), Limit(steps), seed, home, reuse=reuse)


class Noting:
    """Notes every call, and may be told to misbehave."""

    def __init__(self, inner: Target) -> None:
        self.inner = inner
        self.calls: list[Operation] = []

    def reset(self, config: Any) -> None:
        self.inner.reset(config)

    def apply(self, operation: Operation) -> Outcome:
        self.calls.append(operation)
        return self.inner.apply(operation)

    def observe(self) -> Mapping[str, Observation]:
        return self.inner.observe()

    def close(self) -> None:
        self.inner.close()


@named
def test_the_specification_agrees_with_itself(component: AnyComponent, home: Path) -> None:
    scope = scopes_of(component)[0]
    for tag in scope.variants:
        variant = component.variants[tag]
        pair = Pair(Subject(component, variant, scope.config), SpecificationTarget(component, variant), "itself")
        found = run_machine(Scoped({"": pair}), Limit(200), 1, home, reuse=False)
        assert found.finding is None
        assert found.tally.steps == 200


@named
def test_a_planted_failure_is_shrunk_to_one_call(component: AnyComponent, home: Path) -> None:
    """The first operation that can be done at once fails where it should be done."""
    config, right = scopes_of(component)[0].config, component.normative
    start = right.start(config)
    done = (one for one in right.alphabet(config, start) if right.call(config, start, one)[1].code is Code.DONE)
    kind = type(next(done))
    mutant = right.era("planted", "planted", {kind: lambda config, state, operation: (state, FAILED)}, {})
    pair = Pair(Subject(component, right, config), SpecificationTarget(component, mutant), "planted")
    found = run_machine(Scoped({"": pair}), Limit(5_000), 2, home, reuse=False)
    assert isinstance(found.finding, Difference)
    assert [type(operation) for operation in found.finding.trace.operations] == [kind]


def test_a_deeper_one_is_shrunk_to_the_least(home: Path) -> None:
    """A put of what is there leaves its age: two keys, and the first again. Nothing shorter shows it."""

    def put(config: Config, cache: Any, operation: Put) -> Any:
        after, outcome = LRU.normative.transitions[Put](config, cache, operation)
        return (after._replace(order=cache.order) if cache.entries.has(operation.key) else after), outcome

    bug = LRU.normative.era("planted", "planted", {Put: put}, {})
    finding = run(home, SpecificationTarget(LRU, bug), 5_000).finding
    assert isinstance(finding, Difference)
    assert finding.trace.operations == (Put(0, 1), Put(1, 1), Put(0, 1))


def test_same_seed_same_run(home: Path) -> None:
    def calls(seed: int) -> list[Operation]:
        target = Noting(SpecificationTarget(LRU, LRU.normative))
        run(home, target, 400, seed)
        return target.calls

    assert calls(1) == calls(1)
    assert calls(1) != calls(2)


def test_a_failing_example_is_kept_and_tried_first(home: Path) -> None:
    first = run(home, SpecificationTarget(LRU, ERA), seed=1, reuse=True)
    assert isinstance(first.finding, Difference)
    assert list((home / "examples").rglob("*"))
    again = run(home, SpecificationTarget(LRU, ERA), seed=99, reuse=True)
    assert isinstance(again.finding, Difference)
    assert again.tally.steps <= 3
    assert again.finding.trace.operations == first.finding.trace.operations == (Touch(0),)


def test_with_a_seed_nothing_kept_has_a_say(home: Path) -> None:
    before = run(home, SpecificationTarget(LRU, ERA), seed=5)
    run(home, SpecificationTarget(LRU, ERA), seed=1, reuse=True)
    assert run(home, SpecificationTarget(LRU, ERA), seed=5).tally.by_operation() == before.tally.by_operation()


def test_a_driver_that_fails_is_a_breakdown(home: Path) -> None:
    class Fragile(Noting):
        def apply(self, operation: Operation) -> Outcome:
            if isinstance(operation, Pop):
                raise TargetError("it fell over")
            return super().apply(operation)

    finding = run(home, Fragile(SpecificationTarget(LRU, LRU.normative))).finding
    assert isinstance(finding, Breakdown)
    assert finding.trace.operations == (Pop(0),)


def test_a_target_that_does_not_begin_is_asked_once(home: Path) -> None:
    class Silent(SpecificationTarget):
        asked = 0

        def reset(self, config: Any) -> None:
            Silent.asked += 1
            raise TargetError("asked to hello: no answer", Failure.TIMED_OUT)

    found = run(home, Silent(LRU, LRU.normative), reuse=True)
    assert isinstance(found.finding, Breakdown)
    assert found.finding.trace.steps == ()
    assert Silent.asked <= 2, "each attempt may take as long as an answer may"


def test_what_does_not_come_again_is_said_so(home: Path) -> None:
    class Moody(Noting):
        def apply(self, operation: Operation) -> Outcome:
            outcome = super().apply(operation)
            return FAILED if len(self.calls) == 130 else outcome

    found = run(home, Moody(SpecificationTarget(LRU, LRU.normative)))
    assert isinstance(found.finding, Difference)
    assert not found.came_again


def test_interrupted_with_what_is_known(home: Path) -> None:
    class Stopped(Noting):
        def apply(self, operation: Operation) -> Outcome:
            if len(self.calls) == 70:
                raise KeyboardInterrupt
            return super().apply(operation)

    found = run(home, Stopped(SpecificationTarget(LRU, LRU.normative)))
    assert found.interrupted
    assert found.finding is None
    assert found.tally.steps == 71


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_a_callback_of_the_collector_swallows_is_not_lost(
    home: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis has such a callback. The interpreter would report an exception in one, and goes on."""
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: reported.append(raised.exc_type))

    def interrupt(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            gc.callbacks.remove(interrupt)
            signal.raise_signal(number)

    class Stopped(Noting):
        def apply(self, operation: Operation) -> Outcome:
            if len(self.calls) == 70:
                gc.callbacks.append(interrupt)
                gc.collect()
            return super().apply(operation)

    with signals_raised():
        found = run(home, Stopped(SpecificationTarget(LRU, LRU.normative)))
    assert reported == []
    assert found.interrupted
    assert found.tally.steps < 75


def test_calls_that_never_return_begin_again(home: Path) -> None:
    pair = Pair(Subject(LRU, ERA, CONFIG), SpecificationTarget(LRU, ERA), "itself")
    found = run_machine(Scoped({"": pair}), Limit(1_500), 3, home, reuse=False)
    assert found.finding is None
    assert any("diverged" in codes for codes in found.tally.by_operation().values())
