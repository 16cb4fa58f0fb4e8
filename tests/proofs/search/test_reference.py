"""The reference explorer: the same as a naive search where that is possible, and honest about where it stopped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.trace import record
from cacheproof.search import clock
from cacheproof.search.canonical import canonical
from cacheproof.search.coverage import never_fired
from cacheproof.search.digest import digest
from cacheproof.search.path import Graph, UnsoundReductionError
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration, Snapshot
from cachespec.kernel import Code
from cachespec.lru import COMPONENT, GHOST, NORMATIVE_LRU, Config

SMALL = Config(3, (1, 1, 2), lookups=1, pins=1)
PLAIN = Plan(symmetry=False)


def naive(variant: Any, config: Config) -> tuple[list[set[Any]], int, dict[str, int]]:
    """Levels, transitions and the least depth of each violation, by the shortest code that can be right."""
    start = variant.start(config)
    levels, seen, transitions = [{start}], {start}, 0
    broken: dict[str, int] = {}
    while levels[-1]:
        following = set()
        for state in levels[-1]:
            before = variant.view(config, state)
            for operation in variant.alphabet(config, state) if not before.in_progress else ():
                after, outcome = variant.call(config, state, operation)
                transitions += 1
                view = variant.view(config, after)
                said = [rule.name for rule in COMPONENT.safety if not rule.holds(config, view)]
                seen_by = (config, before, operation, outcome, view)
                said += [rule.name for rule in COMPONENT.steps if not rule.holds(*seen_by)]
                for name in said:
                    broken.setdefault(name, len(levels))
                if after not in seen:
                    following.add(after)
        seen |= following
        levels.append(following)
    return levels[:-1], transitions, broken


def test_it_finds_what_a_naive_search_finds() -> None:
    for variant in (NORMATIVE_LRU, COMPONENT.variants["M3"], COMPONENT.variants["stale-growth"]):
        for config in (SMALL, Config(6, (2, 2, 2), (2, 3, 5), lookups=0, pins=1)):
            levels, transitions, broken = naive(variant, config)
            found = explore(COMPONENT, variant, config, PLAIN)
            assert (found.states, found.transitions) == (sum(map(len, levels)), transitions)
            assert found.depth == len(levels) - 1
            assert found.digest == digest(itertools.chain(*levels))
            assert {violation.property: len(violation.trace.steps) for violation in found.violations} == broken


def test_the_digest_does_not_depend_on_order_and_does_on_content() -> None:
    states = [(1, (2, 3)), (4,), ()]
    assert digest(states) == digest(reversed(states))
    assert digest(states) != digest(states[1:])
    assert digest([]) == "0" * 16


def test_two_runs_are_the_same() -> None:
    first, second = (explore(COMPONENT, GHOST, SMALL) for _ in range(2))
    assert same(first) == same(second)


def same(found: Exploration) -> Any:
    return found.states, found.transitions, found.depth, found.digest, found.violations, found.coverage


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("granularity", Granularity)
def test_counterexamples_are_runs_of_the_specification(symmetry: bool, granularity: Granularity) -> None:
    found = explore(COMPONENT, GHOST, SMALL, Plan(granularity, symmetry=symmetry))
    rules = {rule.name: rule for rule in COMPONENT.safety}
    assert {"LRU-1", "LRU-5"} <= {violation.property for violation in found.violations}
    for violation in found.violations:
        trace, whole = violation.trace, granularity is Granularity.CALL
        assert trace == record(COMPONENT, GHOST, SMALL, trace.operations, whole_calls=whole)
        if violation.property in rules:
            *earlier, last = (rules[violation.property].holds(SMALL, view) for view in views(trace, whole))
            assert all(earlier)
            assert not last


def views(trace: Any, whole: bool) -> Iterator[Any]:
    state = GHOST.start(SMALL)
    yield GHOST.view(SMALL, state)
    for operation in trace.operations:
        state, _ = (GHOST.call if whole else GHOST.step)(SMALL, state, operation)
        yield GHOST.view(SMALL, state)


def test_a_call_that_never_returns_has_no_other_successor() -> None:
    found = explore(COMPONENT, GHOST, SMALL)
    assert Code.DIVERGED.value not in found.coverage["evict"], "a turn of the loop does not diverge, the call does"
    assert found.ending is Ending.EXHAUSTED


# Where it ends ------------------------------------------------------------------------------------------------------


def test_it_ends_with_the_level_in_which_the_last_wanted_property_falls() -> None:
    found = explore(COMPONENT, GHOST, SMALL, Plan(until=frozenset({"LRU-5"})))
    assert (found.ending, found.depth) == (Ending.FOUND, 1)
    assert explore(COMPONENT, GHOST, SMALL, Plan(first=True)).states == found.states
    exhausted = explore(COMPONENT, GHOST, SMALL, Plan(until=frozenset({"LRU-5", "LRU-2"})))
    assert exhausted.ending is Ending.EXHAUSTED


def test_a_depth_that_is_asked_for_is_no_limit() -> None:
    found = explore(COMPONENT, NORMATIVE_LRU, SMALL, Plan(depth=2))
    assert (found.ending, found.depth, found.ending.conclusive) == (Ending.DEPTH, 2, True)
    whole = explore(COMPONENT, NORMATIVE_LRU, SMALL, Plan(depth=99))
    assert whole.ending is Ending.EXHAUSTED


@pytest.mark.parametrize(
    ("plan", "ending"),
    [(Plan(limit_states=10), Ending.STATES), (Plan(limit_seconds=0.0), Ending.SECONDS)],
)
def test_a_limit_is_inconclusive(plan: Plan, ending: Ending) -> None:
    found = explore(COMPONENT, NORMATIVE_LRU, SMALL, plan)
    assert (found.ending, found.ending.conclusive) == (ending, False)
    assert 0 < found.states < explore(COMPONENT, NORMATIVE_LRU, SMALL).states


def test_what_is_known_when_the_user_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", -1.0)
    shown: list[Snapshot] = []

    def watch(snapshot: Snapshot) -> None:
        shown.append(snapshot)
        if snapshot.states > 30:
            raise KeyboardInterrupt

    found = explore(COMPONENT, GHOST, SMALL, PLAIN, watch)
    assert found.ending is Ending.INTERRUPTED
    assert found.states == shown[-1].states > 30
    assert {violation.property for violation in found.violations} >= {"LRU-1", "LRU-5"}
    assert shown[-1].resident_bytes > 0


# What it asks of a scope --------------------------------------------------------------------------------------------


def test_operations_that_never_happen_are_known() -> None:
    assert never_fired(explore(COMPONENT, NORMATIVE_LRU, SMALL).coverage) == ()
    roomy = Config(2, (1, 1), lookups=0)
    assert never_fired(explore(COMPONENT, NORMATIVE_LRU, roomy).coverage) == ("evict", "get", "lookup", "pin", "stat")


def test_steps_inside_a_call_are_covered_with_their_outcomes() -> None:
    coverage = explore(COMPONENT, COMPONENT.variants["M3"], Config(3, (1, 1, 3), lookups=0, pins=1)).coverage
    assert set(coverage["evict"]) == {"done", "failed"}
    assert set(coverage["contains"]) == {"hit", "miss"}


def test_witnesses_are_reached_or_not() -> None:
    assert "LRU-3" in explore(COMPONENT, NORMATIVE_LRU, SMALL).witnessed
    assert "LRU-3" not in explore(COMPONENT, NORMATIVE_LRU, SMALL._replace(pins=0)).witnessed


def test_a_canonical_step_without_a_counterpart_is_no_trace() -> None:
    graph = Graph(COMPONENT, NORMATIVE_LRU, SMALL, PLAIN, canonical(COMPONENT, NORMATIVE_LRU, SMALL))
    start = graph.start()
    _, near, _ = next(move for move in graph.moves(start) if move[1] != start)
    assert graph.follow(start, [graph.canonical(near)])[1] in [after for _, after, _ in graph.moves(start)]
    with pytest.raises(UnsoundReductionError, match="declared interchangeable"):
        graph.follow(start, [near._replace(used=99)])
