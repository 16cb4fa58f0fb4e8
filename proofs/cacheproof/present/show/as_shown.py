"""What is known of a target from what it shows: which properties it breaks, and which eras answer as it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.lockstep.properties import all_broken_by_call, broken_in
from cacheproof.model.finding import Answer
from cacheproof.model.registry import AnyVariant, component_named
from cacheproof.model.trace import Trace, TraceStep, record
from cacheproof.present.show.moves import Search

MOVES = 200
"""The calls near the end of a trace whose states are compared with what a target shows."""

UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a view may raise whose fields do not belong together."""


def broken_as_shown(trace: Trace, actual: Answer) -> frozenset[str]:
    """The properties that the last call breaks in every known state that shows what the target shows.

    Those states are near the trace, or they are the specification's own with the fields replaced that are named as
    what differs. In which of them the target is, nobody knows: a property counts only if all of them break it.
    """
    search = Search(trace)
    search.run(search.done.path[-2:], 1, MOVES)
    names: frozenset[str] | None = None
    for view in _views(search, actual):
        try:
            broken = frozenset(_broken(search, actual, view))
        except UNFIT:
            continue
        names = broken if names is None else names & broken
    return names or frozenset()


def answers_as(variant: AnyVariant, trace: Trace, actual: Answer) -> bool:
    """Whether a variant answers and shows the same as the target in every call of the trace, the last included."""
    run = record(component_named(trace.component), variant, trace.config, trace.operations, whole_calls=True)
    shown = actual.observations.keys()
    if not all(_same(one, other, shown) for one, other in zip(run.steps[:-1], trace.steps[:-1], strict=True)):
        return False
    last = run.steps[-1] if run.steps else None
    observations = run.initial if last is None else last.observations
    return (None if last is None else last.outcome) == actual.outcome and _shows(observations, actual)


def _same(one: TraceStep, other: TraceStep, names: Any) -> bool:
    return one.outcome == other.outcome and all(
        one.observations.get(name) == other.observations.get(name) for name in names
    )


def _shows(observations: Any, actual: Answer) -> bool:
    return all(observations.get(name) == value for name, value in actual.observations.items())


def _views(search: Search, actual: Answer) -> Iterator[Any]:
    """The views that show what the target shows."""
    own = search.views[search.done.path[-1]]
    fields = {name: value for name, value in actual.observations.items() if name in getattr(own, "_fields", ())}
    for view in (own._replace(**fields) if fields else own, *search.views):
        try:
            observations = search.subject.component.observe(search.subject.config, view)
        except UNFIT:
            continue
        if _shows(observations, actual):
            yield view


def _broken(search: Search, actual: Answer, view: Any) -> Iterator[str]:
    """The properties that do not hold if the last call, with the target's answer, led to this view."""
    if actual.outcome is None:
        wrong = broken_in(search.subject, view, _itself)
        yield from () if wrong is None else (wrong.name,)
        return
    before, operation = search.views[search.done.path[-2]], search.trace.operations[-1]
    rules = all_broken_by_call(search.subject, before, operation, actual.outcome, view, _itself)
    yield from (rule.name for rule in rules)


def _itself(view: Any) -> Any:
    return view
