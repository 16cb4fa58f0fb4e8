"""A toy: a shelf with room for so many things, where the one that was put there first has to go first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from cachespec.kernel import (
    DONE,
    HIT,
    MISS,
    NORMATIVE,
    PRESENT,
    Check,
    Code,
    Component,
    Containers,
    Demand,
    Name,
    Observation,
    Operation,
    Outcome,
    Queue,
    Request,
    Safety,
    Script,
    Served,
    Service,
    Step,
    Variant,
    variants,
)

Key = Annotated[int, Name("key")]
NOTHING = -1


class Config(NamedTuple):
    """Room for so many of so many things."""

    capacity: int
    things: int


class Shelf(NamedTuple):
    """What is on the shelf, in the order in which it came."""

    order: Queue[Key]


class View(NamedTuple):
    """What the properties read."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Look(Operation):
    """Is it there?"""

    key: Key


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """Put it there, and take the first one away where there is no room."""

    key: Key


Result = tuple[Shelf, Outcome]


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration."""
    return None if min(config) > 0 else "capacity and things must be positive"


def look(config: Config, shelf: Shelf, op: Look) -> Result:
    """TOY-2."""
    return shelf, HIT if shelf.order.has(op.key) else MISS


def add(config: Config, shelf: Shelf, op: Add) -> Result:
    """TOY-1."""
    if shelf.order.has(op.key):
        return shelf, PRESENT
    order = shelf.order.push(op.key, 1)
    if order.length > config.capacity:
        order = order.remove(order.oldest(NOTHING))
    return Shelf(order), DONE


def add_without_room(config: Config, shelf: Shelf, op: Add) -> Result:
    """C-TOY-1: nothing is taken away."""
    return Shelf(shelf.order.push(op.key, 1)), DONE


def start(config: Config, containers: Containers) -> Shelf:
    """Empty."""
    return Shelf(containers.queue())


def view(config: Config, shelf: Shelf) -> View:
    """The order."""
    return View(tuple(key for key, _ in shelf.order.items()))


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """The order."""
    return {"order": view.order}


def alphabet(config: Config, shelf: Shelf) -> Iterable[Operation]:
    """Everything with everything."""
    for key in range(config.things):
        yield Look(key)
        yield Add(key)


def looking_changes_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Only adding may."""
    return type(op) is Add or before == after


def configure(demand: Demand) -> Config:
    """Every content takes one place."""
    return Config(capacity=demand.capacity, things=len(demand.sizes))


def admit(config: Config, request: Request) -> Script:
    """Look, and add what is missing."""
    hits = []
    for content in request.contents:
        outcome = yield Look(content)
        hits.append(outcome.code is Code.HIT)
        if outcome.code is Code.MISS:
            yield Add(content)
    return Served(tuple(hits))


NORMAL: Variant[Config, Shelf, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Shelf,
    initial=start,
    transitions={Look: look, Add: add},
    view=view,
    alphabet=alphabet,
)

FULL = NORMAL.era("T0", "shelf-overfull", {Add: add_without_room}, {Add: "C-TOY-1: nothing is taken away"})

COMPONENT: Component[Config, Shelf, View] = Component(
    name="shelf",
    summary="a toy that a test adds",
    config=Config,
    malformed=malformed,
    operations=(Look, Add),
    variants=variants(NORMAL, FULL),
    observe=observe,
    interchangeable=lambda config: {"key": (tuple(range(config.things)),)},
    safety=(
        Safety(
            "TOY-1",
            "there is never more on the shelf than fits",
            lambda config, view: len(view.order) <= config.capacity,
            lambda config, view: len(view.order) == config.capacity,
        ),
    ),
    steps=(
        Step(
            "TOY-2",
            "looking changes nothing",
            looking_changes_nothing,
            lambda config, before, op, outcome, after: outcome == HIT,
        ),
    ),
    service=Service(
        configure=configure,
        admit=admit,
        checks=(Check("TOY-1", "no more than fits", lambda config, shelf: shelf.order.length <= config.capacity),),
    ),
)
