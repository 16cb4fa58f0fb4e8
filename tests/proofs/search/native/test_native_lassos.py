"""Whether something pending can last for ever, asked in C++: the answer is that of the search for lassos in Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproof.model.plan import Plan
from cacheproof.search import native, reference
from cacheproof.search.native import build
from cacheproof.search.native.shard import NativeShard

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")

PLAN = Plan(symmetry=False, liveness=True)
Edge = tuple[int, int, int]
"""From, label, to; one for each place and label."""

graphs = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 2)), st.integers(0, 4), max_size=11).map(
    lambda found: tuple(sorted((start, label, end) for (start, label), end in found.items()))
)

KNOWN: tuple[tuple[tuple[Edge, ...], tuple[int, ...]], ...] = (
    ((), (1,)),
    (((1, 0, 1),), (1,)),
    (((0, 0, 1),), (0,)),
    (((0, 0, 1), (1, 0, 0)), (0, 1)),
    (((0, 0, 1), (1, 0, 0)), (0,)),
    (((0, 0, 1), (0, 1, 2), (1, 0, 0)), (0, 1)),
    (((0, 0, 1), (1, 0, 0), (1, 1, 2)), (0, 1)),
    (((0, 0, 1), (0, 1, 2), (1, 0, 0), (1, 1, 2)), (0, 1)),
    (((0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 2), (2, 0, 2), (2, 1, 1)), (0, 1, 2)),
    (((0, 0, 1), (1, 0, 2), (2, 0, 3), (2, 1, 1), (3, 0, 0)), (0, 1, 2, 3)),
    (((0, 0, 1), (1, 0, 0), (1, 1, 2), (2, 0, 3), (2, 1, 3), (3, 0, 2), (3, 1, 2)), (0, 1, 2, 3)),
    (((0, 0, 1), (0, 1, 2), (1, 0, 0), (2, 0, 1)), (0, 1, 2)),
)
"""Graphs in which something lasts, and graphs in which nothing does."""


def answers(toys: Any, edges: tuple[Edge, ...], pending: tuple[int, ...], plan: Plan = PLAN) -> list[bool]:
    """Whether the reference engine finds a lasso, whether the native one does, and whether its C++ expects one."""
    variant, config = toys.graph.normative, toys.edges(5, edges, pending)
    expected = reference.explore(toys.graph, variant, config, plan)
    found = native.explore(toys.graph, variant, config, plan)
    assert found.states == expected.states
    with NativeShard(toys.graph, variant, config, plan) as shard:
        search = reference.ReferenceSearch(toys.graph, variant, config, plan, None, native.NativeCrew(shard), None)
        search.search()
        return [bool(expected.violations), found.violations == expected.violations, shard.may_last(search.whole)]


def differs(toys: Any) -> bool:
    return any(one != [one[0], True, one[0]] for one in (answers(toys, *each) for each in KNOWN))


def test_known_graphs(toys: Any) -> None:
    assert not differs(toys)
    assert {answers(toys, *each)[0] for each in KNOWN} == {False, True}


@settings(max_examples=300, deadline=None)
@given(graphs, st.sets(st.integers(0, 4)), st.sampled_from([None, 1]))
def test_every_graph(toys: Any, edges: tuple[Edge, ...], pending: set[int], depth: int | None) -> None:
    """With a bound, some places are known and not expanded."""
    lasts, alike, expected = answers(toys, edges, tuple(sorted(pending)), replace(PLAN, depth=depth))
    assert alike
    assert expected == lasts


FAULTS = (
    ("begin[state] == begin[state + 1]) return true;", "begin[state] == begin[state + 1]) return false;"),
    ("if (members.size() == 1) return false;", "if (members.size() < 3) return false;"),
    ("low[state] = std::min(low[state], number[after]);", ";"),
    ("low[walk.back().state] = std::min(low[walk.back().state], low[state]);", ""),
    ("|| taken[label] == own)", ")"),
    ("enabled[label] < members.size() ||", ""),
    ("&& search.pending[state] >> rule & 1", ""),
    ("if (after < whole && component[after] == own) taken[label] = own;", "taken[label] = own;"),
)


@pytest.mark.nightly
@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_every_fault_is_noticed(alone: Path, toys: Any, old: str, new: str) -> None:
    path = alone / "lassos.hpp"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert differs(toys)
