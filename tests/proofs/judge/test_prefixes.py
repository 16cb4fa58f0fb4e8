"""Requests that begin alike, as groups."""

from __future__ import annotations

import pytest

from cacheproof.logs.record.prefixes import ForkError, beginnings


def test_groups_and_what_each_request_shares() -> None:
    chains = [["a", "b", "c"], ["a", "b", "d"], ["a", "x"], ["p"], ["q"], ["p"], []]
    groups, shared = beginnings(chains, [13, 12, 9, 4, 5, 7, 3], 4)
    assert shared == [8, 8, 4, 4, 0, 4, 0]
    assert groups[0] == groups[1] == groups[2]
    assert groups[3] == groups[5] != groups[0]
    assert len({groups[0], groups[3], groups[4], groups[6]}) == 4


def test_nothing_shared_needs_no_groups() -> None:
    assert beginnings([["a"], ["b"]], [4, 4], 4) == ([], [])


def test_a_tree_is_refused() -> None:
    with pytest.raises(ForkError, match="tree"):
        beginnings([["a", "b"], ["a", "b"], ["a", "c"], ["a", "c"]], [8] * 4, 4)


def test_shared_output_is_refused() -> None:
    with pytest.raises(ForkError, match="output"):
        beginnings([["a", "b"], ["a", "b"]], [8, 7], 4)
