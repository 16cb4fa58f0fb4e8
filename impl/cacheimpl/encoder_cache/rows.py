"""Which row of a table stands for which name. Rows are given out, and taken back when nothing refers to them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

Named = TypeVar("Named", bound=Hashable)


class Rows(Generic[Named]):
    """A row for each name, the lowest free one first."""

    def __init__(self, count: int) -> None:
        self._rows: dict[Named, int] = {}
        self._names: list[Named | None] = [None] * count
        self._free = list(range(count))[::-1]

    def __contains__(self, name: Named) -> bool:
        return name in self._rows

    def __getitem__(self, name: Named) -> int:
        """The row of a known name."""
        return self._rows[name]

    def of(self, names: Iterable[Named]) -> list[int]:
        """The rows of known names."""
        return [*map(self._rows.__getitem__, names)]

    def get(self, name: Named) -> int | None:
        """The row of a name; None where it has none."""
        return self._rows.get(name)

    @property
    def full(self) -> bool:
        """Whether a new name has no row to go to."""
        return not self._free

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self._names)

    def name(self, row: int) -> Named:
        """The name of a row that is taken."""
        name = self._names[row]
        if name is None:
            raise LookupError(f"row {row} stands for nothing")
        return name

    def items(self) -> list[tuple[Named, int]]:
        """Names and rows, in the order in which rows were given out."""
        return list(self._rows.items())

    def add(self, name: Named) -> int:
        """Give the name a row; there must be one, and the name must be new."""
        row = self._free.pop()
        self._rows[name], self._names[row] = row, name
        return row

    def remove(self, name: Named) -> int:
        """Take the row of a known name back."""
        row = self._rows.pop(name)
        self._names[row] = None
        self._free.append(row)
        return row

    def added(self, names: Iterable[Named]) -> list[int]:
        """Give these names a row each, as `add` does one after the other; there must be enough, and all must be new."""
        given = dict(zip(names, reversed(self._free), strict=False))
        del self._free[len(self._free) - len(given) :]
        self._rows.update(given)
        for name, row in given.items():
            self._names[row] = name
        return [*given.values()]

    def removed(self, names: Iterable[Named]) -> list[int]:
        """Take the rows of these known names back, as `remove` does one after the other."""
        rows = [*map(self._rows.pop, names)]
        for row in rows:
            self._names[row] = None
        self._free += rows
        return rows

    def keep(self, used: Collection[int]) -> list[int]:
        """Take back every row that is not used; returns those that were."""
        return [self.remove(name) for name, row in self.items() if row not in used]

    def copy(self) -> Rows[Named]:
        """The same rows for the same names, to go back to."""
        other: Rows[Named] = Rows(0)
        other._rows, other._names, other._free = dict(self._rows), list(self._names), list(self._free)
        return other

    def grow(self, count: int) -> None:
        """So many rows in all."""
        self._free = [*range(self.count, count)[::-1], *self._free]
        self._names.extend([None] * (count - self.count))
