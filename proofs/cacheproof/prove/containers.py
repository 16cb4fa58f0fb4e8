"""The two containers of a state as terms: any number of entries, any keys.

A map is an array of members and an array of values, with its total and its length as *ghosts*: numbers that every
change keeps up to date. What makes a ghost the true sum is assumed where an entry is read, and each assumption is a law
that the contracts of `prove/contracts/containers.py` confirm on the frozen containers:

- a member's value is at most the total, if no value is negative; the same holds for a queue's weights;
- a container with a member has a positive length, and one of positive length has a member;
- an empty container has length and total 0;
- a member counts among the keys of its kind, and a kind that counts has a member;
- of two maps with the same values, one inside the other, the inner has no larger total; and if the outer one's is
  larger even apart from some key, it has another key that the inner has not.

The order of a queue is kept as *stamps*: a push takes the clock's time and advances it; a push to the front takes that
of a second clock, which runs backwards. So the oldest is the member with the least stamp. `owner` maps a stamp back to
its key, which makes stamps unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import (
    NotFollowedError,
    SymbolicBoolean,
    SymbolicInteger,
    Term,
    integer_term,
    path,
)
from cacheproof.prove.shapes import Shape


def every(shape: Shape, condition: Callable[[Term], Term]) -> Term:
    """The condition, for every key of this shape."""
    key = z3.Const("key", shape.sort)
    return z3.ForAll([key], condition(key))


def some(shape: Shape, condition: Callable[[Term], Term]) -> Term:
    """The condition, for some key of this shape."""
    key = z3.Const("key", shape.sort)
    return z3.Exists([key], condition(key))


def sum_is_at_most(inner: SymbolicMap | SymbolicQueue, outer: SymbolicMap) -> Term:
    """A law: a part of a map with the same numbers has at most the same sum."""
    return z3.Implies(_inside(inner, outer), inner.total_term <= outer.total_term)


def member_outside(inner: SymbolicMap, outer: SymbolicMap, apart: Any) -> Term:
    """A law: if the larger sum has more to give, apart from one key, another key is outside of the smaller map."""
    besides = outer.key.encode(apart)

    def left(one: SymbolicMap) -> Term:
        return one.total_term - z3.If(one.members[besides], one.values[besides], z3.IntVal(0))

    def outside(key: Term) -> Term:
        return z3.And(key != besides, outer.members[key], z3.Not(inner.members[key]))

    return z3.Implies(z3.And(_inside(inner, outer), left(outer) > left(inner)), some(outer.key, outside))


def _inside(inner: SymbolicMap | SymbolicQueue, outer: SymbolicMap) -> Term:
    numbers = inner.weights if type(inner) is SymbolicQueue else inner.values  # type: ignore[union-attr]  # by type

    def alike(key: Term) -> Term:
        return z3.Implies(inner.members[key], z3.And(outer.members[key], outer.values[key] == numbers[key]))

    return every(outer.key, alike)


def everyone_counts(one: SymbolicMap) -> Term:
    """A law: every member counts among its kind."""
    tally = one.tally
    if tally is None:
        raise NotFollowedError("this map has no tally")
    return every(one.key, lambda key: tally.law(one.members[key], one.subject(key, tally)))


def someone_counts(one: SymbolicMap) -> Term:
    """A law: a kind that counts has a member."""
    tally = one.tally
    if tally is None:
        raise NotFollowedError("this map has no tally")
    kind = z3.Const("kind", tally.counts.sort().domain())
    someone = path().fresh("someone", z3.ArraySort(kind.sort(), one.key.sort))
    there = z3.And(one.members[someone[kind]], tally.kind(one.subject(someone[kind], tally)) == kind)
    return z3.ForAll([kind], z3.Implies(tally.counts[kind] > 0, there), patterns=[tally.counts[kind]])


def one_if(condition: Term) -> Term:
    """1 or 0."""
    return z3.If(condition, z3.IntVal(1), z3.IntVal(0))


def ghost_length(members: Term, length: Term, key: Term) -> None:
    """The law of length, at one key."""
    path().assume(z3.And(length >= 0, z3.Implies(members[key], length > 0)))


def known_length(shape: Shape, members: Term, length: Term, total: Term) -> SymbolicInteger:
    """The length, where asked for: positive exactly if there is a member; nothing adds up to nothing."""
    someone = path().fresh("someone", shape.sort)
    path().assume(z3.And(length >= 0, z3.Implies(length > 0, members[someone])))
    nobody = z3.And(total == 0, every(shape, lambda key: z3.Not(members[key])))
    path().assume(z3.Implies(length == 0, nobody))
    return SymbolicInteger(length)


@dataclass(frozen=True, slots=True)
class Tally:
    """A ghost: the number of a map's keys of each kind. The kind belongs to the key, or to its value."""

    kind: Callable[[Term], Term]
    counts: Term
    by_value: bool = False

    def adjusted(self, subject: Term, change: Term) -> Tally:
        """The tally with this number more of the kind of this key or value."""
        kind = self.kind(subject)
        return replace(self, counts=z3.Store(self.counts, kind, self.counts[kind] + change))

    def law(self, member: Term, subject: Term) -> Term:
        """A member counts among its kind."""
        count = self.counts[self.kind(subject)]
        return z3.And(count >= 0, z3.Implies(member, count > 0))


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicMap:
    """Realises `cachespec.kernel.Map`. `counted` maps have no negative value: each `set` demands it."""

    key: Shape
    value: Shape
    members: Term
    values: Term
    length_term: Term
    total_term: Term
    counted: bool
    tally: Tally | None = None

    def __eq__(self, other: object) -> NoReturn:
        raise NotFollowedError("maps are compared with `same_map` in proofs, and not at all in transitions")

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def has(self, key: Any) -> SymbolicBoolean:
        term = self.key.encode(key)
        self._laws(term)
        return SymbolicBoolean(self.members[term])

    def get(self, key: Any, default: Any) -> Any:
        term = self.key.encode(key)
        self._laws(term)
        return self.value.decode(z3.If(self.members[term], self.values[term], self.value.encode(default)))

    def set(self, key: Any, value: Any) -> SymbolicMap:
        term, new = self.key.encode(key), self.value.encode(value)
        self._laws(term)
        if self.counted:
            path().demand("a counted value is not negative", new >= 0)
        added = new - self._number(term) if self.value.numeric else z3.IntVal(0)
        return replace(
            self,
            members=z3.Store(self.members, term, z3.BoolVal(True)),
            values=z3.Store(self.values, term, new),
            length_term=self.length_term + one_if(z3.Not(self.members[term])),
            total_term=self.total_term + added,
            tally=self._tally_with(term, new),
        )

    def remove(self, key: Any) -> SymbolicMap:
        term = self.key.encode(key)
        self._laws(term)
        return replace(
            self,
            members=z3.Store(self.members, term, z3.BoolVal(False)),
            length_term=self.length_term - one_if(self.members[term]),
            total_term=self.total_term - self._number(term) if self.value.numeric else self.total_term,
            tally=self._tally_without(term),
        )

    @property
    def length(self) -> SymbolicInteger:
        return known_length(self.key, self.members, self.length_term, self.total_term)

    @property
    def total(self) -> SymbolicInteger:
        if not self.value.numeric:
            raise NotFollowedError("only a map to integers has a total")
        return SymbolicInteger(self.total_term)

    def items(self) -> Iterable[tuple[Any, Any]]:
        raise NotFollowedError("a container of unknown length cannot be listed: `items` is for views only")

    def subject(self, key: Term, tally: Tally) -> Term:
        """The operand that decides the kind: the key, or its value."""
        return self.values[key] if tally.by_value else key

    def _tally_without(self, key: Term) -> Tally | None:
        tally = self.tally
        return tally and tally.adjusted(self.subject(key, tally), -one_if(self.members[key]))

    def _tally_with(self, key: Term, value: Term) -> Tally | None:
        tally = self.tally
        if tally is None or not tally.by_value:
            return tally and tally.adjusted(key, one_if(z3.Not(self.members[key])))
        without = self._tally_without(key)
        return without and without.adjusted(value, z3.IntVal(1))

    def _number(self, key: Term) -> Term:
        return z3.If(self.members[key], self.values[key], z3.IntVal(0))

    def _laws(self, key: Term) -> None:
        ghost_length(self.members, self.length_term, key)
        if self.counted:
            value = self.values[key]
            path().assume(z3.Implies(self.members[key], z3.And(value >= 0, value <= self.total_term)))
            path().assume(self.total_term >= 0)
        if self.tally:
            path().assume(self.tally.law(self.members[key], self.subject(key, self.tally)))


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicQueue:
    """Realises `cachespec.kernel.Queue`."""

    key: Shape
    members: Term
    weights: Term
    stamps: Term
    owner: Term
    clock: Term
    dawn: Term
    """The clock that runs backwards: every stamp lies between the two."""
    length_term: Term
    total_term: Term

    def __eq__(self, other: object) -> NoReturn:
        raise NotFollowedError("queues are compared with `same_queue` in proofs, and not at all in transitions")

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def has(self, key: Any) -> SymbolicBoolean:
        term = self.key.encode(key)
        self._laws(term)
        return SymbolicBoolean(self.members[term])

    def weight(self, key: Any, default: Any) -> SymbolicInteger:
        term = self.key.encode(key)
        self._laws(term)
        return SymbolicInteger(z3.If(self.members[term], self.weights[term], integer_term(default)))

    def push(self, key: Any, weight: Any) -> SymbolicQueue:
        return replace(self._stamped(key, weight, self.clock), clock=self.clock + 1)

    def push_front(self, key: Any, weight: Any) -> SymbolicQueue:
        return replace(self._stamped(key, weight, self.dawn), dawn=self.dawn - 1)

    def _stamped(self, key: Any, weight: Any, stamp: Term) -> SymbolicQueue:
        term, new = self.key.encode(key), integer_term(weight)
        self._laws(term)
        path().demand("a weight is not negative", new >= 0)
        return replace(
            self,
            members=z3.Store(self.members, term, z3.BoolVal(True)),
            weights=z3.Store(self.weights, term, new),
            stamps=z3.Store(self.stamps, term, stamp),
            owner=z3.Store(self.owner, stamp, term),
            length_term=self.length_term + one_if(z3.Not(self.members[term])),
            total_term=self.total_term - self._number(term) + new,
        )

    def remove(self, key: Any) -> SymbolicQueue:
        term = self.key.encode(key)
        self._laws(term)
        return replace(
            self,
            members=z3.Store(self.members, term, z3.BoolVal(False)),
            length_term=self.length_term - one_if(self.members[term]),
            total_term=self.total_term - self._number(term),
        )

    def oldest(self, default: Any) -> Any:
        first = self._oldest_where(lambda key: self.members[key], default)
        if first is default:
            path().assume(z3.And(self.length_term == 0, self.total_term == 0))
        return first

    def oldest_outside(self, excluded: Any, default: Any) -> Any:
        if type(excluded) is not SymbolicMap:
            raise NotFollowedError("`oldest_outside` takes a symbolic map")
        return self._oldest_where(lambda key: z3.And(self.members[key], z3.Not(excluded.members[key])), default)

    @property
    def length(self) -> SymbolicInteger:
        return known_length(self.key, self.members, self.length_term, self.total_term)

    @property
    def total(self) -> SymbolicInteger:
        return SymbolicInteger(self.total_term)

    def items(self) -> Iterable[tuple[Any, int]]:
        raise NotFollowedError("a container of unknown length cannot be listed: `items` is for views only")

    def _oldest_where(self, eligible: Callable[[Term], Term], default: Any) -> Any:
        """Either no key is eligible, or a fresh key is eligible and has the least stamp of all eligible keys."""
        if not SymbolicBoolean(path().fresh("anybody", z3.BoolSort())):
            path().assume(every(self.key, lambda key: z3.Not(eligible(key))))
            return default
        first = path().fresh("oldest", self.key.sort)
        self._laws(first)
        path().assume(eligible(first))
        path().assume(every(self.key, lambda key: z3.Implies(eligible(key), self.stamps[first] <= self.stamps[key])))
        return self.key.decode(first)

    def _number(self, key: Term) -> Term:
        return z3.If(self.members[key], self.weights[key], z3.IntVal(0))

    def _laws(self, key: Term) -> None:
        ghost_length(self.members, self.length_term, key)
        path().assume(
            z3.Implies(
                self.members[key],
                z3.And(
                    self.dawn < self.stamps[key],
                    self.stamps[key] < self.clock,
                    self.owner[self.stamps[key]] == key,
                    self.weights[key] >= 0,
                    self.weights[key] <= self.total_term,
                ),
            )
        )
        path().assume(self.total_term >= 0)
