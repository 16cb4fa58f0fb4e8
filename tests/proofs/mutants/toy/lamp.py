"""A toy for mutants: a lamp that bears so many presses, an answer that nobody checks, a note that nobody reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cachespec.kernel import (
    DONE,
    HIT,
    MISS,
    NORMATIVE,
    REFUSED,
    Component,
    Operation,
    Outcome,
    Safety,
    Variant,
    variants,
)


class Config(NamedTuple):
    """How many presses the lamp bears."""

    most: int


class Lamp(NamedTuple):
    """How often it was pressed, and a note."""

    presses: int
    note: int = 0


@dataclass(frozen=True, slots=True)
class Press(Operation):
    """Once more."""


@dataclass(frozen=True, slots=True)
class Ask(Operation):
    """Was it ever pressed?"""


Result = tuple[Lamp, Outcome]


def drained(lamp: Lamp) -> Lamp:
    """Counts down and up again."""
    left = lamp.presses
    while left > 0:
        left = left - 1
    return lamp._replace(note=left)


def press(config: Config, lamp: Lamp, op: Press) -> Result:
    """LMP-1."""
    if lamp.presses >= config.most:
        return lamp, REFUSED
    return drained(lamp)._replace(presses=lamp.presses + 1), DONE


def ask(config: Config, lamp: Lamp, op: Ask) -> Result:
    """No property reads the answer."""
    return lamp, HIT if lamp.presses > 0 else MISS


def asking(default: int) -> Callable[[Config, Lamp, Ask], Result]:
    """A transition that is made of another, with a value from there."""

    def by_default(config: Config, lamp: Lamp, op: Ask) -> Result:
        return ask(config, lamp._replace(note=default + 1), op)

    return by_default


COMPONENT: Component[Config, Lamp, int] = Component(
    name="lamp",
    summary="a lamp",
    config=Config,
    malformed=lambda config: None,
    operations=(Press, Ask),
    variants=variants(
        Variant(
            tag=NORMATIVE,
            title="normative",
            state=Lamp,
            initial=lambda config, containers: Lamp(0),
            transitions={Press: press, Ask: asking(1)},
            view=lambda config, lamp: lamp.presses,
            alphabet=lambda config, lamp: (Press(), Ask()),
        )
    ),
    observe=lambda config, presses: {"presses": presses},
    interchangeable=lambda config: {},
    safety=(Safety("LMP-1", "no more presses than it bears", lambda c, v: 0 <= v <= c.most, lambda c, v: v == c.most),),
)
