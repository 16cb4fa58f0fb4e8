"""The plainest configuration: the same property, a trace that is no longer, and nothing to leave out."""

from __future__ import annotations

from typing import Any

import pytest

from cacheproof.model.configurations import drawn
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named
from cacheproof.model.trace import Violation
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.plainest import plainer, plainest, size_of, without_one
from cacheproof.search.reference import explore
from cacheproof.search.result import Exploration
from cacheproof.search.worker import REFERENCE

LRU, SCHEDULER = map(component_named, ("lru", "scheduler"))
STATES = 3_000


def quiet(line: str) -> None:
    """No progress."""


def found(component: AnyComponent, tag: str, config: Any, name: str) -> Violation | None:
    plan = Plan(symmetry=False, limit_states=STATES, until=frozenset({name}))
    made = explore(component, component.variants[tag], config, plan, None)
    return next((one for one in made.violations if one.property == name), None)


def made_plain(component: AnyComponent, tag: str, config: Any, name: str, seconds: float = 250) -> Violation:
    violation = found(component, tag, config, name)
    assert violation is not None
    return plainest(component, component.variants[tag], REFERENCE, violation, STATES, seconds, quiet)


@pytest.mark.parametrize("name", ["LRU-1", "LRU-5", "LRU-8"])
def test_nothing_more_can_be_left_out(name: str) -> None:
    config = drawn(LRU, 1, 3)
    before, plain = found(LRU, "M2", config, name), made_plain(LRU, "M2", config, name)
    assert before is not None
    assert plain.property == name
    assert len(plain.trace.steps) <= len(before.trace.steps)
    assert size_of(plain.trace.config) < size_of(config)
    for less in plainer(plain.trace.config):
        if LRU.invalid(less) is None:
            other = found(LRU, "M2", less, name)
            assert other is None or len(other.trace.steps) > len(plain.trace.steps), less


def test_a_touch_of_a_key_that_is_not_there_needs_one_key() -> None:
    plain = made_plain(LRU, "M2", drawn(LRU, 1, 0), "LRU-5").trace.config
    assert (plain.capacity, len(plain.sizes)) == (1, 1)


def test_a_candidate_in_which_a_reduction_is_wrong_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a configuration with one key cannot be explored."""

    def explored(component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan, watch: None) -> Exploration:
        if len(config.sizes) == 1:
            raise UnsoundReductionError("planted")
        return explore(component, variant, config, plan, watch)

    monkeypatch.setattr("cacheproof.search.plainest.engine_named", lambda name: explored)
    plain = made_plain(LRU, "M2", drawn(LRU, 1, 0), "LRU-5").trace.config
    assert (plain.capacity, len(plain.sizes)) == (1, 2)


def test_a_request_goes_with_all_that_is_said_of_it() -> None:
    config = drawn(SCHEDULER, 1, 40)
    count = len(config.prompts)
    assert count > 1
    assert len(config.priorities) == len(config.items) == count
    without = next(one for one in without_one(config) if len(one.prompts) == count - 1)
    assert without.prompts == config.prompts[:-1]
    assert without.priorities == config.priorities[:-1]
    assert without.items == config.items[:-1]
    assert SCHEDULER.invalid(without) is None


@pytest.mark.parametrize("number", range(5))
def test_every_candidate_is_smaller(number: int) -> None:
    config = drawn(SCHEDULER, 1, number)
    candidates = list(plainer(config))
    assert candidates
    assert all(size_of(one) < size_of(config) for one in candidates)


def test_without_time_it_stays_as_it_is() -> None:
    config = drawn(LRU, 1, 0)
    assert made_plain(LRU, "M2", config, "LRU-5", seconds=0).trace.config == config
