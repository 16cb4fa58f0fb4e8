"""What is owed and never comes: nobody calls any more, internal steps go on, and something is pending all the time.

The steps are those of one run of many: of the operations that are owed, the one that was taken longest ago comes next.
Where that run ends in a state in which nothing owed changes anything, or comes round fairly, progress is broken; where
it does not, another order might break it, and nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cacheproof.model.finding import Subject
from cacheproof.search.canonical import canonical
from cachespec.kernel import Code, Kind, Operation, Progress

LONGEST = 200
"""Internal steps that are made at the most."""

Operations = tuple[Operation, ...]
AnyProgress = Progress[Any, Any]


@dataclass(frozen=True, slots=True)
class Settled:
    """Where internal steps lead: `path` to a state in which none changes anything, or to a fair `cycle`."""

    rules: tuple[AnyProgress, ...]
    """What is pending there, all the time."""
    path: Operations
    cycle: Operations


@dataclass(slots=True)
class _Walk:
    """The states that were come to, the steps between them, and what was owed in each."""

    states: list[Any]
    steps: list[Operation]
    owed: list[frozenset[Operation]]


def settled(subject: Subject, state: Any) -> Settled | None:
    """Which progress properties the state breaks, as far as one fair run from it shows; None where it shows none.

    States come round where they differ in ranks alone, numbers of messages, say: these go on for ever.
    """
    rules = subject.variant.held_to(subject.component.progress)
    if not any(rule.pending(subject.config, subject.variant.view(subject.config, state)) for rule in rules):
        return None
    walk, form = _Walk([], [], []), canonical(subject.component, subject.variant, subject.config, symmetry=False)
    turns: dict[Operation, int] = {}
    for step in range(LONGEST):
        moves = _owed(subject, state)
        known = form(state)
        if moves is None:
            return None
        if not moves:
            return _found(subject, rules, (state,), tuple(walk.steps), ())
        for place in (place for place, other in enumerate(walk.states) if other[0] == known):
            always = frozenset.intersection(*walk.owed[place:])
            if always <= set(walk.steps[place:]):
                states = tuple(one for _, one in walk.states[place:])
                return _found(subject, rules, states, tuple(walk.steps[:place]), tuple(walk.steps[place:]))
        chosen = min(moves, key=lambda one: turns.get(one, -1))
        turns[chosen] = step
        walk.states.append((known, state))
        walk.owed.append(frozenset(moves))
        walk.steps.append(chosen)
        state = moves[chosen]
    return None


def _owed(subject: Subject, state: Any) -> dict[Operation, Any] | None:
    """The internal operations that change the state, and what they change it to; None where one does not return."""
    moves: dict[Operation, Any] = {}
    for operation in subject.variant.alphabet(subject.config, state):
        if operation.kind is not Kind.INTERNAL or type(operation) not in subject.variant.transitions:
            continue
        after, outcome = subject.variant.call(subject.config, state, operation)
        if outcome.code is Code.DIVERGED:
            return None
        if after != state:
            moves[operation] = after
    return moves


def _found(
    subject: Subject, rules: list[AnyProgress], states: tuple[Any, ...], path: Operations, cycle: Operations
) -> Settled | None:
    views = [subject.variant.view(subject.config, state) for state in states]
    broken = tuple(rule for rule in rules if all(rule.pending(subject.config, view) for view in views))
    return Settled(broken, path, cycle) if broken else None
