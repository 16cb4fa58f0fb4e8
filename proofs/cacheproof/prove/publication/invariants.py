"""What holds in each state of a publication, as formulas: chunks, stores that wait, handles, counts and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, Term, integer_term
from cacheproof.prove.proof import Invariant
from cacheproof.prove.publication.states import (
    CONTENT,
    IDENTITY,
    NUMBER,
    PAIR,
    UNIT,
    VALUE,
    awaits,
    data_after,
    each_handle,
    fields_of,
    handles_of,
    is_content,
    is_current,
    is_none,
    is_reader,
    of_readers,
    pending_of,
    place_of,
    plain_ring_config,
    shape_in,
    size_of,
    stage_of,
    units_of,
    visible_at,
    whole,
    written_at,
)
from cacheproof.prove.ring.chunks import contiguous, of_its_ring, seen
from cacheproof.prove.ring.memory import AT as UNIT_AT
from cacheproof.prove.ring.memory import is_between
from cachespec.publication.configuration import FIELDS
from cachespec.publication.state import COUNTS, DATA, HEADER, IDLE, RESERVED

Config = Any
Exchange = Any
Formula = Callable[[Config, Exchange], Term]

ONE = z3.Int("one")


def each_chunk(exchange: Exchange, condition: Term) -> Term:
    """The condition, for `ONE` as every live chunk."""
    live = exchange.ring.starts.members
    return z3.ForAll([ONE], z3.Implies(live[ONE], condition), patterns=seen(live, ONE))


def in_progress(exchange: Exchange, identity: Term) -> Term:
    """Whether the writer is busy with this chunk."""
    return fields_of(exchange.writing.handle)[IDENTITY] == identity


def pair_of(identity: Term, reader: Term) -> Term:
    """The key of a chunk and a reader."""
    return PAIR.encode((SymbolicInteger(identity), SymbolicInteger(reader)))


# The properties -----------------------------------------------------------------------------------------------------


def handles_lead_to_live_chunks(config: Config, exchange: Exchange) -> Term:
    """SHM-2."""
    live, contents = exchange.ring.starts.members, exchange.contents

    def right(content: Term, identity: Term, at: Term, segment: Term) -> Term:
        named = z3.And(contents.members[identity], contents.values[identity] == content)
        return z3.And(live[identity], place_of(config, exchange, identity) == at, named)

    return of_readers(config, exchange, lambda _, reading: each_handle(exchange, reading, right))


def published_is_visible(config: Config, exchange: Exchange) -> Term:
    """SHM-2/visible."""

    def header(content: Term, identity: Term, at: Term, segment: Term) -> Term:
        return z3.And(visible_at(exchange, at) == identity, visible_at(exchange, at + 1) == whole(config, content))

    def data(content: Term, identity: Term, at: Term, segment: Term) -> Term:
        first = at + data_after(config)
        inside = is_between(UNIT_AT, first, first + size_of(config, content))
        return z3.Implies(inside, visible_at(exchange, UNIT_AT) == content + 1)

    def right(_: Term, reading: Any) -> Term:
        return z3.And(each_handle(exchange, reading, header), each_handle(exchange, reading, data, (UNIT_AT,)))

    return of_readers(config, exchange, right)


def counts_are_answers(config: Config, exchange: Exchange) -> Term:
    """SHM-3."""

    def right(place: Term, reading: Any) -> Term:
        count = visible_at(exchange, place_of(config, exchange, ONE) + FIELDS + place)
        counted = count == z3.If(awaits(exchange, reading, ONE), z3.IntVal(0), z3.IntVal(1))
        exempt = z3.Or(in_progress(exchange, ONE), exchange.given_up.members[pair_of(ONE, place)])
        return each_chunk(exchange, z3.Or(exempt, counted))

    return of_readers(config, exchange, right)


def tables_agree(config: Config, exchange: Exchange) -> Term:
    """SHM-4."""
    live, contents, given_up = exchange.ring.starts.members, exchange.contents.members, exchange.given_up.members
    same = z3.ForAll([ONE], contents[ONE] == live[ONE], patterns=seen(live, ONE) + seen(contents, ONE))
    reader = z3.Int("reader place")
    pair = pair_of(ONE, reader)
    known = z3.ForAll([ONE, reader], z3.Implies(given_up[pair], live[ONE]), patterns=seen(given_up, pair))
    return z3.And(contiguous(shape_in(config, exchange)), same, known)


# What they need -----------------------------------------------------------------------------------------------------


def chunks_have_their_sizes(config: Config, exchange: Exchange) -> Term:
    """Each live chunk has the size of its content."""
    content = exchange.contents.values[ONE]
    size = exchange.ring.sizes.values[ONE] == whole(config, content)
    return each_chunk(exchange, z3.And(is_content(config, content), size))


def chunk_in_progress_is_new(config: Config, exchange: Exchange) -> Term:
    """The chunk in progress is live, and no reader has a handle to it, or has died with one."""
    stage, handle = stage_of(exchange), exchange.writing.handle
    content, identity, at, segment = fields_of(handle)
    there = z3.And(exchange.ring.starts.members[identity], place_of(config, exchange, identity) == at)
    named = z3.And(there, exchange.contents.values[identity] == content, is_current(exchange, segment))

    def unknown(place: Term, reading: Any) -> Term:
        lost = exchange.given_up.members[pair_of(identity, place)]
        return z3.And(z3.Not(lost), z3.Not(awaits(exchange, reading, identity)))

    idle = z3.And(stage == IDLE, is_none(handle))
    busy = z3.And(stage > IDLE, stage <= DATA, named, of_readers(config, exchange, unknown))
    return z3.And(integer_term(exchange.number) >= 0, z3.Or(idle, busy))


def stored(config: Config, exchange: Exchange) -> Term:
    """The units of the chunk in progress that were stored."""
    stage, (content, *_) = stage_of(exchange), fields_of(exchange.writing.handle)
    counts = z3.If(stage == COUNTS, data_after(config), whole(config, content))
    return z3.If(stage <= RESERVED, z3.IntVal(0), z3.If(stage == HEADER, z3.IntVal(FIELDS), counts))


def stores_are_of_the_chunk(config: Config, exchange: Exchange) -> Term:
    """What waits was stored in the chunk in progress, each unit once; what does not wait is visible."""
    handle, pending, place = fields_of(exchange.writing.handle), pending_of(exchange), z3.Int("place")
    first, last = handle[2], handle[2] + stored(config, exchange)
    unit, value = (pending.columns[field][place] for field in (UNIT, VALUE))
    known = z3.And(is_between(unit, first, last), value == written_at(config, handle, unit))
    right = z3.ForAll([place], z3.Implies(pending.is_in(place), known), patterns=seen(pending.keys, place))
    shown = visible_at(exchange, UNIT_AT) == written_at(config, handle, UNIT_AT)
    rest = z3.And(is_between(UNIT_AT, first, last), z3.Not(pending.has(UNIT_AT)))
    visible = z3.ForAll([UNIT_AT], z3.Implies(rest, shown), patterns=seen(exchange.memory.values, UNIT_AT))
    return z3.And(pending.first <= pending.next, pending.are_found(), right, visible)


def handles_are_given_once(config: Config, exchange: Exchange) -> Term:
    """No reader has two handles to a chunk, and none has one to a later segment."""
    number, place = integer_term(exchange.number), z3.Int("place")

    def right(_: Term, reading: Any) -> Term:
        handles, opened = handles_of(reading), fields_of(reading.opened)
        segments = handles.columns[NUMBER]
        found = handles.are_found(lambda place: is_current(exchange, segments[place]))
        again = z3.And(
            handles.has(opened[IDENTITY]), is_current(exchange, segments[handles.place_of[opened[IDENTITY]]])
        )
        alone = z3.Implies(is_current(exchange, opened[NUMBER]), z3.Not(again))
        earlier = z3.Implies(handles.is_in(place), z3.And(segments[place] >= 0, segments[place] <= number))
        given = z3.Implies(handles.is_in(place), is_content(config, handles.columns[CONTENT][place]))
        listed = z3.ForAll([place], z3.And(earlier, given), patterns=seen(handles.keys, place))
        return z3.And(handles.first <= handles.next, found, alone, listed)

    return of_readers(config, exchange, right)


def given_up_is_not_awaited(config: Config, exchange: Exchange) -> Term:
    """A reader that died with a handle to a chunk was a reader, and its successor has no handle to the chunk."""
    reader = z3.Int("reader place")
    pair = pair_of(ONE, reader)
    members = exchange.given_up.members
    known = z3.ForAll([ONE, reader], z3.Implies(members[pair], is_reader(config, reader)), patterns=seen(members, pair))

    def right(place: Term, reading: Any) -> Term:
        lost = members[pair_of(ONE, place)]
        none = z3.Implies(lost, z3.Not(awaits(exchange, reading, ONE)))
        return z3.ForAll([ONE], none, patterns=seen(members, pair_of(ONE, place)))

    return z3.And(known, of_readers(config, exchange, right))


def copies_are_data(config: Config, exchange: Exchange) -> Term:
    """What a reader has copied is data of its chunk; of an earlier segment, all of it."""
    place = z3.Int("place")

    def right(_: Term, reading: Any) -> Term:
        opened, units, size = fields_of(reading.opened), units_of(reading.units), integer_term(reading.size)
        copied = z3.Implies(units.is_in(place), units.keys[place] == opened[CONTENT] + 1)
        data = z3.ForAll([place], copied, patterns=seen(units.keys, place))
        earlier = z3.And(opened[NUMBER] >= 0, opened[NUMBER] <= integer_term(exchange.number))
        complete = z3.Or(is_current(exchange, opened[NUMBER]), units.length == size)
        known = z3.And(is_content(config, opened[CONTENT]), size == size_of(config, opened[CONTENT]))
        busy = z3.And(known, data, earlier, complete, units.length <= size)
        idle = z3.And(is_none(reading.opened), units.length == 0, size == 0)
        return z3.And(units.length >= 0, z3.Or(idle, busy))

    return of_readers(config, exchange, right)


def named(name: str, statement: str, formula: Formula) -> Invariant:
    """An invariant of this formula."""
    return Invariant(name, statement, lambda config, exchange: SymbolicBoolean(formula(config, exchange)))


INVARIANTS = (
    *of_its_ring(plain_ring_config),
    named("SHM-2", "every unanswered handle names a live chunk", handles_lead_to_live_chunks),
    named("SHM-2/visible", "a chunk with a handle is visible in full and stays visible", published_is_visible),
    named("SHM-3", "the count of a reader is 1 if it has answered and 0 otherwise", counts_are_answers),
    named("SHM-4", "live ids are consecutive from the oldest, and only live ids are known", tables_agree),
    named("sized", "each live chunk has the size of its content", chunks_have_their_sizes),
    named("in progress", "no reader has a handle to the chunk in progress", chunk_in_progress_is_new),
    named("waiting", "each store that waits is to another unit of the chunk in progress", stores_are_of_the_chunk),
    named("once", "no reader has two handles to a chunk", handles_are_given_once),
    named("given up", "a reader has no handle to a chunk that was given up for it", given_up_is_not_awaited),
    named("copied", "what a reader has copied is data of its chunk", copies_are_data),
)
