"""Lassos: found exactly where a fair run can stay pending for ever, and replayed by the specification."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.trace import Trace, record
from cacheproof.search.components import strongly_connected
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.kernel import DONE
from cachespec.lru import COMPONENT, GHOST, Config, Evict

PLAN = Plan(symmetry=False, liveness=True)
Edge = tuple[int, int, int]


def lasso(toys: Any, places: int, edges: list[Edge], pending: set[int]) -> Trace | None:
    config = toys.edges(places, tuple(sorted(edges)), tuple(sorted(pending)))
    found = explore(toys.graph, toys.graph.normative, config, PLAN)
    assert found.ending is Ending.EXHAUSTED
    return found.violations[0].trace if found.violations else None


@pytest.mark.parametrize(
    ("edges", "pending", "steps", "cycle"),
    [
        pytest.param([(0, 0, 1)], {0}, None, None, id="the only step leads out"),
        pytest.param([], {1}, 1, None, id="no step at all"),
        pytest.param([(1, 0, 1)], {1}, 1, None, id="the only step changes nothing"),
        pytest.param([(0, 0, 1), (1, 0, 0)], {0, 1}, 2, 0, id="round and round"),
        pytest.param([(0, 0, 1), (1, 0, 0), (1, 1, 2)], {0, 1}, 2, 0, id="a way out that is not always open"),
        pytest.param([(0, 0, 1), (1, 0, 0), (0, 1, 2), (1, 1, 2)], {0, 1}, None, None, id="a way out always open"),
        pytest.param([(0, 0, 1), (1, 0, 0), (0, 1, 2), (1, 1, 2)], {0, 1, 2}, 1, None, id="a way out into a dead end"),
        pytest.param(
            [(0, 0, 1), (1, 0, 2), (2, 0, 0), (0, 1, 2), (1, 1, 2), (2, 1, 0)], {0, 1, 2}, 2, 0, id="one turn is enough"
        ),
        pytest.param(
            [(0, 0, 1), (1, 0, 0), (0, 1, 0), (1, 1, 2), (2, 1, 1), (2, 0, 2)], {0, 1, 2}, 2, 0, id="two loops"
        ),
    ],
)
def test_known_graphs(toys: Any, edges: list[Edge], pending: set[int], steps: int | None, cycle: int | None) -> None:
    trace = lasso(toys, 3, edges, pending)
    assert (trace is None) == (steps is None)
    if trace is not None:
        assert (len(trace.steps), trace.cycle) == (steps, cycle)


graphs = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 2)), st.integers(0, 3), max_size=9).map(
    lambda found: [(start, label, end) for (start, label), end in found.items()]
)


def stays(edges: list[Edge], pending: set[int]) -> bool:
    """Whether a fair run can stay pending: every set of places is tried as those that are visited for ever."""
    moving = [(start, label, end) for start, label, end in edges if start != end]
    if any(not [edge for edge in moving if edge[0] == place] for place in pending):
        return True
    several = chain.from_iterable(combinations(sorted(pending), size) for size in range(2, len(pending) + 1))
    return any(_fair(moving, set(places)) for places in several if _connected(moving, set(places)))


def _connected(edges: list[Edge], places: set[int]) -> bool:
    def reach(start: int) -> set[int]:
        seen, found = {start}, {start}
        while found:
            found = {end for begin, _, end in edges if begin in found and end in places} - seen
            seen |= found
        return seen

    return all(reach(place) == places for place in places)


def _fair(edges: list[Edge], places: set[int]) -> bool:
    enabled = [{label for start, label, _ in edges if start == place} for place in places]
    taken = {label for start, label, end in edges if start in places and end in places}
    return set.intersection(*enabled) <= taken


@settings(max_examples=250, deadline=None)
@given(graphs, st.sets(st.integers(0, 3)))
def test_a_lasso_is_found_exactly_where_a_fair_run_can_stay(toys: Any, edges: list[Edge], pending: set[int]) -> None:
    trace = lasso(toys, 4, edges, pending)
    assert (trace is not None) == stays(edges, pending)
    if trace is not None:
        check_lasso(toys, edges, pending, trace)


def check_lasso(toys: Any, edges: list[Edge], pending: set[int], trace: Trace) -> None:
    """It is a run, it returns to where it says, it is pending and fair all along."""
    variant = toys.graph.normative
    assert trace == record(toys.graph, variant, trace.config, trace.operations, whole_calls=True, cycle=trace.cycle)
    visited = [trace.initial["place"], *(step.observations["place"] for step in trace.steps)]
    assert all(isinstance(place, int) for place in visited)
    places = [place for place in visited if isinstance(place, int)]
    if trace.cycle is None:
        assert places[-1] in pending
        assert not [edge for edge in edges if edge[0] == places[-1] != edge[2]]
        return
    turn = places[trace.cycle :]
    assert turn[0] == turn[-1]
    assert set(turn) <= pending
    taken = {operation.label for operation in trace.operations[trace.cycle :] if hasattr(operation, "label")}
    assert len(taken) > 0
    always = set.intersection(*({label for start, label, end in edges if start == at != end} for at in turn))
    assert always <= taken


def test_components_of_a_graph() -> None:
    edges = {0: [("", 1)], 1: [("", 2), ("", 3)], 2: [("", 0)], 3: [("", 4)], 4: [("", 3)], 5: [("", 5)]}
    assert set(strongly_connected(edges)) == {frozenset({0, 1, 2}), frozenset({3, 4}), frozenset({5})}


@pytest.mark.parametrize("granularity", Granularity)
def test_the_eviction_that_never_ends(granularity: Granularity) -> None:
    """C-MIR-10, as a lasso: the loop meets the ghost, frees nothing, and meets it again."""
    config = Config(3, (1, 1, 1, 1), lookups=0)
    plan = Plan(granularity, symmetry=False, liveness=True)
    found = {violation.property: violation.trace for violation in explore(COMPONENT, GHOST, config, plan).violations}
    trace = found["LRU-6"]
    assert trace.cycle == len(trace.steps) - 1
    assert trace.operations[-1] == Evict()
    assert trace.steps[-1].observations == trace.steps[-2].observations


def test_later_releases_have_no_such_lasso() -> None:
    plan = Plan(Granularity.STEP, symmetry=False, liveness=True)
    found = explore(COMPONENT, COMPONENT.variants["M3"], Config(3, (1, 1, 1, 1), lookups=0), plan)
    assert "LRU-6" in found.witnessed
    assert found.violations == ()


def test_what_is_sent_is_taken_under_fairness_and_not_without_repair(toys: Any) -> None:
    """Ranks grow on the way round, and the lasso is found all the same."""
    assert explore(toys.line, toys.line.normative, toys.window(2), PLAN).violations == ()

    def forget(config: Any, line: Any, op: Any) -> Any:
        after = line._replace(next=line.next + 1, log=(*line.log[1:], line.next), flying=())
        return after, DONE

    found = explore(toys.line, toys.line_mutant({"resend": forget}), toys.window(1), PLAN)
    assert [violation.property for violation in found.violations] == ["TAKEN"]
