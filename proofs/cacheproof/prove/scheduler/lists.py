"""Lists of items of one request as terms, with what tells where an item or a content is in the list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import SymbolicInteger, Term, integer_term, path
from cacheproof.prove.scheduler.entries import fresh_array, is_item, item_of
from cacheproof.prove.scheduler.queues import INTEGERS


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Some items of one request, in the order in which they were added."""

    config: Any
    request: Term
    items: Term
    """The places of the items in the request."""
    places: Term
    """Where in this list each of them is."""
    contents: Term
    """Where in this list each content is."""
    sums: Term
    """The lengths of the items before each place of the list."""
    length: Term

    @classmethod
    def fresh(cls, config: Any, request: Term, name: str) -> Listed:
        """Any list."""
        items, places, contents, sums = (
            fresh_array(f"{name}.{part}", INTEGERS) for part in ("items", "places", "contents", "sums")
        )
        return cls(config, request, items, places, contents, sums, path().fresh(f"{name}.length", z3.IntSort()))

    @classmethod
    def of(cls, config: Any, request: Term, value: Any) -> Listed:
        """The list itself, or the empty one."""
        if type(value) is Listed:
            return value
        zeros = z3.K(z3.IntSort(), z3.IntVal(0))
        listed = cls(config, request, zeros, zeros, zeros, zeros, z3.IntVal(0))
        for index in value:
            listed = listed.joined(index)
        return listed

    def item(self, place: Term) -> Any:
        """The item at a place of the list."""
        return item_of(self.config, self.request, self.items[place])

    @property
    def total(self) -> Term:
        """The lengths of all."""
        return self.sums[self.length]

    def joined(self, index: Any) -> Listed:
        """With one item more."""
        term, end = integer_term(index), self.length
        item = item_of(self.config, self.request, term)
        return replace(
            self,
            items=z3.Store(self.items, end, term),
            places=z3.Store(self.places, term, end),
            contents=z3.Store(self.contents, item.content, end),
            sums=z3.Store(self.sums, end + 1, self.sums[end] + item.length),
            length=end + 1,
        )

    def has(self, index: Term) -> Term:
        """Whether the item is in the list."""
        place = self.places[index]
        return z3.And(place >= 0, place < self.length, self.items[place] == index)

    def has_content(self, content: Term) -> Term:
        """Whether an item of the list shows the content."""
        place = self.contents[content]
        return z3.And(place >= 0, place < self.length, self.item(place).content == content)

    def laws(self) -> Iterable[Term]:
        """Every item of the list is one of the request, and is found by its place."""
        yield self.length >= 0
        yield self.each(lambda index: is_item(self.config, self.request, index))
        yield self.at_each(lambda place: self.places[self.items[place]] == place)

    def laws_of_room(self) -> Iterable[Term]:
        """Every item is found by its content, and the sums are those of the lengths."""
        yield z3.And(self.sums[0] == 0, self.total >= 0)
        yield self.at_each(lambda place: self.has_content(self.item(place).content))
        yield self.at_each(lambda place: self.sums[place + 1] == self.sums[place] + self.item(place).length)
        yield self.at_each(lambda place: self.sums[place + 1] <= self.total)

    def ascends(self) -> Term:
        """The items are in prompt order, each once."""
        place, later = z3.Ints("place later")
        inside = z3.And(place >= 0, place < later, later < self.length)
        return z3.ForAll([place, later], z3.Implies(inside, self.items[place] < self.items[later]))

    def each(self, condition: Any) -> Term:
        """The condition, of the place in the request of every item in the list."""
        return self.at_each(lambda place: condition(self.items[place]))

    def at_each(self, condition: Any) -> Term:
        """The condition, of every place of the list."""
        place = z3.Int("place")
        inside = z3.And(place >= 0, place < self.length)
        return z3.ForAll([place], z3.Implies(inside, condition(place)), patterns=[self.items[place]])

    def symbolic_length(self) -> SymbolicInteger:
        """`len`."""
        return SymbolicInteger(self.length)

    def __getitem__(self, place: Any) -> SymbolicInteger:
        position = integer_term(place)
        path().demand("the position is in the tuple", z3.And(position >= 0, position < self.length))
        return SymbolicInteger(self.items[position])
