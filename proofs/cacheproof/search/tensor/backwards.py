"""A shortest trace, searched backwards through the levels of a finished search: no parents were kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from cacheproof.model.trace import Trace, TraceStep, Violation
from cacheproof.search.path import UnsoundReductionError
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.search.tensor.judgement import Place
from cacheproof.search.tensor.keys import listed, tensor_of
from cacheproof.search.tensor.symmetry import CanonicalKeys
from cacheproof.tensor_models import TensorRun
from cacheproof.tensor_models.model import TensorModel
from cachespec.kernel import Operation, Outcome, Step

Accept = Callable[[Operation, Outcome, Hashable], bool]


class Backwards:
    """The levels of a search, each the words of its canonical keys in order, and how to step between them."""

    def __init__(self, expansion: Expansion, levels: list[Tensor], canonical_keys: CanonicalKeys) -> None:
        self.expansion, self.levels, self.canonical_keys = expansion, levels, canonical_keys
        self.model: TensorModel = expansion.model

    def violation(self, place: Place) -> Violation:
        """The violation with its trace, performed once more by the tensor code itself."""
        operations: list[Operation] = []
        if place.before is not None:
            operations, actual = self.follow(self.keys_to(place.before, place.depth - 1))
            operations.append(self.next(actual, self._breaks(place, actual))[0])
        return Violation(place.rule.name, place.rule.statement, recorded(self.model, operations))

    def way_to(self, before: Hashable) -> tuple[list[Operation], Tensor]:
        """The operations that lead to this canonical state of the last level, and the actual state after them."""
        return self.follow(self.keys_to(before, len(self.levels) - 1))

    def key(self, place: int) -> Hashable:
        """The canonical state at this place of the last level."""
        return listed(self.levels[-1][place, None])[0]

    def keys_to(self, key: Hashable, depth: int) -> list[Hashable]:
        """Canonical states on a shortest way, from the first step on; `key` is of this depth and the last of them."""
        keys = []
        for level in reversed(self.levels[:depth]):
            keys.append(key)
            key = self.predecessor(level, key)
        return keys[::-1]

    def predecessor(self, level: Tensor, key: Hashable) -> Hashable:
        """The first state of the level that leads to this one."""
        wanted = tensor_of(key, level)
        sources = [
            edges.source[(self.canonical_keys(edges.target) == wanted).all(1)] for edges in self.expansion.edges(level)
        ]
        first = torch.cat(sources).min()
        return listed(level[first, None])[0]

    def follow(self, wanted: list[Hashable]) -> tuple[list[Operation], Tensor]:
        """Walk from the initial state through actual states that have the wanted canonical forms."""
        actual, operations = self.expansion.start(), []
        for target in wanted:
            operation, actual = self.next(self.model.layout.settle(actual), self._becomes(target))
            operations.append(operation)
        return operations, actual

    def next(self, actual: Tensor, accept: Accept) -> tuple[Operation, Tensor]:
        """The first operation on this state ([1, words]) that is accepted, and the state after it."""
        for edges in self.expansion.edges(actual):
            for _, operation, outcome, target in edges.listed():
                if accept(operation, outcome, target):
                    return operation, tensor_of(target, actual)
        raise UnsoundReductionError("a canonical step has no counterpart: the layout says that too much is a name")

    def _becomes(self, wanted: Hashable) -> Accept:
        return lambda operation, outcome, target: listed(self.canonical_keys(self._words(target)))[0] == wanted

    def _breaks(self, place: Place, actual: Tensor) -> Accept:
        config, rule, before = self.model.config, place.rule, self._view(listed(actual)[0])

        def accept(operation: Operation, outcome: Outcome, target: Hashable) -> bool:
            after = self._view(target)
            if isinstance(rule, Step):
                return not rule.holds(config, before, operation, outcome, after)
            return not rule.holds(config, after)

        return accept

    def _words(self, key: Hashable) -> Tensor:
        return tensor_of(key, self.levels[0])

    def _view(self, key: Hashable) -> Any:
        model = self.model
        (state,) = model.decoded(model.layout.unpack(self._words(key)))
        return model.variant.view(model.config, state)


def recorded(model: TensorModel, operations: list[Operation]) -> Trace:
    """What the tensor code does and shows, one operation at a time."""
    run = TensorRun(model)
    initial = dict(run.observe())
    steps = tuple(TraceStep(operation, run.apply(operation), dict(run.observe())) for operation in operations)
    return Trace(model.component.name, model.variant.tag, model.config, initial, steps)
