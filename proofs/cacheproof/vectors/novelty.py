"""Random runs of the specification, of which those are kept that covered something that no run before had.

What counts as covered: how a call ended after how the call before it ended, about how many values it returned, which
observables a call that ended so changed, and about how long each observable is then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from cacheproof.lockstep.campaign import Draw
from cacheproof.model.registry import AnyComponent, AnyVariant
from cachespec.kernel import Code, Observation, Operation

RUNS, STEPS = 200, 40
"""How many random runs there are, and calls in each."""
RUNS_FOR_CALLS = 5
"""How many of them are made to see which operations happen."""
MOST_STEPS = 300
"""Calls in all the runs that are kept."""

Covered = frozenset[tuple[Any, ...]]


def novel(component: AnyComponent, variant: AnyVariant, config: Any, seed: int) -> list[tuple[Operation, ...]]:
    """The runs, those that cover most first; each ends with the call that covered something new."""
    runs = [_run(component, variant, config, f"{seed}/{number}") for number in range(RUNS)]
    seen: set[tuple[Any, ...]] = set()
    kept: list[tuple[Operation, ...]] = []
    budget = MOST_STEPS
    while budget > 0:
        gains = [len(frozenset().union(*covered) - seen) if covered else 0 for _, covered in runs]
        best = max(range(len(runs)), key=gains.__getitem__, default=0)
        if not runs or gains[best] == 0:
            break
        operations, covered = runs.pop(best)
        last = max(place for place, what in enumerate(covered) if what - seen)
        seen.update(*covered[: last + 1])
        kept.append(operations[: last + 1])
        budget -= last + 1
    return kept


def calls_of(component: AnyComponent, variant: AnyVariant, config: Any) -> set[type[Operation]]:
    """The operations that happen in the first of the random runs."""
    runs = (_run(component, variant, config, f"calls/{number}") for number in range(RUNS_FOR_CALLS))
    return {type(operation) for operations, _ in runs for operation in operations}


def _run(
    component: AnyComponent, variant: AnyVariant, config: Any, seed: str
) -> tuple[tuple[Operation, ...], list[Covered]]:
    """The calls of one run, and what each of them covered."""
    draw = Draw(component.operations, random.Random(seed))  # noqa: S311  # not a secret
    operations: list[Operation] = []
    covered: list[Covered] = []
    state = variant.start(config)
    before, last = component.observe(config, variant.view(config, state)), ("", "")
    while len(operations) < STEPS:
        offered = tuple(one for one in variant.alphabet(config, state) if type(one) in variant.transitions)
        if not offered:
            break
        operation = draw(offered)
        state, outcome = variant.call(config, state, operation)
        after = component.observe(config, variant.view(config, state))
        ended = (operation.wire_name(), outcome.code.value)
        changed = tuple(name for name in after if after[name] != before.get(name))
        lengths = ((name, length) for name, length in _lengths(after))
        returned = ("returned", ended, _about(len(outcome.values)))
        covered.append(frozenset({("after", last, ended), ("changed", ended, changed), returned, *lengths}))
        operations.append(operation)
        before, last = after, ended
        if outcome.code is Code.DIVERGED:
            break
    return tuple(operations), covered


def _lengths(observations: Any) -> Iterator[tuple[str, int]]:
    """About how long each sequence is."""
    value: Observation
    for name, value in observations.items():
        if isinstance(value, tuple):
            yield name, _about(len(value))


def _about(length: int) -> int:
    """Exactly up to 4, then by powers of two."""
    return min(length, 3 + length.bit_length())
