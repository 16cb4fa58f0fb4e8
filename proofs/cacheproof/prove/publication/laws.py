"""What each step of writer, memory and readers does, as formulas over one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, Term, integer_term
from cacheproof.prove.proof import Move
from cacheproof.prove.publication.invariants import ONE, pair_of
from cacheproof.prove.publication.states import (
    AT,
    CONTENT,
    NUMBER,
    UNIT,
    VALUE,
    awaits,
    data_after,
    each_has_answered,
    fields_of,
    handles_of,
    is_none,
    pending_of,
    plain_ring_config,
    reader_of,
    readers_of,
    shape_in,
    size_of,
    stage_of,
    units_of,
    visible_at,
    written_at,
)
from cacheproof.prove.records import Records
from cacheproof.prove.ring.chunks import all_went, gone_are_listed, oldest_went, only_those_went, reserved
from cacheproof.prove.ring.memory import AT as UNIT_AT
from cacheproof.prove.ring.memory import is_between
from cachespec.kernel import Code
from cachespec.publication.configuration import FIELDS
from cachespec.publication.operations import (
    Acknowledge,
    Copy,
    Free,
    Open,
    ReaderDies,
    Restart,
    WriteCounts,
    WriteHeader,
)
from cachespec.publication.state import COUNTS, DATA, HEADER, IDLE, RESERVED

Exchange = Any
Reading = Any

PLACE = z3.Int("reader place")
OFFSET = z3.Int("offset")

# What stays ---------------------------------------------------------------------------------------------------------


def same_handle(one: Any, other: Any) -> Term:
    """The same fields."""
    return z3.And(*(left == right for left, right in zip(fields_of(one), fields_of(other), strict=True)))


def same_records(one: Records, other: Records) -> Term:
    """The same records in the same order, wherever their numbers begin."""
    return z3.And(one.length == other.length, begins_with(one, other))


def begins_with(one: Records, other: Records, count: Term | None = None) -> Term:
    """The first records of one are those of the other: this number, or all."""
    inside = is_between(OFFSET, z3.IntVal(0), other.length if count is None else count)
    alike = z3.And(
        *(
            left[one.first + OFFSET] == right[other.first + OFFSET]
            for left, right in zip(one.columns, other.columns, strict=True)
        )
    )
    return z3.ForAll([OFFSET], z3.Implies(inside, alike))


def same_reading(one: Reading, other: Reading) -> Term:
    """The reader is where it was."""
    return z3.And(
        same_records(handles_of(one), handles_of(other)),
        same_handle(one.opened, other.opened),
        integer_term(one.size) == integer_term(other.size),
        same_records(units_of(one.units), units_of(other.units)),
    )


def same_chunks(before: Exchange, after: Exchange) -> Term:
    """The same chunks, of which the same one is the oldest."""
    old, new = before.ring, after.ring
    alike = z3.And(new.starts.values[ONE] == old.starts.values[ONE], new.sizes.values[ONE] == old.sizes.values[ONE])
    members = new.starts.members[ONE] == old.starts.members[ONE]
    chunks = z3.ForAll([ONE], z3.And(members, z3.Implies(old.starts.members[ONE], alike)))
    return z3.And(chunks, integer_term(new.id_start) == integer_term(old.id_start))


def same_contents(before: Exchange, after: Exchange) -> Term:
    """The same contents of the same chunks."""
    old, new = before.contents, after.contents
    alike = z3.And(
        new.members[ONE] == old.members[ONE], z3.Implies(old.members[ONE], new.values[ONE] == old.values[ONE])
    )
    return z3.ForAll([ONE], alike)


def same_given_up(before: Exchange, after: Exchange) -> Term:
    """The same pairs of chunk and reader."""
    pair = pair_of(ONE, PLACE)
    return z3.ForAll([ONE, PLACE], after.given_up.members[pair] == before.given_up.members[pair])


def same_memory(move: Move, but: Callable[[Term], Term] = lambda unit: z3.BoolVal(False)) -> Term:
    """The same units are visible, with exceptions."""
    inside = is_between(UNIT_AT, z3.IntVal(0), integer_term(move.config.capacity))
    same = visible_at(move.after, UNIT_AT) == visible_at(move.before, UNIT_AT)
    return z3.ForAll([UNIT_AT], z3.Implies(inside, z3.Or(but(UNIT_AT), same)))


def same_readers(before: Exchange, after: Exchange, but: Any = None) -> Term:
    """All readers are where they were, but for the one that the call names."""
    pairs = zip(readers_of(before), readers_of(after), strict=True)
    mine = None if but is None else reader_of(before, but)
    return z3.And(*(same_reading(then, now) for (_, then), (_, now) in pairs if then is not mine))


def same_writing(before: Exchange, after: Exchange) -> Term:
    """The writer is where it was."""
    handles = same_handle(before.writing.handle, after.writing.handle)
    return z3.And(stage_of(before) == stage_of(after), handles)


def same_but(move: Move, *changed: str) -> Term:
    """All parts of a state as a property sees it, but for these."""
    before, after = move.before, move.after
    parts: dict[str, Callable[[], Term]] = {
        "chunks": lambda: same_chunks(before, after),
        "memory": lambda: same_memory(move),
        "pending": lambda: same_records(pending_of(after), pending_of(before)),
        "writing": lambda: same_writing(before, after),
        "readers": lambda: same_readers(before, after),
        "given_up": lambda: same_given_up(before, after),
        "number": lambda: integer_term(after.number) == integer_term(before.number),
        "contents": lambda: same_contents(before, after),
    }
    return z3.And(*(same() for part, same in parts.items() if part not in changed))


def is_answer(move: Move, code: Code) -> Term:
    """The outcome has this code, and no values."""
    values = move.outcome.values
    return z3.BoolVal(move.outcome.code is code and type(values) is tuple and not values)


# The writer and memory ----------------------------------------------------------------------------------------------


def reserved_and_nothing_else(move: Move) -> SymbolicBoolean:
    """SHM-7."""
    before, after, config = move.before, move.after, move.config
    if move.outcome.code is not Code.DONE:
        return SymbolicBoolean(z3.And(is_answer(move, Code.REFUSED), same_but(move)))
    address, identity = map(integer_term, move.outcome.values)
    content = integer_term(move.operation.content)
    units = move.config.sizes[move.operation.content] + config.readers + FIELDS
    known = z3.If(identity == ONE, content, before.contents.values[ONE])
    named = after.contents.members[ONE] == z3.Or(before.contents.members[ONE], identity == ONE)
    right = z3.ForAll(
        [ONE], z3.And(named, z3.Implies(after.contents.members[ONE], after.contents.values[ONE] == known))
    )
    at = shape_in(config, before).place(address)
    handle = (content, identity, at, integer_term(before.number))
    begun = z3.And(*(one == other for one, other in zip(fields_of(after.writing.handle), handle, strict=True)))
    return SymbolicBoolean(
        z3.And(
            stage_of(before) == IDLE,
            reserved(before.ring, after.ring, move.outcome.values, units).term,
            integer_term(after.ring.id_start) == integer_term(before.ring.id_start),
            right,
            z3.And(stage_of(after) == RESERVED, begun),
            same_but(move, "chunks", "contents", "writing"),
        )
    )


def stores_wait(move: Move) -> SymbolicBoolean:
    """SHM-10/stored."""
    before, config, kind = move.before, move.config, type(move.operation)
    handle, old, new = fields_of(before.writing.handle), pending_of(before), pending_of(move.after)
    counts, data = integer_term(config.readers), size_of(config, handle[CONTENT])
    stage, first, count = (COUNTS, data_after(config), data)
    if kind is WriteHeader:
        stage, first, count = (RESERVED, z3.IntVal(0), z3.IntVal(FIELDS))
    elif kind is WriteCounts:
        stage, first, count = (HEADER, z3.IntVal(FIELDS), counts)
    unit, at = handle[AT] + first + OFFSET, new.first + old.length + OFFSET
    store = z3.And(new.columns[UNIT][at] == unit, new.columns[VALUE][at] == written_at(config, handle, unit))
    added = z3.ForAll([OFFSET], z3.Implies(is_between(OFFSET, z3.IntVal(0), count), store))
    further = z3.And(stage_of(move.after) == stage + 1, same_handle(before.writing.handle, move.after.writing.handle))
    waits = z3.And(new.length == old.length + count, begins_with(new, old), added, further)
    done = z3.And(is_answer(move, Code.DONE), waits, same_but(move, "pending", "writing"))
    return SymbolicBoolean(z3.If(stage_of(before) == stage, done, z3.And(is_answer(move, Code.ABSENT), same_but(move))))


def one_store_appears(move: Move) -> SymbolicBoolean:
    """SHM-10/visible."""
    if move.outcome.code is not Code.DONE:
        return SymbolicBoolean(z3.And(is_answer(move, Code.ABSENT), same_but(move)))
    old, new, which = pending_of(move.before), pending_of(move.after), integer_term(move.operation.which)
    unit, value = (old.columns[field][old.first + which] for field in (UNIT, VALUE))
    earlier = z3.Implies(is_between(OFFSET, z3.IntVal(0), which), old.keys[old.first + OFFSET] != unit)
    behind = is_between(OFFSET, which, old.length - 1)
    moved = z3.And(
        *(
            left[new.first + OFFSET] == right[old.first + OFFSET + 1]
            for left, right in zip(new.columns, old.columns, strict=True)
        )
    )
    rest = z3.And(new.length == old.length - 1, begins_with(new, old, which), _each_offset(z3.Implies(behind, moved)))
    inside = is_between(UNIT_AT, z3.IntVal(0), integer_term(move.config.capacity))
    shown = visible_at(move.after, UNIT_AT) == z3.If(unit == UNIT_AT, value, visible_at(move.before, UNIT_AT))
    memory = z3.ForAll([UNIT_AT], z3.Implies(inside, shown))
    order = z3.And(which < old.length, _each_offset(earlier))
    return SymbolicBoolean(z3.And(is_answer(move, Code.DONE), order, rest, memory, same_but(move, "memory", "pending")))


def _each_offset(condition: Term) -> Term:
    return z3.ForAll([OFFSET], condition)


def handed_to_everybody(move: Move) -> SymbolicBoolean:
    """SHM-10/handed."""
    before, after = move.before, move.after
    if move.outcome.code is not Code.DONE:
        ready = stage_of(before) == DATA
        waits = z3.And(is_answer(move, Code.REFUSED), ready, pending_of(before).length > 0)
        absent = z3.And(is_answer(move, Code.ABSENT), z3.Not(ready))
        return SymbolicBoolean(z3.And(z3.Or(waits, absent), same_but(move)))
    pairs = zip(readers_of(before), readers_of(after), strict=True)
    given = z3.And(*(is_given(then, now, before.writing.handle) for (_, then), (_, now) in pairs))
    idle = z3.And(stage_of(after) == IDLE, is_none(after.writing.handle))
    return SymbolicBoolean(z3.And(given, idle, same_but(move, "readers", "writing")))


def is_given(before: Reading, after: Reading, handle: Any) -> Term:
    """The reader has the handle behind its others."""
    old, new = handles_of(before), handles_of(after)
    last = tuple(column[new.first + old.length] for column in new.columns)
    added = z3.And(*(one == other for one, other in zip(last, fields_of(handle), strict=True)))
    return z3.And(
        new.length == old.length + 1, begins_with(new, old), added, same_reading(after, before._replace(handles=new))
    )


# Freeing ------------------------------------------------------------------------------------------------------------


def what_is_answered_goes(move: Move) -> SymbolicBoolean:
    """SHM-6."""
    before, after, config = move.before, move.after, plain_ring_config(move.config)
    if move.outcome.code is not Code.DONE:
        busy = z3.And(is_answer(move, Code.REFUSED), stage_of(before) != IDLE)
        return SymbolicBoolean(z3.And(busy, same_but(move)))

    def may_go(identity: Term) -> Term:
        return each_has_answered(move.config, before, identity)

    went = z3.And(
        oldest_went(config, before.ring, after.ring),
        only_those_went(before.ring, after.ring, may_go),
        all_went(config, after.ring, config.capacity, may_go),
    )
    if type(move.operation) is Free:
        listed = gone_are_listed(config, before.ring, after.ring, move.outcome.values)
    else:
        listed = is_answer(move, Code.DONE)
    stays = z3.Or(after.ring.starts.members[ONE], z3.Not(before.ring.starts.members[ONE]))
    old, new, pair = before.contents, after.contents, pair_of(ONE, PLACE)
    known = new.members[ONE] == z3.And(old.members[ONE], stays)
    contents = z3.And(known, z3.Implies(new.members[ONE], new.values[ONE] == old.values[ONE]))
    lost = after.given_up.members[pair] == z3.And(before.given_up.members[pair], stays)
    tables = z3.And(z3.ForAll([ONE], contents), z3.ForAll([ONE, PLACE], lost))
    idle = stage_of(before) == IDLE
    return SymbolicBoolean(z3.And(idle, went, listed, tables, same_but(move, "chunks", "contents", "given_up")))


# The readers --------------------------------------------------------------------------------------------------------


def handles_stay(before: Reading, after: Reading) -> Term:
    """The reader has the handles that it had."""
    return same_records(handles_of(after), handles_of(before))


def is_idle(reading: Reading) -> Term:
    """The reader has nothing opened."""
    return z3.And(is_none(reading.opened), integer_term(reading.size) == 0, units_of(reading.units).length == 0)


def is_opened(move: Move, before: Reading, after: Reading) -> Term:
    """The reader has taken its oldest handle."""
    old, new, code = handles_of(before), handles_of(after), move.outcome.code
    possible = z3.And(is_none(before.opened), old.length > 0)
    if code is Code.ABSENT:
        return z3.And(is_answer(move, Code.ABSENT), z3.Not(possible), same_reading(after, before))
    first = tuple(column[old.first] for column in old.columns)
    taken = z3.And(*(one == other for one, other in zip(fields_of(after.opened), first, strict=True)))
    kept = z3.And(is_none(after.opened), integer_term(after.size) == integer_term(before.size))
    rest = z3.And(new.length == old.length - 1, _shifted(new, old))
    copied = same_records(units_of(after.units), units_of(before.units))
    known = z3.And(rest, copied, taken if code is Code.HIT else kept)
    right = z3.Or(is_answer(move, Code.HIT), is_answer(move, Code.STALE))
    return z3.And(right, possible, known)


def _shifted(new: Records, old: Records) -> Term:
    inside = is_between(OFFSET, z3.IntVal(0), old.length - 1)
    alike = z3.And(
        *(
            left[new.first + OFFSET] == right[old.first + OFFSET + 1]
            for left, right in zip(new.columns, old.columns, strict=True)
        )
    )
    return _each_offset(z3.Implies(inside, alike))


def is_copied(move: Move, before: Reading, after: Reading) -> Term:
    """The reader has one unit more."""
    old, new = units_of(before.units), units_of(after.units)
    possible = z3.And(z3.Not(is_none(before.opened)), old.length < integer_term(before.size))
    if move.outcome.code is not Code.DONE:
        return z3.And(is_answer(move, Code.ABSENT), z3.Not(possible), same_reading(after, before))
    unit = fields_of(before.opened)[AT] + data_after(move.config) + old.length
    added = new.keys[new.first + old.length] == visible_at(move.before, unit)
    copied = z3.And(new.length == old.length + 1, begins_with(new, old), added)
    alike = z3.And(handles_stay(before, after), same_handle(before.opened, after.opened))
    sized = integer_term(before.size) == integer_term(after.size)
    return z3.And(is_answer(move, Code.DONE), possible, copied, alike, sized)


def is_acknowledged(move: Move, before: Reading, after: Reading) -> Term:
    """The reader has returned what it copied, and has nothing opened."""
    units = units_of(before.units)
    possible = z3.And(z3.Not(is_none(before.opened)), units.length >= integer_term(before.size))
    if move.outcome.code is not Code.HIT:
        return z3.And(is_answer(move, Code.ABSENT), z3.Not(possible), same_reading(after, before))
    returned = same_records(units_of(move.outcome.values), units)
    return z3.And(possible, returned, handles_stay(before, after), is_idle(after))


def is_dead(move: Move, before: Reading, after: Reading) -> Term:
    """The reader has nothing."""
    return z3.And(is_answer(move, Code.DONE), handles_of(after).length == 0, is_idle(after))


STEPS = {Open: is_opened, Copy: is_copied, Acknowledge: is_acknowledged, ReaderDies: is_dead}


def one_reader_goes_on(move: Move) -> SymbolicBoolean:
    """SHM-8/step."""
    before, after, kind = move.before, move.after, type(move.operation)
    mine, now = reader_of(before, move.operation), reader_of(after, move.operation)
    pair = pair_of(ONE, PLACE)
    lost = z3.And(integer_term(move.operation.reader) == PLACE, awaits(before, mine, ONE))
    more = z3.Or(before.given_up.members[pair], lost) if kind is ReaderDies else before.given_up.members[pair]
    given_up = z3.ForAll([ONE, PLACE], after.given_up.members[pair] == more)
    others = same_readers(before, after, move.operation)
    rest = same_but(move, "readers", "given_up", "memory")
    return SymbolicBoolean(z3.And(STEPS[kind](move, mine, now), given_up, others, rest))


def handles_are_served(move: Move) -> SymbolicBoolean:
    """SHM-8/served."""
    handles = handles_of(reader_of(move.before, move.operation))
    current = handles.columns[NUMBER][handles.first] == integer_term(move.before.number)
    return SymbolicBoolean(current == z3.BoolVal(move.outcome.code is Code.HIT))


def readers_keep_to_their_counts(move: Move) -> SymbolicBoolean:
    """SHM-9."""
    at, reader = fields_of(reader_of(move.before, move.operation).opened)[AT], integer_term(move.operation.reader)

    def own(unit: Term) -> Term:
        answers = z3.BoolVal(type(move.operation) is Acknowledge)
        return z3.And(answers, unit == at + FIELDS + reader)

    before, after = move.before.ring.starts, move.after.ring.starts
    alike = z3.And(
        after.members[ONE] == before.members[ONE],
        z3.Implies(before.members[ONE], after.values[ONE] == before.values[ONE]),
        z3.Implies(before.members[ONE], move.after.ring.sizes.values[ONE] == move.before.ring.sizes.values[ONE]),
    )
    return SymbolicBoolean(z3.And(z3.ForAll([ONE], alike), same_memory(move, own)))


def read_is_whole(move: Move) -> SymbolicBoolean:
    """SHM-10."""
    content = fields_of(reader_of(move.before, move.operation).opened)[CONTENT]
    units = units_of(move.outcome.values)
    inside = is_between(OFFSET, z3.IntVal(0), units.length)
    data = _each_offset(z3.Implies(inside, units.keys[units.first + OFFSET] == content + 1))
    return SymbolicBoolean(z3.And(units.length == size_of(move.config, content), data))


# The end of a writer ------------------------------------------------------------------------------------------------


def segments_are_counted(move: Move) -> SymbolicBoolean:
    """SHM-5/segment."""
    before, after = move.before, move.after
    number, following = integer_term(before.number), integer_term(after.number)
    if type(move.operation) is not Restart:
        return SymbolicBoolean(following == number)
    pairs = zip(readers_of(before), readers_of(after), strict=True)
    kept = z3.And(*(keeps_its_handles(then, now) for (_, then), (_, now) in pairs))
    inside = is_between(UNIT_AT, z3.IntVal(0), integer_term(move.config.capacity))
    wiped = z3.ForAll([UNIT_AT], z3.Implies(inside, visible_at(after, UNIT_AT) == 0))
    none = z3.And(z3.Not(after.ring.starts.members[ONE]), z3.Not(after.contents.members[ONE]))
    lost = z3.ForAll([ONE, PLACE], z3.Not(after.given_up.members[pair_of(ONE, PLACE)]))
    idle = z3.And(stage_of(after) == IDLE, is_none(after.writing.handle), pending_of(after).length == 0)
    empty = z3.And(z3.ForAll([ONE], none), lost, wiped, idle, integer_term(after.ring.id_start) == 0)
    return SymbolicBoolean(z3.And(is_answer(move, Code.DONE), following == number + 1, empty, kept))


def keeps_its_handles(before: Reading, after: Reading) -> Term:
    """Handles, and what is opened, are as they were."""
    opened = z3.And(same_handle(before.opened, after.opened), integer_term(before.size) == integer_term(after.size))
    return z3.And(handles_stay(before, after), opened)
