"""The calls that a tensor function stands for: one call of the specification, or a burst of consecutive calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED
from cacheproof.prove.executor import SymbolicBoolean
from cacheproof.prove.implementation.cells import Cell, equal
from cacheproof.prove.implementation.finite import value_of
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Operation, Outcome


class Ended(NamedTuple):
    """The outcome of one turn, as tensors of one engine."""

    codes: Tensor
    """[turns] int64, UNANSWERED if nothing was decided"""
    values: Tensor
    """[turns, most values] int64"""
    lengths: Tensor
    """[turns] int64: how many of the values are returned"""


class Turn(NamedTuple):
    """How one turn ended, as cells or numbers."""

    code: Cell
    values: tuple[Cell, ...]
    length: Cell


@dataclass(frozen=True, slots=True)
class Burst:
    """Several turns in one call of a tensor function, at most up to the first that is not served.

    `function` takes parameters, state and operands (shape [] each) and returns the state and how the turns ended.
    """

    name: str
    function: Callable[..., tuple[Any, Ended]]
    operands: tuple[Any, ...]
    calls: Callable[[Any], tuple[Operation, ...]]
    """The turns as operations of the specification, in their order, from the state before."""
    phases: tuple[int, ...] = ()
    """The number of turns in each phase; an unanswered turn ends its phase. Empty: there is one phase."""
    always: bool = True
    """Whether the first turn is always answered."""


def name_of(action: Any) -> str:
    """The operation, or the burst, by its name."""
    return action.name if type(action) is Burst else type(action).wire_name()


def function_of(model: TensorModel, action: Any) -> Callable[..., tuple[Any, Ended]]:
    """The tensor function of an operation or of a burst."""
    if type(action) is Burst:
        return action.function
    single = model.operations[type(action)].function

    def alone(*arguments: Any) -> tuple[Any, Ended]:
        after, answer = single(*arguments)
        return after, Ended(answer.code[None], answer.values[None], answer.length[None])

    return alone


def turns_of(codes: Sequence[Cell], values: Sequence[Cell], lengths: Sequence[Cell]) -> tuple[Turn, ...]:
    """Turn by turn, from the elements of the three tensors."""
    width = len(values) // len(codes)
    rows = (tuple(values[turn * width : (turn + 1) * width]) for turn in range(len(codes)))
    return tuple(Turn(code, row, length) for code, row, length in zip(codes, rows, lengths, strict=True))


def sequential(
    call: Callable[[Any, Operation], tuple[Any, Outcome]], state: Any, action: Any, turns: Sequence[Turn]
) -> tuple[Any, tuple[Outcome | None, ...]]:
    """The state after all answered turns, and the specification's answer to each.

    None for an unanswered turn: it changes nothing, and no later turn of its phase does.
    """
    calls = action.calls(state) if type(action) is Burst else (action,)
    phases = (action.phases if type(action) is Burst else ()) or (len(calls),)
    must = type(action) is not Burst or action.always
    outcomes: list[Outcome | None] = []
    for size in phases:
        begin, waits = len(outcomes), False
        for number in range(begin, begin + size):
            first = number == 0 and must
            waits = waits or (not first and _is_unanswered(turns[number].code))
            outcome: Outcome | None = None
            if not waits:
                state, outcome = call(state, calls[number])
            outcomes.append(outcome)
    return state, tuple(outcomes)


def _is_unanswered(code: Cell) -> bool:
    told = value_of(equal(code, UNANSWERED))
    return bool(told) if type(told) is SymbolicBoolean else told


def column(numbers: Iterable[Any]) -> Tensor:
    """Operands of shape [] as one column: [turns] int64."""
    return torch.stack(tuple(numbers))
