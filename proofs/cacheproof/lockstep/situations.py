"""Small scopes gone through on the specification's side: what breaks there, and the shortest way to each situation.

A situation is what a call met and what became of it: its operation and code, the properties that it witnesses, and what
was decided of each request. Calls that lead to a situation for the first time are worth making on a target, where the
same may end otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.lockstep.decisions import Decisions, decisions_of
from cacheproof.lockstep.properties import all_broken_by_call
from cacheproof.lockstep.violations_nearest import Seen
from cacheproof.lockstep.violations_progress import settled
from cacheproof.model.finding import Subject
from cacheproof.search.canonical import canonical
from cachespec.kernel import Code, Kind, Operation, Outcome

Operations = tuple[Operation, ...]
Situation = Hashable


@dataclass(frozen=True, slots=True)
class Explored:
    """What one configuration has, as far as it was gone through."""

    ways: tuple[Operations, ...]
    """To situations that were new, none of which is the beginning of another."""
    broken: tuple[Seen, ...]
    """By property, call and sorts of faults, in as few calls as can be."""
    states: int
    calls: int
    whole: bool
    """Whether no state was left out."""


def explored(subject: Subject, states: int, known: set[Situation]) -> Explored:
    """The nearest `states` states. `known`: situations that are not new; what is met here is added to them."""
    walk = _Walk(subject, known, decisions_of(subject.component.name))
    start = subject.variant.start(subject.config)
    form = canonical(subject.component, subject.variant, subject.config)
    search = BreadthFirst[Any, tuple[Any, Operations]](form(start), (start, ()))
    visited = 0
    for _, (state, calls) in islice(search, states):
        visited += 1
        for operation in subject.variant.alphabet(subject.config, state):
            after, outcome = subject.variant.call(subject.config, state, operation)
            walk.meet(state, (*calls, operation), outcome, after)
            if outcome.code is not Code.DIVERGED and search.reach(form(after), (after, (*calls, operation))):
                walk.end(after, (*calls, operation))
    return Explored(tuple(longest(walk.ways)), tuple(walk.broken.values()), visited, walk.calls, visited == len(search))


def longest(ways: Iterable[Operations]) -> Iterator[Operations]:
    """Those that are not the beginning of another, in their order."""
    given = list(ways)
    begun = {way[:length] for way in given for length in range(len(way))}
    return (way for way in given if way not in begun)


class _Walk:
    """What was met so far."""

    def __init__(self, subject: Subject, known: set[Situation], decisions: Decisions) -> None:
        self.subject, self.known, self.decisions = subject, known, decisions
        self.ways: list[Operations] = []
        self.broken: dict[Hashable, Seen] = {}
        self.calls = 0
        self.owed = subject.variant.held_to(subject.component.progress)
        self.fine: set[Any] = set()
        """States from which internal steps lead to one in which nothing is owed."""
        self._views: dict[int, tuple[Any, Any]] = {}

    def viewed(self, state: Any) -> Any:
        """The view of one of the last states, made once."""
        known = self._views.get(id(state))
        if known is None or known[0] is not state:
            if len(self._views) > 64:
                self._views.clear()
            known = self._views[id(state)] = (state, self.subject.variant.view(self.subject.config, state))
        return known[1]

    def meet(self, before: Any, calls: Operations, outcome: Outcome, after: Any) -> None:
        """The last of these calls: what it breaks, and whether that is a new situation."""
        self.calls += 1
        operation, subject = calls[-1], self.subject
        broken = all_broken_by_call(subject, before, operation, outcome, after, self.viewed)
        for rule in broken:
            self._keep(Seen(rule, type(operation), calls))
        old, new = self.viewed(before), self.viewed(after)
        witnessed = frozenset(
            rule.name for rule in subject.component.steps if rule.witness(subject.config, old, operation, outcome, new)
        )
        made = self.decisions(subject.config, old, operation, new)
        situation = (type(operation), outcome.code, witnessed, frozenset(rule.name for rule in broken), made)
        if situation not in self.known:
            self.known.add(situation)
            self.ways.append(calls)

    def end(self, state: Any, calls: Operations) -> None:
        """A state in which all calls of the environment are made: what is owed there, and never comes."""
        subject = self.subject
        alphabet = subject.variant.alphabet(subject.config, state)
        if any(operation.kind is Kind.CALL for operation in alphabet):
            return
        there = None if self.ends_well(state) else settled(subject, state)
        for rule in () if there is None else there.rules:
            self._keep(Seen(rule, None, calls))

    def ends_well(self, state: Any) -> bool:
        """Whether internal steps lead to a state in which nothing is owed, the last one of the alphabet each time.

        Then all states on the way end well. Where they do not, `settled` tries a fair order, which takes longer.
        """
        subject, way = self.subject, dict[Any, None]()
        while state not in self.fine and any(rule.pending(subject.config, self.viewed(state)) for rule in self.owed):
            way[state] = None
            alphabet = subject.variant.alphabet(subject.config, state)
            internal = [operation for operation in alphabet if operation.kind is Kind.INTERNAL]
            if not internal:
                return False
            state, outcome = subject.variant.call(subject.config, state, internal[-1])
            if outcome.code is Code.DIVERGED or state in way:
                return False
        self.fine.update(way)
        return True

    def _keep(self, seen: Seen) -> None:
        faults = frozenset(type(call) for call in seen.calls if call.kind is Kind.FAULT)
        self.broken.setdefault((seen.rule.name, seen.kind, faults), seen)


def needed(seen: Iterable[tuple[Any, Seen]]) -> Iterator[tuple[Any, Seen]]:
    """Of what was seen in several configurations, the plainest first: what another one shows with less is left out."""
    kept: dict[Hashable, list[frozenset[str]]] = {}
    for config, one in seen:
        faults = frozenset(type(call) for call in one.calls if call.kind is Kind.FAULT)
        known = kept.setdefault((one.rule.name, one.kind, faults), [])
        needs = frozenset(name for name, plain in config._field_defaults.items() if getattr(config, name) != plain)
        if not any(other <= needs for other in known):
            known.append(needs)
            yield config, one
