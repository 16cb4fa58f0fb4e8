"""What each step of an object store does with requests and workers."""

from __future__ import annotations

from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, both, integer_term
from cacheproof.prove.object_store.handles import (
    POSITION,
    READER,
    REQUEST,
    awaits,
    content_at,
    is_awaited,
    is_walked,
    items_of,
    of_each,
)
from cacheproof.prove.object_store.laws import EVERY_CALL, ended
from cacheproof.prove.object_store.values import Row
from cacheproof.prove.proof import Law, Move
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.states import unchanged
from cachespec.kernel import Code, Operation
from cachespec.object_store.configuration import UNLIMITED
from cachespec.object_store.operations import (
    Abort,
    Clear,
    Die,
    End,
    Finish,
    FreeUnused,
    GetCached,
    Preempt,
    Put,
    Reject,
    Release,
    Render,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Send,
    Touch,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.state import ABSENT, ENDED, PREEMPTED, RENDERING, RUNNING, WAITING

Store = Any
NEVER_REFUSED = (Die, FreeUnused, Clear, Restart)
KEEPING = tuple(one for one in EVERY_CALL if one not in (Clear, Restart))
"""The operations after which P0 still knows what it has touched."""


def request_of(move: Move) -> Term:
    """The request that the operation names."""
    return integer_term(move.operation.request)


def done(move: Move) -> bool:
    """Whether the operation was done."""
    return ended(move, Code.DONE)


def each_request(move: Move, formula: Term) -> SymbolicBoolean:
    """The formula about `REQUEST`, of each request."""
    inside = z3.And(REQUEST >= 0, move.before.requests.length > REQUEST)
    return SymbolicBoolean(z3.ForAll([REQUEST], z3.Implies(inside, formula)))


def each_reader(move: Move, formula: Term, *others: Term) -> SymbolicBoolean:
    """The formula about `READER`, of each worker."""
    inside = z3.And(READER >= 0, move.before.workers.length > READER)
    return SymbolicBoolean(z3.ForAll([READER, *others], z3.Implies(inside, formula)))


# P0 -----------------------------------------------------------------------------------------------------------------


def renders_are_counted(move: Move) -> SymbolicBoolean:
    """SHM-7/counted."""
    counts = type(move.operation) is Render and done(move)
    less = z3.If(integer_term(move.config.renders) == UNLIMITED, 0, 1) if counts else 0
    return SymbolicBoolean(integer_term(move.after.renders_left) == integer_term(move.before.renders_left) - less)


def refusals_change_nothing(move: Move) -> SymbolicBoolean:
    """SHM-7/refused."""
    return both(move.after is move.before or unchanged(move.before, move.after))


def walks_any(move: Move) -> Term:
    """Whether P0 walks some request before the step."""
    inside = z3.And(REQUEST >= 0, move.before.requests.length > REQUEST)
    return z3.Exists([REQUEST], z3.And(inside, is_walked(move.config, move.before.requests, REQUEST)))


def release_comes_between(move: Move) -> SymbolicBoolean:
    """SHM-7/between."""
    return SymbolicBoolean(z3.BoolVal(done(move)) != walks_any(move))


def look_up_is_answered(move: Move) -> SymbolicBoolean:
    """SHM-7/answers, of a look-up."""
    request, listed = request_of(move), move.before.listed.members
    answer, kept = Row.of(INTEGER, move.outcome.values), move.after.requests.answers[request]
    items = items_of(move.config, request)
    said = z3.If(listed[content_at(move.config, request, POSITION)], 1, 0)
    right = z3.And(answer.items[POSITION] == said, kept[POSITION] == said)
    each = z3.ForAll([POSITION], z3.Implies(z3.And(POSITION >= 0, items > POSITION), right))
    lengths = z3.And(answer.first == 0, answer.last == items, move.after.requests.answered[request] == items)
    return SymbolicBoolean(z3.And(each, lengths))


def touch_is_answered(move: Move) -> SymbolicBoolean:
    """SHM-7/answers, of a touch."""
    request, position = request_of(move), integer_term(move.operation.position)
    there = move.before.listed.members[content_at(move.config, request, position)]
    changed = move.before.requests.touched[request] != move.after.requests.touched[request]
    return SymbolicBoolean(z3.Implies(changed, z3.BoolVal(done(move)) == there))


def nothing_was_left_of_the_name(move: Move) -> SymbolicBoolean:
    """SHM-3/reused."""
    return SymbolicBoolean(is_unused(move))


def is_unused(move: Move) -> Term:
    """Whether the request is nowhere, and no worker has anything to do for it."""
    absent = move.before.requests.phase[request_of(move)] == ABSENT
    return z3.And(absent, z3.Not(awaits(move.before.workers, request_of(move))))


def nothing_is_left_protected(move: Move) -> SymbolicBoolean:
    """SHM-8/left."""
    begins = type(move.operation) is Render and done(move)
    walks = z3.BoolVal(begins) if type(move.operation) is Render else walks_after(move)
    protected = move.before.protected
    none = of_each(protected, lambda one: z3.Not(protected.members[one])).term
    return SymbolicBoolean(z3.Implies(z3.And(walks, z3.Not(walks_any(move))), none))


def walks_after(move: Move) -> Term:
    """Whether P0 walks the request after the step."""
    return is_walked(move.config, move.after.requests, request_of(move))


def protected_are_live(move: Move) -> SymbolicBoolean:
    """SHM-7/own, of every protected chunk, whether or not a walk has still to reach it."""
    before, after = move.before, move.after

    def right(one: Term) -> Term:
        stays = z3.And(after.ring.starts.members[one], after.epochs.values[one] == before.epochs.values[one])
        return z3.Implies(before.protected.members[one], stays)

    return of_each(before.protected, right)


def walks_are_protected(move: Move) -> SymbolicBoolean:
    """SHM-7/touched."""
    before, after = move.before, move.after
    other = request_of(move) != REQUEST if hasattr(move.operation, "request") else z3.BoolVal(True)
    inside = z3.And(REQUEST >= 0, before.requests.length > REQUEST, other)

    def right(one: Term) -> Term:
        awaited = is_awaited(move.config, before.requests, REQUEST, POSITION, before.owners.values[one])
        stays = z3.And(after.protected.members[one], after.epochs.values[one] == before.epochs.values[one])
        formula = z3.Implies(z3.And(inside, awaited, before.protected.members[one]), stays)
        return z3.ForAll([REQUEST, POSITION], formula)

    return of_each(before.protected, right)


def walk_goes_on(move: Move) -> SymbolicBoolean:
    """SHM-7/further, of a look-up and a put."""
    was, has, request = move.before.requests, move.after.requests, request_of(move)
    one_more = has.walked[request] == was.walked[request] + 1
    return SymbolicBoolean(z3.And(one_more, has.count[request] == has.walked[request]))


def touch_goes_on(move: Move) -> SymbolicBoolean:
    """SHM-7/further, of a touch."""
    was, has, request = move.before.requests, move.after.requests, request_of(move)
    return SymbolicBoolean(has.touched[request] == was.touched[request] + 1)


def is_the_next_touch(move: Move) -> SymbolicBoolean:
    """P0 renders the request, this is its next item to touch, and P0 walks no other request."""
    was, request = move.before.requests, request_of(move)
    next_one = z3.And(was.phase[request] == RENDERING, was.touched[request] == integer_term(move.operation.position))
    walked = is_walked(move.config, was, request)
    free = z3.Or(walked, z3.And(z3.Not(walks_any(move)), move.before.protected.length.term == 0))
    return SymbolicBoolean(z3.And(next_one, free))


def parts_are_stored_once(move: Move) -> SymbolicBoolean:
    """SHM-10/stores."""
    writing, part = move.before.writing, integer_term(move.operation.part)
    first = writing.element.decode(writing.items[0])
    header, data = integer_term(first.header), integer_term(first.data)
    visible = z3.If(part == 0, header, data)
    right = visible == 0 if done(move) else z3.Or(visible == 1, z3.And(part == 1, header == 0))
    return SymbolicBoolean(z3.Implies(writing.length > 0, right))


# Requests -----------------------------------------------------------------------------------------------------------

MOVES: dict[type[Operation], tuple[tuple[int, ...], int]] = {
    Render: ((ABSENT,), RENDERING),
    Send: ((RENDERING,), WAITING),
    Schedule: ((WAITING,), RUNNING),
    Resume: ((PREEMPTED,), RUNNING),
    Preempt: ((RUNNING,), PREEMPTED),
    Finish: ((RUNNING,), ENDED),
    Abort: ((WAITING, RUNNING, PREEMPTED), ENDED),
    Reject: ((RENDERING,), ABSENT),
    End: ((ENDED,), ABSENT),
    Die: ((RUNNING, PREEMPTED), ENDED),
    Restart: ((RENDERING,), ABSENT),
}
"""From which phases each operation moves a request, and where; `Die` and `Restart` move every request."""


def phases_follow(move: Move) -> SymbolicBoolean:
    """SHM-8/phases."""
    was, now = move.before.requests.phase[REQUEST], move.after.requests.phase[REQUEST]
    phases, target = MOVES.get(type(move.operation), ((), ABSENT))
    named = request_of(move) == REQUEST if hasattr(move.operation, "request") else z3.BoolVal(True)
    moves = z3.And(named, z3.Or(*(was == phase for phase in phases)), now == target)
    return each_request(move, z3.Or(now == was, moves))


def what_fits_is_done(move: Move) -> SymbolicBoolean:
    """SHM-8/moved."""
    before, kind = move.before, type(move.operation)
    if kind is Render:
        protected = before.protected
        none = of_each(protected, lambda one: z3.Not(protected.members[one])).term
        left = z3.And(z3.Not(none), z3.Not(walks_any(move)))
        busy = before.requests.rendering >= integer_term(move.config.concurrent)
        spent = integer_term(before.renders_left) == 0
        expected = z3.And(is_unused(move), z3.Not(z3.Or(left, busy, spent)))
    else:
        phases = (RUNNING,) if kind is Repeat else MOVES[kind][0]
        expected = z3.Or(*(before.requests.phase[request_of(move)] == phase for phase in phases))
    return SymbolicBoolean(z3.BoolVal(done(move)) == expected)


def everything_was_executed(move: Move) -> SymbolicBoolean:
    """SHM-8/executed."""
    return SymbolicBoolean(z3.Not(awaits(move.before.workers, request_of(move))))


STEPS = (
    Law(
        "SHM-7/counted",
        "each rendered request, and nothing else, counts against the scope's number of requests",
        EVERY_CALL,
        renders_are_counted,
    ),
    Law(
        "SHM-7/refused",
        "an operation that is refused or absent changes nothing, except for a put and a touch",
        tuple(one for one in EVERY_CALL if one not in (Put, Touch, *NEVER_REFUSED)),
        refusals_change_nothing,
        lambda move: ended(move, Code.REFUSED, Code.ABSENT),
    ),
    Law(
        "SHM-7/refused",
        "an operation that is refused or absent changes nothing, except for a put and a touch",
        NEVER_REFUSED,
        lambda move: not ended(move, Code.REFUSED, Code.ABSENT),
    ),
    Law(
        "SHM-7/between",
        "protection is released whenever P0 asks for it between walks, and never during a walk",
        (Release,),
        release_comes_between,
    ),
    Law(
        "SHM-7/answers",
        "a look-up and a touch answer whether each item is handed out",
        (Render,),
        look_up_is_answered,
        done,
    ),
    Law("SHM-7/answers", "a look-up and a touch answer whether each item is handed out", (Touch,), touch_is_answered),
    Law(
        "SHM-3/reused",
        "a request's name is used again only when no worker has anything left of its former life",
        (Render,),
        nothing_was_left_of_the_name,
        done,
    ),
    Law(
        "SHM-8/left",
        "no request and no walk begins while an item is still protected for a walk that was given up",
        (Render, Touch, Put, GetCached),
        nothing_is_left_protected,
    ),
    Law(
        "SHM-7/own",
        "a walk does not free an item that it has touched and not reached",
        KEEPING,
        protected_are_live,
    ),
    Law(
        "SHM-7/touched",
        "a touched item stays protected until its own walk reaches it or ends, or the store is cleared",
        KEEPING,
        walks_are_protected,
    ),
    Law(
        "SHM-7/further",
        "P0 touches and walks each item of a request once, in order",
        (Put, GetCached),
        walk_goes_on,
        lambda move: ended(move, Code.DONE, Code.HIT, Code.REFUSED, Code.TOO_LARGE),
    ),
    Law(
        "SHM-7/further",
        "P0 touches and walks each item of a request once, in order",
        (Touch,),
        touch_goes_on,
        is_the_next_touch,
    ),
    Law(
        "SHM-10/stores",
        "the header and the data of a chunk become visible once each",
        (StorePart,),
        parts_are_stored_once,
    ),
    Law(
        "SHM-8/phases",
        "unless P0 fails on an item, a request changes its phase only by an operation of that phase",
        EVERY_CALL,
        phases_follow,
    ),
    Law(
        "SHM-8/moved",
        "a request is rendered, scheduled, resumed, repeated or reported as ended whenever it may be",
        (Render, Repeat, Schedule, Resume, End),
        what_fits_is_done,
    ),
    Law(
        "SHM-8/executed",
        "a request is preempted or finished only after every worker has executed all that it was sent for it",
        (Preempt, Finish),
        everything_was_executed,
        done,
    ),
)
