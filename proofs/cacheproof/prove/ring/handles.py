"""Formulas about the handles to the chunks of a ring, and about the memory of chunks with unanswered handles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import SymbolicMap, Tally
from cacheproof.prove.executor import SymbolicBoolean, Term, integer_term, path
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.ring.chunks import Geometry, line_of, seen
from cacheproof.prove.ring.memory import AT, is_between, stands, whole
from cacheproof.prove.shapes import INTEGER, record_sort, shape_of
from cachespec.ring import memory, transitions
from cachespec.ring.state import Handle

Segment = Any

ONE = z3.Int("one")

# Handles ------------------------------------------------------------------------------------------------------------

KIND, KINDED, _ = record_sort("kind", (z3.IntSort(), z3.IntSort()))
"""An id, and the segment in which it is."""


HANDLE = shape_of(Handle)


def parts(handle: Term) -> tuple[Term, ...]:
    """Reader, content, id, place and segment of a handle."""
    return tuple(part.term for part in HANDLE.decode(handle))


def chunk_of(handle: Term) -> Term:
    """For the count of handles by chunk."""
    _, _, identity, _, segment = parts(handle)
    return KINDED(identity, segment)


def any_handles(name: str) -> SymbolicMap:
    """Any handles, with a ghost: how many there are to each chunk. A small counterexample has at most two."""
    members = path().fresh(f"{name}.members", z3.ArraySort(HANDLE.sort, z3.BoolSort()))
    values = path().fresh(f"{name}.values", z3.ArraySort(HANDLE.sort, z3.IntSort()))
    length, total = (path().fresh(f"{name}.{part}", z3.IntSort()) for part in ("length", "total"))
    counts = path().fresh("tally", z3.ArraySort(KIND, z3.IntSort()))
    one = SymbolicMap(HANDLE, INTEGER, members, values, length, total, counted=False, tally=Tally(chunk_of, counts))
    path().assume(everyone_counts(one))
    few, tally = z3.K(HANDLE.sort, z3.BoolVal(False)), z3.K(KIND, z3.IntVal(0))
    for handle in (path().fresh("few", HANDLE.sort) for _ in range(2)):
        few = z3.Store(few, handle, path().fresh("is out", z3.BoolSort()))
        tally = z3.Store(tally, chunk_of(handle), path().fresh("count", z3.IntSort()))
    path().hints += [members == few, values == z3.K(HANDLE.sort, z3.IntVal(1)), counts == tally]
    return one


def known_handles(handles: SymbolicMap, known: Iterable[Any]) -> SymbolicMap:
    """These handles, with the ghost."""
    tally = Tally(chunk_of, z3.K(KIND, z3.IntVal(0)))
    for handle in known:
        tally = tally.adjusted(handles.key.encode(handle), z3.IntVal(1))
    return replace(handles, tally=tally)


def everyone_counts(handles: SymbolicMap) -> Term:
    """A law: every member counts among its kind."""
    handle, tally = z3.Const("handle", handles.key.sort), handles.tally
    assert tally is not None
    return z3.ForAll([handle], tally.law(handles.members[handle], handle), patterns=seen(handles.members, handle))


def of_each(handles: SymbolicMap, condition: Callable[..., Term]) -> Term:
    """The condition, for the parts of every handle that may be presented."""
    handle = z3.Const("handle", handles.key.sort)
    right = z3.Implies(handles.members[handle], condition(handle, *parts(handle)))
    return z3.ForAll([handle], right, patterns=seen(handles.members, handle))


def each_one(condition: Callable[[Term], Term], *arrays: Term) -> Term:
    """The condition, for each id; at the sight of its value in one of the arrays."""
    triggers = [trigger for array in arrays for trigger in seen(array, ONE)]
    return z3.ForAll([ONE], condition(ONE), patterns=triggers)


def names_its_chunk(config: Any, segment: Segment) -> Term:
    """Each handle to this segment has id, content and place of a live chunk, and counts as unanswered."""
    one = Geometry(config, segment.ring)
    path().assume(everyone_counts(segment.handles))

    def right(handle: Term, reader: Term, content: Term, identity: Term, place: Term, number: Term) -> Term:
        there = z3.And(one.live[identity], one.place(one.starts[identity]) == place)
        named = z3.And(segment.contents.members[identity], segment.contents.values[identity] == content)
        known = z3.And(there, named, segment.unanswered.members[identity])
        return z3.Implies(number == integer_term(segment.number), known)

    return of_each(segment.handles, right)


def unanswered_are_written(config: Any, segment: Segment) -> Term:
    """Each chunk with an unanswered handle has the size of its content, and is in memory as it was written."""
    one, contents = Geometry(config, segment.ring), segment.contents

    def right(identity: Term) -> Term:
        content, at = contents.values[identity], one.place(one.starts[identity])
        size = one.sizes[identity] == whole(config, content)
        known = z3.And(size, is_between(content, z3.IntVal(0), config.sizes.length))
        there = stands(config, segment.memory, at, identity, content)
        return z3.Implies(segment.unanswered.members[identity], z3.And(known, there))

    return each_one(right, segment.unanswered.members)


def tables_are_of_live_chunks(config: Any, segment: Segment) -> Term:
    """Contents are those of the live chunks; no other chunk has an unanswered handle."""
    live, contents, unanswered = segment.ring.starts.members, segment.contents.members, segment.unanswered.members

    def right(identity: Term) -> Term:
        return z3.And(contents[identity] == live[identity], z3.Implies(unanswered[identity], live[identity]))

    return each_one(right, live, unanswered)


def answers_are_owed(config: Any, segment: Segment) -> Term:
    """A chunk has as many unanswered handles as there are in this segment, each once; none are of a later one."""
    counts, unanswered, number = segment.handles.tally.counts, segment.unanswered, integer_term(segment.number)
    later = z3.Int("later")

    def owed(identity: Term) -> Term:
        known = z3.If(unanswered.members[identity], unanswered.values[identity], z3.IntVal(0))
        positive = z3.Implies(unanswered.members[identity], unanswered.values[identity] > 0)
        return z3.And(counts[KINDED(identity, number)] == known, positive)

    def once(handle: Term, *named: Term) -> Term:
        return z3.And(segment.handles.values[handle] == 1, named[-1] <= number)

    none = z3.Implies(later > number, counts[KINDED(ONE, later)] == 0)
    return z3.And(
        each_one(owed, unanswered.members),
        z3.ForAll([ONE, later], none, patterns=seen(counts, KINDED(ONE, later))),
        of_each(segment.handles, once),
    )


def issuing(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first readers have a handle to the new chunk, once; all other handles are as they were."""
    before, after, reader = entry["handles"], now["handles"], integer_term(now["reader"])
    content, identity, place = (integer_term(entry[name]) for name in ("content", "identity", "at"))
    number = integer_term(entry["segment"].number)
    handle = z3.Const("handle", before.key.sort)
    who, *named = parts(handle)
    alike = (one == other for one, other in zip(named, (content, identity, place, number), strict=True))
    new = z3.And(is_between(who, z3.IntVal(0), reader), *alike)
    yield SymbolicBoolean(z3.And(reader >= 0, reader <= integer_term(now["reader_end"])))
    right = z3.And(
        after.members[handle] == z3.Or(before.members[handle], new),
        after.values[handle] == z3.If(new, z3.IntVal(1), before.values[handle]),
    )
    yield SymbolicBoolean(z3.ForAll([handle], right, patterns=seen(after.members, handle)))
    kind = KINDED(identity, number)
    counts = before.tally.counts
    yield SymbolicBoolean(after.tally.counts == z3.Store(counts, kind, counts[kind] + reader))


def other_handles(name: str, value: Any) -> Any:
    """Of the handles, any."""
    return any_handles(name) if name == "handles" else None


def forgetting(entry: Locals, now: Locals) -> Iterable[Any]:
    """What is known of the first chunks that are gone is gone, and nothing else."""
    gone, at = line_of(entry["gone"]), integer_term(now["identity_at"])
    yield SymbolicBoolean(at >= 0)
    for name in ("contents", "unanswered"):
        before, after = entry[name], now[name]
        left = z3.Not(z3.And(gone.has(ONE), gone.place_of[ONE] < gone.first + at))
        right = z3.And(after.members[ONE] == z3.And(before.members[ONE], left), after.values[ONE] == before.values[ONE])
        yield SymbolicBoolean(z3.ForAll([ONE], right, patterns=seen(after.members, ONE)))


def wiping(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first units are gone."""
    unit, units = integer_term(now["unit"]), now["memory"]
    inside = is_between(AT, z3.IntVal(0), unit)
    yield SymbolicBoolean(
        z3.ForAll([AT], z3.Implies(inside, z3.Not(units.members[AT])), patterns=seen(units.members, AT))
    )
    yield SymbolicBoolean(z3.And(unit >= 0, unit <= integer_term(now["unit_end"])))


LOOPS = (
    Loop(memory.wiped, "loops", wiping, in_order=True),
    Loop(transitions.issue, "loops", issuing, in_order=True, renewed=other_handles),
    Loop(transitions.forgotten, "loops", forgetting, in_order=True),
)
