"""Random runs of the specification, of which those are kept that covered something that no run before had.

What counts as covered: how a call ended after how the call before it ended, about how many values it returned, which
observables a call that ended so changed, and about how long each observable is then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from cacheproof.lockstep.campaign import Draw
from cacheproof.model.registry import AnyComponent, AnyVariant
from cachespec.kernel import Code, Observation, Operation

RUNS, STEPS = 200, 40
"""How many random runs there are, and calls in each."""
RUNS_FOR_ENDINGS = 5
"""How many of them are made to see which operations happen, and how they end."""
MOST_STEPS = 300
"""Calls in all the runs that are kept."""

Covered = frozenset[tuple[Any, ...]]
Ending = tuple[str, str]
"""An operation, and the code that it ended with."""


class Run(NamedTuple):
    """The calls of one random run, how each of them ended, and what each of them covered."""

    operations: tuple[Operation, ...]
    endings: list[Ending]
    covered: list[Covered]


def novel(component: AnyComponent, variant: AnyVariant, config: Any, seed: int) -> list[tuple[Operation, ...]]:
    """The runs, those that cover most first; each ends with the call that covered something new."""
    runs = [_run(component, variant, config, f"{seed}/{number}") for number in range(RUNS)]
    seen: set[tuple[Any, ...]] = set()
    kept: list[tuple[Operation, ...]] = []
    budget = MOST_STEPS
    while budget > 0:
        gains = [len(frozenset().union(*run.covered) - seen) for run in runs]
        best = max(range(len(runs)), key=gains.__getitem__, default=0)
        if not runs or gains[best] == 0:
            break
        run = runs.pop(best)
        last = max(place for place, what in enumerate(run.covered) if what - seen)
        seen.update(*run.covered[: last + 1])
        kept.append(run.operations[: last + 1])
        budget -= last + 1
    return kept


def endings_of(component: AnyComponent, variant: AnyVariant, config: Any) -> set[Ending]:
    """The operations that happen in the first of the random runs, each with the codes that it ends with."""
    runs = (_run(component, variant, config, f"calls/{number}") for number in range(RUNS_FOR_ENDINGS))
    return {ending for run in runs for ending in run.endings}


def _run(component: AnyComponent, variant: AnyVariant, config: Any, seed: str) -> Run:
    """At most `STEPS` calls that are offered; the run ends where none is, and with a call that never returns."""
    draw = Draw(component.operations, random.Random(seed))  # noqa: S311  # not a secret
    operations: list[Operation] = []
    endings: list[Ending] = []
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
        endings.append(ended)
        before, last = after, ended
        if outcome.code is Code.DIVERGED:
            break
    return Run(tuple(operations), endings, covered)


def _lengths(observations: Any) -> Iterator[tuple[str, int]]:
    """About how long each sequence is."""
    value: Observation
    for name, value in observations.items():
        if isinstance(value, tuple):
            yield name, _about(len(value))


def _about(length: int) -> int:
    """Exactly up to 4, then by powers of two."""
    return min(length, 3 + length.bit_length())
