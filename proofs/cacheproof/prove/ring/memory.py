"""The memory of a ring, as formulas: fields and payloads, how they are written, and how they are read.

A field is a number, the lowest unit first: its units are `DIGITS` of the number, to the base of the specification. A
valid configuration has fields that are wide enough for each id and each size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.containers import SymbolicMap
from cacheproof.prove.executor import SymbolicBoolean, Term, integer, integer_term, path
from cacheproof.prove.lines import Line
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.ring.chunks import INTEGERS, MEMBERS, is_known, line_of, seen
from cacheproof.prove.shapes import INTEGER
from cachespec.ring import memory
from cachespec.ring.configuration import BASE

AT = z3.Int("at")

# Units --------------------------------------------------------------------------------------------------------------

SHIFTED = z3.Function("shifted", z3.IntSort(), z3.IntSort(), z3.IntSort())
"""A number without its lowest units, by how many they are."""
DIGIT = z3.Function("digit", z3.IntSort(), z3.IntSort(), z3.IntSort())
"""A unit of a number, by how many lower ones there are."""
PRESENTED = IDENTITY, CONTENT = z3.Int("presented id"), z3.Int("presented content")
"""Id and content of the handle that a call presents."""


PLACES = replace(INTEGER, samples=tuple(map(z3.IntVal, range(6))))
"""Where something is in memory: a small counterexample has room for a chunk."""


def any_units(name: str) -> Any:
    """Any numbers in memory."""
    return states.fresh_map(PLACES, INTEGER, name, counted=False)


def define_shifted(number: Term, *units: Term) -> None:
    """The definitions of `SHIFTED` and `DIGIT` of this number, from these numbers of units to the next."""
    path().assume(SHIFTED(number, 0) == number)
    for unit in units:
        path().assume(SHIFTED(number, unit + 1) == SHIFTED(number, unit) / BASE)
        path().assume(DIGIT(number, unit) == SHIFTED(number, unit) % BASE)


def is_small(config: Any, number: Term) -> Term:
    """It is an id or a size."""
    return z3.And(number >= 0, z3.Or(number < integer_term(config.modulus), number <= integer_term(config.capacity)))


def fits_a_field(config: Any, number: Term) -> Term:
    """A valid configuration has fields for all ids and all sizes: nothing is left without a field's units."""
    return z3.Implies(is_small(config, number), SHIFTED(number, width(config)) == 0)


def width(config: Any) -> Term:
    """The units of a field."""
    return integer_term(config.header) / 2


def is_between(at: Term, first: Term, last: Term) -> Term:
    """From the first on, and before the last."""
    return z3.And(at >= first, at < last)


def whole(config: Any, content: Term) -> Term:
    """The units of a chunk for this content."""
    return integer_term(config.header) + config.sizes.items[content]


def content_at(units: SymbolicMap, at: Term) -> Term:
    """What a reader finds there."""
    return z3.If(units.members[at], units.values[at], z3.IntVal(0))


def is_field(config: Any, units: SymbolicMap, at: Term, number: Term) -> Term:
    """The field there is this number."""
    inside = is_between(AT, at, at + width(config))
    right = z3.Implies(inside, content_at(units, AT) == DIGIT(number, AT - at))
    return z3.ForAll([AT], right, patterns=seen(units.values, AT))


def is_payload(config: Any, units: SymbolicMap, at: Term, content: Term) -> Term:
    """The payload of the chunk there is the number of this content, again and again."""
    first = at + integer_term(config.header)
    inside = is_between(AT, first, first + config.sizes.items[content])
    right = z3.Implies(inside, content_at(units, AT) == content + 1)
    return z3.ForAll([AT], right, patterns=seen(units.values, AT))


def alike_outside(before: SymbolicMap, after: SymbolicMap, first: Term, last: Term) -> Term:
    """Nothing else is written."""
    outside = z3.Not(is_between(AT, first, last))
    same = z3.Implies(outside, content_at(after, AT) == content_at(before, AT))
    return z3.ForAll([AT], same, patterns=seen(after.values, AT))


def writing_a_field(entry: Locals, now: Locals) -> Iterable[Any]:
    """The lowest units are written, and the value is what is left."""
    number, at, unit = (integer_term(each) for each in (entry["value"], entry["at"], now["unit"]))
    define_shifted(number, unit)
    yield SymbolicBoolean(z3.And(unit >= 0, unit <= integer_term(now["unit_end"])))
    yield SymbolicBoolean(integer_term(now["value"]) == SHIFTED(number, unit))
    yield SymbolicBoolean(alike_outside(entry["memory"], now["memory"], at, at + unit))
    inside = is_between(AT, at, at + unit)
    right = z3.Implies(inside, content_at(now["memory"], AT) == DIGIT(number, AT - at))
    yield SymbolicBoolean(z3.ForAll([AT], right, patterns=seen(now["memory"].values, AT)))


def writing_the_payload(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first units are written."""
    unit, end = integer_term(now["unit"]), integer_term(now["unit_end"])
    first = integer_term(entry["at"]) + integer_term(entry["config"].header)
    yield SymbolicBoolean(z3.And(unit >= 0, unit <= end))
    yield SymbolicBoolean(alike_outside(entry["memory"], now["memory"], first, first + unit))
    inside = is_between(AT, first, first + unit)
    right = z3.Implies(inside, content_at(now["memory"], AT) == integer_term(entry["content"]) + 1)
    yield SymbolicBoolean(z3.ForAll([AT], right, patterns=seen(now["memory"].values, AT)))


def reading_a_field(entry: Locals, now: Locals) -> Iterable[Any]:
    """If the presented id is there, or its size, the value is what is read of it."""
    config, unit = entry["config"], integer_term(now["unit"])
    last = width(config)
    yield SymbolicBoolean(z3.And(unit >= 0, unit <= last))
    for number in (IDENTITY, whole(config, CONTENT)):
        define_shifted(number, last - unit, last - unit - 1)
        there = is_field(config, entry["memory"], integer_term(entry["at"]), number)
        read = integer_term(now["value"]) == SHIFTED(number, last - unit)
        yield SymbolicBoolean(z3.Implies(z3.And(there, is_small(config, number)), read))


def reading_the_payload(entry: Locals, now: Locals) -> Iterable[Any]:
    """Unit by unit, up to the end of the chunk."""
    unit, units = integer_term(now["unit"]), line_of(now["units"])
    first = integer_term(entry["at"]) + integer_term(entry["config"].header)
    left = integer_term(entry["end"]) - first
    count = z3.If(unit < left, unit, z3.If(left > 0, left, z3.IntVal(0)))
    yield SymbolicBoolean(z3.And(unit >= 0, unit <= integer_term(now["unit_end"])))
    yield SymbolicBoolean(units.last - units.first == count)
    found = units.items[AT] == content_at(entry["memory"], first + AT - units.first)
    yield SymbolicBoolean(z3.ForAll([AT], z3.Implies(units.is_in(AT), found), patterns=seen(units.items, AT)))


def a_line(name: str, value: Any) -> Any:
    """What is read is any line."""
    return Line.fresh(name) if name == "units" else None


LOOPS = (
    Loop(memory.write_field, "loops", writing_a_field, in_order=True),
    Loop(memory.write_chunk, "loops", writing_the_payload, in_order=True),
    Loop(memory.read_field, "loops", reading_a_field, in_order=True),
    Loop(memory.read_payload, "loops", reading_the_payload, in_order=True, renewed=a_line),
)

# What the functions do ----------------------------------------------------------------------------------------------


def is_chunk(config: Any, units: SymbolicMap, at: Term, identity: Term, content: Term) -> Term:
    """A whole chunk is there, with its id and its size."""
    fields = (
        is_field(config, units, at, identity),
        is_field(config, units, at + width(config), whole(config, content)),
    )
    return z3.And(*fields, is_payload(config, units, at, content))


IS_CHUNK = z3.Function("is_chunk", MEMBERS, INTEGERS, *[z3.IntSort()] * 3, z3.BoolSort())
"""Stands for `is_chunk`: the calls of the ring need what `is_written` and `is_read` say of it, and no more."""

Chunk = Callable[..., Term]
"""`is_chunk`, or what stands for it."""


def stands(config: Any, units: SymbolicMap, at: Term, identity: Term, content: Term) -> Term:
    """A whole chunk is there: in a known state as it is defined, otherwise by its name."""
    if is_known(config):
        return is_chunk(config, units, at, identity, content)
    return IS_CHUNK(units.members, units.values, at, identity, content)


def is_written(
    config: Any, chunk: Chunk, before: SymbolicMap, after: SymbolicMap, new: tuple[Term, ...], other: tuple[Term, ...]
) -> Term:
    """The new chunk is there. So is any other one that was there, if the new one has no unit of it."""
    (first, _, content), (start, _, named) = new, other
    apart = z3.Or(start + whole(config, named) <= first, first + whole(config, content) <= start)
    beside = z3.And(is_between(named, z3.IntVal(0), config.sizes.length), apart)
    stays = z3.Implies(z3.And(beside, chunk(config, before, *other)), chunk(config, after, *other))
    return z3.And(chunk(config, after, *new), stays)


def is_read_id(
    config: Any, chunk: Chunk, units: SymbolicMap, at: Term, presented: tuple[Term, ...], value: Term
) -> Term:
    """If the presented chunk is there, its id is what is read."""
    return z3.Implies(
        z3.And(chunk(config, units, at, *presented), is_small(config, presented[0])), value == presented[0]
    )


def is_read_payload(
    config: Any, chunk: Chunk, units: SymbolicMap, at: Term, presented: tuple[Term, ...], values: Any
) -> Term:
    """If the presented chunk is there, within the data, its payload is what is read."""
    line, size = line_of(values), whole(config, presented[1])
    inside = z3.And(at >= 0, at + size <= integer_term(config.capacity), integer_term(config.header) <= size)
    right = z3.Implies(line.is_in(AT), line.items[AT] == presented[1] + 1)
    read = z3.ForAll([AT], right, patterns=seen(line.items, AT))
    count = line.last - line.first == config.sizes.items[presented[1]]
    return z3.Implies(z3.And(chunk(config, units, at, *presented), inside), z3.And(count, read))


# Stand-ins ----------------------------------------------------------------------------------------------------------


def demand_place(at: Any) -> None:
    """What stands for a function of the memory is asked about places."""
    path().demand("a place is not negative", integer_term(at) >= 0)


def any_write_chunk(config: Any, units: SymbolicMap, at: Any, identity: Any, content: Any) -> SymbolicMap:
    """Stands for `write_chunk`."""
    if is_known(config):
        return memory.write_chunk(config, units, at, identity, content)  # type: ignore[return-value, arg-type]  # terms
    demand_place(at)
    inside = is_between(integer_term(content), z3.IntVal(0), config.sizes.length)
    path().demand("the content has a size", inside)
    after = states.fresh_like(units, "memory")
    other = z3.Ints("start id content")
    new = tuple(integer_term(each) for each in (at, identity, content))
    written = is_written(config, stands, units, after, new, tuple(other))
    path().assume(z3.ForAll(other, written, patterns=[stands(config, after, *other)]))
    return after  # type: ignore[no-any-return]  # like the one before


def any_read_id(config: Any, units: SymbolicMap, at: Any) -> Any:
    """Stands for `read_id`."""
    if is_known(config):
        return memory.read_id(config, units, at)  # type: ignore[arg-type]  # terms
    demand_place(at)
    value = integer("id")
    path().assume(is_read_id(config, stands, units, integer_term(at), PRESENTED, value.term))
    return value


def any_read_payload(config: Any, units: SymbolicMap, at: Any) -> Any:
    """Stands for `read_payload`."""
    if is_known(config):
        return memory.read_payload(config, units, at)  # type: ignore[arg-type]  # terms
    demand_place(at)
    line = Line.fresh("units")
    path().assume(is_read_payload(config, stands, units, integer_term(at), PRESENTED, line))
    return line
