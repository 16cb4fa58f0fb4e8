"""Tuples of a state with unknown length, or of unknown order: the path decides them when they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

from cacheproof.prove.executor import NotFollowedError, Path, SymbolicInteger, path
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.finite import agree, cell_of, choose, value_of


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


class ReadOnPath(ABC):
    """A sequence whose length depends on the path."""

    __slots__ = ()

    @abstractmethod
    def read(self) -> tuple[Any, ...]:
        """What is there, on this path."""

    @abstractmethod
    def agrees(self, other: Any) -> Cell:
        """Whether the other sequence has as many entries, and the same ones."""

    def __len__(self) -> int:
        return len(self.read())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read())

    def __getitem__(self, place: Any) -> Any:
        return self.read()[place]

    def __eq__(self, other: object) -> Any:
        return value_of(self.agrees(other))

    __hash__ = None  # type: ignore[assignment]  # as a key of a dict it must fail loudly


class FiniteList(ReadOnPath):
    """A tuple of unknown length: the first of some rows. Each reader asks the path for the length."""

    __slots__ = ("_path", "_read", "count", "rows")

    def __init__(self, rows: Iterable[Any], count: Cell) -> None:
        self.rows, self.count = tuple(rows), count
        self._read: FiniteRow = FiniteRow()
        self._path: Path | None = None

    def read(self) -> FiniteRow:
        """The rows that are there, on this path."""
        if self._path is not path():
            lengths = range(len(self.rows) + 1)
            length = next((one for one in lengths if value_of(cells.equal(self.count, one))), None)
            if length is None:
                raise NotFollowedError("more rows than there can be")
            self._read, self._path = FiniteRow(self.rows[:length]), path()
        return self._read

    def or_else(self, condition: Cell, other: Any) -> FiniteList:
        """This one if the condition holds, otherwise the other one."""
        count = other.count if type(other) is FiniteList else len(other)
        rows = other.rows if type(other) is FiniteList else tuple(other)
        both = zip_longest(self.rows, rows)
        chosen = (mine if its is None else its if mine is None else choose(condition, mine, its) for mine, its in both)
        return FiniteList(chosen, cells.choose(condition, self.count, count))

    def agrees(self, other: Any) -> Cell:
        """As many rows, and the same ones."""
        count = other.count if type(other) is FiniteList else len(other)
        rows = other.rows if type(other) is FiniteList else tuple(other)
        both = zip(self.rows, rows, strict=False)
        same = (cells.some((cells.at_most(count, place), agree(*pair))) for place, pair in enumerate(both))
        return cells.every((cells.equal(self.count, count), cells.at_most(count, len(self.rows)), *same))


class FiniteLine(ReadOnPath):
    """Some of the names 0, 1, 2 and so on, each at most once, in an unknown order. Each reader asks the path for it."""

    __slots__ = ("_path", "_read", "entry", "name", "ranks")

    def __init__(
        self,
        ranks: Iterable[Cell],
        entry: Callable[[int], Any] = lambda name: name,
        name: Callable[[Any], int] = lambda entry: entry,
    ) -> None:
        """`ranks`: the place of each name, -1 outside. `entry` makes an entry of a name, `name` tells its name."""
        self.ranks, self.entry, self.name = tuple(ranks), entry, name
        self._read: tuple[Any, ...] = ()
        self._path: Path | None = None

    def read(self) -> tuple[Any, ...]:
        """What is there, on this path."""
        if self._path is not path():
            order = [name for place in range(len(self.ranks)) for name in self._at(place)]
            self._read, self._path = tuple(map(self.entry, order)), path()
        return self._read

    def _at(self, place: int) -> list[int]:
        """The name at this place, if there is one."""
        return [name for name, rank in enumerate(self.ranks) if value_of(cells.equal(rank, place))]

    def agrees(self, other: Any) -> Cell:
        """The same names in the same order, with the same entries; which name an entry of the other has may be open."""
        if type(other) is FiniteLine:
            both = zip(self.ranks, other.ranks, strict=True)
            same = [cells.equal(mine, its) for mine, its in both]
            entries = ((rank, self.entry(name), other.entry(name)) for name, rank in enumerate(self.ranks))
            same += [cells.some((cells.less(rank, 0), agree(mine, its))) for rank, mine, its in entries]
            return cells.every(same)
        named = [(place, cell_of(self.name(entry)), entry) for place, entry in enumerate(other)]
        same = [cells.some(cells.equal(its, name) for name in range(len(self.ranks))) for _, its, _ in named]
        for name, rank in enumerate(self.ranks):
            meant = [(place, cells.equal(its, name), entry) for place, its, entry in named]
            same.append(cells.some((cells.equal(rank, -1), *(here for _, here, _ in meant))))
            for place, here, entry in meant:
                if here is not False:
                    alike = cells.every((cells.equal(rank, place), agree(self.entry(name), entry)))
                    same.append(cells.some((cells.inverse(here), alike)))
        return cells.every(same)
