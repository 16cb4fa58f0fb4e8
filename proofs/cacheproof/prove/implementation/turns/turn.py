"""One turn of many: the graph of one turn, in which running sums go on from the turns before.

Of the turns before, only what the graph itself carries over is known: for each running sum its value before this turn,
and for each tensor that is moved by one turn its element of the turn before. What the other turns have added to an
element of a column is unknown, and so is the last turn that names it. The same graph with nothing carried over is the
call for one turn alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import getitem
from typing import Any

import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types
from torch.fx import Node
from torch.fx.node import map_arg

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.call import Call, Duties
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.graph import results_of
from cacheproof.prove.implementation.kinds import KINDS, elementwise
from cacheproof.prove.implementation.tensors import CellTensor, of
from cacheproof.prove.implementation.turns.tracing import CONSTANT, MANY, Numbers, Traced

WITHIN_A_TURN = frozenset({
    *elementwise.KINDS, "aten._to_copy.default", "aten.view.default", "aten.unsqueeze.default", "aten.expand.default",
    "aten.full_like.default", "aten.zeros_like.default", "aten.ones_like.default", "aten.lift_fresh_copy.default",
    "aten.flip.default",
})  # fmt: skip
"""Kinds that give each turn a result of the tensors of this turn alone."""
RUNNING, TOTAL, PADDED = "aten.cumsum.default", "aten.sum.default", "aten.constant_pad_nd.default"
MASKED, NUMBERED, FLIPPED = "aten.bitwise_and.Tensor", "aten.arange.default", "aten.flip.default"
FILLED, SCALAR, LOWERED = "aten.full_like.default", "aten.scalar_tensor.default", "aten.scatter_reduce_.two"
TURNS = z3.Int("turns")
"""The number of turns of the burst."""


@dataclass(frozen=True, slots=True)
class Column:
    """A tensor of the pool with any number of elements: an unknown function of the place, row by row."""

    name: str
    dtype: torch.dtype
    width: int | None = None
    """How many elements a row has, of a tensor with two axes; 0 if that is unknown, None if there are no rows."""
    added: Callable[[Cell], Cell] = lambda _: 0
    """What has been added to the element of a place before."""

    def at(self, place: Cell) -> Cell:
        """The element of a place."""
        sort = z3.BoolSort() if self.dtype == torch.bool else z3.IntSort()
        return cells.add(z3.Function(self.name, z3.IntSort(), sort)(cells.term(place)), self.added(place))


@dataclass(frozen=True, slots=True)
class Write:
    """One element that a turn writes into a column."""

    place: Cell
    value: Cell
    adds: bool


@dataclass(frozen=True, slots=True)
class Written:
    """A column after the writes of a turn."""

    column: Column
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """A new column that holds this number everywhere, and then the least of what turns put into it."""

    number: int
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """An element to which several turns add, read when all have added to it."""

    column: Column
    place: Cell
    before: Cell
    """What the turns before this one add to it."""
    own: Cell
    behind: Cell
    """What the turns behind this one add to it."""
    named: tuple[Cell, ...]
    """All places to which this turn adds."""

    @property
    def last(self) -> Cell:
        """The last turn that names the element."""
        return LAST(cells.term(self.place))

    @property
    def after(self) -> Cell:
        """The element when all turns have added to it."""
        return cells.total((self.column.at(self.place), self.before, self.own, self.behind))


Value = CellTensor | Column | Written | Marks


@dataclass(slots=True)
class Turn:
    """The values of one turn. `carried` holds what comes from the turns before, by node; None: the turn is alone.

    `total`: the sums over all turns are those of the turns before. So the results of the burst are those of a burst
    that ends before this turn.
    """

    traced: Traced
    inputs: Mapping[str, Value]
    carried: Mapping[str, Cell] | None
    total: bool = False
    name: str = "turn"
    """Unknown numbers of this turn have names that begin with it."""
    position: Cell = 0
    """How many turns are before this one."""
    next: dict[str, Cell] = field(default_factory=dict)
    """What the turn after this one gets."""
    start: dict[str, Cell] = field(default_factory=dict)
    """What the first turn gets."""
    reads: list[tuple[Column, Cell]] = field(default_factory=list)
    """Places of columns that are read."""
    shared: list[Shared] = field(default_factory=list)
    """Elements that are read when all turns have added to them."""
    counts: set[str] = field(default_factory=set)
    """Running sums of truth values: they never fall."""
    wrapped: list[Cell] = field(default_factory=list)
    """Places of the queue that are wrapped, as they were before."""
    named: list[tuple[Cell, ...]] = field(default_factory=list)
    """Places of which the last turn that names them is asked for."""
    _known: dict[Node, Any] = field(default_factory=dict)

    def result(self, name: str) -> Value:
        """A result of the burst."""
        value: Value = self._value(self.traced.node_of(name))
        return value

    def cells(self, name: str) -> tuple[Cell, ...]:
        """The elements of a result, of this turn or of all."""
        value = self.result(name)
        if not isinstance(value, CellTensor):
            raise NotFollowedError(f"{name} is a whole column")
        return value.cells

    def writes(self, name: str) -> Written:
        """A result that is a column of the pool."""
        value = self.result(name)
        if isinstance(value, Column):
            return Written(value, ())
        if not isinstance(value, Written):
            raise NotFollowedError(f"{name} is no column")
        return value

    def _value(self, node: Node) -> Any:
        """Values are found when they are asked for, so that what no result needs may be of any kind."""
        if node not in self._known:
            for one in node.all_input_nodes:
                if one.op != CONSTANT:
                    self._value(one)
            self._known[node] = self._made(node)
        return self._known[node]

    def _made(self, node: Node) -> Any:
        if node.op == "placeholder":
            names = {one: name for name, one in self.traced.placeholders().items()}
            return self.inputs[names[node]]
        given = tuple(self._argument(node, place, argument) for place, argument in enumerate(node.args))
        arguments: Any = map_arg(given, lambda one: self._known[one])
        keywords: Any = map_arg(node.kwargs, lambda one: self._known[one])
        if node.target is getitem:
            return arguments[0][arguments[1]]
        return self._called(node, str(node.target), arguments, keywords)

    def _argument(self, node: Node, place: int, argument: Any) -> Any:
        """An argument; a number or constant that is not the same in all graphs is unknown."""
        if (node.name, place) in self.traced.constants:
            example = of(getattr(self.traced.module, str(argument.target)))
            return replace(example, cells=tuple(map(self._number, self.traced.constants[node.name, place])))
        numbers, name = self.traced.numbers.get((node.name, place)), str(node.target)
        if numbers is not None and name in elementwise.KINDS:
            return CellTensor((), torch.int64, (self._number(numbers),))
        if numbers is not None and name in (FILLED, SCALAR):
            return self._number(numbers)
        if numbers is not None and numbers[0] != numbers[-1]:
            raise NotFollowedError(f"{name} of a number that depends on the pool is not followed")
        return argument

    def _called(self, node: Node, name: str, arguments: Any, keywords: Any) -> Any:
        call = Call(node.target, Duties(), results_of(node))  # type: ignore[arg-type]  # of a call it is a function
        if isinstance(arguments[0], Column | Written | Marks):
            return self._of_column(name, arguments)
        of_turns = [one for one in node.all_input_nodes if one.name in self.traced.of_turns]
        if name == MASKED and call.dtype != torch.bool:
            made = [wrapped(a, b) for a, b in elementwise.pairs(call, *arguments)]
            self.wrapped += [one.arg(0) for one in made]
            return call.tensor(made)
        if of_turns and name in (RUNNING, TOTAL):
            return self._summed(node, call, name, arguments)
        if of_turns and name == PADDED:
            return self._moved_on(node, call, arguments)
        if name == SCALAR:
            return call.tensor(arguments[:1])
        if name == NUMBERED and node.name in self.traced.of_turns:
            return call.tensor([self.position])
        if name == FLIPPED and min(arguments[1]) < 1:
            raise NotFollowedError(f"{name} of the order of the turns is not followed")
        if name in NOT_LINEAR and call.dtype != torch.bool:
            return call.tensor([NOT_LINEAR[name](a, b) for a, b in elementwise.pairs(call, *arguments)])
        if of_turns and self.carried is not None and name not in WITHIN_A_TURN and not self._is_shifted(node):
            raise NotFollowedError(f"{name} of several turns is not followed")
        kind = KINDS.get(name)
        if kind is None:
            raise NotFollowedError(f"the kind of node {name} is not followed")
        return kind(call, *arguments, **keywords)

    def _summed(self, node: Node, call: Call, name: str, arguments: Any) -> CellTensor:
        """A sum over the turns, of the elements of this turn and of all before."""
        tensor = arguments[0]
        if len(tensor.shape) != 1 or (name == RUNNING and arguments[1] not in (0, -1)):
            raise NotFollowedError(f"{name} along another axis than that of the turns is not followed")
        before: Cell = 0 if self.carried is None else self.carried[node.name]
        self.start[node.name] = 0
        if tensor.dtype == torch.bool:
            self.counts.add(node.name)
        sums = [before]
        for cell in tensor.cells:
            sums.append(cells.add(sums[-1], cells.number(cell)))
        self.next[node.name] = sums[-1]
        if name == TOTAL:
            return call.tensor([before if self.total else sums[-1]])
        return call.tensor(sums[1:])

    def _moved_on(self, node: Node, call: Call, arguments: Any) -> CellTensor:
        """One element before the first turn: each turn then has that of the turn before it."""
        tensor, widths, *number = arguments
        if tuple(widths) != (1, 0) or tensor.shape != (1,):
            raise NotFollowedError("only a tensor that is moved on by one turn is followed")
        truth = call.dtype == torch.bool
        first: Cell = bool(number[0]) if truth else int(number[0])
        before = first if self.carried is None else self.carried[node.name]
        self.start[node.name], self.next[node.name] = first, tensor.cells[0]
        return CellTensor((2,), call.dtype, (before, tensor.cells[0]))

    @staticmethod
    def _is_shifted(node: Node) -> bool:
        """Whether the last element is cut off of what was moved on: each turn has that of the turn before."""
        source = node.args[0]
        moved_on = isinstance(source, Node) and str(source.target) == PADDED
        return moved_on and str(node.target) == "aten.slice.Tensor" and tuple(node.args[1:]) == (0, 0, -1)

    def _of_column(self, name: str, arguments: Any) -> Any:
        source, *rest = arguments
        if name == "aten.view.default":
            return replace(source, width=None) if isinstance(source, Column) else source
        if name == "aten.index_select.default" and rest[0] == 0:
            return self._selected(source, rest[1])
        if name == FILLED:
            return Marks(rest[0])
        if name == LOWERED and isinstance(source, Marks) and rest[3] == "amin":
            return replace(source, writes=(*source.writes, *_writes(rest[1], rest[2], adds=False)))
        if name in ("aten.scatter.src", "aten.scatter.value", ADDED) and not isinstance(source, Marks):
            before = source if isinstance(source, Written) else Written(source, ())
            return Written(before.column, (*before.writes, *_writes(rest[1], rest[2], adds=name == ADDED)))
        raise NotFollowedError(f"{name} of a whole column is not followed")

    def _selected(self, source: Column | Written | Marks, index: CellTensor) -> CellTensor:
        """The elements, or whole rows, of these places."""
        if isinstance(source, Marks):
            return CellTensor(index.shape, torch.int64, tuple(self._least(source, index.cells)))
        if isinstance(source, Written):
            return CellTensor(index.shape, source.column.dtype, tuple(self._added_to(source, index.cells)))
        if source.width == 0:
            raise NotFollowedError(f"rows of {source.name} are not followed: their size is unknown")
        if source.width is None:
            places, shape = index.cells, index.shape
        else:
            shape = (*index.shape, source.width)
            places = tuple(cells.multiply(row, source.width) + at for row in index.cells for at in range(source.width))
        self.reads += [(source, place) for place in places]
        return CellTensor(shape, source.dtype, tuple(map(source.at, places)))

    def _added_to(self, written: Written, places: Iterable[Cell]) -> Iterator[Cell]:
        """What is there when all turns have added to it."""
        if not all(write.adds for write in written.writes):
            raise NotFollowedError("what is read after it was written is not followed")
        named = tuple(one.place for one in written.writes)
        for place in places:
            own = cells.total(cells.choose(cells.equal(one.place, place), one.value, 0) for one in written.writes)
            if self.carried is None:
                yield cells.add(written.column.at(place), own)
                continue
            before, behind = (
                added(written.column.name, self.name, side)(cells.term(place)) for side in ("before", "behind")
            )
            self.shared.append(Shared(written.column, place, before, own, behind, named))
            yield self.shared[-1].after

    def _least(self, marks: Marks, places: tuple[Cell, ...]) -> Iterator[Cell]:
        """The least number that is put there; of many turns, each has to put its position with the other sign."""
        if self.carried is not None:
            turns = (z3.simplify(cells.term(cells.add(write.value, self.position))) for write in marks.writes)
            if not all(z3.is_int_value(one) and one.as_long() == 0 for one in turns):
                raise NotFollowedError("the least of anything but of turns that are counted downwards is not followed")
            named = tuple(write.place for write in marks.writes)
            if not all(any(cells.same(place, one) for one in named) for place in places):
                raise NotFollowedError("the least number of a place that the turn does not name is not followed")
            self.named.append(named)
            yield from (-LAST(cells.term(place)) for place in places)
            return
        for place in places:
            mine = (cells.choose(cells.equal(one.place, place), one.value, marks.number) for one in marks.writes)
            yield cells.fold(cells.smaller, mine)

    def _number(self, numbers: Numbers) -> Cell:
        """A number that may depend on the number of turns, as a sum with it, or on the sizes of the pool."""
        one, *many, larger = numbers
        if len(set(numbers)) == 1:
            return one
        if all(number == one for number in many):
            return z3.Int(f"size.{one}.{larger}")
        slope = (many[0] - one) // (MANY[0] - 1)
        if larger != one or any(one + slope * (turns - 1) != number for turns, number in zip(MANY, many, strict=True)):
            raise NotFollowedError(f"a number that is {numbers} is not followed")
        turns = 1 if self.carried is None else TURNS
        return cells.add(one - slope, cells.multiply(slope, turns))


def _writes(index: CellTensor, values: CellTensor | int, *, adds: bool) -> Iterator[Write]:
    """What a turn puts into these places, or adds to them."""
    whole = values.cells if isinstance(values, CellTensor) else (values,) * len(index.cells)
    return (Write(place, value, adds) for place, value in zip(index.cells, whole, strict=True))


ADDED = "aten.scatter_add.default"
LAST = z3.Function("last turn", z3.IntSort(), z3.IntSort())
"""The last turn of the burst that names an element."""


def added(column: str, turn: str, side: str) -> Any:
    """What the turns on this side of one turn, before it or behind it, add to each element of a column."""
    return z3.Function(f"{turn}.{column}.{side}", z3.IntSort(), z3.IntSort())


WRAPPED = z3.Function("wrapped", z3.IntSort(), z3.IntSort())
"""A place of the free queue as a cell of its buffer: the rest after division by the size, which is a power of two."""
PLACES = z3.Function("place", z3.IntSort(), z3.IntSort())
"""Of the places that are one after the other, no more than the buffer has cells, the one that is in a cell."""
ROW_SIZE = z3.Int("row size")
"""How many cells a row of a table has."""
ROWS = z3.Function("row", z3.IntSort(), z3.IntSort())
"""The first cell of a row of a table, whose size is unknown."""


def wrapped(place: Cell, mask: Cell) -> Cell:
    """`place & mask`; a summand that is wrapped already may be taken as it was before."""
    if not z3.is_int(mask):
        raise NotFollowedError("a mask that is the same in every pool is not followed")
    return WRAPPED(unwrapped(cells.term(place)))


def unwrapped(place: Any) -> Any:
    """The sum with its wrapped summands as they were: the rest of a sum is that of the sum of the rests."""
    if z3.is_app(place) and place.decl().eq(WRAPPED):
        return place.arg(0)
    if z3.is_add(place):
        return z3.Sum(*(unwrapped(part) for part in place.children()))
    if z3.is_sub(place):
        first, *others = place.children()
        return unwrapped(first) - z3.Sum(*others)
    return place


TIMES = z3.Function("times", z3.IntSort(), z3.IntSort(), z3.IntSort())
PARTS = z3.Function("parts", z3.IntSort(), z3.IntSort(), z3.IntSort())
"""Product and quotient of two unknown numbers, of which nothing is known: the claims hold for any such functions."""


def product(one: Cell, other: Cell) -> Cell:
    """A row times the unknown size of rows; another product of unknown numbers is not looked into."""
    one, other = cells.number(one), cells.number(other)
    if not cells.is_term(one) or not cells.is_term(other) or z3.is_int_value(one) or z3.is_int_value(other):
        return cells.multiply(one, other)
    if z3.is_const(other) and other.decl().name().startswith("size."):
        return ROWS(one)
    return TIMES(one, other)


def quotient(one: Cell, other: Cell) -> Cell:
    """Of an unknown divisor nothing is known."""
    return PARTS(cells.term(one), other) if cells.is_term(other) else cells.quotient(one, other)


NOT_LINEAR = {"aten.mul.Tensor": product, "aten.div.Tensor_mode": quotient}
"""Kinds by which the solver would be lost among products of unknown numbers."""
