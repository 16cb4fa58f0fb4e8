"""The requests and the workers of an object store as terms: any number of each, with any number of items.

A field of a request or of a worker is an array, by its number. The specification's own functions read one of them and
replace it. Where they count or search several, a stand-in of `loops.py` gives the answer by its definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    following,
    integer_term,
    path,
)
from cacheproof.prove.ring.chunks import Decided
from cacheproof.prove.sequences import Stretch
from cacheproof.prove.shapes import INTEGER, Shape, shape_of
from cachespec.kernel.names import hints_of
from cachespec.object_store.state import RENDERING, Delivery, Handle, Journey, Slot, Store, Worker

NUMBER, TRUTH = z3.IntSort(), z3.BoolSort()
HANDLE, DELIVERY, SLOT = shape_of(Handle), shape_of(Delivery), shape_of(Slot)
REQUEST, PLACE = z3.Ints("request place")
READER = z3.Int("reader")


def array(*sorts: Any) -> Any:
    """An array of arrays: the first sort is that of the outer key, the last one that of the values."""
    *keys, result = sorts
    for key in reversed(keys):
        result = z3.ArraySort(key, result)
    return result


def anything(name: str, sort: Any) -> Term:
    """Any term; in a small counterexample its arrays are blank but at a few keys."""
    term = path().fresh(name, sort)
    if z3.is_array(term):
        path().hints.append(term == small(sort, name))
    return term


def small(sort: Any, name: str) -> Term:
    """A term of this sort that is blank but at a few keys."""
    if not isinstance(sort, z3.ArraySortRef):
        return path().fresh(name, sort)
    term = blank(sort)
    for key in SLOT.samples if sort.domain() == SLOT.sort else INTEGER.samples:
        term = z3.Store(term, key, small(sort.range(), name))
    return term


def blank(sort: Any) -> Term:
    """The blank term of this sort."""
    if isinstance(sort, z3.ArraySortRef):
        return z3.K(sort.domain(), blank(sort.range()))
    return BLANK[sort]


BLANK = {NUMBER: z3.IntVal(0), TRUTH: z3.BoolVal(False), HANDLE.sort: HANDLE.blank, DELIVERY.sort: DELIVERY.blank}

# A tuple ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A tuple of any length. Its members stand from position `first` to before `last`."""

    element: Shape
    items: Term
    first: Term
    last: Term

    @classmethod
    def of(cls, element: Shape, values: Any) -> Row:
        """The row itself, or that of these values."""
        if type(values) is Row:
            return values
        empty = cls(element, z3.K(NUMBER, element.blank), z3.IntVal(0), z3.IntVal(0))
        return empty.joined(*values)

    @classmethod
    def fresh(cls, element: Shape, name: str) -> Row:
        """Any one."""
        items, last = anything(f"{name}.items", array(NUMBER, element.sort)), path().fresh(f"{name}.last", NUMBER)
        path().assume(last >= 0)
        return cls(element, items, z3.IntVal(0), last)

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            if (place.start, place.stop, place.step) != (1, None, None):
                raise NotFollowedError("of a row, only the first member is taken away")
            path().demand("the position is in the tuple", self.first < self.last)
            return replace(self, first=z3.simplify(self.first + 1))
        position = self.first + integer_term(place)
        path().demand("the position is in the tuple", self.is_in(position))
        return self.element.decode(z3.simplify(self.items[position]))

    def is_in(self, position: Term) -> Term:
        """Whether a member stands there."""
        return z3.And(position >= self.first, position < self.last)

    def joined(self, *values: Any) -> Row:
        """With these values behind the others."""
        items, last = self.items, self.last
        for value in values:
            items, last = z3.Store(items, last, self.element.encode(value)), z3.simplify(last + 1)
        return replace(self, items=items, last=last)

    def mapped(self, function: Callable[[Any], Any]) -> Row:
        """`tuple(function(member) for member in self)`."""
        items, at = path().fresh("mapped", self.items.sort()), z3.Int("at")
        image = image_of(self.element, function, self.items[at])
        path().assume(z3.ForAll([at], items[at] == image, patterns=[items[at]]))
        return replace(self, items=items)

    def renewed(self, name: str) -> Row:
        """Any other one of its kind that begins where this one does."""
        items, last = anything(f"{name}.items", self.items.sort()), path().fresh(f"{name}.last", NUMBER)
        path().assume(last >= self.first)
        return replace(self, items=items, last=last)

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(z3.simplify(self.last - self.first))

    def __eq__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # a condition, not an answer
        if type(other) is tuple and other == ():
            return SymbolicBoolean(self.first == self.last)
        raise NotFollowedError("a row is compared with the empty tuple only")

    def __ne__(self, other: object) -> SymbolicBoolean:  # type: ignore[override]  # likewise
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def __iter__(self) -> NoReturn:
        raise NotFollowedError("a row of unknown length is mapped, and not listed otherwise")

    def __len__(self) -> NoReturn:
        raise NotFollowedError("`len` of a row cannot be followed")


def image_of(element: Shape, function: Callable[[Any], Any], member: Term) -> Term:
    """The function's value as one term: the values of its paths, each under the decisions of its path."""
    waiting: list[tuple[bool, ...]] = [()]
    image: Term = None
    while waiting:
        one = Decided(prefix=waiting.pop())
        with following(one):
            value = element.encode(function(element.decode(member)))
        if one.names or one.demands:
            raise NotFollowedError("a function of a member with a loop or a demand is not a term")
        waiting.extend(one.alternatives)
        image = value if image is None else z3.If(z3.And(*one.decisions), value, image)
    return image


# Requests -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """A tuple of journeys."""

    length: Term
    phase: Term
    touched: Term
    walked: Term
    answers: Term
    """What a look-up said of each item, by request and item; of this number of items:"""
    answered: Term
    handles: Term
    """By request and item; this number of them:"""
    count: Term
    rendering: Term
    """A ghost: how many requests P0 renders. Every change keeps it up to date."""

    @classmethod
    def none(cls, length: Term) -> Requests:
        """No request is there."""
        zero = z3.K(NUMBER, z3.IntVal(0))
        answers, handles = z3.K(NUMBER, zero), z3.K(NUMBER, z3.K(NUMBER, HANDLE.blank))
        return cls(length, zero, zero, zero, answers, zero, handles, zero, z3.IntVal(0))

    @classmethod
    def any(cls, name: str, length: Term) -> Requests:
        """Any requests."""
        known = {
            "phase": array(NUMBER, NUMBER),
            "touched": array(NUMBER, NUMBER),
            "walked": array(NUMBER, NUMBER),
            "answers": array(NUMBER, NUMBER, NUMBER),
            "answered": array(NUMBER, NUMBER),
            "handles": array(NUMBER, NUMBER, HANDLE.sort),
            "count": array(NUMBER, NUMBER),
            "rendering": NUMBER,
        }
        return cls(length, **{part: anything(f"{name}.{part}", sort) for part, sort in known.items()})

    @classmethod
    def known(cls, journeys: Iterable[Journey]) -> Requests:
        """These requests."""
        listed = tuple(journeys)
        one = cls.none(z3.IntVal(len(listed)))
        for number, journey in enumerate(listed):
            one = one.with_value(z3.IntVal(number), journey)
        return one

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            return Stretch(self, place)  # type: ignore[arg-type]  # as of any tuple
        request = integer_term(place)
        path().demand("the position is in the tuple", z3.And(request >= 0, request < self.length))
        path().assume(z3.And(self.count[request] >= 0, self.answered[request] >= 0))
        zero = z3.IntVal(0)
        journey: Any = Journey
        return journey(
            phase=read(self.phase, request),
            expected=Row(INTEGER, z3.simplify(self.answers[request]), zero, z3.simplify(self.answered[request])),
            touched=read(self.touched, request),
            walked=read(self.walked, request),
            handles=Row(HANDLE, z3.simplify(self.handles[request]), zero, z3.simplify(self.count[request])),
        )

    def with_value(self, place: Term, journey: Any) -> Requests:
        """One request replaced."""
        phase = integer_term(journey.phase)
        handles, answers = Row.of(HANDLE, journey.handles), Row.of(INTEGER, journey.expected)
        more = z3.If(phase == RENDERING, 1, 0) - z3.If(self.phase[place] == RENDERING, 1, 0)
        return Requests(
            self.length,
            phase=stored(self.phase, place, phase),
            touched=stored(self.touched, place, integer_term(journey.touched)),
            walked=stored(self.walked, place, integer_term(journey.walked)),
            answers=stored(self.answers, place, answers.items),
            answered=stored(self.answered, place, answers.last),
            handles=stored(self.handles, place, handles.items),
            count=stored(self.count, place, handles.last),
            rendering=self.rendering + more,
        )

    def but(self, *changed: str) -> Requests:
        """Any other ones with the same parts but for these."""
        return replace(self, **renewed_in(self, changed))

    def same_as(self, other: Requests) -> SymbolicBoolean:
        """Equal term by term: more than equality of what stands in the tuples."""
        return same_terms(self, other)


def stored(values: Term, place: Term, value: Any) -> Term:
    """The array with this value there; the array itself if it has this value already."""
    if z3.simplify(values[place]).eq(value):
        return values
    return z3.Store(values, place, value)


def read(values: Term, place: Term) -> SymbolicInteger:
    """The number that stands there."""
    return SymbolicInteger(z3.simplify(values[place]))


def renewed_in(one: Any, changed: Iterable[str]) -> dict[str, Term]:
    """Any other terms for these parts of the record."""
    return {part: anything(part, getattr(one, part).sort()) for part in changed}


def same_terms(one: Any, other: Any) -> SymbolicBoolean:
    """All parts of two records of terms are equal."""
    return SymbolicBoolean(z3.And(*(getattr(one, part) == getattr(other, part) for part in type(one).__slots__)))


# Workers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """What one worker has acknowledged."""

    slots: Term

    def has(self, slot: Any) -> SymbolicBoolean:
        """As of a map."""
        return SymbolicBoolean(self.slots[SLOT.encode(slot)])

    def set(self, slot: Any, value: int) -> Cell:
        """As of a map; each value is 1."""
        if value != 1:
            raise NotFollowedError("a cell holds nothing but 1")
        return Cell(z3.Store(self.slots, SLOT.encode(slot), z3.BoolVal(True)))

    def remove(self, slot: Any) -> Cell:
        """As of a map."""
        return Cell(z3.Store(self.slots, SLOT.encode(slot), z3.BoolVal(False)))

    def renewed(self, name: str) -> Cell:
        """Any other one."""
        return Cell(anything(name, self.slots.sort()))

    def same_as(self, other: Cell) -> SymbolicBoolean:
        """The same slots."""
        return same_terms(self, other)


@dataclass(frozen=True, slots=True, eq=False)
class Workers:
    """A tuple of workers."""

    length: Term
    items: Term
    """The inbox of each: what stands at each position, from the first to before the last:"""
    first: Term
    last: Term
    cells: Term
    doing: Term
    copied: Term

    @classmethod
    def none(cls, length: Term) -> Workers:
        """No worker was sent anything."""
        zero = z3.K(NUMBER, z3.IntVal(0))
        cells = z3.K(NUMBER, z3.K(SLOT.sort, z3.BoolVal(False)))
        items = z3.K(NUMBER, z3.K(NUMBER, DELIVERY.blank))
        return cls(length, items, zero, zero, cells, zero, z3.K(NUMBER, z3.IntVal(-1)))

    @classmethod
    def any(cls, name: str, length: Term) -> Workers:
        """Any workers."""
        known = {
            "items": array(NUMBER, NUMBER, DELIVERY.sort),
            "first": array(NUMBER, NUMBER),
            "last": array(NUMBER, NUMBER),
            "cells": array(NUMBER, SLOT.sort, TRUTH),
            "doing": array(NUMBER, NUMBER),
            "copied": array(NUMBER, NUMBER),
        }
        return cls(length, **{part: anything(f"{name}.{part}", sort) for part, sort in known.items()})

    @classmethod
    def known(cls, workers: Iterable[Any]) -> Workers:
        """These workers."""
        listed = tuple(workers)
        one = cls.none(z3.IntVal(len(listed)))
        for number, worker in enumerate(listed):
            cell = Cell(z3.K(SLOT.sort, z3.BoolVal(False)))
            for slot in (key for key, _ in worker.acknowledged.items()):
                cell = cell.set(slot, 1)
            one = one.with_value(z3.IntVal(number), worker._replace(acknowledged=cell))
        return one

    def __getitem__(self, place: Any) -> Any:
        if type(place) is slice:
            return Stretch(self, place)  # type: ignore[arg-type]  # as of any tuple
        reader = integer_term(place)
        path().demand("the position is in the tuple", z3.And(reader >= 0, reader < self.length))
        path().assume(self.first[reader] <= self.last[reader])
        worker: Any = Worker
        return worker(
            inbox=self.inbox(reader),
            acknowledged=Cell(z3.simplify(self.cells[reader])),
            doing=read(self.doing, reader),
            copied=read(self.copied, reader),
        )

    def inbox(self, reader: Term) -> Row:
        """What this worker was sent."""
        ends = (z3.simplify(each[reader]) for each in (self.first, self.last))
        return Row(DELIVERY, z3.simplify(self.items[reader]), *ends)

    def with_value(self, place: Term, worker: Any) -> Workers:
        """One worker replaced."""
        inbox = Row.of(DELIVERY, worker.inbox)
        return Workers(
            self.length,
            items=stored(self.items, place, inbox.items),
            first=stored(self.first, place, inbox.first),
            last=stored(self.last, place, inbox.last),
            cells=stored(self.cells, place, worker.acknowledged.slots),
            doing=stored(self.doing, place, integer_term(worker.doing)),
            copied=stored(self.copied, place, integer_term(worker.copied)),
        )

    def but(self, *changed: str) -> Workers:
        """Any other ones with the same parts but for these."""
        return replace(self, **renewed_in(self, changed))

    def same_as(self, other: Workers) -> SymbolicBoolean:
        """Equal term by term."""
        return same_terms(self, other)


# The store ----------------------------------------------------------------------------------------------------------

APART = ("requests", "workers")
"""Parts of a store that have more than a name."""


def lift(kind: Any, value: Any) -> Any:
    """The value as terms."""
    if kind is not Store:
        return states.lift(kind, value)
    requests = value.requests if type(value.requests) is Requests else Requests.known(value.requests)
    workers = value.workers if type(value.workers) is Workers else Workers.known(value.workers)
    return of_store(lambda hint, part: states.lift(hint, getattr(value, part)), requests, workers)


def fresh(kind: Any, name: str) -> Any:
    """Any value. Of a store, the numbers of its requests and workers are assumed with the configuration."""
    if kind is not Store:
        return states.fresh(kind, name)
    lengths = [path().fresh(f"{name}.{part}", NUMBER) for part in APART]
    path().hints += [lengths[0] <= 2, lengths[1] == 1]
    requests, workers = Requests.any("requests", lengths[0]), Workers.any("workers", lengths[1])
    return of_store(lambda hint, part: states.fresh(hint, f"{name}.{part}"), requests, workers)


def of_store(part_of: Callable[[Any, str], Any], requests: Requests, workers: Workers) -> Any:
    """A store with these requests and workers, and other parts by their types and names."""
    hints = hints_of(Store)
    others = {part: part_of(hints[part], part) for part in Store._fields if part not in APART}
    return Store(**others, requests=requests, workers=workers)  # type: ignore[arg-type]  # terms stand for tuples
