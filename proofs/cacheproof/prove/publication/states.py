"""The state of a publication as terms: stores that wait, handles in order, and two of any number of readers.

The two readers are the one that a call names, and any other one. If there is only one reader, the other place is behind
the last one, and nothing is claimed of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, Term, both, integer, integer_term, path
from cacheproof.prove.records import Records
from cacheproof.prove.ring.chunks import Geometry, seen
from cacheproof.prove.ring.functions import sizes_are_positive
from cacheproof.prove.ring.memory import any_units, content_at
from cacheproof.prove.sequences import known_number, length
from cacheproof.prove.shapes import INTEGER, shape_of
from cacheproof.prove.solvers import parts_of
from cacheproof.prove.two_of_many import AnyNumber, TwoOfMany, mapped
from cachespec import publication, ring
from cachespec.kernel.names import hints_of
from cachespec.publication.configuration import FIELDS, ring_config
from cachespec.publication.operations import Allocate, Appear
from cachespec.publication.state import NONE, Reading, Writing
from cachespec.ring.configuration import Id, Reader

Config = Any
Exchange = Any

READER = z3.Int("reader")
"""The reader that the call names."""
PAIR = shape_of(tuple[Id, Reader])
"""A chunk and a reader."""
CONTENT, IDENTITY, AT, NUMBER = range(4)
"""The fields of a handle."""
UNIT, VALUE = range(2)
"""The fields of a store."""

plain_ring_config = ring_config.__wrapped__
"""Without its cache, which compares configurations."""


def record(*parts: Any) -> tuple[Any, ...]:
    """A handle, or a store."""
    return parts


def number(part: Any) -> Any:
    """A unit that was copied."""
    return part


# Any state, and a known one -----------------------------------------------------------------------------------------


def fresh(kind: Any, name: str) -> Any:
    """Any configuration, state or operation."""
    if kind is publication.Exchange:
        return any_exchange(name)
    if "reader" in states.part_names(kind):
        return kind(reader=SymbolicInteger(READER))
    one = states.fresh(kind, name)
    if kind is publication.Config:
        path().hints.append(both(one.capacity <= 9, one.modulus <= 3, one.readers <= 2).term)
    return one


def initial(config: Config, containers: Any) -> Exchange:
    """The initial state, with any number of readers."""
    many = type(config.readers) is SymbolicInteger
    return publication.NORMATIVE_PUBLICATION.initial(
        config._replace(readers=AnyNumber()) if many else config, containers
    )


def any_exchange(name: str) -> Exchange:
    """Any state."""
    other: Any = path().fresh("other", z3.IntSort())
    path().assume(z3.And(other >= 0, other != READER))
    members: Any = (any_reading("reader"), any_reading("another"))
    readers: Any = TwoOfMany((READER, other), members)
    return publication.Exchange(
        ring=states.fresh(ring.Ring, f"{name}.ring"),
        memory=any_units(f"{name}.memory"),
        pending=Records.any(record, 2, UNIT, "pending"),  # type: ignore[arg-type]  # terms stand for a tuple
        writing=Writing(integer("stage"), any_handle("writing")),  # type: ignore[arg-type]  # terms
        readers=readers,
        given_up=states.fresh_map(PAIR, INTEGER, "given up", counted=False),  # type: ignore[arg-type]  # likewise
        number=integer("number"),  # type: ignore[arg-type]  # a term
        contents=states.fresh_map(INTEGER, INTEGER, "contents", counted=False),  # type: ignore[arg-type]  # likewise
    )


def any_handle(name: str) -> Any:
    """Any handle, or what stands for none."""
    return tuple(integer(f"{name}.{part}") for part in ("content", "id", "at", "number"))


def any_reading(name: str) -> Any:
    """Any reader."""
    handles: Any = Records.any(record, 4, IDENTITY, f"{name}.handles")
    units: Any = Records.any(number, 1, 0, f"{name}.units")
    size: Any = integer(f"{name}.size")
    return Reading(handles, any_handle(f"{name}.opened"), size, units)


def lift(kind: Any, value: Any) -> Any:
    """The value as terms; which reader a call names stays known."""
    if kind is publication.Exchange:
        hints = hints_of(kind)
        parts = {part: states.lift(hints[part], getattr(value, part)) for part in LIFTED}
        readers: Any = mapped(lifted_reading, value.readers)
        pending: Any = Records.of(record, 2, UNIT, value.pending)
        writing: Any = Writing(SymbolicInteger(integer_term(value.writing.stage)), terms_of(value.writing.handle))  # type: ignore[arg-type]  # terms
        return publication.Exchange(pending=pending, writing=writing, readers=readers, **parts)
    return value if "reader" in states.part_names(kind) else states.lift(kind, value)


LIFTED = ("ring", "memory", "given_up", "number", "contents")
"""Parts of a state that are lifted by their types."""


def lifted_reading(one: Any) -> Any:
    """A known reader as terms."""
    size: Any = SymbolicInteger(integer_term(one.size))
    handles: Any = Records.of(record, 4, IDENTITY, one.handles)
    return Reading(handles, terms_of(one.opened), size, Records.of(number, 1, 0, one.units))  # type: ignore[arg-type]  # terms stand for a tuple


def terms_of(handle: Any) -> Any:
    """The fields of a handle as terms."""
    return tuple(SymbolicInteger(integer_term(part)) for part in handle)


def environment(config: Config, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a call that names what there is."""
    yield both(config.readers >= 1, config.modulus >= 2, config.capacity > FIELDS + config.readers)
    yield SymbolicBoolean(sizes_are_positive(config))
    if type(operation) is Allocate:
        yield both(operation.content >= 0, operation.content < length(config.sizes))
    if type(operation) is Appear:
        yield operation.which >= 0
    if operation is not None and "reader" in states.part_names(operation):
        yield both(SymbolicBoolean(is_reader(config, integer_term(operation.reader))))


# Parts of a state ---------------------------------------------------------------------------------------------------


def is_reader(config: Config, place: Term) -> Term:
    """Whether there is such a reader."""
    return z3.And(place >= 0, place < integer_term(config.readers))


def readers_of(exchange: Exchange) -> list[tuple[Term, Any]]:
    """The readers that are looked at, with their places: of any number of them two, and all of a known state."""
    if type(exchange.readers) is TwoOfMany:
        return list(zip(exchange.readers.places, exchange.readers.members, strict=True))
    return [(z3.IntVal(place), one) for place, one in enumerate(exchange.readers)]


def reader_of(exchange: Exchange, operation: Any) -> Any:
    """The reader that the call names."""
    if type(exchange.readers) is TwoOfMany:
        return exchange.readers.named
    return exchange.readers[operation.reader]


def of_readers(config: Config, exchange: Exchange, condition: Callable[[Term, Any], Term]) -> Term:
    """The condition, for each reader that is looked at, if there is one at its place."""
    conditions = [(place, condition(place, one)) for place, one in readers_of(exchange)]
    return z3.And(
        *(z3.Implies(is_reader(config, place), part) for place, whole in conditions for part in parts_of(whole))
    )


def handles_of(reading: Any) -> Records:
    """The handles that the reader has not opened."""
    return reading.handles if type(reading.handles) is Records else Records.of(record, 4, IDENTITY, reading.handles)


def units_of(values: Any) -> Records:
    """What was copied."""
    return values if type(values) is Records else Records.of(number, 1, 0, values)


def pending_of(exchange: Exchange) -> Records:
    """The stores that wait."""
    return exchange.pending if type(exchange.pending) is Records else Records.of(record, 2, UNIT, exchange.pending)


def fields_of(handle: Any) -> tuple[Term, ...]:
    """Content, id, place and segment."""
    return tuple(map(integer_term, handle))


def is_none(handle: Any) -> Term:
    """There is no handle."""
    return z3.And(*(part == none for part, none in zip(fields_of(handle), NONE, strict=True)))


def stage_of(exchange: Exchange) -> Term:
    """How far the writer is."""
    return integer_term(exchange.writing.stage)


def shape_in(config: Config, exchange: Exchange) -> Geometry:
    """The ring in it."""
    return Geometry(plain_ring_config(config), exchange.ring)


def place_of(config: Config, exchange: Exchange, identity: Term) -> Term:
    """Where the chunk is."""
    shape = shape_in(config, exchange)
    return shape.place(shape.starts[identity])


def is_current(exchange: Exchange, segment: Term) -> Term:
    """The handle is to this segment."""
    return segment == integer_term(exchange.number)


def awaits(exchange: Exchange, reading: Any, identity: Term) -> Term:
    """Whether the reader has a handle to the chunk, if the places of its handles are right."""
    handles, opened = handles_of(reading), fields_of(reading.opened)
    there = z3.And(handles.has(identity), is_current(exchange, handles.columns[NUMBER][handles.place_of[identity]]))
    return z3.Or(there, z3.And(opened[IDENTITY] == identity, is_current(exchange, opened[NUMBER])))


def each_handle(exchange: Exchange, reading: Any, condition: Callable[..., Term], unit: tuple[Term, ...] = ()) -> Term:
    """The condition, for the fields of every handle to this segment that the reader has; and for every unit."""
    handles, opened, place = handles_of(reading), fields_of(reading.opened), z3.Int("place")
    listed = tuple(column[place] for column in handles.columns)
    current = z3.And(handles.is_in(place), is_current(exchange, listed[NUMBER]))
    sights = seen(handles.keys, place) + [sight for one in unit for sight in seen(exchange.memory.values, one)]
    patterns = [z3.MultiPattern(*sights)] if len(sights) == 1 + len(unit) else []
    of_listed = z3.ForAll([place, *unit], z3.Implies(current, condition(*listed)), patterns=patterns)
    of_opened = z3.Implies(is_current(exchange, opened[NUMBER]), condition(*opened))
    return z3.And(of_listed, z3.ForAll(list(unit), of_opened) if unit else of_opened)


def visible_at(exchange: Exchange, unit: Term) -> Term:
    """What a reader sees there."""
    return content_at(exchange.memory, unit)


def size_of(config: Config, content: Term) -> Term:
    """The units of data of a content."""
    return config.sizes.items[content]


def whole(config: Config, content: Term) -> Term:
    """The units of a chunk for a content."""
    return data_after(config) + size_of(config, content)


def data_after(config: Config) -> Term:
    """The units of a chunk before its data."""
    return FIELDS + integer_term(config.readers)


def is_content(config: Config, content: Term) -> Term:
    """Whether there is such a content."""
    return z3.And(content >= 0, content < config.sizes.length)


def written_at(config: Config, handle: tuple[Term, ...], unit: Term) -> Term:
    """What the writer stores in this unit of a chunk: its id, its size, 0 for each reader, and the data."""
    content, identity, at, _ = handle
    behind = z3.If(unit < at + data_after(config), z3.IntVal(0), content + 1)
    return z3.If(unit == at, identity, z3.If(unit == at + 1, whole(config, content), behind))


# What the writer goes by --------------------------------------------------------------------------------------------


def stored_at(exchange: Exchange, unit: Term) -> Term:
    """What the writer has stored there, visible or not, if the places of its stores are right."""
    pending = pending_of(exchange)
    waiting = pending.columns[VALUE][pending.place_of[unit]]
    return z3.If(pending.has(unit), waiting, visible_at(exchange, unit))


def has_answered(config: Config, exchange: Exchange, identity: Term, reader: Term) -> Term:
    """The reader's count is 1, or it has died."""
    shape = shape_in(config, exchange)
    at = z3.If(shape.live[identity], shape.place(shape.starts[identity]), z3.IntVal(0))
    return z3.Or(
        exchange.given_up.members[PAIR.encode((SymbolicInteger(identity), SymbolicInteger(reader)))],
        stored_at(exchange, at + FIELDS + reader) == 1,
    )


def each_has_answered(config: Config, exchange: Exchange, identity: Term, readers: Term | None = None) -> Term:
    """All readers, or the first ones."""
    last = integer_term(config.readers) if readers is None else readers
    count, reader = known_number(last), z3.Int("reader place")
    if count is not None:
        return z3.And(*(has_answered(config, exchange, identity, z3.IntVal(place)) for place in range(count)))
    inside = z3.And(reader >= 0, reader < last)
    pair = PAIR.encode((SymbolicInteger(identity), SymbolicInteger(reader)))
    return z3.ForAll(
        [reader],
        z3.Implies(inside, has_answered(config, exchange, identity, reader)),
        patterns=seen(exchange.given_up.members, pair),
    )


def any_may_go(config: Config, exchange: Exchange, identity: Any) -> SymbolicBoolean:
    """Stands for `may_go`: the proof `ANSWERS` is about the function itself."""
    return SymbolicBoolean(each_has_answered(config, exchange, integer_term(identity)))
