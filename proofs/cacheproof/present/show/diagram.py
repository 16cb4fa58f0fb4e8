"""A sequence diagram as data: lanes, and the events on them from top to bottom. Renderers draw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from textwrap import wrap

from cacheproof.model.finding import Finding
from cacheproof.model.naming import single_sorts
from cacheproof.model.observed import observation_texts
from cacheproof.model.registry import AnyComponent, component_named
from cacheproof.model.trace import Trace
from cacheproof.model.wording import changes, operation_text, outcome_text, remarks, title
from cachespec.kernel import Kind, Operation

EVERYBODY = -1
"""In the place of a lane: across all of them."""


WIDEST = 100
"""Letters of a line in a note across all lanes."""


class Tone(Enum):
    """What a note is about."""

    STATE = "state"
    """Observables, as they are now."""
    WRONG = "wrong"
    """What must not be."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Who takes part. `which` tells the second frontend from the first; empty where there is only one."""

    name: str
    which: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """One operation, from lane to lane; both are the same where it is internal."""

    source: int
    destination: int
    text: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Note:
    """Lines beside a lane, or across all of them."""

    lane: int
    lines: tuple[str, ...]
    tone: Tone = Tone.STATE


@dataclass(frozen=True, slots=True)
class Loop:
    """What is drawn from here to the matching `LoopEnd` comes again and again."""

    text: str


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """Where the innermost loop ends."""


Event = Arrow | Note | Loop | LoopEnd


@dataclass(frozen=True, slots=True)
class Diagram:
    """Lanes from left to right, events from top to bottom."""

    title: str
    lanes: tuple[Lane, ...]
    events: tuple[Event, ...]


def diagram(finding: Finding) -> Diagram:
    """The trace of a finding, and at its end what is wrong."""
    component = component_named(finding.trace.component)
    pairs = [_lanes_of(component, operation) for operation in finding.trace.operations]
    lanes = tuple(sorted(set(chain.from_iterable(pairs)), key=lambda lane: _place(component, lane)))
    places = [(lanes.index(source), lanes.index(destination)) for source, destination in pairs]
    wrong = Note(EVERYBODY, tuple(line for text in remarks(finding) for line in wrap(text, WIDEST)), Tone.WRONG)
    return Diagram(title(finding), lanes or (Lane(component.name),), (*_events(finding.trace, places), wrong))


def _events(trace: Trace, places: list[tuple[int, int]]) -> Iterator[Event]:
    if trace.initial:
        first = observation_texts(component_named(trace.component), trace.initial)
        yield Note(EVERYBODY, tuple(wrap("at first: " + ", ".join(first), WIDEST)))
    for number, (step, place, changed) in enumerate(zip(trace.steps, places, changes(trace), strict=True)):
        if number == trace.cycle:
            yield Loop("for ever")
        text = f"{number + 1}. {operation_text(step.operation)}: {outcome_text(step.outcome)}"
        yield Arrow(*place, text, step.operation.kind)
        if changed:
            yield Note(place[1], changed)
    if trace.cycle is not None:
        yield LoopEnd()


def _lanes_of(component: AnyComponent, operation: Operation) -> tuple[Lane, Lane]:
    source, destination = operation.lane
    return _lane(component, source, operation), _lane(component, destination, operation)


def _lane(component: AnyComponent, name: str, operation: Operation) -> Lane:
    """The lane, told from others of its name where every operation on such a lane says whose it is."""
    sort = individual(component).get(name)
    sorts = single_sorts(type(operation))
    field = next((field for field, other in sorts.items() if other == sort), None)
    return Lane(name) if field is None else Lane(name, f"{sort} {getattr(operation, field)}")


def individual(component: AnyComponent) -> dict[str, str]:
    """The lanes of which there is one for each name of a sort, and that sort.

    Those on which every operation names one of the sort; none, if that were true of every lane: then the names are
    what the calls are about, and not who makes them.
    """
    sorts: dict[str, set[str]] = {}
    for kind in component.operations:
        for lane in kind.lane:
            here = set(single_sorts(kind).values())
            sorts[lane] = sorts.get(lane, here) & here
    if all(sorts.values()):
        return {}
    return {lane: min(common) for lane, common in sorts.items() if common}


def _place(component: AnyComponent, lane: Lane) -> tuple[int, int, str]:
    """Lanes stand in the order in which the vocabulary first speaks of them."""
    order = list(dict.fromkeys(name for kind in component.operations for name in kind.lane))
    return order.index(lane.name), len(lane.which), lane.which
