"""The claim of #11895: its worked example with its own numbers, and that what is said of a step can fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cachespec.kernel import Operation, Outcome
from cachespec.shared_prefix import COMPONENT, Add, Config, Finish, Step
from cachespec.shared_prefix import transitions as rules

EXAMPLE = Config(
    batch_tokens=8192,
    block_size=16,
    sequences=2,
    prompts=(16032,),
    items=(((0, 7333, 16020),),),
    requests=(0, 0),
    constant=8687,
)
TWO_ARRIVE = (Add(0), Add(1), Step(), Step())


def scheduled(tag: str, operations: Sequence[Operation], config: Config = EXAMPLE) -> list[tuple[int, ...]]:
    """What each operation returned."""
    variant = COMPONENT.variants[tag]
    state, answers = variant.start(config), []
    for operation in operations:
        state, outcome = variant.step(config, state, operation)
        answers.append(outcome.values)
    return answers


def test_the_worked_example_before_11895() -> None:
    assert scheduled("B0", TWO_ARRIVE)[-2:] == [(0, 8192), (0, 7840, 1, 7333 - 16016)]
    assert 7333 - 16016 == -8683


def test_the_worked_example_with_one_item_more() -> None:
    assert scheduled("B1", TWO_ARRIVE)[-1] == (0, 7840, 1, 16)


def test_the_worked_example_as_merged_schedules_nothing_instead() -> None:
    assert scheduled("B3", TWO_ARRIVE)[-1] == (0, 7840)
    assert scheduled("B3", (*TWO_ARRIVE, Step()))[-1] == (1, 16)


def test_the_worked_example_normatively() -> None:
    assert scheduled("normative", TWO_ARRIVE)[-1] == (0, 7840, 1, 352)


def test_a_third_request_takes_the_item_more_apart() -> None:
    three = EXAMPLE._replace(sequences=3, requests=(0, 0, 0))
    arrive = (Add(0), Add(1), Add(2), Step(), Step())
    assert scheduled("B1", arrive, three)[-1] == (0, 7840, 1, 16, 2, -8683)
    assert scheduled("enough", arrive, three)[-1] == (0, 7840, 1, 16, 2, 16)


def test_what_was_evicted_is_needed_again() -> None:
    """Outputs are shared by content; the first request with the prefix has finished."""
    config = scope_named(component_named("shared_prefix"), "owner-gone").config
    run = (Add(0), Add(2), Add(3), Add(1), Step(), Finish(0), Step(), Step())
    assert scheduled("B1-shared", run, config)[-1] == (2, 2, 3, 2, 1, -5)
    assert min(scheduled("normative", run, config)[-1]) >= 0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("SCH-1", Change(rules.up_to_the_item, "max(0, $start - $computed)", "$start - $computed")),
        ("SCH-2", Change(rules.schedule, "$start + $tokens", "$start + 2 * $tokens")),
        ("SCH-6", Change(rules.finish_by, "computed=changed($state.computed, $op.request, 0)", "")),
        ("SCH-6/asked", Change(rules.add, "(*$state.waiting, $op.request)", "($op.request, *$state.waiting)")),
        ("SCH-7", Change(rules.admit, "(*$plan.state.running, $request)", "($request, *$plan.state.running)")),
        ("SCH-2/counted", Change(rules.cached_prefix, "$reach - $config.block_size", "0")),
        ("SCH-2/cached", Change(rules.executed, "$state = cached($config, $state, $request)", "pass")),
        ("SCH-8/reason", Change(rules.run, "min($x, $plan.tokens)", "min($x, $plan.tokens, 1)")),
        ("X-2/held", Change(rules.released, "$position in $held", "$position < 0")),
        ("ENC-7", Change(rules.executed, "ask($config, $rules, $state, Report())[0]", "$state")),
        ("SCH-8", Change(rules.executed, "$end <= $state.computed[$request]", "$end < 0")),
    ],
)
def test_a_planted_bug_breaks_the_property(name: str, change: Change) -> None:
    scopes = {"SCH-8": "progress", "ENC-7": "owner-gone"}
    scope = scope_named(component_named("shared_prefix"), scopes.get(name, "three-requests"))
    plan = Plan(symmetry=False, liveness=True) if name == "SCH-8" else Plan()
    config = scope.config
    if name == "SCH-1":
        config = config._replace(batch_tokens=7, requests=(0, 1, 2, 0), prompts=(8, 8, 2), items=DISTINCT, sequences=4)
    with planted(change):
        found = explore(COMPONENT, COMPONENT.normative, config, replace(plan, until=frozenset({name})))
    assert name in [violation.property for violation in found.violations]


DISTINCT = (((0, 1, 8),), ((1, 1, 8),), ((2, 0, 1),))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"block_size": 0}, "must be positive"),
        ({"requests": (1,)}, "requests must name prompts"),
        ({"items": (((0, 7333, 16040),),)}, "must lie in it"),
        ({"items": (((0, 1, 3), (0, 4, 6)),)}, "an item twice"),
        ({"items": (((1, 1, 3),),)}, "without a gap"),
    ],
)
def test_what_is_wrong_with_a_configuration(changes: dict[str, Any], said: str) -> None:
    assert said in (COMPONENT.invalid(EXAMPLE._replace(**changes)) or "")
    assert COMPONENT.invalid(EXAMPLE) is None


def test_an_answer_says_requests_and_tokens() -> None:
    variant = COMPONENT.normative
    state, _ = variant.step(EXAMPLE, variant.start(EXAMPLE), Add(0))
    after, outcome = variant.step(EXAMPLE, state, Step())
    assert isinstance(outcome, Outcome)
    assert (outcome.values, after.computed[0]) == ((0, 8192), 8192)
