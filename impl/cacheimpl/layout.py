"""What a state of tensors is made of, said once: fields, shapes, types, bounds, names, and what is derived.

Packing, unpacking and the check of the bounds follow from it. A packed state is one positive int64: a mixed-radix
number with one digit per element of every field that is not derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

State = TypeVar("State", bound=tuple[Any, ...])

LARGEST_KEY = 2**63 - 1


class LayoutError(ValueError):
    """The layout does not fit the state type, or its states do not fit in 63 bits."""


class OutOfBoundsError(ArithmeticError):
    """A field left the bounds of the layout, or changed its type or shape: packed, states would merge unseen."""


class RoundTripError(ArithmeticError):
    """Unpacking does not give back what was packed: a derived field disagrees with what it is derived from."""


@dataclass(frozen=True, slots=True)
class Field:
    """One tensor of a state.

    `low` and `high` are inclusive. `axes` gives the sort of name that each axis is indexed by, `holds` the sort of name
    that the values are; empty where they are plain numbers. A derived field follows from the others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    low: int
    high: int
    axes: tuple[str, ...] = ()
    holds: str = ""
    derived: bool = False

    @property
    def width(self) -> int:
        """How many elements there are."""
        return prod(self.shape)


def as_it_is(state: Any) -> Any:
    """The normal state where everything in a state matters."""
    return state


@dataclass(frozen=True)
class Layout(Generic[State]):
    """The fields of one state type, in its order; `derive` fills the derived fields of one engine's state.

    `normal` takes one engine's state to the one that behaves alike and in which what does not matter is fixed: where a
    circular buffer begins, absolute stamps of which only the order counts, what is left in unused cells. It is lifted
    like an operation; what is packed, checked against the bounds and compared after unpacking is the normal state.

    Whoever packs or unpacks gets a `LayoutError` where the states do not fit in 63 bits.
    """

    state: type[State]
    fields: tuple[Field, ...]
    derive: Callable[[State], State]
    normal: Callable[[State], State] = as_it_is

    def __post_init__(self) -> None:
        names = tuple(field.name for field in self.fields)
        if names != getattr(self.state, "_fields", None):
            raise LayoutError(f"{self.state.__name__} has other fields than {names}")

    @property
    def packed_fields(self) -> tuple[Field, ...]:
        """The fields that make the key."""
        return tuple(field for field in self.fields if not field.derived)

    @cached_property
    def _lows(self) -> tuple[int, ...]:
        return tuple(field.low for field in self.packed_fields for _ in range(field.width))

    @cached_property
    def _radices(self) -> tuple[int, ...]:
        return tuple(field.high - field.low + 1 for field in self.packed_fields for _ in range(field.width))

    @cached_property
    def _strides(self) -> tuple[int, ...]:
        if (count := prod(self._radices)) > LARGEST_KEY:
            raise LayoutError(f"{self.state.__name__}: {count} combinations do not fit in 63 bits")
        return tuple(prod(self._radices[:place]) for place in range(len(self._radices)))

    def check(self, states: State) -> None:
        """Raise `OutOfBoundsError` unless each field of these states ([states, ...]) has its type, shape, bounds."""
        count = states[0].shape[0]
        for field, values in zip(self.fields, states, strict=True):
            if values.dtype != field.dtype or tuple(values.shape) != (count, *field.shape):
                raise OutOfBoundsError(f"{field.name} is {values.dtype} {tuple(values.shape)}, not as in the layout")
            outside = (values < field.low) | (values > field.high)
            if bool(outside.any()):
                worst = values[outside][0].item()
                raise OutOfBoundsError(f"{field.name} is {worst}, outside {field.low} to {field.high}")

    def pack(self, states: State) -> Tensor:
        """[states] int64: one key per state ([states, ...]), the same for states of one normal state.

        Of the normal state the bounds are checked, and that unpacking returns it.
        """
        states = self.normalised(states)
        self.check(states)
        keys = self.key_of(states)
        self._assert_round_trip(states, self.unpack(keys))
        return keys

    def normalised(self, states: State) -> State:
        """The normal state of each of these states ([states, ...])."""
        return states if self.normal is as_it_is else _each(self.normal, states)

    def key_of(self, states: State) -> Tensor:
        """[states] int64: the keys of normal states that are known to be in the layout, unchecked."""
        digits = torch.cat([_digits(field, values) for field, values in self._packed(states)], dim=1)
        lows, strides = digits.new_tensor(self._lows), digits.new_tensor(self._strides)
        return ((digits - lows) * strides).sum(1)

    def unpack(self, keys: Tensor) -> State:
        """The states ([states, ...]) of these keys ([states] int64), derived fields included."""
        lows, radices = keys.new_tensor(self._lows), keys.new_tensor(self._radices)
        digits = keys[:, None] // keys.new_tensor(self._strides) % radices + lows
        parts = iter(digits.split_with_sizes([field.width for field in self.packed_fields], dim=1))
        count = keys.shape[0]
        tensors = [
            torch.zeros(count, *field.shape, dtype=field.dtype, device=keys.device)
            if field.derived
            else next(parts).reshape(count, *field.shape).to(field.dtype)
            for field in self.fields
        ]
        return _each(self.derive, self.state(*tensors))

    def _packed(self, states: State) -> Iterator[tuple[Field, Tensor]]:
        return ((field, values) for field, values in zip(self.fields, states, strict=True) if not field.derived)

    def _assert_round_trip(self, states: State, restored: State) -> None:
        for field, before, after in zip(self.fields, states, restored, strict=True):
            if not torch.equal(before, after):
                wrong = before != after
                raise RoundTripError(f"{field.name} is {before[wrong][0].item()}, not {after[wrong][0].item()}")


def _each(function: Callable[[State], State], states: State) -> State:
    """The function of one engine's state, on each of these ([states, ...])."""
    return states if states[0].shape[0] == 0 else torch.func.vmap(function)(states)  # vmap refuses an empty axis


def _digits(field: Field, values: Tensor) -> Tensor:
    """[states, elements of the field] int64."""
    return values.reshape(values.shape[0], field.width).long()
