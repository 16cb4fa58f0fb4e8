"""Kinds that compute each element from the elements at its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.call import Call, Kind
from cacheproof.prove.implementation.cells import Cell, is_truth, number
from cacheproof.prove.implementation.tensors import CellTensor

Binary = Callable[[Cell, Cell], Cell]


def pairs(call: Call, one: Any, other: Any) -> list[tuple[Cell, Cell]]:
    """The elements of two operands at each place of the result."""
    return list(zip(call.operand(one).cells, call.operand(other).cells, strict=True))


def computing(combine: Binary) -> Kind:
    """Arithmetic on numbers; a truth value counts as 0 or 1."""

    def kind(call: Call, one: Any, other: Any) -> CellTensor:
        if call.dtype == torch.bool:
            raise NotFollowedError(f"{call.target} on truth values is not followed")
        return call.computed(combine(number(a), number(b)) for a, b in pairs(call, one, other))

    return kind


def product(call: Call, one: Any, other: Any) -> CellTensor:
    """A factor that is a truth value chooses, so that the product stays linear."""

    def multiplied(first: Cell, second: Cell) -> Cell:
        if is_truth(first):
            return cells.choose(first, number(second), 0)
        return cells.choose(second, first, 0) if is_truth(second) else cells.multiply(first, second)

    multiplied_all = [multiplied(a, b) for a, b in pairs(call, one, other)]
    return call.computed(multiplied_all)


def dividing(combine: Binary) -> Kind:
    """Division towards minus infinity; the divisor has to be positive."""

    def kind(call: Call, one: Any, other: Any, *, rounding_mode: str = "floor") -> CellTensor:
        if rounding_mode != "floor":
            raise NotFollowedError(f"{call.target}: rounding by '{rounding_mode}' is not followed")
        made = []
        for dividend, divisor in pairs(call, one, other):
            call.duties.demand_inside(cells.less(0, divisor))
            made.append(combine(dividend, divisor) if cells.is_term(divisor) or divisor > 0 else 0)
        return call.computed(made)

    return kind


def comparing(combine: Binary) -> Kind:
    """A condition on two numbers; a truth value counts as 0 or 1."""

    def kind(call: Call, one: Any, other: Any) -> CellTensor:
        def compared(first: Cell, second: Cell) -> Cell:
            if is_truth(first) and is_truth(second) and combine is cells.equal:
                return combine(first, second)
            return combine(number(first), number(second))

        return call.tensor(compared(a, b) for a, b in pairs(call, one, other))

    return kind


def joined(combine: Callable[[tuple[Cell, Cell]], Cell], bits: Callable[[int, int], int]) -> Kind:
    """Conditions are joined; of numbers, known ones are bit by bit, and a mask leaves the lowest bits of any."""

    def kind(call: Call, one: Any, other: Any) -> CellTensor:
        if call.dtype == torch.bool:
            return call.tensor(combine(pair) for pair in pairs(call, one, other))
        numbers = [(number(a), number(b)) for a, b in pairs(call, one, other)]
        if bits is int.__and__ and all(map(is_mask, (mask for _, mask in numbers))):
            return call.tensor(cells.remainder(value, mask + 1) for value, mask in numbers)
        if any(cells.is_term(a) or cells.is_term(b) for a, b in numbers):
            raise NotFollowedError(f"{call.target} on numbers that are not known is not followed")
        return call.tensor(bits(a, b) for a, b in numbers)

    return kind


def inverted(call: Call, one: CellTensor) -> CellTensor:
    """Not; of numbers, the bits."""
    if call.dtype == torch.bool:
        return call.tensor(map(cells.inverse, one.cells))
    return call.computed(cells.subtract(-1, cell) for cell in one.cells)


def reversed_difference(call: Call, one: Any, other: Any) -> CellTensor:
    """The second without the first."""
    return computing(cells.subtract)(call, other, one)  # type: ignore[no-any-return]  # a kind returns any results


def negated(call: Call, one: CellTensor) -> CellTensor:
    """With the other sign."""
    return call.computed(map(cells.negate, one.cells))


def clamped(call: Call, one: CellTensor, low: Any = None, high: Any = None, **keywords: Any) -> CellTensor:
    """Clamps to the least and the largest value; if they contradict each other, the largest wins."""
    low, high = keywords.get("min", low), keywords.get("max", high)
    made = list(map(number, call.operand(one).cells))
    for bound, combine in ((low, cells.larger), (high, cells.smaller)):
        if bound is not None:
            made = [combine(cell, number(limit)) for cell, limit in zip(made, call.operand(bound).cells, strict=True)]
    return call.tensor(made)


def chosen(call: Call, condition: CellTensor, met: Any, unmet: Any) -> CellTensor:
    """`one` if the condition holds, otherwise `other`."""
    conditions = call.operand(condition).cells
    both = (call.operand(one).to(call.dtype).cells for one in (met, unmet))
    return call.tensor(map(cells.choose, conditions, *both))


def overwritten(call: Call, tensor: CellTensor, mask: CellTensor, value: Any) -> CellTensor:
    """The tensor with this value at the elements that the mask selects."""
    return chosen(call, mask, value, tensor)


def shifted(call: Call, one: Any, other: Any) -> CellTensor:
    """By a known number of bits to the left."""
    made = []
    for value, bits in pairs(call, one, other):
        if cells.is_term(bits) or bits < 0:
            raise NotFollowedError(f"{call.target} by a number that is not known is not followed")
        made.append(cells.multiply(number(value), 1 << bits))
    return call.computed(made)


def is_mask(cell: Cell) -> bool:
    """Whether it is a known number whose bits are all ones."""
    return not cells.is_term(cell) and cell >= 0 and (cell + 1) & cell == 0


def powered(call: Call, base: int, exponent: CellTensor) -> CellTensor:
    """Of exponents whose power fits the type: from 0 on."""
    if base < 2 and any(map(cells.is_term, exponent.cells)):
        raise NotFollowedError(f"{call.target} of {base} and exponents that are not known is not followed")
    powers = [1]
    while base > 1 and powers[-1] * base <= torch.iinfo(call.dtype).max:
        powers.append(powers[-1] * base)
    made = []
    for cell in exponent.cells:
        call.duties.demand_inside(cells.every((cells.at_most(0, cell), cells.less(cell, len(powers)))))
        made.append(cells.select(powers, cell) if cells.is_term(cell) else base**cell)
    return call.computed(made)


KINDS: dict[str, Kind] = {
    "aten.add.Tensor": computing(cells.add),
    "aten.sub.Tensor": computing(cells.subtract),
    "aten.rsub.Scalar": reversed_difference,
    "aten.mul.Tensor": product,
    "aten.neg.default": negated,
    "aten.div.Tensor_mode": dividing(cells.quotient),
    "aten.floor_divide.default": dividing(cells.quotient),
    "aten.remainder.Scalar": dividing(cells.remainder),
    "aten.remainder.Tensor": dividing(cells.remainder),
    "aten.__lshift__.Scalar": shifted,
    "aten.pow.Scalar": powered,
    "aten.maximum.default": computing(cells.larger),
    "aten.minimum.default": computing(cells.smaller),
    "aten.clamp.default": clamped,
    "aten.clamp.Tensor": clamped,
    "aten.eq.Scalar": comparing(cells.equal),
    "aten.eq.Tensor": comparing(cells.equal),
    "aten.ne.Scalar": comparing(lambda a, b: cells.inverse(cells.equal(a, b))),
    "aten.ne.Tensor": comparing(lambda a, b: cells.inverse(cells.equal(a, b))),
    "aten.lt.Scalar": comparing(cells.less),
    "aten.lt.Tensor": comparing(cells.less),
    "aten.le.Scalar": comparing(cells.at_most),
    "aten.le.Tensor": comparing(cells.at_most),
    "aten.gt.Scalar": comparing(lambda a, b: cells.less(b, a)),
    "aten.gt.Tensor": comparing(lambda a, b: cells.less(b, a)),
    "aten.ge.Scalar": comparing(lambda a, b: cells.at_most(b, a)),
    "aten.ge.Tensor": comparing(lambda a, b: cells.at_most(b, a)),
    "aten.bitwise_and.Scalar": joined(cells.every, int.__and__),
    "aten.bitwise_and.Tensor": joined(cells.every, int.__and__),
    "aten.bitwise_or.Tensor": joined(cells.some, int.__or__),
    "aten.bitwise_not.default": inverted,
    "aten.where.self": chosen,
    "aten.masked_fill.Scalar": overwritten,
}
