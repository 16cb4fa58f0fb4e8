"""Rank compression keeps order and adjacency, and nothing else needs to be kept."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.proofs.search.soundness import disagreements

from cacheproof.model.plan import Plan
from cacheproof.search.ranks import compression, numbered
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cacheproof.search.shape import shape_of
from cachespec.kernel import DONE, FrozenMap, FrozenQueue, Map, Queue, Rank, RankScope

Clock = Annotated[int, Rank("clock")]
Epoch = Annotated[int, Rank("epoch")]


@pytest.mark.parametrize(
    ("ranks", "numbers"),
    [
        (set(), {}),
        ({7}, {7: 0}),
        ({7, 8}, {7: 0, 8: 1}),
        ({7, 9}, {7: 0, 9: 2}),
        ({7, 30, 31, 50}, {7: 0, 30: 2, 31: 3, 50: 5}),
    ],
)
def test_the_least_numbers_that_keep_order_and_adjacency(ranks: set[int], numbers: dict[int, int]) -> None:
    assert numbered(ranks) == numbers


@given(st.sets(st.integers(0, 1000)))
def test_order_and_adjacency_are_kept_and_numbering_again_changes_nothing(ranks: set[int]) -> None:
    numbers = numbered(ranks)
    for one in ranks:
        for other in ranks:
            assert (one < other) == (numbers[one] < numbers[other])
            assert (other - one == 1) == (numbers[other] - numbers[one] == 1)
    again = set(numbers.values())
    assert numbered(again) == {number: number for number in again}


class Part(NamedTuple):
    clock: Clock
    epoch: Epoch
    seen: Map[int, Clock]
    waiting: Queue[Clock]
    last: Clock | None
    pair: tuple[Clock, int]


class Whole(NamedTuple):
    parts: tuple[Annotated[Part, RankScope()], ...]
    clock: Clock


def test_ranks_are_compared_within_their_scope_and_sort_only() -> None:
    first = Part(10, 4, FrozenMap.of([(1, 11), (2, 30)]), FrozenQueue([(31, 5)]), None, (10, 10))
    second = Part(11, 90, FrozenMap(), FrozenQueue(), 13, (-1, 7))
    compress = compression(shape_of(Whole))
    assert compress is not None
    assert compress(Whole((first, second), 100)) == Whole(
        (
            Part(0, 0, FrozenMap.of([(1, 1), (2, 3)]), FrozenQueue([(4, 5)]), None, (0, 10)),
            Part(0, 0, FrozenMap(), FrozenQueue(), 2, (-1, 7)),
        ),
        0,
    )


def test_without_ranks_there_is_nothing_to_compress() -> None:
    assert compression(shape_of(tuple[int, ...])) is None


# Bisimilar, or not --------------------------------------------------------------------------------------------------


def test_sequence_numbers_that_grow_for_ever_make_a_finite_space(toys: Any) -> None:
    found = explore(toys.line, toys.line.normative, toys.window(3))
    assert found.ending is Ending.EXHAUSTED
    assert found.violations == ()
    assert found.witnessed == {"ORDER", "BEHIND", "TAKEN"}


def test_a_state_and_its_compressed_form_go_on_alike(toys: Any) -> None:
    assert not list(disagreements(toys.line, toys.line.normative, toys.window(3), limit_states=2000))


def every_third(config: Any, line: Any, op: Any) -> Any:
    """Planted: the number itself matters."""
    return line._replace(flying=line.flying if line.next % 3 == 2 else ()), DONE


def leave_a_gap(config: Any, line: Any, op: Any) -> Any:
    """Planted: numbers are left out, which would do no harm."""
    return line._replace(flying=(), next=line.next + 5), DONE


def far_away(config: Any, line: Any, op: Any) -> Any:
    """Planted: how large a gap is, matters."""
    number = line.flying[op.position]
    return line._replace(flying=(), log=line.log if line.next - number > 3 else ()), DONE


@pytest.mark.parametrize(
    "planted", [{"lose": every_third}, {"lose": leave_a_gap, "arrive": far_away}], ids=["number", "gap"]
)
def test_a_rank_that_means_more_is_noticed(toys: Any, planted: Any) -> None:
    mutant = toys.line_mutant(planted)
    assert list(islice(disagreements(toys.line, mutant, toys.window(3), limit_states=500), 1))


def test_numbers_that_are_left_out_do_no_harm(toys: Any) -> None:
    mutant = toys.line_mutant({"lose": leave_a_gap})
    assert not list(disagreements(toys.line, mutant, toys.window(2), limit_states=500))


def go_on(config: Any, line: Any, op: Any) -> Any:
    """Planted: a fault sends everything again while it is still on the way."""
    return line._replace(flying=(*line.flying, *line.log)[: config.width + 2]), DONE


def test_the_compressed_graph_has_the_verdicts_of_the_graph_itself(toys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = toys.line_mutant({"lose": go_on})
    plan = Plan(depth=6)
    compressed = explore(toys.line, mutant, toys.window(2), plan)
    monkeypatch.setattr("cacheproof.search.canonical.compression", lambda shape: None)
    plain = explore(toys.line, mutant, toys.window(2), plan)
    assert plain.states > compressed.states
    assert verdicts(plain) == verdicts(compressed) != []
    assert plain.witnessed == compressed.witnessed


def verdicts(found: Any) -> list[tuple[str, int]]:
    return [(violation.property, len(violation.trace.steps)) for violation in found.violations]
