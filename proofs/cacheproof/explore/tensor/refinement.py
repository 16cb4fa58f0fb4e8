"""Refinement: every step of the tensor code, in every reachable state of a scope, is the specification's step.

A triple is a state, an operation of its alphabet, and what comes of it: the next state and the outcome. The alphabets
are compared too, so that no operation is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cacheproof.explore.tensor.frontier import Expansion
from cacheproof.explore.tensor.keys import KeySet, distinct, listed, merged, outside
from cacheproof.targets.tensor.model import TensorModel
from cachespec.kernel import Operation, Outcome

Step = tuple[Outcome, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first operation after which tensors and specification disagree; None where one of them lacks it."""

    before: Any
    operation: Operation
    tensors: Step | None
    specification: Step | None


@dataclass(frozen=True, slots=True)
class Refinement:
    """How many states and triples were compared, and the first difference, if any."""

    states: int
    triples: int
    difference: Difference | None = None


def compare(model: TensorModel, limit_triples: int | None = None) -> Refinement:
    """Compare every triple of the scope, breadth first, until the first difference or until so many were compared."""
    torch.set_num_threads(1)
    expansion = Expansion(model)
    level = visited = distinct(expansion.start())
    triples = 0
    while level.count > 0:
        steps, targets = _steps_of_tensors(expansion, level.words)
        states = model.decoded(model.layout.unpack(level.words))
        for before, found in zip(states, steps, strict=True):
            difference = _difference(model, before, found)
            if difference is not None:
                return Refinement(visited.count, triples, difference)
            triples += len(found)
            if limit_triples is not None and triples >= limit_triples:
                return Refinement(visited.count, triples)
        level = outside(targets, visited)
        visited = merged(visited, level)
    return Refinement(visited.count, triples)


def _steps_of_tensors(expansion: Expansion, level: Tensor) -> tuple[list[dict[Operation, Step]], KeySet]:
    """For each state its operations with outcome and next state; and all next states, packed."""
    model, targets = expansion.model, []
    steps: list[dict[Operation, Step]] = [{} for _ in range(level.shape[0])]
    for edges in expansion.edges(level):
        keys = distinct(edges.target).words
        decoded = dict(zip(listed(keys), model.decoded(model.layout.unpack(keys)), strict=True))
        for source, operation, outcome, target in edges.listed():
            steps[source][operation] = outcome, decoded[target]
        targets.append(keys)
    return steps, distinct(torch.cat(targets))


def _difference(model: TensorModel, before: Any, found: dict[Operation, Step]) -> Difference | None:
    config, variant = model.config, model.variant
    wanted: dict[Operation, Step] = {}
    for operation in variant.alphabet(config, before):
        after, outcome = variant.call(config, before, operation)
        wanted[operation] = outcome, after
    for operation in {**wanted, **found}:
        if wanted.get(operation) != found.get(operation):
            return Difference(before, operation, found.get(operation), wanted.get(operation))
    return None
