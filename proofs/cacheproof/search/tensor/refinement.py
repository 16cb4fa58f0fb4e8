"""Refinement: every step of the tensor code, in the reachable states of a scope, is the specification's step.

A triple is a state, an operation of its alphabet, and what comes of it: the next state and the outcome. The alphabets
are compared too, so that no operation is forgotten. States are compared in the normal form of the specification, in
which what does not matter is fixed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import torch
from torch import Tensor

from cacheproof.model.plan import Plan
from cacheproof.search.canonical import canonical
from cacheproof.search.path import Graph
from cacheproof.search.tensor.frontier import Expansion, Row
from cacheproof.search.tensor.keys import KeySet, distinct, listed, merged, outside
from cacheproof.search.tensor.reading import Decoded, Reading
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Operation, Outcome

Step = tuple[Outcome, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first operation after which tensors and specification disagree; None where one of them lacks it."""

    before: Any
    operation: Operation
    tensors: Step | None
    specification: Step | None

    def sentence(self) -> str:
        """What differs: whether it can happen, the outcome, or fields of the next state."""
        name = self.operation.wire_name()
        if self.tensors is None or self.specification is None:
            who = "tensors" if self.tensors is None else "specification"
            return f"{name}: the guards of the {who} do not allow it here"
        (said, after), (expected, wanted) = self.tensors, self.specification
        parts = [] if said == expected else [f"the outcome is {said}, not {expected}"]
        pairs = zip(wanted._fields, after, wanted, strict=True)
        parts += [f"{field} is {one!r}, not {other!r}" for field, one, other in pairs if one != other]
        return f"{name}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Refinement:
    """How many states and triples were compared, and the first difference, if any."""

    states: int
    triples: int
    difference: Difference | None = None


@dataclass(slots=True)
class Comparison:
    """Triples that are compared while states are explored: all of `share` of the states, as evenly as can be.

    Nothing is compared after the first difference, or after the state with which there are `limit` triples.
    """

    model: TensorModel
    share: float = 1.0
    limit: int | None = None
    triples: int = 0
    states: int = 0
    difference: Difference | None = None
    """The first."""
    where: Hashable = None
    """The packed state before it."""
    _normal: Any = field(init=False)
    _graph: Graph = field(init=False)
    _steps: dict[int, dict[Operation, tuple[Outcome, Hashable]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        of = self.model.component, self.model.variant, self.model.config
        self._normal = canonical(*of, symmetry=False)
        self._graph = Graph(*of, Plan(), self._normal)

    def begin(self, portion: range) -> None:
        """Choose from the states at these positions of a level."""
        self._steps = {}
        for position in portion:
            self.states += 1
            if ceil(self.states * self.share) > ceil((self.states - 1) * self.share):
                self._steps[position] = {}

    def see(self, rows: Iterable[Row]) -> None:
        """Some steps of the tensor code."""
        for source, operation, outcome, target in rows:
            if source in self._steps:
                self._steps[source][operation] = outcome, target

    def end(self, level: Sequence[Hashable], decoded: Decoded) -> None:
        """All steps from the portion were seen; `decoded` has the states of the level and those that they lead to."""
        for position, steps in self._steps.items():
            if self.is_over:
                return
            self.triples += len(steps)
            before = decoded[level[position]]
            self.difference = self._between(before, {one: (said, decoded[to]) for one, (said, to) in steps.items()})
            self.where = level[position]

    @property
    def is_over(self) -> bool:
        """Whether nothing more is compared."""
        return self.difference is not None or (self.limit is not None and self.triples >= self.limit)

    def _between(self, before: Any, found: dict[Operation, Step]) -> Difference | None:
        normal = self._normal
        moves = self._graph.moves(before)
        wanted: dict[Operation, Step] = {operation: (outcome, normal(after)) for operation, after, outcome in moves}
        for operation in {**wanted, **found}:
            ours, theirs = found.get(operation), wanted.get(operation)
            if ours is None or theirs is None or ours[0] != theirs[0] or normal(ours[1]) != theirs[1]:
                return Difference(before, operation, ours, theirs)
        return None


def compare(model: TensorModel, limit_triples: int | None = None) -> Refinement:
    """Compare every triple of the scope, breadth first, until the first difference or until so many were compared."""
    torch.set_num_threads(1)
    expansion, comparison = Expansion(model), Comparison(model, limit=limit_triples)
    level = visited = distinct(model.layout.settle(expansion.start()))
    while level.count > 0:
        targets = _compared(expansion, comparison, level.words)
        if comparison.is_over:
            break
        level = outside(targets, visited)
        visited = merged(visited, level)
    return Refinement(visited.count, comparison.triples, comparison.difference)


def first_difference(expansion: Expansion, states: Tensor) -> Difference | None:
    """The first difference in these packed states ([states, words])."""
    comparison = Comparison(expansion.model)
    _compared(expansion, comparison, states)
    return comparison.difference


def _compared(expansion: Expansion, comparison: Comparison, level: Tensor) -> KeySet:
    """Compare what happens in these states; the states that come of it."""
    reading, keys, targets = Reading(expansion.model), listed(level), []
    reading.fresh(level)
    for portion, kinds in expansion.portions(level):
        comparison.begin(portion)
        for edges in kinds:
            comparison.see(edges.listed())
            reading.fresh(edges.target)
            targets.append(expansion.model.layout.settle(distinct(edges.target).words))
        comparison.end(keys, reading.known)
    return distinct(torch.cat(targets))
