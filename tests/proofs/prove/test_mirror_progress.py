"""The rank by which the mirror makes progress: it falls in every scope, and the formulas say the same as plain code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]  # z3 ships no types
from tests.planting import Change, planted
from tests.proofs.prove import mirror_ranks
from tests.proofs.prove.mirror_ranks import NORMATIVE, rank, reachable, wrong_steps

from cacheproof.model.scope import DEFAULT, scope_named, scopes_of
from cacheproof.prove.executor import Path, SymbolicInteger, following
from cacheproof.prove.fifo import Fifo
from cacheproof.prove.mirror.links import REPLAY, lift
from cacheproof.prove.mirror.ranks import can_stand, is_whole, phase, unanswered, unsent
from cacheproof.search.canonical import canonical
from cacheproof.search.ranks import compression
from cacheproof.search.shape import shape_of
from cachespec.kernel import NORMATIVE as TAG
from cachespec.mirror import COMPONENT, protocol
from cachespec.mirror.configuration import Config
from cachespec.mirror.normative_state import State

SCOPES = [scope.name for scope in scopes_of(COMPONENT) if scope.set == DEFAULT and TAG in scope.variants]
SOME = ("served", "two-senders", "duplicates", "requests-of-all-kinds", "impatient")
MANY = Config(2, (1, 1), outstanding=3, channel=4, reorder=1, drop=1, duplicate=1, reset=1, impatient=1, faults=4)
"""More messages in flight than in any scope, and as many faults as it takes to see each part of the rank."""

LIMIT = 50_000

compressed = compression(shape_of(NORMATIVE.state))


def wrong_in(states: Iterable[State], config: Config) -> list[str]:
    return [wrong for state in states for wrong in wrong_steps(config, state)]


# Explored -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", SOME)
def test_the_rank_falls_in_the_first_states_of_a_scope(scope: str) -> None:
    config = scope_named(COMPONENT, scope).config
    assert compressed is not None
    assert wrong_in(reachable(config, compressed, 3_000), config) == []


def test_the_rank_falls_with_more_messages_in_flight() -> None:
    assert compressed is not None
    assert wrong_in(reachable(MANY, compressed, 1_500), MANY) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scope", [*SCOPES, "impatient"])
def test_the_rank_falls_in_every_state_of_a_scope(scope: str) -> None:
    config = scope_named(COMPONENT, scope).config
    representative = canonical(COMPONENT, NORMATIVE, config)
    states = list(reachable(config, representative, LIMIT))
    assert len(states) < LIMIT
    assert wrong_in(states, config) == []


BUGS = (
    Change(protocol.answered, "$answer.verdict == STALE", "False"),
    Change(protocol.go_back, "sent=0", ""),
    Change(protocol.probe, "$sender.next", "0"),
    Change(
        protocol.receive,
        "Answer($message.generation, $partition.expected, GAP)",
        "Answer($partition.generation, $partition.expected, GAP)",
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.function.__name__)
def test_a_planted_bug_is_seen_in_a_scope(bug: Change) -> None:
    config = scope_named(COMPONENT, "served").config
    assert compressed is not None
    with planted(bug):
        assert wrong_in(reachable(config, compressed, 8_000), config)


# Formulas -----------------------------------------------------------------------------------------------------------


def queue_of(record: Any, sorts: tuple[Any, ...], entries: tuple[Any, ...]) -> Fifo:
    """The queue with these entries."""
    empty = Fifo.fresh(record, sorts, "queue")
    queue = Fifo(record, empty.columns, z3.IntVal(0), z3.IntVal(0))
    for entry in entries:
        queue = queue.joined(tuple(SymbolicInteger(z3.IntVal(part)) if type(part) is int else part for part in entry))
    return queue


def in_order(link: Any) -> Any:
    """A lifted link with queues in the place of tuples."""
    number = z3.IntSort()
    return link._replace(
        messages=queue_of(protocol.Message, (number, number, REPLAY.items, REPLAY.needs), link.messages),
        answers=queue_of(protocol.Answer, (number,) * 3, link.answers),
    )


def said_of(link: Any, requests: int) -> tuple[int, ...]:
    """The rank as the formulas say it."""
    last = z3.simplify(z3.IntVal(mirror_ranks.base(link) + requests - 1))
    with following(Path()) as path:
        (lifted,) = lift(State, State(links=(link,), empty=link.sender.order)).links
        queued = in_order(lifted)
        numbers = (phase(queued), unsent(queued, last), unanswered(queued, last))
        ends = range(len(link.answers) + len(link.messages) + 2)
        places = [can_stand(queued, last, z3.IntVal(place)) for place in ends]
        good = is_whole(queued)
        solver = z3.Solver()
        solver.add(*path.assumptions)
        whole = holds(solver, good)
        first = next(end for end in ends if holds(solver, places[end]))
        assert solver.check() == z3.sat
    now, later, left = (solver.model().eval(number, model_completion=True).as_long() for number in numbers)
    return now, int(not whole), later, left, first


def holds(solver: Any, formula: Any) -> bool:
    """Whether the formula follows; if not, its negation does."""
    follows, fails = (solver.check(one) == z3.unsat for one in (z3.Not(formula), formula))
    assert follows != fails
    return bool(follows)


def test_the_formulas_are_the_rank() -> None:
    assert compressed is not None
    seen = set()
    for state in list(reachable(MANY, compressed, 4_000))[::80]:
        (link,) = state.links
        for requests in range(len(link.sender.log) + 1):
            assert said_of(link, requests) == rank(link, requests)
            seen.add(rank(link, requests))
    for part in range(len(next(iter(seen)))):
        assert len({one[part] for one in seen}) > 1
