"""Tuples of a state with unknown length: the path decides the length when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cacheproof.prove.executor import NotFollowedError, SymbolicInteger
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.finite import agree, value_of


class FiniteRow(tuple[Any, ...]):
    """A tuple that is read at unknown positions too: which one it is, is asked of the path."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Any:
        if type(place) is not SymbolicInteger:
            return super().__getitem__(place)
        for index in range(len(self)):
            if place == index:
                return super().__getitem__(index)
        raise NotFollowedError(f"a position in a tuple of {len(self)} is not in it")


class FiniteList:
    """A tuple of unknown length: the first of some rows. Each reader asks the path for the length."""

    __slots__ = ("_read", "count", "rows")

    def __init__(self, rows: Iterable[Any], count: Cell) -> None:
        self.rows, self.count = tuple(rows), count
        self._read: FiniteRow | None = None

    def read(self) -> FiniteRow:
        """The rows that are there, on this path."""
        if self._read is None:
            lengths = range(len(self.rows) + 1)
            length = next((one for one in lengths if value_of(cells.equal(self.count, one))), None)
            if length is None:
                raise NotFollowedError("more rows than there can be")
            self._read = FiniteRow(self.rows[:length])
        return self._read

    def __len__(self) -> int:
        return len(self.read())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read())

    def __getitem__(self, place: Any) -> Any:
        return self.read()[place]

    def __eq__(self, other: object) -> Any:
        return value_of(self.agrees(other))

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly

    def agrees(self, other: Any) -> Cell:
        """As many rows, and the same ones."""
        count = other.count if type(other) is FiniteList else len(other)
        rows = other.rows if type(other) is FiniteList else tuple(other)
        both = zip(self.rows, rows, strict=False)
        same = (cells.some((cells.at_most(count, place), agree(*pair))) for place, pair in enumerate(both))
        return cells.every((cells.equal(self.count, count), cells.at_most(count, len(self.rows)), *same))
