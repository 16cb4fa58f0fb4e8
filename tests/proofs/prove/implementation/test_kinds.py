"""Every kind of node means what torch does: on random numbers, known and unknown to the solver."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types
from torch import Tensor

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation.call import Duties
from cacheproof.prove.implementation.cells import Cell, every, term
from cacheproof.prove.implementation.graph import traced
from cacheproof.prove.implementation.kinds import IN_PLACE, KINDS
from cacheproof.prove.implementation.tensors import CellTensor, of

aten = torch.ops.aten
Function = Callable[..., Any]


def numbers(*shape: int, low: int = -3, high: int = 3) -> Function:
    return lambda draw: torch.tensor([draw.randint(low, high) for _ in range(torch.Size(shape).numel())]).reshape(shape)


def truths(*shape: int) -> Function:
    return lambda draw: numbers(*shape, low=0, high=1)(draw).bool()


def places(*shape: int, below: int) -> Function:
    return numbers(*shape, low=0, high=below - 1)


def known(*values: int) -> Function:
    return lambda draw: torch.tensor(values)


ROW, TABLE, BITS = numbers(4), numbers(2, 3), truths(4)
CASES: dict[str, list[tuple[Function, list[Function]]]] = {
    "aten.arange.default": [(lambda a: torch.arange(4) + a, [ROW])],
    "aten.arange.start": [(lambda a: torch.arange(2, 6) + a, [ROW])],
    "aten.full.default": [(lambda a: torch.full((4,), 7) + a, [ROW])],
    "aten.scalar_tensor.default": [(lambda a: torch.where(a > 0, a, 5), [ROW])],
    "aten.zeros.default": [(lambda a: torch.zeros(4, dtype=torch.int64) + a, [ROW])],
    "aten.ones.default": [(lambda a: torch.ones(4, dtype=torch.int64) + a, [ROW])],
    "aten.zeros_like.default": [(lambda a: torch.zeros_like(a) + a, [ROW])],
    "aten.ones_like.default": [(lambda a: torch.ones_like(a) & a, [BITS])],
    "aten.new_zeros.default": [(lambda a: a.new_zeros(2), [ROW])],
    "aten.full_like.default": [(lambda a: torch.full_like(a, 3), [ROW])],
    "aten.new_full.default": [(lambda a: a.new_full((2, 2), 3), [ROW])],
    "aten.new_empty.default": [(lambda a: a.new_empty((0,)), [ROW])],
    "aten.empty_like.default": [(lambda a: torch.where(a > -9, a, torch.empty_like(a)), [ROW])],
    "aten._to_copy.default": [
        (lambda a: a.to(torch.int32), [ROW]),
        (lambda a: a.bool(), [ROW]),
        (lambda a: a.long(), [BITS]),
    ],
    "aten._unsafe_view.default": [(lambda a: aten._unsafe_view(a, [3, 2]), [TABLE])],
    "aten.cat.default": [(lambda a, b: torch.cat((a, b)), [ROW, BITS]), (lambda a: torch.cat((a, a), 1), [TABLE])],
    "aten.clone.default": [(lambda a: a.clone(), [TABLE])],
    "aten.constant_pad_nd.default": [(lambda a: torch.nn.functional.pad(a, (1, 2), value=9), [TABLE])],
    "aten.expand.default": [(lambda a: a[:, None].expand(4, 3), [ROW])],
    "aten.flip.default": [(lambda a: a.flip(0), [TABLE]), (lambda a: a.flip(1), [TABLE])],
    "aten.lift_fresh_copy.default": [(lambda a: a + torch.tensor([1, 2, 3, 4]), [ROW])],
    "aten.permute.default": [(lambda a: a.permute(1, 0), [TABLE])],
    "aten.select.int": [(lambda a: a[1], [TABLE]), (lambda a: a[:, 2], [TABLE])],
    "aten.slice.Tensor": [(lambda a: a[1:3], [ROW]), (lambda a: a[:, :-1], [TABLE])],
    "aten.squeeze.dim": [(lambda a: a[:1].squeeze(0), [TABLE])],
    "aten.stack.default": [(lambda a, b: torch.stack((a, b)), [ROW, ROW])],
    "aten.t.default": [(lambda a: a.t() + 0, [TABLE])],
    "aten.unbind.int": [(lambda a: list(a.unbind(1)), [TABLE])],
    "aten.unsqueeze.default": [(lambda a: a.unsqueeze(1), [TABLE])],
    "aten.view.default": [(lambda a: a.reshape(6), [TABLE])],
    "aten.add.Tensor": [(lambda a, b: a + b, [ROW, ROW]), (lambda a, b: a + b, [ROW, BITS]), (lambda a: a + 2, [ROW])],
    "aten.sub.Tensor": [(lambda a, b: a - b, [ROW, ROW]), (lambda a, b: a[:, None] - b, [numbers(2), numbers(3)])],
    "aten.rsub.Scalar": [(lambda a: 5 - a, [ROW])],
    "aten.mul.Tensor": [(lambda a, b: a * b, [ROW, BITS]), (lambda a: a * 3, [ROW]), (lambda a, b: a * b, [ROW, ROW])],
    "aten.neg.default": [(lambda a: -a, [ROW])],
    "aten.div.Tensor_mode": [(lambda a: torch.div(a, 2, rounding_mode="floor"), [ROW])],
    "aten.floor_divide.default": [(aten.floor_divide, [ROW, numbers(4, low=1)])],
    "aten.remainder.Scalar": [(lambda a: a % 3, [ROW])],
    "aten.remainder.Tensor": [(lambda a, b: a % b, [ROW, numbers(4, low=1)])],
    "aten.__lshift__.Scalar": [(lambda a: a << 3, [ROW])],
    "aten.pow.Scalar": [(lambda a: 2**a, [known(0, 3, 5)]), (lambda a: 3**a, [places(3, below=4)])],
    "aten.maximum.default": [(torch.maximum, [ROW, ROW])],
    "aten.minimum.default": [(torch.minimum, [ROW, ROW])],
    "aten.clamp.default": [(lambda a: a.clamp(min=0), [ROW]), (lambda a: a.clamp(2, 1), [ROW])],
    "aten.clamp.Tensor": [(lambda a, b: a.clamp(max=b), [ROW, ROW]), (torch.clamp, [ROW, ROW, ROW])],
    "aten.eq.Scalar": [(lambda a: a == 1, [ROW]), (lambda a: a == 0, [BITS])],
    "aten.eq.Tensor": [(lambda a, b: a == b, [ROW, ROW]), (lambda a, b: a == b, [BITS, BITS])],
    "aten.ne.Scalar": [(lambda a: a != 1, [ROW])],
    "aten.ne.Tensor": [(lambda a, b: a != b, [ROW, ROW])],
    "aten.lt.Scalar": [(lambda a: a < 1, [ROW])],
    "aten.lt.Tensor": [(lambda a, b: a < b, [ROW, ROW]), (lambda a, b: a < b, [BITS, BITS])],
    "aten.le.Scalar": [(lambda a: a <= 1, [ROW])],
    "aten.le.Tensor": [(lambda a, b: a <= b, [ROW, ROW])],
    "aten.gt.Scalar": [(lambda a: a > 1, [ROW])],
    "aten.gt.Tensor": [(lambda a, b: a > b, [ROW, ROW])],
    "aten.ge.Scalar": [(lambda a: a >= 1, [ROW])],
    "aten.ge.Tensor": [(lambda a, b: a >= b, [ROW, ROW])],
    "aten.bitwise_and.Scalar": [(lambda a: a & 3, [ROW]), (lambda a: a & 5, [known(1, 4, 7)])],
    "aten.bitwise_and.Tensor": [(lambda a, b: a & b, [BITS, BITS]), (lambda a, b: a & b, [known(6, 3), known(3, 1)])],
    "aten.bitwise_or.Tensor": [(lambda a, b: a | b, [BITS, BITS])],
    "aten.bitwise_not.default": [(lambda a: ~a, [BITS]), (lambda a: ~a, [ROW])],
    "aten.where.self": [(torch.where, [BITS, ROW, ROW]), (lambda c, a: c.where(a, c), [BITS, BITS])],
    "aten.masked_fill.Scalar": [(lambda a, m: a.masked_fill(m, 7), [ROW, BITS])],
    "aten.sum.default": [(lambda a: a.sum(), [TABLE]), (lambda a: a.sum(), [BITS])],
    "aten.sum.dim_IntList": [(lambda a: a.sum(0), [TABLE]), (lambda a: a.sum((0, 1), keepdim=True), [TABLE])],
    "aten.any.default": [(lambda a: a.any(), [BITS])],
    "aten.any.dim": [(lambda a: a.any(1), [truths(2, 3)])],
    "aten.all.default": [(lambda a: a.all(), [BITS])],
    "aten.all.dim": [(lambda a: a.all(0), [truths(2, 3)])],
    "aten.amax.default": [(lambda a: a.amax(1), [TABLE]), (lambda a: a.amax(), [ROW])],
    "aten.amin.default": [(lambda a: a.amin(0), [TABLE])],
    "aten.argmax.default": [(lambda a: a.argmax(1), [TABLE]), (lambda a: a.argmax(), [ROW])],
    "aten.cumsum.default": [(lambda a: a.cumsum(0), [TABLE]), (lambda a: a.cumsum(1), [TABLE])],
    "aten.cumprod.default": [(lambda a: a.cumprod(0), [numbers(3)]), (lambda a: a.cumprod(0), [truths(4)])],
    "aten.cummax.default": [(lambda a: list(aten.cummax(a, 0)), [ROW])],
    "aten.cummin.default": [(lambda a: list(aten.cummin(a, 0)), [ROW])],
    "aten.sort.default": [
        (lambda a: list(aten.sort.default(a, 1)), [TABLE]),
        (lambda a: list(aten.sort.default(a, 0, True)), [ROW]),
    ],
    "aten.sort.stable": [
        (lambda a: list(aten.sort.stable(a, stable=True, dim=1)), [TABLE]),
        (lambda a: list(aten.sort.stable(a, stable=True, dim=0, descending=True)), [ROW]),
    ],
    "aten.searchsorted.Tensor": [
        (lambda a, v: torch.searchsorted(a.sort().values, v), [known(3, 1, 2), ROW]),
        (lambda a, v: torch.searchsorted(a, v, right=True), [known(1, 2, 2), numbers(3)]),
    ],
    "aten.index_select.default": [
        (lambda a, i: a.index_select(0, i), [TABLE, places(3, below=2)]),
        (lambda a, i: a.index_select(1, i), [TABLE, places(2, below=3)]),
    ],
    "aten.gather.default": [
        (lambda a, i: a.gather(1, i), [TABLE, places(2, 2, below=3)]),
        (lambda a, i: a.gather(0, i), [TABLE, places(1, 3, below=2)]),
    ],
    "aten.scatter.src": [
        (lambda a, i, v: a.scatter(0, i, v), [ROW, places(3, below=4), numbers(3)]),
        (lambda a, i, v: a.scatter(1, i, v), [TABLE, places(2, 2, below=3), numbers(2, 3)]),
        (lambda a, i, v: a.scatter(0, i, v), [BITS, places(3, below=4), truths(3)]),
    ],
    "aten.scatter.value": [(lambda a, i: a.scatter(0, i, 7), [ROW, places(3, below=4)])],
    "aten.scatter_add.default": [(lambda a, i, v: a.scatter_add(0, i, v), [ROW, places(3, below=4), numbers(3)])],
    "aten.scatter_reduce.two": [
        (lambda a, i, v: a.scatter_reduce(0, i, v, "amax"), [ROW, places(3, below=4), numbers(3)]),
        (lambda a, i, v: a.scatter_reduce(0, i, v, "amin"), [ROW, places(3, below=4), numbers(3)]),
        (lambda a, i, v: a.clone().scatter_reduce_(0, i, v, "amin"), [ROW, places(3, below=4), numbers(3)]),
    ],
    "aten.index_fill.int_Scalar": [
        (lambda a, i: a.index_fill(0, i, 7), [ROW, places(2, below=4)]),
        (lambda a, i: a.index_fill(0, i, value=True), [BITS, places(2, below=4)]),
    ],
    "aten.index_copy.default": [
        (lambda a, i, v: torch.index_copy(a, 0, i, v), [numbers(3, 2), places(2, below=3), numbers(2, 2)])
    ],
}
OPEN = frozenset(
    ("aten.cummax.default", "aten.cummin.default", "aten.sort.default", "aten.scatter.src", "aten.index_copy.default")
)
"""Kinds of which torch does not say all: several results are allowed."""
ROUNDS = 4


def test_every_kind_has_a_case_and_no_other() -> None:
    assert set(CASES) == set(KINDS)
    assert set(IN_PLACE.values()) <= set(KINDS)


@pytest.mark.parametrize("name", CASES)
def test_a_kind_means_what_torch_does(name: str) -> None:
    draw = random.Random(name)
    for function, inputs in CASES[name]:
        for _ in range(ROUNDS):
            tensors = [one(draw) for one in inputs]
            agrees(name, function, tensors, unknown=False)
            if not any(one.__qualname__.startswith("known") for one in inputs):
                agrees(name, function, tensors, unknown=True)


def agrees(name: str, function: Function, tensors: list[Tensor], *, unknown: bool) -> None:
    """What torch computes is allowed by the interpreter; nothing else is, where torch leaves nothing open."""

    def listed(*given: Tensor) -> list[Tensor]:
        made = function(*given)
        return made if isinstance(made, list) else [made]

    graph, duties = traced(listed, tensors), Duties()
    assert name in {IN_PLACE.get(kind, kind) for kind in graph.kinds()}
    inputs = [symbols(f"x{place}", tensor) if unknown else of(tensor) for place, tensor in enumerate(tensors)]
    results = graph.run(inputs, duties)
    expected = listed(*tensors)
    assert [(one.shape, one.dtype) for one in results] == [(tuple(one.shape), one.dtype) for one in expected]
    fixed = [same for one, tensor in zip(inputs, tensors, strict=True) for same in equal(one, tensor)]
    alike = term(every(same for one, tensor in zip(results, expected, strict=True) for same in equal(one, tensor)))
    assert answer(*fixed, *duties.choices, alike) == z3.sat
    assert answer(*fixed, *duties.inside, duties.fits()) == z3.sat
    if name not in OPEN:
        assert answer(*fixed, *duties.choices, z3.Not(alike)) == z3.unsat


def symbols(name: str, tensor: Tensor) -> CellTensor:
    make = z3.Bool if tensor.dtype == torch.bool else z3.Int
    return CellTensor(tuple(tensor.shape), tensor.dtype, tuple(make(f"{name}.{n}") for n in range(tensor.numel())))


def equal(one: CellTensor, tensor: Tensor) -> list[Cell]:
    return [term(cell) == term(value) for cell, value in zip(one.cells, tensor.reshape(-1).tolist(), strict=True)]


def answer(*conditions: Cell) -> Any:
    solver = z3.SimpleSolver()
    solver.add(*map(term, conditions))
    return solver.check()


def test_repeated_indices_leave_any_of_the_values_and_nothing_else() -> None:
    duties = Duties()
    graph = traced(
        lambda a, i, v: [a.scatter(0, i, v)], [torch.zeros(2).long(), torch.tensor([1, 1]), torch.tensor([5, 6])]
    )
    (result,) = graph.run([of(torch.tensor([3, 3])), of(torch.tensor([1, 1])), of(torch.tensor([5, 6]))], duties)
    for value, allowed in ((5, True), (6, True), (3, False), (7, False)):
        assert (answer(*duties.choices, term(result.cells[1]) == value) == z3.sat) is allowed
    assert result.cells[0] == 3


def test_an_index_outside_is_a_duty() -> None:
    duties = Duties()
    graph = traced(lambda a, i: [a.index_select(0, i)], [torch.arange(3), torch.tensor([0])])
    index = symbols("i", torch.tensor([0]))
    graph.run([of(torch.arange(3)), index], duties)
    assert answer(*duties.inside, index.cells[0] == 2) == z3.sat
    assert answer(*duties.inside, index.cells[0] == 3) == z3.unsat
    assert answer(*duties.inside, index.cells[0] == -1) == z3.unsat


def test_a_number_that_is_too_wide_is_a_duty() -> None:
    duties = Duties()
    graph = traced(lambda a: [a + a], [torch.tensor([1], dtype=torch.int16)])
    value = symbols("v", torch.tensor([1], dtype=torch.int16))
    graph.run([value], duties)
    assert answer(duties.fits(), value.cells[0] == 16_383) == z3.sat
    assert answer(duties.fits(), value.cells[0] == 16_384) == z3.unsat


def test_an_unknown_kind_is_named() -> None:
    graph = traced(lambda a: [a.tril()], [torch.ones(2, 2).long()])
    with pytest.raises(NotFollowedError, match=r"aten\.tril"):
        graph.run([of(torch.ones(2, 2).long())], Duties())


def test_writing_into_what_is_referred_to_elsewhere_is_refused() -> None:
    graph = traced(
        lambda a, i, v: [a.scatter_reduce_(0, i, v, "amin")], [torch.arange(3), torch.tensor([0]), torch.tensor([0])]
    )
    with pytest.raises(NotFollowedError, match="something else may refer to"):
        graph.run([of(torch.arange(3)), of(torch.tensor([0])), of(torch.tensor([0]))], Duties())
