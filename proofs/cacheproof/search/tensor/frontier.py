"""Whole frontiers of packed states: every operation on every state at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cacheproof.search.tensor.keys import listed
from cacheproof.tensor_models.model import TensorModel, TensorOperation, outcome_of
from cachespec.kernel import Operation, Outcome

# What is lifted is laid out by vmap; the same functions are given contiguous values where they serve.
warnings.filterwarnings("ignore", r"torch\.searchsorted\(\): (input value|boundary) tensor is non-", UserWarning)

STATES_AT_ONCE = 1 << 12
"""How many states are unpacked at the same time: bounds the memory of one expansion, as the next one does."""

INSTANCES_AT_ONCE = 1 << 8
"""Of how many operations of one kind the guards are asked at the same time."""

Row = tuple[int, Operation, Outcome, Hashable]
"""One transition as plain data: the position of its source, operation, outcome, target."""


@dataclass(frozen=True, slots=True)
class Edges:
    """All enabled transitions of one operation kind from some frontier.

    Tensors are [edges]: `source` is a position in the frontier, `instance` one in `operations`. `target` has packed
    states ([edges, words]); `answers` are code, values ([edges, values]) and length.
    """

    operations: tuple[Operation, ...]
    source: Tensor
    instance: Tensor
    target: Tensor
    answers: tuple[Tensor, Tensor, Tensor]

    @property
    def count(self) -> int:
        """How many there are."""
        return self.target.shape[0]

    def listed(self) -> Iterator[Row]:
        """One by one, as plain data."""
        outcome = cache(outcome_of)
        code, values, length = (tensor.tolist() for tensor in self.answers)
        columns = zip(self.source.tolist(), self.instance.tolist(), listed(self.target), strict=True)
        for (source, instance, target), *answer in zip(columns, code, values, length, strict=True):
            yield source, self.operations[instance], outcome(answer[0], tuple(answer[1]), answer[2]), target


class Expansion:
    """The model's functions lifted over states and over the operations of each kind."""

    def __init__(self, model: TensorModel, states_at_once: int = STATES_AT_ONCE) -> None:
        self.model, self.states_at_once = model, states_at_once
        self.kinds = tuple(
            _Lifted(model, model.operations[kind], instances[begin : begin + INSTANCES_AT_ONCE])
            for kind, instances in model.by_kind().items()
            for begin in range(0, len(instances), INSTANCES_AT_ONCE)
        )

    def start(self) -> Tensor:
        """[1, words] int64: the packed initial state."""
        initial = self.model.initial
        return self.model.layout.pack(type(initial)(*(values.unsqueeze(0) for values in initial)))

    def edges(self, frontier: Tensor) -> Iterator[Edges]:
        """Every transition from these packed states ([states, words] int64), some at a time."""
        for _, kinds in self.portions(frontier):
            yield from kinds

    def portions(self, frontier: Tensor) -> Iterator[tuple[range, Iterator[Edges]]]:
        """The same by portions of the frontier: its positions, and every transition from these, kind by kind."""
        for begin in range(0, frontier.shape[0], self.states_at_once):
            portion = range(begin, min(begin + self.states_at_once, frontier.shape[0]))
            yield portion, self._from(frontier[begin : portion.stop], begin)

    def leaving(self, state: Tensor) -> Operation | None:
        """The first operation that leads from this packed state ([1, words]) to one that the layout does not have."""
        states = self.model.layout.unpack(state)
        for kind in self.kinds:
            for instance in kind.instances:
                try:
                    _Lifted(self.model, kind.operation, (instance,)).edges(states, 0)
                except ArithmeticError:
                    return instance
        return None

    def _from(self, keys: Tensor, begin: int) -> Iterator[Edges]:
        states = self.model.layout.unpack(keys)
        return (kind.edges(states, begin) for kind in self.kinds)


class _Lifted:
    """Operations of one kind over a batch of states: the guard on every pair, the function where it allows it."""

    def __init__(self, model: TensorModel, operation: TensorOperation, instances: tuple[Operation, ...]) -> None:
        self.model, self.operation, self.instances = model, operation, instances
        self.operands = model.operands(instances)
        self.function = _over_pairs(operation.function)
        self.enabled = _over_states_and_operands(operation.enabled)

    def edges(self, states: Any, begin: int) -> Edges:
        parameters, several = self.model.parameters, len(self.instances)
        chosen = self.enabled(parameters, states, self.operands).flatten().nonzero().squeeze(1)
        pairs = chosen if chosen.shape[0] > 0 else chosen.new_zeros(1)  # vmap refuses an empty axis
        before = type(states)(*(values.index_select(0, pairs // several) for values in states))
        after, answer = self.function(parameters, before, self.operands.index_select(0, pairs % several))
        count = chosen.shape[0]
        return Edges(
            self.instances,
            begin + chosen // several,
            chosen % several,
            self.packed(type(states)(*(values[:count] for values in after))),
            (answer.code[:count], answer.values[:count], answer.length[:count]),
        )

    def packed(self, states: Any) -> Tensor:
        """The keys of these states; an error of the layout says which operation made it."""
        try:
            return self.model.layout.pack(states)
        except ArithmeticError as error:
            raise type(error)(f"{self.instances[0].wire_name()}: {error}") from None


def _over_states_and_operands(function: Callable[..., Any]) -> Callable[..., Any]:
    """From one engine and one operation to [states, operations, ...]."""
    over_operands = torch.func.vmap(_of_row(function), in_dims=(None, None, 0))
    return torch.func.vmap(over_operands, in_dims=(None, 0, None))


def _over_pairs(function: Callable[..., Any]) -> Callable[..., Any]:
    """From one engine and one operation to [pairs, ...]."""
    return torch.func.vmap(_of_row(function), in_dims=(None, 0, 0))


def _of_row(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of operands that come in one tensor."""
    return lambda parameters, state, operands: function(parameters, state, *operands.unbind(0))
