"""The ring: what it does in known cases, and that each of its properties can fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cachespec.kernel import FROZEN, NORMATIVE, REFUSED, REROOTING, STALE, Code, Operation, Outcome
from cachespec.ring import COMPONENT, Config, chunks, empty_ring, memory, reserve, transitions
from cachespec.ring.chunks import free_chunks, place
from cachespec.ring.eras import NORMATIVE_RING, free_staying_behind
from cachespec.ring.operations import Allocate, Clear, Free, Read, Restart, Revoke

HUNDRED = Config(capacity=100, modulus=2**31, header=8, sizes=(20, 30, 40), clears=1)
SMALL = Config(capacity=7, modulus=3, sizes=(1, 2), outstanding=2, clears=1, revocations=1, restarts=1)
LAPS = Config(capacity=9, modulus=4, sizes=(1, 2), wants=(1, 9), outstanding=3)
TWO_IDS = Config(capacity=16, modulus=2, header=4, sizes=(1, 3), outstanding=3)


def ran(tag: str, config: Config, operations: Sequence[Operation]) -> tuple[Any, list[Outcome]]:
    """The view after the calls, and what came of each."""
    variant, outcomes = COMPONENT.variants[tag], []
    state = variant.start(config)
    for operation in operations:
        state, outcome = variant.step(config, state, operation)
        outcomes.append(outcome)
    return variant.view(config, state), outcomes


def read(content: int, identity: int, at: int) -> Read:
    return Read(reader=0, content=content, identity=identity, place=at, segment=0)


# What it does -------------------------------------------------------------------------------------------------------


def test_chunks_go_round() -> None:
    """Two chunks, both read; the third does not fit behind them and begins the second lap only if it must."""
    view, outcomes = ran(
        NORMATIVE,
        HUNDRED,
        [
            Allocate(0),
            Allocate(1),
            read(0, 0, 0),
            Free(1),
            Allocate(2),
            Allocate(0),
            read(1, 1, 28),
            Free(1),
            Allocate(0),
        ],
    )
    assert outcomes[0].values == (0, 0)
    assert outcomes[1].values == (28, 1)
    assert outcomes[3].values == (0,)
    assert outcomes[4] == REFUSED, "34 units at the end and 28 at the beginning are not 48"
    assert outcomes[5].values == (66, 2)
    assert outcomes[7].values == (1,)
    assert outcomes[8].values == (100, 3), "in the second lap, at the beginning of the data"
    assert (view.start, view.end) == (66, 128)
    assert place(HUNDRED, view.end) == 28


def test_start_and_end_go_back_by_a_lap_and_addresses_stay() -> None:
    config = HUNDRED._replace(sizes=(42,))
    view, _ = ran(
        NORMATIVE, config, [Allocate(0), Allocate(0), read(0, 0, 0), Free(1), Allocate(0), read(0, 1, 50), Free(1)]
    )
    assert view.chunks == ((2, 100, 50),)
    assert (view.start, view.end) == (0, 50)


def test_memory_holds_the_fields_of_the_released_chunk() -> None:
    """Four units for the id and four for the size, the lowest first."""
    view, _ = ran(NORMATIVE, HUNDRED, [Allocate(0)])
    assert view.memory[:9] == (0, 0, 0, 0, 28, 0, 0, 0, 1)


def test_clearing_keeps_what_is_still_to_be_read() -> None:
    view, outcomes = ran(NORMATIVE, HUNDRED, [Allocate(0), Clear(), Allocate(1), read(0, 0, 0), Clear()])
    assert outcomes[2].values == (28, 1)
    assert outcomes[3] == Outcome(Code.HIT, (1,) * 20)
    assert [identity for identity, _, _ in view.chunks] == [1]


@pytest.mark.parametrize(
    ("tag", "answer"),
    [("M2", Outcome(Code.HIT, (2,) * 30)), ("M3", STALE), (NORMATIVE, Outcome(Code.HIT, (1,) * 20))],
)
def test_a_handle_from_before_a_clearing(tag: str, answer: Outcome) -> None:
    """C-SHM-7: another object's data; C-SHM-12: refused; normatively its own."""
    _, outcomes = ran(tag, HUNDRED, [Allocate(0), Clear(), Allocate(1), read(0, 0, 0)])
    assert outcomes[-1] == answer


@pytest.mark.parametrize("tag", ["M1", "M2", "M3"])
def test_clearing_leaves_no_chunk_whichever_ids_they_have(tag: str) -> None:
    """Of 2**31 ids as of 4 that come round; in 0.11.0 freeing passes over an id 0 that is given out afterwards."""
    around = [Allocate(0), *[Allocate(1), read(0, 0, 0), Free(100)] * 6, Allocate(0), Clear()]
    passed_over = [Free(100), Allocate(0), Allocate(1), Allocate(2), Clear()]
    for config in (HUNDRED, HUNDRED._replace(modulus=4)):
        for calls in (around, passed_over):
            view, outcomes = ran(tag, config, calls)
            assert Code.DONE in [outcome.code for outcome in outcomes[:-1]]
            assert (COMPONENT.observe(config, view)["ids"], COMPONENT.observe(config, view)["end"]) == ((), 0)


@pytest.mark.parametrize("tag", ["M2", "M3"])
def test_clearing_leaves_no_chunk_whose_id_was_given_again(tag: str) -> None:
    """C-SHM-11: ids 1 and 2 are live, and 2 is the oldest: from there on they do not follow one another."""
    few = Config(capacity=20, modulus=3, sizes=(2,), clears=1)
    again = [*[Allocate(0)] * 2, read(0, 1, 4), *[Allocate(0)] * 2, read(0, 0, 0), Free(20), Allocate(0), Free(20)]
    before, _ = ran(tag, few, again)
    assert (COMPONENT.observe(few, before)["ids"], before.id_start) == ((1, 2), 2)
    view, _ = ran(tag, few, [*again, Clear()])
    assert COMPONENT.observe(few, view)["ids"] == ()


@pytest.mark.parametrize(("tag", "answer"), [("M2", ()), ("M3", ()), (NORMATIVE, (0, 1))])
def test_all_chunks_go_while_all_ids_are_live(tag: str, answer: tuple[int, ...]) -> None:
    """C-SHM-21: the answer of a release goes by ids that the start has passed, and the start is where it was."""
    few = Config(capacity=6, modulus=2, sizes=(1,), outstanding=2)
    view, outcomes = ran(tag, few, [Allocate(0), Allocate(0), read(0, 0, 0), read(0, 1, 3), Free(6)])
    assert (outcomes[-1].values, view.chunks, view.contents) == (answer, (), ())


def test_a_handle_to_the_segment_of_a_writer_that_died() -> None:
    _, outcomes = ran(NORMATIVE, SMALL, [Allocate(0), Restart(), Allocate(1), read(0, 0, 0)])
    assert outcomes[-1] == STALE


def test_a_handle_is_presented_once() -> None:
    _, outcomes = ran(NORMATIVE, SMALL, [Allocate(0), read(0, 0, 0), read(0, 0, 0), Revoke(0, 0, 0, 0, 0)])
    assert [outcome.code for outcome in outcomes] == [Code.DONE, Code.HIT, Code.ABSENT, Code.ABSENT]


def test_the_second_fault_of_the_first_release_is_enough() -> None:
    """C-SHM-1 without the id that nobody was given: a start that jumps ahead by a lap makes chunks overlap too."""
    era = NORMATIVE_RING.era("start", "start", {Free: free_staying_behind}, {Free: "C-SHM-1"})
    found = explore(COMPONENT, replace(era, normal=None), LAPS, Plan(until=frozenset({"SHM-1"}), limit_states=60_000))
    assert "SHM-1" in {one.property for one in found.violations}


def test_any_realisation_of_the_containers_gives_the_same() -> None:
    """The part that others embed."""
    for containers in (FROZEN, REROOTING):
        ring = empty_ring(containers)
        for _ in range(3):
            ring, _ = reserve(LAPS, ring, 1)
        ring, outcome = free_chunks(LAPS, ring, lambda identity: identity < 2, 9)
        assert outcome.values == (0, 1)
        assert tuple(ring.starts.items()) == ((2, 6),)
        assert (ring.start, ring.end, ring.id_start, ring.id_end) == (6, 9, 2, 3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"header": 3}, "two fields of one width"),
        ({"capacity": 2}, "greater than the header"),
        ({"modulus": 1}, "two ids at least"),
        ({"modulus": 2**31}, "must fit fields"),
        ({"sizes": ()}, "sizes must be given"),
        ({"readers": 0}, "must be a reader"),
        ({"clears": 2}, "must be 0 or 1"),
        ({"restarts": -1}, "must not be negative"),
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any], said: str) -> None:
    assert said in (COMPONENT.invalid(LAPS._replace(**wrong)) or "")
    assert COMPONENT.invalid(LAPS) is None


# That each property can fail ----------------------------------------------------------------------------------------

BUGS = [
    (
        "SHM-1",
        LAPS,
        Change(chunks.candidate, "$at + $total <= $config.capacity", "$at + $total <= $config.capacity + 1"),
    ),
    ("SHM-1/window", LAPS, Change(chunks.rebased, "$ring.end - $config.capacity", "$ring.end")),
    ("SHM-2", LAPS, Change(transitions.may_go, "not $segment.unanswered.has($identity)", "True")),
    ("SHM-2/freed", LAPS, Change(transitions.may_go, "not $segment.unanswered.has($identity)", "True")),
    ("SHM-4", LAPS, Change(transitions.forgotten, "($contents.remove($identity), $x)", "($contents, $x)")),
    ("SHM-5", TWO_IDS, Change(chunks.reserve, "$x or $ring.starts.has($ring.id_end)", "$x")),
    ("SHM-5/segment", SMALL, Change(transitions.restart, "$segment.number + 1", "$segment.number + 2")),
    ("SHM-6", LAPS, Change(transitions.free, "($x, $outcome)", "($x, DONE)")),
    ("SHM-6/wanted", LAPS, Change(chunks.free_chunks, "$units + $ring.sizes.get($ring.id_start, 0)", "$units")),
    (
        "SHM-7",
        LAPS,
        Change(
            transitions.allocate,
            "if $x:\n    return ($segment, $outcome)",
            "if $x:\n    return ($segment._replace(number=1), $outcome)",
        ),
    ),
    (
        "SHM-8/room",
        LAPS,
        Change(chunks.candidate, "$at + $total <= $config.capacity", "$at + $total < $config.capacity"),
    ),
    ("SHM-8/served", SMALL, Change(transitions.read, "$op.segment != $segment.number or $x", "$x")),
    ("SHM-8/once", LAPS, Change(transitions.read, "without_handle($segment, handle_of($op))", "$segment")),
    (
        "SHM-8/held",
        SMALL,
        Change(transitions.revoke, "not $segment.handles.has(handle_of($op))", "$segment.unanswered.has($op.identity)"),
    ),
    (
        "SHM-9",
        LAPS,
        Change(
            transitions.read,
            "answered($left, $op.identity)",
            "answered($left._replace(memory=$left.memory.set(0, 9)), $op.identity)",
        ),
    ),
    (
        "SHM-10",
        LAPS,
        Change(memory.read_payload, "$at + $config.header + $unit < $end", "$at + $config.header + $unit + 1 < $end"),
    ),
    ("SHM-10", SMALL, Change(transitions.read, "$op.segment != $segment.number or $x", "$x")),
]


@pytest.mark.parametrize(("name", "config", "change"), BUGS, ids=[f"{name}-{change.wrong}" for name, _, change in BUGS])
def test_a_planted_bug_breaks_the_property(name: str, config: Config, change: Change) -> None:
    with planted(change):
        found = explore(COMPONENT, NORMATIVE_RING, config, Plan(until=frozenset({name}), limit_states=20_000))
    assert name in {one.property for one in found.violations}


def test_a_handle_that_is_given_up_and_not_told_keeps_its_chunk() -> None:
    """C-SHM-4, the ring's part of SHM-8."""
    config = Config(capacity=7, modulus=3, sizes=(1, 2), outstanding=2, revocations=1)
    plan = Plan(symmetry=False, liveness=True)
    assert not explore(COMPONENT, NORMATIVE_RING, config, plan).violations
    told = "answered($left, op.identity) if $its_segment else $left, DONE"
    with planted(Change(transitions.revoke, told, "$left, DONE")):
        found = explore(COMPONENT, NORMATIVE_RING, config, plan)
    assert {one.property for one in found.violations} == {"SHM-8", "SHM-8/once"}


def test_every_property_has_a_bug() -> None:
    spoken = {one.name for one in COMPONENT.properties()}
    assert spoken == {name for name, _, _ in BUGS} | {"SHM-8"}
