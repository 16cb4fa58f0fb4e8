"""Publication: what comes of steps that interleave, and that each of its properties can fail."""

from __future__ import annotations

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cachespec.kernel import REFUSED, Code, Operation
from cachespec.publication import COMPONENT, NORMATIVE_PUBLICATION, WITHOUT_BARRIER, Config, transitions
from cachespec.publication.operations import (
    Acknowledge,
    Allocate,
    Appear,
    Copy,
    Free,
    Open,
    Publish,
    ReaderDies,
    Restart,
    WriteCounts,
    WriteData,
    WriteHeader,
)

ONE = Config(capacity=6, modulus=2, sizes=(2,), outstanding=1)
TWO_READERS = Config(capacity=8, modulus=2, sizes=(1,), readers=2, outstanding=2)
FAULTS = Config(capacity=6, modulus=2, sizes=(2, 1), outstanding=1, deaths=1, restarts=1)
TWO_CHUNKS = Config(capacity=9, modulus=3, sizes=(2, 1), outstanding=2)
WRITTEN: list[Operation] = [Allocate(0), WriteHeader(), WriteCounts(), WriteData()]
VISIBLE: list[Operation] = [Appear(0)] * 5


def ran(config: Config, operations: list[Operation]) -> list[tuple[Code, tuple[int, ...]]]:
    """What came of each step."""
    state, outcomes = NORMATIVE_PUBLICATION.start(config), []
    for operation in operations:
        state, outcome = NORMATIVE_PUBLICATION.step(config, state, operation)
        outcomes.append((outcome.code, outcome.values))
    return outcomes


def test_a_handle_waits_for_the_stores() -> None:
    outcomes = ran(ONE, [*WRITTEN, Publish(), *VISIBLE, Publish(), Open(0), Copy(0), Copy(0), Acknowledge(0), Free()])
    assert outcomes[4][0] is REFUSED.code
    assert outcomes[10:] == [
        (Code.DONE, ()),
        (Code.HIT, ()),
        (Code.DONE, ()),
        (Code.DONE, ()),
        (Code.HIT, (1, 1)),
        (Code.DONE, (0,)),
    ]


def test_two_stores_to_one_unit_keep_their_order() -> None:
    """The other ones do not."""
    twice = [*WRITTEN, *VISIBLE, Publish(), ReaderDies(0), Free(), *WRITTEN]
    config = ONE._replace(deaths=1)
    assert ran(config, [*twice, Appear(4)])[-1][0] is Code.DONE
    state = WITHOUT_BARRIER.start(ONE)
    for operation in [*WRITTEN, Publish(), ReaderDies(0), Free(), *WRITTEN]:
        state, _ = WITHOUT_BARRIER.step(ONE, state, operation)
    assert WITHOUT_BARRIER.step(ONE, state, Appear(5))[1].code is Code.ABSENT, "an earlier store to the id waits"
    assert WITHOUT_BARRIER.step(ONE, state, Appear(4))[1].code is Code.DONE


def test_who_reads_while_the_writer_dies_reads_what_was_there() -> None:
    reading: list[Operation] = [*WRITTEN, *VISIBLE, Publish(), Open(0), Copy(0), Restart()]
    assert ran(FAULTS, [*reading, Acknowledge(0)])[-1] == (Code.HIT, (1, 1))


def test_a_handle_to_the_segment_of_a_writer_that_died_is_refused() -> None:
    assert ran(FAULTS, [*WRITTEN, *VISIBLE, Publish(), Restart(), Open(0)])[-1][0] is Code.STALE


def test_without_the_barrier_the_reader_gets_other_bytes() -> None:
    """The shortest trace."""
    found = explore(COMPONENT, WITHOUT_BARRIER, ONE, Plan(until=frozenset({"SHM-10"})))
    (torn,) = (one for one in found.violations if one.property == "SHM-10")
    assert len(torn.trace.steps) == 7
    assert torn.trace.operations[:5] == (*WRITTEN, Publish())


BUGS = [
    (
        "SHM-2",
        TWO_CHUNKS,
        Change(transitions.has_answered, "$exchange.given_up.has(($identity, $reader))", "True"),
    ),
    ("SHM-2/visible", ONE, Change(transitions.publish, "$exchange.pending", "False")),
    ("SHM-3", ONE, Change(transitions.publish, "$exchange.pending", "False")),
    ("SHM-4", FAULTS, Change(transitions.restart, "id_start=0", "id_start=1")),
    ("SHM-5/segment", FAULTS, Change(transitions.restart, "$exchange.number + 1", "$exchange.number + 2")),
    (
        "SHM-6",
        TWO_READERS,
        Change(transitions.free, "may_go($config, $exchange, $identity)", "not may_go($config, $exchange, $identity)"),
    ),
    (
        "SHM-7",
        ONE,
        Change(
            transitions.allocate,
            "if $outcome.code is not Code.DONE:\n    return ($exchange, $outcome)",
            "if $outcome.code is not Code.DONE:\n    return ($exchange._replace(number=1), $outcome)",
        ),
    ),
    (
        "SHM-8/step",
        ONE,
        Change(
            transitions.copy,
            "(*$reading.units, $exchange.memory.get($unit, 0))",
            "(0, *$reading.units, $exchange.memory.get($unit, 0))",
        ),
    ),
    (
        "SHM-10/stored",
        ONE,
        Change(transitions.write_counts, "(count_of($reader, $at), 0)", "(count_of($reader, $at), 1)"),
    ),
    (
        "SHM-10/visible",
        ONE,
        Change(transitions.appear, "$op.which + 1", "$op.which"),
    ),
    ("SHM-10/handed", ONE, Change(transitions.publish, "($exchange, REFUSED)", "($exchange, ABSENT)")),
    ("SHM-8/served", FAULTS, Change(transitions.open_chunk, "$number != $exchange.number or $x", "$x")),
    ("SHM-9", TWO_READERS, Change(transitions.acknowledge, "count_of($op.reader, $at)", "count_of(0, $at)")),
    ("SHM-10", ONE, Change(transitions.write_data, "data_of($config, $at)", "data_of($config, $at) + 1")),
    ("SHM-10", FAULTS, Change(transitions.read_to_the_end, "$reading.opened[3] != $exchange.number", "True")),
]


@pytest.mark.parametrize(("name", "config", "change"), BUGS, ids=[f"{name}-{change.wrong}" for name, _, change in BUGS])
def test_a_planted_bug_breaks_the_property(name: str, config: Config, change: Change) -> None:
    with planted(change):
        plan = Plan(until=frozenset({name}), limit_states=20_000)
        found = explore(COMPONENT, NORMATIVE_PUBLICATION, config, plan)
    assert name in {one.property for one in found.violations}


def test_a_reader_that_dies_and_is_not_given_up_keeps_the_chunk() -> None:
    """SHM-8."""
    config, plan = ONE._replace(deaths=1), Plan(symmetry=False, liveness=True)
    assert not explore(COMPONENT, NORMATIVE_PUBLICATION, config, plan).violations
    with planted(Change(transitions.reader_dies, "$given_up.set(($identity, $op.reader), 1)", "$given_up")):
        found = explore(COMPONENT, NORMATIVE_PUBLICATION, config, plan)
    assert "SHM-8" in {one.property for one in found.violations}


def test_every_property_has_a_bug() -> None:
    assert {one.name for one in COMPONENT.properties()} == {name for name, _, _ in BUGS} | {"SHM-8"}
