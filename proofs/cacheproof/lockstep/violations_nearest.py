"""The states next to the initial one, and what each call in them breaks: in as few calls as it can be done there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.properties import AnyProperty, all_broken_by_call
from cacheproof.lockstep.violations_progress import settled
from cacheproof.model.finding import Subject
from cacheproof.search.canonical import canonical
from cachespec.kernel import Code, Kind, Operation


@dataclass(frozen=True, slots=True)
class Seen:
    """A property that is broken by the last of these calls; or, where `kind` is None, when nobody calls any more."""

    rule: AnyProperty
    kind: type[Operation] | None
    calls: tuple[Operation, ...]


def nearest(pair: Pair, states: int, each: Callable[[int, int], None] | None = None) -> Iterator[Seen]:
    """The first of each sort, by property, call and faults, in the order of distance. The target is not asked.

    Of states that differ in interchangeable names there is one. Nothing follows a call that does not return. `each` is
    called for each state that is gone through, with the numbers of states and of sorts that are known by then.
    """
    subject, offers = pair.subject, pair.offers
    start = subject.variant.start(subject.config)
    form = canonical(subject.component, subject.variant, subject.config)
    search = BreadthFirst[Any, tuple[Any, tuple[Operation, ...]]](form(start), (start, ()))
    seen: set[tuple[Any, ...]] = set()
    anyway = _owed(subject, start)
    for _, (state, calls) in islice(search, states):
        if each is not None:
            each(len(search), len(seen))
        for operation in offers(state):
            after, outcome = subject.variant.call(subject.config, state, operation)
            path = (*calls, operation)
            broken: list[tuple[AnyProperty, type[Operation] | None]] = [
                (rule, type(operation))
                for rule in all_broken_by_call(subject, state, operation, outcome, after, pair.viewed)
            ]
            if outcome.code is not Code.DIVERGED and search.reach(form(after), (after, path)):
                broken += [(rule, None) for rule in _owed(subject, after) if rule not in anyway]
            for rule, kind in broken:
                mark = (rule.name, kind, frozenset(type(call) for call in path if call.kind is Kind.FAULT))
                if mark not in seen:
                    seen.add(mark)
                    yield Seen(rule, kind, path)


def _owed(subject: Subject, state: Any) -> tuple[AnyProperty, ...]:
    end = settled(subject, state)
    return () if end is None else end.rules
