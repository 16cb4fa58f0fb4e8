"""A tuple of records of unknown length as terms: code cuts it at a position, and puts other tuples behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicInteger, Term, integer_term, path
from cacheproof.prove.fifo import Fifo
from cacheproof.prove.lines import INTEGERS, each
from cacheproof.prove.sequences import Generated, known_number


@dataclass(frozen=True, slots=True, eq=False)
class Records(Fifo):
    """A queue that is also cut and joined. Its records are tuples of integers, or plain integers.

    One field is the key. The ghost `place_of` has a place for each key: that of its last record, as far as is known. A
    proof that goes by it demands `are_found`.
    """

    key: int
    """Which field."""
    place_of: Term
    """The number of the record with this key."""

    @classmethod
    def any(cls, record: Callable[..., Any], fields: int, key: int, name: str) -> Records:
        """Any tuple of such records."""
        queue = Fifo.fresh(record, (z3.IntSort(),) * fields, name)
        places = path().fresh(f"{name}.places", INTEGERS)
        return cls(queue.record, queue.columns, queue.first, queue.next, key, places)

    @classmethod
    def of(cls, record: Callable[..., Any], fields: int, key: int, values: Iterable[Any]) -> Records:
        """The tuple of these records."""
        empty, zero = z3.K(z3.IntSort(), z3.IntVal(0)), z3.IntVal(0)
        one = cls(record, (empty,) * fields, zero, zero, key, empty)
        for value in values:
            one = one.joined(value)
        return one

    @property
    def keys(self) -> Term:
        """The key of each record, by its number."""
        return self.columns[self.key]

    def is_in(self, number: Term) -> Term:
        """Whether a record has this number."""
        return z3.And(number >= self.first, number < self.next)

    def has(self, key: Term) -> Term:
        """Whether a record has this key, if the places are right."""
        return z3.And(self.is_in(self.place_of[key]), self.keys[self.place_of[key]] == key)

    def are_found(self, which: Callable[[Term], Term] = lambda number: z3.BoolVal(True)) -> Term:
        """The places of these records are right: no two of them have one key."""

        def right(number: Term) -> Term:
            counts = z3.And(self.is_in(number), which(number))
            return z3.Implies(counts, self.place_of[self.keys[number]] == number)

        return each(right, _trigger(self.keys))

    def joined(self, entry: Any) -> Records:
        """With one record more at its end."""
        fields = _fields(entry)
        longer = Fifo.joined(self, fields)
        places = z3.Store(self.place_of, integer_term(fields[self.key]), self.next)
        return replace(self, columns=longer.columns, next=longer.next, place_of=places)

    def followed_by(self, other: Any) -> Records:
        """With the records of another tuple behind its own."""
        part = _Known(other) if type(other) is Records else _Made(other, len(self.columns), self.key)
        columns = tuple(path().fresh("joined", INTEGERS) for _ in self.columns)
        for field, (new, old) in enumerate(zip(columns, self.columns, strict=True)):

            def alike(number: Term, new: Term = new, old: Term = old, field: int = field) -> Term:
                return new[number] == z3.If(number < self.next, old[number], part.value(field, number - self.next))

            path().assume(each(alike, _trigger(new)))
        places = path().fresh("places", INTEGERS)

        def placed(key: Term) -> Term:
            there, place = part.place(key)
            return places[key] == z3.If(there, self.next + place, self.place_of[key])

        path().assume(each(placed, _trigger(places)))
        return replace(self, columns=columns, next=self.next + part.length, place_of=places)

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not slice:
            return Fifo.__getitem__(self, place)
        if place.step is not None or (place.start is None) == (place.stop is None):
            raise NotFollowedError("a tuple of records is cut in two, and not otherwise")
        cut = self.first + integer_term(place.stop if place.start is None else place.start)
        path().demand("the position is in the tuple", z3.And(cut >= self.first, cut <= self.next))
        return replace(self, next=cut) if place.start is None else replace(self, first=cut)

    def __bool__(self) -> bool:
        return path().branch(self.first < self.next)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # of a known length it is listed
        count = known_number(self.length)
        if count is None:
            raise NotFollowedError("a tuple of unknown length cannot be listed: its loop needs to be cut")
        return (self[place] for place in range(count))

    __hash__ = None


def _fields(entry: Any) -> tuple[Any, ...]:
    return (entry,) if type(entry) in (SymbolicInteger, int) else tuple(entry)


def _trigger(array: Term) -> Callable[[Term], Term] | None:
    """The sight of a value of the array; none for an array that was written to."""
    known = z3.is_const(array) and not z3.is_const_array(array)
    return (lambda place: array[place]) if known else None


class _Known:
    """Records that are put behind others."""

    def __init__(self, records: Records) -> None:
        self.records, self.length = records, records.length

    def value(self, field: int, place: Term) -> Term:
        return self.records.columns[field][self.records.first + place]

    def place(self, key: Term) -> tuple[Term, Term]:
        return self.records.has(key), self.records.place_of[key] - self.records.first


class _Made:
    """Records that a function makes, of 0, 1, 2 and so on; or a known tuple of them."""

    def __init__(self, made: Any, fields: int, key: int) -> None:
        self.number = path().fresh("number", z3.IntSort())
        self.key, self.length = key, z3.IntVal(0)
        self.keys: list[Term] | None = None
        if type(made) is not Generated:
            known = tuple(_fields(entry) for entry in made)
            self.length = z3.IntVal(len(known))
            self.made = tuple(_choice(self.number, [entry[field] for entry in known]) for field in range(fields))
            self.keys = [integer_term(entry[key]) for entry in known]
        else:
            self.length = made.length
            self.made = tuple(integer_term(value) for value in _fields(made.function(SymbolicInteger(self.number))))

    def value(self, field: int, place: Term) -> Term:
        return z3.substitute(self.made[field], (self.number, place))

    def place(self, key: Term) -> tuple[Term, Term]:
        """Keys that follow one another have places; of other keys, no place is known."""
        if self.keys is not None:
            there = z3.Or(*(key == one for one in self.keys))
            return there, _choice(key, list(range(len(self.keys))), self.keys)
        first = z3.simplify(z3.substitute(self.made[self.key], (self.number, z3.IntVal(0))))
        follows = z3.simplify(self.made[self.key] - first - self.number)
        if not z3.is_int_value(follows):
            return z3.BoolVal(False), z3.IntVal(0)
        place = key - first
        return z3.And(place >= 0, place < self.length), place


def _choice(number: Term, values: list[Any], names: list[Term] | None = None) -> Term:
    """The value of this number, or of this name."""
    chosen: Term = z3.IntVal(0)
    for place, value in reversed(list(enumerate(values))):
        chosen = z3.If(number == (place if names is None else names[place]), integer_term(value), chosen)
    return chosen
