"""Facts about a target from its observables: the properties that it breaks, and the variants that answer alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, permutations
from typing import Any

from cacheproof.lockstep.properties import all_broken_by_call, broken_in
from cacheproof.model.finding import Answer
from cacheproof.model.observed import grouping_of, rows_of
from cacheproof.model.registry import UNDEFINED, AnyComponent, AnyVariant, component_named
from cacheproof.model.trace import Trace, TraceStep, record
from cacheproof.present.show.moves import Search
from cachespec.kernel import Observation, Outcome

MOVES = 200
"""The calls near the end of a trace whose states are compared with what a target shows."""

VALUES = 8
"""The values that are tried for each part of a state that nothing shows."""

ORDERS = 24
"""The orders that are tried of what is compared as a set."""


def broken_as_shown(trace: Trace, expected: Answer, actual: Answer) -> frozenset[str]:
    """The properties that the last call breaks in every state that shows what the target shows.

    A candidate is a state near the trace, or the specification's own state with the differing parts replaced. The
    target may be in any of them, because it does not show all of its state. A property therefore counts only if every
    candidate breaks it.
    """
    search = Search(trace)
    search.run(search.done.path[-2:], 1, MOVES)
    shown = _Shown(search, expected, actual)
    names: frozenset[str] | None = None
    for view in shown.views():
        for each in (view, *shown.alike(view)):
            broken = shown.broken(each)
            if broken is not None:
                names = broken if names is None else names & broken
        if names is not None and not names:
            break
    return (names or frozenset()) - shown.about_order()


def answers_as(variant: AnyVariant, trace: Trace, actual: Answer) -> bool:
    """Whether a variant answers and shows the same as the target in every call of the trace, the last included.

    A variant that is not for the configuration does not.
    """
    try:
        run = record(component_named(trace.component), variant, trace.config, trace.operations, whole_calls=True)
    except UNDEFINED:
        return False
    shown = actual.observations.keys()
    if not all(_same(one, other, shown) for one, other in zip(run.steps[:-1], trace.steps[:-1], strict=True)):
        return False
    last = run.steps[-1] if run.steps else None
    observations = run.initial if last is None else last.observations
    same = (None if last is None else last.outcome) == actual.outcome
    return same and all(observations.get(name) == value for name, value in actual.observations.items())


def _same(one: TraceStep, other: TraceStep, names: Iterable[str]) -> bool:
    return one.outcome == other.outcome and all(
        one.observations.get(name) == other.observations.get(name) for name in names
    )


class _Shown:
    """The views that show what a target shows after the last call of a trace."""

    def __init__(self, search: Search, expected: Answer, actual: Answer) -> None:
        self._search, self._expected, self._actual = search, expected, actual
        self._component, self._config = search.subject.component, search.subject.config
        self._own = search.views[search.done.path[-1]]
        self._before = search.subject.variant.view(self._config, search.run_of_trace.before)
        self._loose = self._unclaimed()

    def views(self) -> Iterator[Any]:
        """The specification's own view with what differs replaced, and the views near the trace that fit."""
        for view in (*self._replaced(), *self._search.views):
            if self._fits(view):
                yield view

    def alike(self, view: Any) -> Iterator[Any]:
        """The same view with another value in one part, where nothing that is shown tells them apart."""
        for name in getattr(view, "_fields", ()):
            for value in self._values(view, name):
                other = view._replace(**{name: value})
                if self._observed(other) == self._observed(view):
                    yield other

    def broken(self, view: Any) -> frozenset[str] | None:
        """The properties that do not hold if the call, with the target's answer, led to this view; None if unfit."""
        try:
            return frozenset(self._broken(view))
        except UNDEFINED:
            return None

    def about_order(self) -> frozenset[str]:
        """The properties that the right answer breaks if what is compared as a set had another order."""
        found = set[str]()
        for name in self._loose & set(getattr(self._own, "_fields", ())):
            for view, other in ((self._own, self._before), (self._before, self._own)):
                for order in islice(permutations(getattr(view, name)), ORDERS):
                    turned = view._replace(**{name: order})
                    pair = (other, turned) if view is self._own else (turned, other)
                    found |= set(self._judged(*pair, self._expected.outcome))
        return frozenset(found)

    def _broken(self, view: Any) -> Iterator[str]:
        return self._judged(self._before, view, self._actual.outcome)

    def _judged(self, before: Any, after: Any, outcome: Outcome | None) -> Iterator[str]:
        """The properties that the last call breaks between two views, or the first that the initial state breaks."""
        search = self._search
        if outcome is None:
            wrong = broken_in(search.subject, after, _itself)
            yield from () if wrong is None else (wrong.name,)
            return
        rules = all_broken_by_call(search.subject, before, search.trace.operations[-1], outcome, after, _itself)
        yield from (rule.name for rule in rules)

    def _values(self, view: Any, name: str) -> list[Any]:
        """Other values of a part: numbers near by, and those of the states near the trace."""
        here = getattr(view, name)
        near = [here + by for by in (1, -1, 2, -2)] if isinstance(here, int) and not isinstance(here, bool) else []
        known = [getattr(other, name) for other in (self._own, *self._search.views)]
        return [value for value in dict.fromkeys([*near, *known]) if value != here][:VALUES]

    def _replaced(self) -> Iterator[Any]:
        """The own view, each observable that differs put into the part that it is read from."""
        views = [self._own]
        for name, value in self._actual.observations.items():
            if value != self._expected.observations.get(name):
                views = [each for view in views for each in self._with(view, name, value)]
        yield from views

    def _with(self, view: Any, name: str, value: Observation) -> list[Any]:
        """The view with this observable, by the first part that does it and changes no other but to what is shown."""
        before = self._observed(view) or {}
        for field in sorted(getattr(view, "_fields", ()), key=lambda field: field != name):
            for form in _forms(self._component, name, value):
                other = view._replace(**{field: form})
                shown = self._observed(other) or {}
                wanted = (
                    each == before[key] or each == self._actual.observations.get(key) for key, each in shown.items()
                )
                if shown.get(name) == value and all(wanted):
                    return [other]
        return [view]  # it may follow from another one, as the sizes follow from the order

    def _observed(self, view: Any) -> Mapping[str, Observation] | None:
        try:
            return dict(self._component.observe(self._config, view))
        except UNDEFINED:
            return None

    def _fits(self, view: Any) -> bool:
        shown = self._observed(view)
        return shown is not None and all(
            shown.get(name) == value or (name in self._loose and _as_set(shown.get(name)) == _as_set(value))
            for name, value in self._actual.observations.items()
        )

    def _unclaimed(self) -> frozenset[str]:
        """The observable whose order is not compared: the free order, if the implementation chooses its own names."""
        own = self._component.own_names
        if own is None or own.order not in self._actual.observations:
            return frozenset()
        model, shown = (side.observations.get(own.order) for side in (self._expected, self._actual))
        only_the_order = model != shown and _as_set(model) == _as_set(shown)
        return frozenset() if only_the_order else frozenset({own.order})


def _forms(component: AnyComponent, name: str, value: Observation) -> Iterator[Any]:
    """How a part of a view may hold an observable: as it is, by rows, or by rows with what they count."""
    yield value
    rows = rows_of(grouping_of(component, name), value) if isinstance(value, tuple) else None
    if rows is not None:
        yield tuple(head for head, _ in rows)
        yield tuple((*head, counted) for head, counted in rows)


def _as_set(value: Observation | None) -> tuple[int, ...]:
    return tuple(sorted(value)) if isinstance(value, tuple) else ()


def _itself(view: Any) -> Any:
    return view
