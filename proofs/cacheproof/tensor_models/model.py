"""How one component's tensor code is seen by the checkers: functions by operation, a layout, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from cacheimpl import answer as tensor_answer
from cacheimpl.layout import Layout
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import TargetError
from cachespec.kernel import Code, Operation, Outcome

Row = dict[str, Any]
"""One state as plain data: for every field of the layout an integer or nested lists of integers."""

CODES: Mapping[tensor_answer.Code, Code] = MappingProxyType({code: Code[code.name] for code in tensor_answer.Code})
"""The specification's code for every code of the tensor implementation."""


Function = Callable[..., tuple[Any, tensor_answer.Answer]]
"""(parameters, state, *operands) of one engine, operands of shape [], to the next state and the answer."""


def always(parameters: Any, state: Any, *operands: Tensor) -> Tensor:
    """The guard of an operation that a scope never switches off."""
    return torch.ones((), dtype=torch.bool, device=state[0].device)


def no_operands(operation: Operation) -> tuple[int, ...]:
    """Of an operation without fields."""
    return ()


def named(sort: str, name: int, count: int) -> int:
    """The name, if the tables have a row for it."""
    if not 0 <= name < count:
        raise TargetError(f"there is no {sort} {name} in this configuration: the tables have {count}")
    return name


@dataclass(frozen=True, slots=True)
class TensorOperation:
    """One operation kind.

    `operands` says what the function's operands are for an operation of the specification; `enabled`, of the same
    arguments as the function, says where the scope's alphabet has the operation. `alone`, if there is one, is the
    function as a caller with one engine makes it, who looks at the answer to know whether more is to be done.
    """

    operation: type[Operation]
    function: Function
    operands: Callable[[Any], tuple[int, ...]]
    enabled: Callable[..., Tensor] = always
    alone: Function | None = None


@dataclass(frozen=True, slots=True)
class TensorModel:
    """The tensor code of one component in one configuration.

    `domain` gives every operation that the alphabet of some state may have. `decode` turns one state as plain data into
    a state of the specification's variant.
    """

    component: AnyComponent
    variant: AnyVariant
    config: Any
    parameters: Any
    initial: Any
    layout: Layout[Any]
    operations: Mapping[type[Operation], TensorOperation]
    domain: Callable[[], Iterable[Operation]]
    decode: Callable[[Row], Any]

    @property
    def device(self) -> torch.device:
        """Where the states live."""
        device: torch.device = self.initial[0].device
        return device

    def operands(self, operations: tuple[Operation, ...]) -> Tensor:
        """[operations, operands] int64: the operands of operations of one kind."""
        rows = [self.operations[type(operation)].operands(operation) for operation in operations]
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def rows(self, states: Any) -> list[Row]:
        """States ([states, ...]) as plain data, one row each."""
        columns = [values.to(torch.int64).tolist() for values in states]
        return [dict(zip(states._fields, values, strict=True)) for values in zip(*columns, strict=True)]

    def decoded(self, states: Any) -> list[Any]:
        """States ([states, ...]) as states of the specification."""
        return [self.decode(row) for row in self.rows(states)]

    def by_kind(self) -> dict[type[Operation], tuple[Operation, ...]]:
        """The operations of the scope, by kind."""
        domain = tuple(self.domain())
        return {kind: tuple(one for one in domain if type(one) is kind) for kind in self.operations}


def code_of(code: int) -> Code:
    """The specification's code for one as plain data."""
    return CODES[tensor_answer.Code(code)]


def outcome_of(code: int, values: Iterable[int], length: int) -> Outcome:
    """The specification's outcome for an answer as plain data."""
    return Outcome(code_of(code), tuple(values)[:length])


def table(*operations: TensorOperation) -> Mapping[type[Operation], TensorOperation]:
    """Operations by their type."""
    return MappingProxyType({operation.operation: operation for operation in operations})
