"""Reachable steps of the specification, which show that the premises of a proof can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.prove.proof import Proof
from cachespec.kernel import FROZEN, Operation

STATE_LIMIT = 400
PER_OUTCOME = 25

Example = tuple[Any, Any, Operation]
"""A configuration, a reachable state, and an operation in it."""


Examples = Mapping[type[Operation], list[Example]]


def examples(proof: Proof) -> Examples:
    """For each operation, reachable states in which it happens, some for each outcome."""
    found: dict[tuple[type[Operation], Any], list[Example]] = {}
    for config in proof.witnesses:
        for state, operation, outcome in _steps(proof, config):
            same = found.setdefault((type(operation), outcome.code), [])
            if len(same) < PER_OUTCOME:
                same.append((config, state, operation))
    return {kind: _in_turn([some for (other, _), some in found.items() if other is kind]) for kind, _ in found}


def _in_turn(lists: list[list[Example]]) -> list[Example]:
    """The first step of each operation, then the next of each, so that every operation is met soon."""
    return [one for row in zip_longest(*lists) for one in row if one is not None]


def _steps(proof: Proof, config: Any) -> Iterator[tuple[Any, Operation, Any]]:
    start = proof.variant.initial(config, FROZEN)
    search = BreadthFirst(start, None, STATE_LIMIT)
    for state, _ in search:
        for operation in _possible(proof, config, state):
            after, outcome = proof.variant.step(config, state, operation)
            yield state, operation, outcome
            search.reach(after, None)


def _possible(proof: Proof, config: Any, state: Any) -> Iterable[Operation]:
    following = proof.variant.continuation(config, state)
    return (following,) if following is not None else proof.variant.alphabet(config, state)
