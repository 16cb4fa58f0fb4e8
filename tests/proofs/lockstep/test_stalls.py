"""Loads that are never served are found, made smaller, and told from loads that are."""

from __future__ import annotations

import json
import random

import pytest

from cacheproof import command
from cacheproof.lockstep import stalls
from cacheproof.lockstep.loads import could_be_served, load, without
from cacheproof.lockstep.stalls import Sort, Stall, StallSearch, Watch, search
from cacheproof.lockstep.tally import Limit, Tally
from cacheproof.model.registry import component_named, variant_named
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import DONE, FAILED, Code, Operation, Outcome
from cachespec.scheduler import Add, Config, Schedule, Update

COMPONENT = component_named("scheduler")


def scheduler(tag: str) -> SpecificationTarget:
    return SpecificationTarget(COMPONENT, variant_named(COMPONENT, tag))


def looked(target: SpecificationTarget, seed: int, steps: int, *wanted: Sort) -> StallSearch:
    return search(target, limit=Limit(steps=steps), seed=seed, wanted=wanted or tuple(Sort))


def test_the_normative_scheduler_serves_everybody() -> None:
    done = looked(scheduler("normative"), 1, 2_000)
    assert done.finding is None
    assert (done.tally.steps >= 2_000, done.loads > 10, done.passed.total()) == (True, True, 0)


@pytest.mark.parametrize(("tag", "seed"), [("S2", 1), ("preempted-keeps-items", 2)])
def test_a_scheduler_that_keeps_items_for_those_who_wait_stalls(tag: str, seed: int) -> None:
    """C-ENC-10, C-ENC-5."""
    found = looked(scheduler(tag), seed, 5_000).finding
    assert found is not None
    assert found.sort is Sort.STALL
    assert found.idle >= 2 * len(found.config.prompts)
    assert found.shown["waiting"]
    assert all(could_be_served(found.config, request) for request in range(len(found.config.prompts)))
    again = Watch(scheduler(tag), found.config, Tally()).again(found.calls)
    assert again == found
    assert Watch(scheduler("normative"), found.config, Tally()).again(found.calls) is None


def test_the_same_seed_gives_the_same_search() -> None:
    first, second = (looked(scheduler("S2"), 7, 500) for _ in range(2))
    assert (first.tally.outcomes, first.loads) == (second.tally.outcomes, second.loads)


class Preempting(SpecificationTarget):
    """A planted bug: the second request is never scheduled; who is first is scheduled and taken back for ever."""

    def observe(self) -> dict[str, int | tuple[int, ...]]:
        return {**super().observe(), "running": (0,), "waiting": (1,)}

    def apply(self, operation: Operation) -> Outcome:
        outcome = super().apply(operation)
        return Outcome(DONE.code, (0, 0, 1)) if isinstance(operation, Schedule) else outcome


class Asserting(SpecificationTarget):
    """A planted bug: the third output fails."""

    updates = 0

    def reset(self, config: Config) -> None:
        self.updates = 0
        super().reset(config)

    def apply(self, operation: Operation) -> Outcome:
        self.updates += isinstance(operation, Update)
        return FAILED if self.updates > 2 else super().apply(operation)


def planted(kind: type[SpecificationTarget]) -> SpecificationTarget:
    return kind(COMPONENT, COMPONENT.normative)


def test_steps_that_finish_nobody_are_found() -> None:
    config = Config(2, 9, 4, 2, 2, 2, 9, prompts=(2, 3), outputs=(1, 1))
    found = Watch(planted(Preempting), config, Tally()).random(random.Random(1))
    assert found is not None
    assert found.sort is Sort.CIRCLING
    assert found.idle == 0


def test_an_assertion_is_found_unless_only_stalls_are_wanted() -> None:
    found = looked(planted(Asserting), 1, 5_000).finding
    assert found is not None
    assert found.sort is Sort.FAILED
    assert isinstance(found.calls[-1], Update)
    passed = looked(planted(Asserting), 1, 500, Sort.STALL)
    assert passed.finding is None
    assert passed.passed[Sort.FAILED] > 0


def test_loads_can_be_served_and_differ() -> None:
    loads = [load(random.Random(seed)) for seed in range(50)]
    assert all(COMPONENT.invalid(one) is None for one in loads)
    assert len(set(loads)) == 50
    assert {one.ahead for one in loads} == {1, 2}
    assert any(one.items and any(one.items) for one in loads)


def test_wide_loads_have_what_the_others_lack_and_an_engine_would_start() -> None:
    loads = [load(random.Random(seed), wide=True) for seed in range(200)]
    for name in ("drafts", "whole_items", "aborts", "resets", "long_prefill_threshold"):
        assert any(getattr(one, name) for one in loads), name
    assert {one.chunked_prefill for one in loads} == {0, 1}
    assert any(one.groups for one in loads)
    for one in loads:
        assert COMPONENT.invalid(one) is None
        assert one.token_budget >= max(
            len(one.prompts), 1 + one.drafts, 0 if one.chunked_prefill else one.max_model_len
        )
        assert all(could_be_served(one, request) for request in range(len(one.prompts)))


def test_with_wide_loads_the_normative_scheduler_serves_everybody() -> None:
    done = search(scheduler("normative"), limit=Limit(steps=1_500), seed=1, wide=True)
    assert done.finding is None
    assert {"abort", "reset_prefix_cache"} <= {operation for operation, _ in done.tally.outcomes}


def test_with_wide_loads_an_assertion_is_found_that_output_without_a_place_fails() -> None:
    """C-SCH-14."""
    found = search(
        scheduler("S2"),
        limit=Limit(steps=4_000),
        seed=2,
        wanted=(Sort.FAILED,),
        wide=True,
        suitable=lambda config: config.drafts == 0,
    ).finding
    assert found is not None
    assert (found.sort, found.outcomes[-1].code) == (Sort.FAILED, Code.FAILED)
    assert (found.config.ahead, found.config.policy) == (2, 1)
    again = Watch(scheduler("S2"), found.config, Tally()).again(found.calls)
    assert again is not None
    assert again.calls == found.calls


def test_a_load_without_a_request() -> None:
    config = Config(1, 9, 4, 2, 2, 2, 9, prompts=(1, 2, 3), outputs=(4, 5, 6), priorities=(7, 8, 9))
    less = without(config, 1)
    assert (less.prompts, less.outputs, less.priorities, less.items) == ((1, 3), (4, 6), (7, 9), ())


def test_what_is_found_is_small() -> None:
    """Nothing can be left out of it, one at a time."""
    found = looked(scheduler("S2"), 1, 5_000).finding
    assert isinstance(found, Stall)
    for place, operation in enumerate(found.calls):
        if not isinstance(operation, Add):
            rest = (*found.calls[:place], *found.calls[place + 1 :])
            less = Watch(scheduler("S2"), found.config, Tally()).again(rest)
            assert less is None or len(less.calls) >= len(found.calls)


@pytest.mark.parametrize("shrinking", ["smaller", "in_another_order"])
def test_ctrl_c_while_it_is_made_smaller_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, shrinking: str) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stalls, shrinking, interrupted)
    done = looked(scheduler("S2"), 1, 5_000)
    assert (done.interrupted, done.finding and done.finding.sort) == (True, Sort.STALL)


def test_only_loads_that_are_tried_are_counted() -> None:
    """The others take no calls, and end when the time is over."""
    normative = scheduler("normative")
    none = search(normative, limit=Limit(seconds=0.05), seed=1, suitable=lambda config: False)
    assert (none.loads, none.tally.steps) == (0, 0)
    configs: list[Config] = []

    def small(config: Config) -> bool:
        configs.append(config)
        return len(config.prompts) < 4

    some = search(normative, limit=Limit(steps=600), seed=1, suitable=small)
    assert some.loads == len({id(config) for config in configs if len(config.prompts) < 4})
    assert some.loads < len({id(config) for config in configs})


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for call, status in (
        ("stalls spec:preempted-keeps-items --steps 1000 --seed 2 --json", 1),
        ("stalls spec:normative --steps 300 --seed 1 --json", 0),
        ("stalls spec:S2 --only nothing", 2),
        ("stalls exec:true --steps 10 --seed 1", 3),
    ):
        with pytest.raises(SystemExit) as ended:
            command.main(call.split())
        out, errors = capsys.readouterr()
        assert ended.value.code == status, errors
        if status < 2:
            told = json.loads(out)
            assert (told["ok"], told["finding"] is None) == (status == 0, status == 0)
        else:
            assert "Traceback" not in errors
