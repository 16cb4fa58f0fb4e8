"""What is explored on an era for a release: every combination of its settings, once, and then kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.decisions.kv_blocks import EMPTY, EVICTED, KEPT, SHARED
from cacheproof.lockstep.situations import explored
from cacheproof.lockstep.tally import Limit
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named
from cacheproof.model.target import Target
from cacheproof.present.show.violations import explored_message, said_explored
from cacheproof.releases import exhausting, exploring
from cacheproof.releases.conformance import Trial
from cacheproof.releases.searching import search
from cacheproof.search.breaking import Run
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.eras import Era, Table, table
from cacheproof.targets.vllm.release import Release
from cachespec.kernel import Step

SCHEDULER = component_named("scheduler")
S3 = next(era for era in table().eras if era.component == "scheduler" and era.variant == "S3")
STATES = 60


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """The plainest configurations and those with drafts, and a store of their own."""
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    every = exploring.configurations(S3)[:5] + [one for one in exploring.configurations(S3, 1) if one.drafts]
    monkeypatch.setattr(exploring, "configurations", lambda era, at_once: every)
    return list(every)


def test_every_combination_of_settings_that_a_release_has() -> None:
    every = exploring.configurations(S3, None)
    bases, lines = exploring.scopes().configurations, exploring.scopes().settings
    assert len(set(every)) == len(every) > 3_000
    assert set(bases["scheduler"]) <= set(every[: len(bases["scheduler"])])
    assert all(SCHEDULER.invalid(config) is None and S3.has(config) for config in every)
    for line in lines["scheduler"]:
        for setting in line:
            assert any(all(getattr(one, name) == value for name, value in setting.items()) for one in every)
    pairs = exploring.configurations(S3)
    assert pairs == every[: len(pairs)]
    assert 400 <= len(pairs) <= 700
    plain = Era("scheduler", "S3", Release("0.33.0"), lacks=("drafts", "policy"))
    assert {(one.drafts, one.policy) for one in exploring.configurations(plain)} == {(0, 0)}


def test_two_processes_explore_what_one_does() -> None:
    every = [config for config in exploring.configurations(S3, 1) if not config.items]
    variant = SCHEDULER.variants["S3"]
    alone = exploring.explore(SCHEDULER, variant, every, STATES)
    told: list[str] = []
    shared = exploring.shared(SCHEDULER, variant, every, STATES, told.append, 0, 2)
    assert shared.ways == tuple(one for one in alone.ways if one[1])
    assert [(config, one.rule.name, one.calls) for config, one in shared.broken] == [
        (config, one.rule.name, one.calls) for config, one in alone.broken
    ]
    assert all(getattr(shared, name) == getattr(alone, name) for name in exploring.COUNTS)
    assert shared.configurations == len(every) > len(told) > 1


def test_a_second_run_explores_nothing(few: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    first = exploring.exploration(S3, told.append, STATES)
    assert (first.kept, first.configurations) == (False, len(few))
    assert [line for line in told if "exploring" in line] == told[-len(few) :]
    assert first.ways
    told.clear()
    again = exploring.exploration(S3, told.append, STATES)
    assert (again.kept, told) == (True, [])
    message = explored_message(S3, again)
    assert (message["configurations"], message["states"], message["kept"]) == (len(few), first.states, True)
    assert said_explored(message).startswith(f"scheduler S3: {len(few)} configurations explored, in an earlier run, ")
    assert [one for one in first.ways if one[1]] == list(again.ways)
    assert (again.broken, again.states, again.calls) == (first.broken, first.states, first.calls)
    other = Era("scheduler", "S3", Release("0.32.0"), lacks=S3.lacks, apart=S3.apart, like=S3.release)
    assert exploring.exploration(other, None, STATES).kept, "another release of the same era"
    with monkeypatch.context() as changed:
        changed.setattr(exploring, "specification_digest", lambda: "another")
        assert not exploring.exploration(S3, None, STATES).kept
    assert not exploring.exploration(S3, None, STATES - 1).kept


def test_two_runs_at_once_explore_once(few: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    begun, waited_for = Event(), Event()
    lines: list[str] = []

    def announced(line: str) -> None:
        lines.append(line)
        waited_for.set()

    def slowly(*given: Any) -> exploring.Exploration:
        begun.set()
        assert waited_for.wait(60), "the second run waits for nothing"
        return exploring.explore(*given[:5])

    monkeypatch.setattr("cacheproof.foundation.locks.announce", announced)
    monkeypatch.setattr(exploring, "shared", slowly)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(exploring.exploration, S3, None, STATES)
        assert begun.wait(60)
        second = exploring.exploration(S3, None, STATES)
    assert (first.result().kept, second.kept) == (False, True)
    assert len(lines) == 1
    assert lines[0].endswith("another run is exploring scheduler S3; waiting for its end")


@pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")
def test_compiled_code_finds_what_is_far_away() -> None:
    """ENC-13/first breaks behind 1,600 states, with three plans in flight; drafts are wrong nearby."""
    variant = SCHEDULER.variants["S3"]
    assert exhausting.can_exhaust(SCHEDULER, variant)
    ahead = [one for one in exploring.configurations(S3, 1) if one.ahead == 3]
    near, far = (exploring.explore(SCHEDULER, variant, ahead, 30, compiled=limit) for limit in (0, 50_000))
    assert (near.exhausted, far.exhausted, far.whole) == (0, len(ahead), len(ahead))
    names = {one.rule.name for _, one in far.broken}
    assert "ENC-13/first" in names - {one.rule.name for _, one in near.broken}
    config, seen = next((config, one) for config, one in far.broken if one.rule.name == "ENC-13/first")
    run = Run(SCHEDULER, variant, config, seen.calls, whole_calls=True)
    assert isinstance(seen.rule, Step)
    assert run.broken_after(seen.rule) == len(seen.calls)


def test_without_a_compiler_only_the_nearest_states_are_explored(
    few: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cacheproof.search.native.compiler_of_this_machine", lambda: None)
    made = exploring.exploration(S3, None, STATES)
    assert (made.exhausted, made.configurations) == (0, len(few))
    assert made.ways
    assert made.states <= STATES * len(few)


def test_a_release_that_differs_behind_a_way_is_found_out(few: list[object]) -> None:
    ways = exploring.exploration(S3, None, STATES).ways
    trial = Trial(S3, (), (), steps=1, seed=1, ways=ways)
    right, wrong = (SpecificationTarget(SCHEDULER, SCHEDULER.variants[tag]) for tag in ("S3", "preempted-keeps-items"))
    assert trial.perform(lambda era: right).agrees
    assert isinstance(trial.perform(lambda era: wrong).finding, Difference)


def test_what_the_era_breaks_is_repeated_on_the_release(few: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the release is as its era, it is a finding; where they part, it is none."""
    seen = exploring.exploration(S3, None, STATES)
    names = {one.rule.name for _, one in seen.broken}
    assert names
    lines = Table((S3,), table().configurations, ())
    monkeypatch.setattr("cacheproof.releases.searching._alone", lambda *given: None)
    for tag, found in (("S3", names), ("S2", set[str]())):
        target = SpecificationTarget(SCHEDULER, SCHEDULER.variants[tag])
        done = search(lines, S3, limit=Limit(steps=1), seed=1, opener=partial(opened, target), explored=seen)
        before = {one.rule.name for one in done.hunt.found if one.episode is None}
        assert before == found or (tag == "S2" and before < names)
        assert bool(done.hunt.disagreements) is (tag == "S2")


def opened(target: Target, era: Era) -> Target:
    assert era is S3
    return target


def test_ways_of_kv_blocks_tell_what_was_in_the_blocks_that_a_request_gains() -> None:
    """Without that, 12 ways are left of 30, and none leads a hit of one group into another group's table (#44409)."""
    component = component_named("kv_blocks")
    gains: set[int] = set()
    for config in exploring.scopes().configurations["kv_blocks"]:
        known: set[Any] = set()
        done = explored(Subject(component, component.variants["K2"], config), 800, known)
        gains |= {gain for *_, (given, *_) in known for _, row in given for gain in row}
        assert len(done.ways) > 15
    assert gains == {EMPTY, EVICTED, KEPT, SHARED}


def test_a_wrong_scope_is_said(tmp_path: Path) -> None:
    text = exploring.SCOPES.read_text().replace("token_budget = 4", "token_budget = 0", 1)
    path = tmp_path / "explored.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="must be positive"):
        exploring.scopes(path)
