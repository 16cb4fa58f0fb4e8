"""How the tensors of a component stand for states of its specification, at one shape, for any numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import product
from types import ModuleType
from typing import Any

import torch
import z3  # type: ignore[import-untyped]  # z3 ships no types
from torch import Tensor

from cacheproof.model.registry import AnyVariant, component_named
from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger
from cacheproof.prove.implementation.actions import Burst, name_of
from cacheproof.prove.implementation.cells import Cell, evaluated
from cacheproof.prove.implementation.finite import FiniteSequence, cell_of
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.tensor_models import model_of
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Operation

LARGEST = 2**40
"""The numbers of states, configurations and operands that the check of widths takes: at most so far from 0."""


def _nothing(*_: Any) -> Iterable[Cell]:
    return ()


@dataclass(frozen=True, slots=True)
class Correspondence:
    """One component at one shape.

    The configuration, and each operation, has arbitrary integers where `unknown` and `operations` put them; names of
    rows are the numbers of the shape, and every one is tried.
    """

    component: str
    shape: str
    """In words: "3 keys"."""
    config: Any
    """A configuration of this shape, of which only the shape matters."""
    unknown: Callable[[], Any]
    """The specification's configuration, with any numbers."""
    parameters: Callable[[Any], Iterable[CellTensor]]
    """Of that configuration: the tensors of the parameters, in their order."""
    decode: Callable[[Any, Any], Any]
    """`(config, tensors) -> state of the specification`."""
    invariant: Callable[[Any, Any], Iterable[Cell]]
    """`(config, tensors) -> conditions`: the invariant of each operation."""
    operations: Callable[[], Iterable[Operation | Burst]]
    """Every operation and burst of this shape, by name; amounts are any integers."""
    valid: Callable[[Any, Any, Any], Iterable[Cell]] = _nothing
    """`(config, state, operation) -> conditions`: a valid configuration, and the promises of a caller."""
    operands: Callable[[Any], Iterable[Any]] | None = None
    """The operands of the tensor function for an operation; a name among them stands for any number."""
    initial: Callable[[Any], Iterable[CellTensor]] | None = None
    """Of the configuration: the initial tensors, where numbers of it stand in them."""
    assumed: Callable[[Any], Iterable[Cell]] = _nothing
    """`tensors -> conditions` on numbers that only grow: the proof holds as long as the conditions do."""
    constants: Mapping[str, int] = field(default_factory=dict)
    """Fields of shape [] that never change, with their value. That they keep it belongs to the invariant."""
    compared: Callable[[Any], Any] = lambda state: state
    """What of the specification's state is in the tensors at all."""
    numbers: str = "any numbers"
    """For which numbers it is proved, in words."""
    instead: tuple[tuple[ModuleType, str, Any], ...] = ()
    """Names of the specification's modules, with the value that they have meanwhile: one that is read at unknown
    positions too, or a function that leaves out what is not compared."""
    modules: tuple[ModuleType, ...] = ()
    """Modules of the specification in which a loop goes up to an unknown number."""
    nightly: bool = False
    """Whether it takes too long for every commit."""

    @property
    def variant(self) -> AnyVariant:
        """The variant that the tensor code realises."""
        return component_named(self.component).normative

    @property
    def bound(self) -> str:
        """For what it is proved, in words."""
        return f"{self.shape}, {self.numbers}"

    def model(self, config: Any = None) -> TensorModel:
        """The tensor code, in the example's configuration or in this one."""
        return model_of(component_named(self.component), self.config if config is None else config)

    def places(self) -> tuple[str, ...]:
        """The initial state, and every operation by its name."""
        return (INITIAL, *dict.fromkeys(map(name_of, self.operations())))

    def operands_of(self, model: TensorModel, action: Any) -> tuple[Any, ...]:
        """The operands of the tensor function, each of shape []."""
        if type(action) is Burst:
            return action.operands
        return tuple((self.operands or model.operations[type(action)].operands)(action))

    def state(self) -> Any:
        """Any tensors of this shape."""
        model = self.model()
        return type(model.initial)(*map(self._unknown, model.layout.fields))

    def _unknown(self, one: Any) -> CellTensor:
        if one.name in self.constants:
            return scalar(self.constants[one.name], one.dtype)
        return unknown_tensor(f"state.{one.name}", one)


INITIAL = "initial"


def unknown_tensor(name: str, like: Any) -> CellTensor:
    """Any tensor of the shape and type of a field."""
    shape = tuple(like.shape)
    make = z3.Bool if like.dtype == torch.bool else z3.Int
    places = product(*map(range, shape))
    names = [f"{name}{list(place) if place else ''}" for place in places]
    return CellTensor(shape, like.dtype, tuple(make(one) for one in names))


def number(name: str) -> SymbolicInteger:
    """An arbitrary integer."""
    return SymbolicInteger(z3.Int(name))


def scalar(value: Any, dtype: torch.dtype = torch.int64) -> CellTensor:
    """One integer as a tensor of shape []."""
    return CellTensor((), dtype, (cell_of(value),))


def concrete(model: Any, value: Any) -> Any:
    """A value of the specification with the numbers of a model."""
    if type(value) in (SymbolicInteger, SymbolicBoolean):
        return evaluated(model, cell_of(value))
    if type(value) is FiniteSequence:
        return tuple(concrete(model, part) for part in list.__iter__(list(value)))
    if isinstance(value, tuple):
        parts = [concrete(model, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if type(value) is Burst:
        return replace(
            value, operands=concrete(model, value.operands), calls=lambda state: concrete(model, value.calls(state))
        )
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: concrete(model, getattr(value, one.name)) for one in fields(value)})
    return value


def concrete_tensor(model: Any, tensor: CellTensor) -> Tensor:
    """A tensor with the numbers of a model."""
    numbers = [_wrapped(evaluated(model, cell)) for cell in tensor.cells]
    return torch.tensor(numbers, dtype=torch.int64).to(tensor.dtype).reshape(tensor.shape)


def _wrapped(value: int) -> int:
    """As 64 bits have it."""
    return (value + 2**63) % 2**64 - 2**63


def numbers_of(*values: Any) -> Iterator[Cell]:
    """Every number that is unknown in tensors and values of the specification."""
    for value in values:
        if type(value) is SymbolicInteger:
            yield value.term
        elif isinstance(value, CellTensor):
            yield from (cell for cell in value.cells if z3.is_int(cell))
        elif isinstance(value, tuple):
            yield from numbers_of(*list(value))
        elif type(value) is Burst:
            yield from numbers_of(value.operands)
        elif is_dataclass(value) and not isinstance(value, type):
            yield from numbers_of(*(getattr(value, one.name) for one in fields(value)))
