"""The layout of a state of tensors: fields, shapes, types, bounds and names, declared once.

Packing, unpacking and the check of the bounds follow from it. A packed state, a key, is a row of words, as many as it
takes: each word is a positive int64, a mixed-radix number with one digit per element, and the words together have one
for each element of every field that is not derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

State = TypeVar("State", bound=tuple[Any, ...])

LARGEST_WORD = 2**63 - 1


class LayoutError(ValueError):
    """The layout does not fit the state type, or one element alone does not fit in a word."""


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

    @property
    def radix(self) -> int:
        """How many values an element can have."""
        return self.high - self.low + 1


def as_it_is(state: Any) -> Any:
    """The normal state where everything in a state matters."""
    return state


class _Places(NamedTuple):
    """The elements of one word: what each is multiplied with, and how many values each has."""

    strides: tuple[int, ...]
    radices: tuple[int, ...]


@dataclass(frozen=True)
class Layout(Generic[State]):
    """The fields of one state type, in its order; `derive` fills the derived fields of one engine's state.

    `normal` takes one engine's state to the one that behaves alike and in which what does not matter is fixed: where a
    circular buffer begins, absolute stamps of which only the order counts, what is left in unused cells. It is lifted
    like an operation; what is packed, checked against the bounds and compared after unpacking is the normal state.

    `settled` fixes more: what no operation will read any more, and numbers that only grow. It is applied to keys, by
    `settle`, where a next step begins. What a step has done is seen before that, so the bounds have to leave room for
    one step from a settled state.

    Raises `LayoutError` where the fields are not those of the state type, or one has more values than a word.
    """

    state: type[State]
    fields: tuple[Field, ...]
    derive: Callable[[State], State]
    normal: Callable[[State], State] = as_it_is
    settled: Callable[[State], State] = as_it_is

    def __post_init__(self) -> None:
        names = tuple(field.name for field in self.fields)
        if names != getattr(self.state, "_fields", None):
            raise LayoutError(f"{self.state.__name__} has other fields than {names}")
        for field in self.packed_fields:
            if field.radix > LARGEST_WORD:
                raise LayoutError(f"{self.state.__name__}: {field.name} has {field.radix} values, more than a word")

    @property
    def packed_fields(self) -> tuple[Field, ...]:
        """The fields that make the key."""
        return tuple(field for field in self.fields if not field.derived)

    @property
    def words(self) -> int:
        """How many words a key has."""
        return len(self._places)

    @cached_property
    def _lows(self) -> tuple[int, ...]:
        return tuple(field.low for field in self.packed_fields for _ in range(field.width))

    @cached_property
    def _places(self) -> tuple[_Places, ...]:
        """Elements are put into words in their order, as many as fit in each."""
        words: list[_Places] = []
        strides: list[int] = []
        radices: list[int] = []
        size = 1
        for field in self.packed_fields:
            for _ in range(field.width):
                if size * field.radix > LARGEST_WORD:
                    words.append(_Places(tuple(strides), tuple(radices)))
                    size, strides, radices = 1, [], []
                strides.append(size)
                radices.append(field.radix)
                size *= field.radix
        return (*words, _Places(tuple(strides), tuple(radices)))

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
        """[states, words] int64: one key per state ([states, ...]), the same for states of one normal state.

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

    def settle(self, keys: Tensor) -> Tensor:
        """[states, words] int64: the keys of the settled states of these keys."""
        return keys if self.settled is as_it_is else self.pack(_each(self.settled, self.unpack(keys)))

    def key_of(self, states: State) -> Tensor:
        """[states, words] int64: the keys of normal states that are known to be in the layout, unchecked."""
        digits = torch.cat([_digits(field, values) for field, values in self._packed(states)], dim=1)
        digits = digits - digits.new_tensor(self._lows)
        parts = zip(digits.split_with_sizes(self._widths, dim=1), self._places, strict=True)
        return torch.stack([(part * part.new_tensor(places.strides)).sum(1) for part, places in parts], dim=1)

    def unpack(self, keys: Tensor) -> State:
        """The states ([states, ...]) of these keys ([states, words] int64), derived fields included."""
        words = zip(keys.split_with_sizes([1] * self.words, dim=1), self._places, strict=True)
        split = [word // word.new_tensor(to.strides) % word.new_tensor(to.radices) for word, to in words]
        digits = torch.cat(split, dim=1) + keys.new_tensor(self._lows)
        parts = iter(digits.split_with_sizes([field.width for field in self.packed_fields], dim=1))
        count = keys.shape[0]
        tensors = [
            torch.zeros(count, *field.shape, dtype=field.dtype, device=keys.device)
            if field.derived
            else next(parts).reshape(count, *field.shape).to(field.dtype)
            for field in self.fields
        ]
        return _each(self.derive, self.state(*tensors))

    @cached_property
    def _widths(self) -> list[int]:
        return [len(places.strides) for places in self._places]

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
