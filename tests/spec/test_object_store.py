"""That each property of the object store can fail: a planted bug for each, found in a scope where the store holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.planting import Change, planted
from tests.spec.object_store_bugs import ANSWER_BUGS, Bug

from cacheproof.model.plan import Plan
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.kernel import DONE, FAILED, REFUSED, Code, Operation
from cachespec.object_store import COMPONENT, accounting, era_counting, journeys, memory, readers, writer
from cachespec.object_store.configuration import Config
from cachespec.object_store.eras import clear_keeping, resume_as_new
from cachespec.object_store.memory import NOBODY
from cachespec.object_store.normative import NORMATIVE_STORE
from cachespec.object_store.operations import (
    Acknowledge,
    Clear,
    End,
    Forge,
    Put,
    Read,
    Reject,
    Release,
    Render,
    Resume,
    Send,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.state import ABSENT, WAITING, Journey, Store, with_request, with_worker

Result = tuple[Store, Any]


def end_without_revoking(config: Config, store: Store, op: End) -> Result:
    """C-SHM-4, with the normative books."""
    after, outcome = era_counting.end(config, store, op)
    return after, outcome


def put_and_take_the_newest(config: Config, store: Store, op: Put) -> Result:
    """Room is made at the wrong end: the books lose the newest chunk and the ring the oldest."""
    after, outcome = writer.put(config, store, op)
    if outcome.code is not Code.DONE or after.owners.length == store.owners.length + 1:
        return after, outcome
    ring = after.ring._replace(id_start=store.ring.id_start, starts=after.ring.starts.set(store.ring.id_start, 0))
    return after._replace(ring=ring), outcome


def put_and_fail(config: Config, store: Store, op: Put) -> Result:
    """C-MIR-9."""
    if store.requests[op.request].expected[op.position] == 1:
        return journeys.revoked(config, store, op.request), FAILED
    return writer.put(config, store, op)


def put_and_forget_a_handle(config: Config, store: Store, op: Put) -> Result:
    """A refusal loses the count of a handle."""
    after, outcome = writer.put(config, store, op)
    return (accounting.settle(after, (0, 0)) if outcome.code is Code.REFUSED else after), outcome


def acknowledge_into_the_chunk(config: Config, store: Store, op: Acknowledge | Read) -> Result:
    """A reader marks what it has read in the data."""
    head = store.workers[op.reader].inbox[0].handle
    after, outcome = readers.read(config, store, Read(op.reader))
    place = head.address % config.capacity
    block = after.memory.get(place, NOBODY)
    return after._replace(memory=after.memory.set(place, block._replace(total=block.total, content=-1))), outcome


def acknowledge_unseen(config: Config, store: Store, op: Acknowledge) -> Result:
    """C-SHM-14: what was copied is not looked at again."""
    worker = store.workers[op.reader]
    used = readers.used(worker.copied)
    noted = readers.next_one(readers.noted(worker, worker.inbox[0]))
    return with_worker(store, op.reader, noted), used


def forge_and_be_believed(config: Config, store: Store, op: Forge) -> Result:
    """C-SHM-9, with the identity of a normative chunk."""
    if store.requests[op.request].phase != ABSENT or not store.listed.has(op.content):
        return store, REFUSED
    handle = writer.handle_to(store, store.listed.get(op.content, 0))
    made_up = handle._replace(content=config.requests[op.request][0], genuine=0, standing=0)
    return with_request(store, op.request, Journey(WAITING, handles=(made_up,))), DONE


def end_counting_on(config: Config, store: Store, op: End) -> Result:
    """C-SHM-15: what was acknowledged stays in the books and in the cells under a name that no request has."""
    after, outcome = journeys.end(config, store, op)
    if outcome.code is not Code.DONE or not store.tickets.has((op.request, 0)):
        return after, outcome
    slot = (op.request, 1 + store.renders_left)
    kept = accounting.issue(after, slot, store.tickets.get((op.request, 0), 0))
    marked = [one._replace(acknowledged=one.acknowledged.set(slot, 1)) for one in kept.workers]
    return kept._replace(workers=tuple(marked)), outcome


def released_in_vain(config: Config, store: Store, op: Release) -> Result:
    """What was touched stays protected."""
    return store, DONE


BUGS = (
    Bug(
        "SHM-1",
        "halves",
        changes=(Change(writer.without_oldest, "ring=$ring", "ring=$ring._replace(start=$ring.end)"),),
    ),
    Bug("SHM-1/written", "halves", changes=(Change(memory.cleared_for, "memory.remove($other)", "memory"),)),
    Bug("SHM-2", "cleared", {Clear: clear_keeping}),
    Bug("SHM-2", "resumed", changes=(Change(accounting.may_go, "$store.issued.get($identity, 0) == 0", "True"),)),
    Bug("SHM-2/served", "cleared", {Clear: clear_keeping}),
    Bug(
        "SHM-2/served",
        "delivered-twice",
        changes=(
            Change(readers.look, "$worker.acknowledged.has(($sent.request, $sent.position))", "$sent.again == 1"),
        ),
    ),
    Bug(
        "SHM-3",
        "aborted",
        changes=(Change(accounting.issue, "$store.issued.get($identity, 0) + 1", "0"),),
    ),
    Bug("SHM-3/settled", "aborted", {End: end_without_revoking}),
    Bug(
        "SHM-3/out",
        "aborted",
        changes=(Change(accounting.issue, "$store.issued.get($identity, 0) + 1", "0"),),
    ),
    Bug(
        "SHM-4",
        "found-and-gone",
        changes=(Change(accounting.forget, "$left.owners.remove($identity)", "$left.owners"),),
    ),
    Bug(
        "SHM-4/metadata",
        "aborted",
        changes=(Change(accounting.enter, "$store.metadata.set($content, 1)", "$store.metadata"),),
    ),
    Bug(
        "SHM-4/bounded",
        "resumed",
        changes=(Change(accounting.withdraw, "$store.metadata.remove($content)", "$store.metadata"),),
        config={"payloads": (2, 2, 2), "requests": ((0,), (1,), (2,)), "preempts": 0},
    ),
    Bug(
        "SHM-5",
        "reordered",
        changes=(
            Change(accounting.enter, "$store.epoch + 1 if $identity == 0 else $store.epoch", "$store.epoch"),
            Change(journeys.restart, "$store.epoch + 1", "$store.epoch"),
        ),
    ),
    Bug("SHM-6", "hot", {Put: put_and_take_the_newest}),
    Bug("SHM-7", "resumed", {Put: put_and_forget_a_handle}),
    Bug("SHM-7/walk", "cleared-in-the-walk", {Put: put_and_fail}),
    Bug("SHM-7/walk", "walks-overlap", {Put: put_and_fail}),
    Bug("SHM-7/touched", "walks-overlap", changes=(Change(writer.may_walk, "$current == $request or $free", "True"),)),
    Bug(
        "SHM-8/room",
        "halves",
        changes=(
            Change(
                writer.with_room,
                "while lacks_room(*$rest):\n    $body",
                "if lacks_room(*$rest):\n    $body",
            ),
        ),
    ),
    Bug("SHM-8/drained", "hot", changes=(Change(writer.drained, "withdraw($store, $oldest, $content)", "$store"),)),
    Bug("SHM-9", "rejected", {Read: acknowledge_into_the_chunk}, config={"touches": 0}),
    Bug(
        "SHM-10",
        "forged",
        {Forge: forge_and_be_believed},
        (
            Change(
                readers.is_meant,
                "handle.content",
                "block.content",
            ),
        ),
    ),
    Bug("SHM-10", "faults", {Acknowledge: acknowledge_unseen}),
    Bug(
        "SHM-10",
        "faults",
        {StorePart: era_counting.store_part},
        config={"stepwise": 0, "reordered": 1},
    ),
    Bug("SHM-11", "narrow", {End: end_counting_on}, config={"renders": 3}),
    Bug(
        "SHM-4",
        "steps-of-two",
        changes=(Change(accounting.forget, "$left.protected.remove($identity)", "$left.protected"),),
    ),
    Bug("SHM-5/restarted", "reordered", changes=(Change(journeys.restart, "holds_any($store)", "False"),)),
    Bug("SHM-5/restarted", "reordered", changes=(Change(journeys.orphaned, "unstanding($handle)", "$handle"),)),
    Bug(
        "SHM-7/further", "resumed", changes=(Change(writer.put, "walked(drained($roomy), $op.request, RAW)", "$roomy"),)
    ),
    Bug("SHM-7/further", "touched", changes=(Change(writer.touched, "$journey.touched + 1", "$journey.touched"),)),
    Bug("SHM-8/sent", "delivered-twice", changes=(Change(journeys.repeat, "DONE", "NOT_THERE"),)),
    Bug(
        "SHM-8/executed",
        "steps-of-two",
        changes=(Change(journeys.finish, "if has_to_do(store, op.request):\n    $body", "if False:\n    $body"),),
    ),
    Bug("SHM-8/resent", "resumed", changes=(Change(journeys.resume, "$outcome == DONE", "False"),)),
    Bug("SHM-8/released", "rejected", {Release: released_in_vain}),
    Bug("SHM-8/freed", "cleared", changes=(Change(writer.clear, "settled($config, $store)", "$store"),)),
    Bug("SHM-8/freed", "found-and-gone", changes=(Change(writer.free_unused, "oldest_may_go($store)", "False"),)),
    Bug("SHM-7/refused", "rejected", changes=(Change(journeys.reject, "DONE", "REFUSED"),)),
    Bug("SHM-3/forgotten", "resumed", changes=(Change(journeys.without_cells, "$cell.remove($slot)", "$cell"),)),
    Bug("SHM-8/died", "steps-of-two", changes=(Change(journeys.lost, "inbox=()", ""),)),
    Bug("SHM-8/died", "steps-of-two", changes=(Change(journeys.die, "(RUNNING, PREEMPTED)", "(PREEMPTED,)"),)),
    Bug("SHM-10", "steps-of-two", changes=(Change(readers.copy, "$worker.inbox[0]", "$worker.inbox[-1]"),)),
    Bug("X-3/store", "rejected", {Reject: era_counting.reject}),
    Bug("X-4/store", "cleared", {Clear: clear_keeping}),
)


@pytest.mark.parametrize("bug", [*BUGS, *ANSWER_BUGS], ids=lambda bug: f"{bug.property}-{bug.scope}")
def test_a_planted_bug_is_found(bug: Bug) -> None:
    config = scope_named(COMPONENT, bug.scope).config._replace(**bug.config)
    variant = replace(NORMATIVE_STORE, transitions={**NORMATIVE_STORE.transitions, **bug.transitions})
    with planted(*bug.changes):
        plan = Plan(limit_states=8_000, until=frozenset({bug.property}))
        found = explore(COMPONENT, variant, config, plan)
    assert bug.property in {violation.property for violation in found.violations}


def test_every_property_of_states_and_steps_has_a_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties() if rule not in COMPONENT.progress} == {
        bug.property for bug in (*BUGS, *ANSWER_BUGS)
    }


def test_a_handle_that_is_never_settled_is_found_in_the_end() -> None:
    config = scope_named(COMPONENT, "aborted-in-the-end").config
    variant = replace(NORMATIVE_STORE, transitions={**NORMATIVE_STORE.transitions, End: end_without_revoking})
    found = explore(COMPONENT, variant, config, Plan(symmetry=False, liveness=True, limit_states=5_000))
    assert "SHM-8" in {violation.property for violation in found.violations}


@pytest.mark.parametrize(
    ("change", "breaks"),
    [
        (Change(writer.stored_part, "$writing._replace(data=1)", "$writing"), "SHM-10/visible"),
        (Change(writer.continued, "$writing.header == 1 and $writing.data == 1", "False"), "SHM-10/visible"),
        (Change(readers.next_one, "inbox=$worker.inbox[1:]", ""), "SHM-8/read"),
    ],
    ids=["the data never counts as stored", "the writer never ends", "the worker never goes on"],
)
def test_what_never_ends_is_found_in_the_end(change: Change, breaks: str) -> None:
    scope = scope_named(COMPONENT, "stored-in-parts")
    with planted(change):
        found = explore(COMPONENT, NORMATIVE_STORE, scope.config, scope.plan)
    assert breaks in {violation.property for violation in found.violations}


def test_workers_that_know_what_they_have_do_not_mind_being_sent_it_again() -> None:
    """C-SHM-6 is repaired by the readers alone: with the released way to resume, nothing breaks."""
    config = scope_named(COMPONENT, "resumed").config._replace(requests=((0,), (1,)))
    variant = replace(NORMATIVE_STORE, transitions={**NORMATIVE_STORE.transitions, Resume: resume_as_new})
    found = explore(COMPONENT, variant, config, Plan(limit_states=8_000))
    assert (found.ending, found.violations) == (Ending.EXHAUSTED, ())


def test_a_refused_item_is_sent_raw_and_a_retry_frees_first() -> None:
    """The released rule: on a refusal free once, then try again; the second refusal is final."""
    config = scope_named(COMPONENT, "resumed").config
    store = NORMATIVE_STORE.start(config)
    script: tuple[tuple[Operation, Code], ...] = (
        (Render(0), Code.DONE),
        (Put(0, 0), Code.DONE),
        (Send(0), Code.DONE),
        (Render(2), Code.DONE),
        (Put(2, 0), Code.REFUSED),
    )
    for operation, code in script:
        store, outcome = NORMATIVE_STORE.step(config, store, operation)
        assert outcome.code is code
    assert store.requests[2].handles[0].content == -1


@pytest.mark.parametrize("change", [{"limit": 1}, {"readers": 3, "limit": 5}, {"requests": ((0, 0), (0,))}])
def test_a_field_counts_every_reader_of_every_item(change: Mapping[str, Any]) -> None:
    """A random configuration around `narrow` had three readers and a limit of 2: SHM-11 broke in seven calls."""
    config = scope_named(COMPONENT, "narrow").config
    assert COMPONENT.invalid(config) is None
    assert config.limit == config.readers * sum(map(len, config.requests)), "the scope is at the bound"
    assert "its field holds at most" in (COMPONENT.invalid(config._replace(**change)) or "")
