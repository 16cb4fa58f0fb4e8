"""One operation of the tensor code, followed on cells: what goes in, and what the graph makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from cacheproof.prove.implementation.actions import Turn, function_of, turns_of
from cacheproof.prove.implementation.call import Duties
from cacheproof.prove.implementation.cells import term
from cacheproof.prove.implementation.correspondence import Correspondence, scalar
from cacheproof.prove.implementation.graph import traced
from cacheproof.prove.implementation.tensors import CellTensor


@dataclass(frozen=True, slots=True)
class Step:
    """One operation from any state: what goes in, and what the graph makes of it."""

    correspondence: Correspondence
    config: Any
    before: Any
    operation: Any
    after: Any
    turns: tuple[Turn, ...]
    duties: Duties

    @property
    def premises(self) -> list[Any]:
        """The invariant, and what is promised."""
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
        """What is known of values that torch leaves open."""
        return [term(choice) for choice in self.duties.choices]


def step_of(one: Correspondence, action: Any) -> Step:
    """The operation, or the burst, of the tensors, followed on cells."""
    model, config, before = one.model(), one.unknown(), one.state()
    function, operands = function_of(model, action), one.operands_of(model, action)
    examples = [*model.parameters, *model.initial, *(torch.tensor(0) for _ in operands)]
    sizes = len(model.parameters), len(model.initial)

    def flat(*tensors: Any) -> list[Any]:
        parameters = type(model.parameters)(*tensors[: sizes[0]])
        state = type(model.initial)(*tensors[sizes[0] : sum(sizes)])
        following, ended = function(parameters, state, *tensors[sum(sizes) :])
        return [*following, *ended]

    duties = Duties()
    inputs: list[CellTensor] = [*one.parameters(config), *before, *map(scalar, operands)]
    results = traced(flat, examples).run(inputs, duties)
    turns = turns_of(*(tensor.cells for tensor in results[sizes[1] :]))
    return Step(one, config, before, action, type(before)(*results[: sizes[1]]), turns, duties)
