"""One operation of the tensor code, followed on cells: the inputs, and the results of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from cacheproof.prove.implementation.actions import Turn, function_of, turns_of
from cacheproof.prove.implementation.call import Duties
from cacheproof.prove.implementation.cells import term
from cacheproof.prove.implementation.correspondence import Correspondence, scalar
from cacheproof.prove.implementation.graph import Graph, traced
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.tensor_models.model import TensorModel


@dataclass(frozen=True, slots=True)
class Step:
    """One operation from any state: the inputs, and the results of the graph."""

    correspondence: Correspondence
    config: Any
    before: Any
    operation: Any
    after: Any
    turns: tuple[Turn, ...]
    duties: Duties

    @property
    def premises(self) -> list[Any]:
        """The invariant, and the promises of the caller."""
        one = self.correspondence
        state = one.decode(self.config, self.before)
        conditions = (
            *one.invariant(self.config, self.before),
            *one.valid(self.config, state, self.operation),
            *one.assumed(self.before),
        )
        return [term(condition) for condition in conditions if condition is not True]

    @property
    def choices(self) -> list[Any]:
        """Assumptions on values that torch leaves open."""
        return [term(choice) for choice in self.duties.choices]


def step_of(one: Correspondence, action: Any) -> Step:
    """The operation, or the burst, of the tensors, followed on cells."""
    model, config, before = one.model(), one.unknown(), one.state()
    operands, duties = one.operands_of(model, action), Duties()
    inputs: list[CellTensor] = [*one.parameters(config), *before, *map(scalar, operands)]
    results = graph_of(model, action, len(operands)).run(inputs, duties)
    turns = turns_of(*(tensor.cells for tensor in results[len(before) :]))
    return Step(one, config, before, action, type(before)(*results[: len(before)]), turns, duties)


def graph_of(model: TensorModel, action: Any, operands: int) -> Graph:
    """The graph from parameters, state and operands to the next state and the answers, each tensor on its own."""
    function = function_of(model, action)
    leaves, form = tree_flatten(model.parameters)
    parameters = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    examples = [*parameters, *model.initial, *(torch.tensor(0) for _ in range(operands))]
    begin, end = len(parameters), len(parameters) + len(model.initial)

    def flat(*tensors: Any) -> list[Any]:
        given = iter(tensors[:begin])
        config = tree_unflatten([next(given) if isinstance(leaf, Tensor) else leaf for leaf in leaves], form)
        following, ended = function(config, type(model.initial)(*tensors[begin:end]), *tensors[end:])
        return [*following, *ended]

    return traced(flat, examples)
