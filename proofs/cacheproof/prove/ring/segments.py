"""What the calls on a ring do with its chunks, its memory and the handles to it, as formulas over one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import one_if
from cacheproof.prove.executor import SymbolicBoolean, Term, both, integer_term
from cacheproof.prove.proof import Move
from cacheproof.prove.ring.chunks import FIRST, Geometry, gone_are_listed, line_of, oldest_went, seen
from cacheproof.prove.ring.handles import of_each, parts
from cacheproof.prove.ring.memory import AT, content_at, is_between
from cacheproof.prove.states import unchanged
from cachespec.kernel import DONE, Code
from cachespec.ring import transitions
from cachespec.ring.operations import Clear, Free, Restart

Ring = Any
Segment = Any


def mine(move: Move) -> Term:
    """The handle that the call presents."""
    return move.before.handles.key.encode(transitions.handle_of(move.operation))


def is_current(move: Move) -> Term:
    """The handle is to this segment."""
    return integer_term(move.operation.segment) == integer_term(move.before.number)


def ids_are_unique(config: Any, segment: Segment) -> Term:
    """SHM-5: handles with one id are alike, and as the live chunk of this id."""
    shape, handles, other = Geometry(config, segment.ring), segment.handles, z3.Const("other", segment.handles.key.sort)
    _, content_there, identity_there, place_there, number_there = parts(other)

    def right(handle: Term, reader: Term, content: Term, identity: Term, place: Term, number: Term) -> Term:
        same = z3.And(handles.members[other], identity_there == identity, number_there == number)
        alike = z3.Implies(same, z3.And(content_there == content, place_there == place))
        named = z3.And(
            segment.contents.values[identity] == content,
            z3.Implies(shape.live[identity], shape.place(shape.starts[identity]) == place),
        )
        known = z3.Implies(segment.contents.members[identity], named)
        return z3.Implies(number == integer_term(segment.number), z3.And(alike, known))

    handle = z3.Const("handle", handles.key.sort)
    formula = z3.Implies(handles.members[handle], right(handle, *parts(handle)))
    both_seen = seen(handles.members, handle, other)
    patterns = [z3.MultiPattern(*both_seen)] if both_seen else []
    return z3.ForAll([handle, other], formula, patterns=patterns)


def presentable_stay(move: Move) -> Term:
    """SHM-2/freed: no chunk has gone to which a handle may be presented, before and after."""
    before, after = move.before, move.after

    def right(handle: Term, reader: Term, content: Term, identity: Term, place: Term, number: Term) -> Term:
        live = z3.And(before.handles.members[handle], before.ring.starts.members[identity])
        stays = z3.And(
            after.ring.starts.members[identity],
            after.ring.starts.values[identity] == before.ring.starts.values[identity],
        )
        current = z3.And(number == integer_term(before.number), number == integer_term(after.number))
        return z3.Implies(z3.And(current, live), stays)

    return of_each(after.handles, right)


def segments_are_counted(move: Move) -> SymbolicBoolean:
    """SHM-5/segment."""
    before, after = move.before, move.after
    if type(move.operation) is not Restart:
        return both(after.number == before.number)
    wiped = z3.ForAll(
        [AT], z3.Implies(is_between(AT, z3.IntVal(0), move.config.capacity.term), content_at(after.memory, AT) == 0)
    )
    empty = z3.ForAll([FIRST], z3.Not(after.ring.starts.members[FIRST]))
    begun = both(after.ring.id_start == 0, after.ring.id_end == 0, after.number == before.number + 1)
    return both(move.outcome == DONE, begun, SymbolicBoolean(z3.And(wiped, empty)))


def freed_in_order(move: Move) -> SymbolicBoolean:
    """SHM-6."""
    before, after, config = move.before.ring, move.after.ring, move.config
    if type(move.operation) in (Free, Clear):
        went = SymbolicBoolean(oldest_went(config, before, after))
        if type(move.operation) is Clear:
            return went
        known = z3.Implies(before.starts.members[FIRST], move.before.contents.members[FIRST])
        listed = SymbolicBoolean(gone_are_listed(config, before, after, move.outcome.values))
        return both(
            went, listed, SymbolicBoolean(z3.ForAll([FIRST], known, patterns=seen(before.starts.members, FIRST)))
        )
    return SymbolicBoolean(chunks_stay(before, after))


def chunks_stay(before: Ring, after: Ring) -> Term:
    """Each live chunk is where it was, with its size."""
    stays = z3.And(
        after.starts.members[FIRST],
        after.starts.values[FIRST] == before.starts.values[FIRST],
        after.sizes.values[FIRST] == before.sizes.values[FIRST],
    )
    return z3.ForAll(
        [FIRST], z3.Implies(before.starts.members[FIRST], stays), patterns=seen(before.starts.members, FIRST)
    )


def unheld(unanswered: Any) -> Callable[[Term], Term]:
    """The chunks that have no handle which is not answered."""
    return lambda identity: z3.Not(unanswered.members[identity])


def one_fewer(before: Any, after: Any, key: Term, fewer: Term) -> Term:
    """The later map counts this number fewer at the key, and the same elsewhere; no key counts 0."""
    name = z3.Const("name", before.key.sort)
    count = z3.If(before.members[name], before.values[name], z3.IntVal(0)) - z3.If(name == key, fewer, z3.IntVal(0))
    right = z3.And(after.members[name] == (count > 0), z3.Implies(after.members[name], after.values[name] == count))
    return z3.ForAll([name], right, patterns=seen(after.members, name))


def answers_are_counted(move: Move) -> SymbolicBoolean:
    """SHM-8/once."""
    before, after, identity = move.before, move.after, integer_term(move.operation.identity)
    counts = z3.And(is_current(move), z3.BoolVal(move.outcome.code is not Code.STALE))
    handles = one_fewer(before.handles, after.handles, mine(move), z3.IntVal(1))
    return SymbolicBoolean(z3.And(handles, one_fewer(before.unanswered, after.unanswered, identity, one_if(counts))))


def is_possible(move: Move) -> SymbolicBoolean:
    """SHM-8/held."""
    held = move.before.handles.members[mine(move)]
    return SymbolicBoolean(held == z3.BoolVal(move.outcome.code is not Code.ABSENT))


def reading_changes_nothing(move: Move) -> SymbolicBoolean:
    """SHM-9."""
    same = z3.ForAll([AT], content_at(move.after.memory, AT) == content_at(move.before.memory, AT))
    return both(unchanged(move.before.ring, move.after.ring), SymbolicBoolean(same))


def read_is_its_own(move: Move) -> SymbolicBoolean:
    """SHM-10."""
    units, content = line_of(move.outcome.values), integer_term(move.operation.content)
    right = z3.Implies(units.is_in(AT), units.items[AT] == content + 1)
    count = units.last - units.first == move.config.sizes.items[content]
    return SymbolicBoolean(z3.And(count, z3.ForAll([AT], right, patterns=seen(units.items, AT))))


def size_of(move: Move) -> Any:
    """The units of the chunk that is asked for."""
    return move.config.sizes[move.operation.content] + move.config.header


def is_refused(move: Move) -> bool:
    """The premise of some laws."""
    return move.outcome.code is Code.REFUSED


def is_presented(move: Move) -> bool:
    """The premise of laws about handles that there are."""
    return move.outcome.code is not Code.ABSENT
