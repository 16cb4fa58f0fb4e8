"""Small components that the tests of the explorer share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import pytest

from cachespec.kernel import (
    ABSENT,
    DONE,
    NORMATIVE,
    Component,
    Kind,
    Operation,
    Outcome,
    Progress,
    Rank,
    Safety,
    Step,
    Variant,
    variants,
)

# A graph that is given as data --------------------------------------------------------------------------------------


class Edges(NamedTuple):
    """Which places there are, which INTERNAL steps lead where, and at which places something is pending."""

    places: int
    edges: tuple[tuple[int, int, int], ...] = ()
    """(from, label, to), one for each place and label."""
    pending: tuple[int, ...] = ()


class At(NamedTuple):
    place: int


@dataclass(frozen=True, slots=True)
class Jump(Operation):
    """The environment goes anywhere."""

    place: int


@dataclass(frozen=True, slots=True)
class Go(Operation):
    """The system follows a label."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    label: int


def jump(config: Edges, state: At, op: Jump) -> tuple[At, Outcome]:
    return At(op.place), DONE


def go(config: Edges, state: At, op: Go) -> tuple[At, Outcome]:
    for start, label, end in config.edges:
        if (start, label) == (state.place, op.label):
            return At(end), DONE
    return state, ABSENT


def ways(config: Edges, state: At) -> Iterable[Operation]:
    yield from (Jump(place) for place in range(config.places))
    yield from (Go(label) for start, label, _ in config.edges if start == state.place)


GRAPH_VARIANT: Variant[Edges, At, At] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=At,
    initial=lambda config, containers: At(0),
    transitions={Jump: jump, Go: go},
    view=lambda config, state: state,
    alphabet=ways,
)
GRAPH: Component[Edges, At, At] = Component(
    name="graph",
    summary="a graph that is given as data",
    config=Edges,
    malformed=lambda config: None,
    operations=(Jump, Go),
    variants=variants(GRAPH_VARIANT),
    observe=lambda config, view: {"place": view.place},
    interchangeable=lambda config: {},
    progress=(Progress("OUT", "one gets out", lambda config, view: view.place in config.pending),),
)


# Sequence numbers ---------------------------------------------------------------------------------------------------

Number = Annotated[int, Rank("number")]


class Window(NamedTuple):
    width: int


class Line(NamedTuple):
    """The number to be given next, those that were not taken yet, and what is on the way."""

    next: Number = 0
    log: tuple[Number, ...] = ()
    flying: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class Send(Operation):
    """A new number goes out."""


@dataclass(frozen=True, slots=True)
class Resend(Operation):
    """Nothing is on the way: all that was not taken goes out again."""

    kind: ClassVar[Kind] = Kind.INTERNAL


@dataclass(frozen=True, slots=True)
class Arrive(Operation):
    """One of those on the way arrives; only the oldest that was not taken is taken."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    position: int


@dataclass(frozen=True, slots=True)
class Lose(Operation):
    """All that is on the way is lost."""

    kind: ClassVar[Kind] = Kind.FAULT


def send(config: Window, line: Line, op: Send) -> tuple[Line, Outcome]:
    return Line(line.next + 1, (*line.log, line.next), (*line.flying, line.next)), DONE


def resend(config: Window, line: Line, op: Resend) -> tuple[Line, Outcome]:
    return line._replace(flying=line.log), DONE


def arrive(config: Window, line: Line, op: Arrive) -> tuple[Line, Outcome]:
    number = line.flying[op.position]
    after = line._replace(flying=(*line.flying[: op.position], *line.flying[op.position + 1 :]))
    return (after._replace(log=line.log[1:]), DONE) if line.log[:1] == (number,) else (after, ABSENT)


def lose(config: Window, line: Line, op: Lose) -> tuple[Line, Outcome]:
    return line._replace(flying=()), DONE


def traffic(config: Window, line: Line) -> Iterable[Operation]:
    if len(line.log) < config.width:
        yield Send()
    yield from (Arrive(position) for position in range(len(line.flying)))
    if line.flying:
        yield Lose()
    elif line.log:
        yield Resend()


LINE_VARIANT: Variant[Window, Line, Line] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Line,
    initial=lambda config, containers: Line(),
    transitions={Send: send, Resend: resend, Arrive: arrive, Lose: lose},
    view=lambda config, line: line,
    alphabet=traffic,
)
LINE: Component[Window, Line, Line] = Component(
    name="line",
    summary="numbers that are sent and taken in order",
    config=Window,
    malformed=lambda config: None,
    operations=(Send, Resend, Arrive, Lose),
    variants=variants(LINE_VARIANT),
    observe=lambda config, view: {"flying": len(view.flying)},
    interchangeable=lambda config: {},
    safety=(
        Safety(
            "BEHIND",
            "nothing on the way was taken already",
            lambda c, v: all(number in v.log for number in v.flying),
            lambda c, v: bool(v.flying),
        ),
    ),
    steps=(
        Step(
            "ORDER",
            "numbers are taken in their order",
            lambda c, b, op, o, a: a.log[:1] == b.log[:1] or o == DONE,
            lambda c, b, op, o, a: o == ABSENT,
        ),
    ),
    progress=(Progress("TAKEN", "what was sent is taken", lambda c, v: bool(v.log)),),
)


class Toys(NamedTuple):
    """What the tests use."""

    graph: Any
    line: Any
    edges: Callable[..., Any]
    window: Callable[..., Any]
    line_mutant: Callable[[Mapping[str, Any]], Any]


def line_mutant(transitions: Mapping[str, Any]) -> Any:
    """The line with some transitions, by wire name, replaced."""
    by_name = {operation.wire_name(): operation for operation in LINE.operations}
    changed = {by_name[name]: transition for name, transition in transitions.items()}
    return LINE_VARIANT.era("planted", "planted", changed, dict.fromkeys(changed, "planted"))


@pytest.fixture(scope="session")
def toys() -> Toys:
    return Toys(GRAPH, LINE, Edges, Window, line_mutant)
