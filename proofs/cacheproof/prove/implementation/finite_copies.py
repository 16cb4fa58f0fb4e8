"""A map from a kind to its members in their order, and the members of one kind as a tuple of unknown length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cacheproof.prove.executor import NotFollowedError, path
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell, term
from cacheproof.prove.implementation.finite import agree, choose, meant, value_of
from cacheproof.prove.implementation.finite_lists import FiniteList


class Copies(FiniteList):
    """The members of a kind. The first of them is read, and one is appended, without a decision on their number."""

    __slots__ = ()

    @property
    def length(self) -> Any:
        """How many there are."""
        return value_of(self.count)

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not int or place < 0:
            return super().__getitem__(place)
        there = term(cells.less(place, self.count))
        path().demand("the position is in the tuple", there)
        path().assume(there)
        return self.rows[place]

    def with_last(self, item: Any) -> Copies:
        """With this one behind them."""
        rows = [choose(cells.equal(self.count, place), item, row) for place, row in enumerate(self.rows)]
        return Copies((*rows, item), cells.add(self.count, 1))


@dataclass(frozen=True, slots=True, eq=False)
class FiniteCopies:
    """Realises `cachespec.kernel.Map` from a kind to the members of that kind in their order; no member has two kinds.

    How many members a kind has stays unknown until a reader needs their number.
    """

    ranks: Mapping[int, Cell]
    """For each member that there can be, its place among those of its kind; -1 outside."""
    kinds: Mapping[int, Any]
    """Its kind, a value of the specification; any kind if it is absent."""

    def get(self, kind: Any, default: Any) -> Any:
        inside = {one: self.of_kind(one, kind) for one in self.ranks}
        count = cells.count(inside.values())
        if default != ():
            raise NotFollowedError("a kind without members has another value than ()")
        return Copies((self._at(turn, inside) for turn in range(len(self.ranks))), count)

    def _at(self, turn: int, inside: Mapping[int, Cell]) -> Any:
        member: Cell = 0
        for one, rank in self.ranks.items():
            member = cells.choose(cells.every((inside[one], cells.equal(rank, turn))), one, member)
        return value_of(member)

    def set(self, kind: Any, members: Any) -> FiniteCopies:
        ranks, kinds = dict(self.remove(kind).ranks), dict(self.kinds)
        listed = members if type(members) is Copies else Copies(members, len(members))
        for turn, member in enumerate(listed.rows):
            for one, same in meant(self.ranks, member):
                here = cells.every((same, cells.less(turn, listed.count)))
                ranks[one] = cells.choose(here, turn, ranks[one])
                kinds[one] = kind if here is True else choose(here, kind, kinds[one])
        return FiniteCopies(ranks, kinds)

    def remove(self, kind: Any) -> FiniteCopies:
        left = {one: cells.choose(self.of_kind(one, kind), -1, rank) for one, rank in self.ranks.items()}
        return replace(self, ranks=left)

    def of_kind(self, member: int, kind: Any) -> Cell:
        """Whether a member is present, and of this kind."""
        return cells.every((cells.at_most(0, self.ranks[member]), agree(self.kinds[member], kind)))

    def agrees(self, other: FiniteCopies) -> Cell:
        """The same members of the same kinds, in the same order."""
        return cells.every(
            cells.every(
                (
                    cells.equal(rank, other.ranks[one]),
                    cells.some((cells.less(rank, 0), agree(self.kinds[one], other.kinds[one]))),
                )
            )
            for one, rank in self.ranks.items()
        )

    def __eq__(self, other: object) -> Any:
        return value_of(self.agrees(other)) if isinstance(other, FiniteCopies) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly
