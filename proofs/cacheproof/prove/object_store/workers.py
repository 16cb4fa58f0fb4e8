"""What each step of an object store does with its workers, and what a restart leaves."""

from __future__ import annotations

from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, both, integer_term
from cacheproof.prove.object_store.handles import (
    AT,
    POSITION,
    READER,
    REQUEST,
    delivered,
    handle_of,
    holds,
    in_inbox,
    of_each,
)
from cacheproof.prove.object_store.laws import ended
from cacheproof.prove.object_store.steps import done, each_reader, each_request, request_of
from cacheproof.prove.object_store.values import SLOT
from cacheproof.prove.proof import Law, Move
from cachespec.kernel import Code
from cachespec.object_store.operations import (
    Acknowledge,
    Copy,
    Die,
    End,
    Look,
    Read,
    Reject,
    Repeat,
    Restart,
    Resume,
    Schedule,
)
from cachespec.object_store.state import IDLE, PREEMPTED, RENDERING, RUNNING

Store = Any
READS = (Read, Look, Copy, Acknowledge)


def everything_begins_anew(move: Move) -> SymbolicBoolean:
    """SHM-5/restarted: no chunk, no ticket, nothing to write, nothing rendered, and no handle stands."""
    after = move.after
    tickets, requests, workers = after.tickets, after.requests, after.workers
    no_ticket = of_each(tickets, lambda slot: z3.Not(tickets.members[slot]))
    no_chunk = of_each(after.ring.starts, lambda one: z3.Not(after.ring.starts.members[one]))
    held = z3.Implies(holds(requests, REQUEST, POSITION), handle_of(requests, REQUEST, POSITION)["standing"] != 1)
    sent = z3.Implies(in_inbox(workers, READER, AT), delivered(workers, READER, AT)["standing"] != 1)
    rendered = each_request(move, requests.phase[REQUEST] != RENDERING)
    none_stands = both(SymbolicBoolean(z3.ForAll([REQUEST, POSITION], held)), each_reader(move, sent, AT))
    return both(no_ticket, no_chunk, after.writing == (), rendered, none_stands)


# Workers ------------------------------------------------------------------------------------------------------------


def worker_is_gone(move: Move) -> SymbolicBoolean:
    """SHM-8/died."""
    after, reader = move.after, integer_term(move.operation.reader)
    idle = z3.And(after.workers.first[reader] == after.workers.last[reader], after.workers.doing[reader] == IDLE)
    phase = after.requests.phase[REQUEST]
    return SymbolicBoolean(idle) & each_request(move, z3.And(phase != RUNNING, phase != PREEMPTED))


def cells_forget_the_request(move: Move) -> SymbolicBoolean:
    """SHM-3/forgotten."""
    slot = z3.Const("slot", SLOT.sort)
    own = SLOT.sort.accessor(0, 0)(slot) == request_of(move)
    return each_reader(move, z3.Not(z3.And(own, move.after.workers.cells[READER][slot])), slot)


def only_its_handles_are_revoked(move: Move) -> SymbolicBoolean:
    """SHM-8/revoked."""
    was, has = move.before.workers, move.after.workers
    before, after = delivered(was, READER, AT), delivered(has, READER, AT)
    ends = z3.And(was.first[READER] == has.first[READER], was.last[READER] == has.last[READER])
    other = z3.And(in_inbox(was, READER, AT), before["request"] != request_of(move))
    return each_reader(move, z3.And(ends, z3.Implies(other, before["standing"] == after["standing"])), AT)


def deliveries_are_marked(move: Move) -> SymbolicBoolean:
    """SHM-8/marked; what was in an inbox stays there."""
    was, has = move.before.workers, move.after.workers
    again = {Schedule: 0, Resume: 1, Repeat: 2}[type(move.operation)]
    new = z3.And(was.last[READER] <= AT, has.last[READER] > AT)
    old = z3.Implies(in_inbox(was, READER, AT), was.items[READER][AT] == has.items[READER][AT])
    ends = z3.And(was.first[READER] == has.first[READER], was.last[READER] <= has.last[READER])
    marked = z3.Implies(new, delivered(has, READER, AT)["again"] == again)
    return each_reader(move, z3.And(ends, old, marked), AT)


def worker_goes_on(move: Move) -> SymbolicBoolean:
    """SHM-8/passed."""
    was, has, reader = move.before.workers, move.after.workers, integer_term(move.operation.reader)
    passes = ended(move, Code.HIT, Code.STALE)
    inbox = z3.Implies(in_inbox(has, reader, AT), was.items[reader][AT] == has.items[reader][AT])
    first = has.first[reader] == was.first[reader] + (1 if passes else 0)
    stays = passes or type(move.operation) in (Look, Copy)
    return SymbolicBoolean(
        z3.And(z3.ForAll([AT], inbox), first, was.last[reader] == has.last[reader], z3.BoolVal(stays))
    )


def readers_write_their_own(move: Move) -> SymbolicBoolean:
    """SHM-9: nothing but the worker itself changes; the normative store has no counts in its chunks."""
    before, after, slot = move.before, move.after, z3.Const("slot", SLOT.sort)
    same = before.workers.cells[READER][slot] == after.workers.cells[READER][slot]
    cells = each_reader(move, z3.Implies(integer_term(move.operation.reader) != READER, same), slot)
    others = (getattr(before, part) is getattr(after, part) for part in before._fields if part != "workers")
    return cells & both(*others)


OF_WORKERS = (
    Law(
        "SHM-5/restarted",
        "a restarted P0 knows no chunk, and no earlier handle is valid",
        (Restart,),
        everything_begins_anew,
    ),
    Law("SHM-8/died", "a dead worker has an empty inbox, and no request is left at any worker", (Die,), worker_is_gone),
    Law(
        "SHM-3/forgotten",
        "once P0 learns that a request ended, no acknowledgement of it counts for a later request of its name",
        (Reject, End),
        cells_forget_the_request,
        done,
    ),
    Law(
        "SHM-8/revoked",
        "the end of a request revokes its own handles only",
        (Reject, End),
        only_its_handles_are_revoked,
    ),
    Law(
        "SHM-8/marked",
        "each item that is sent to a worker is marked as new, as resumed, or as a copy",
        (Schedule, Resume, Repeat),
        deliveries_are_marked,
    ),
    Law(
        "SHM-8/passed",
        "a worker that has read an item, or has given it up, says so and goes on to the next",
        READS,
        worker_goes_on,
        lambda move: not ended(move, Code.ABSENT),
    ),
    Law(
        "SHM-9",
        "a reader writes only its own cell or the count of the chunk that its handle names",
        READS,
        readers_write_their_own,
    ),
)
