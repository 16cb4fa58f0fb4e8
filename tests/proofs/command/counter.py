"""A component that counts: for ever, where nothing stops it. The tests of `check` find it by CACHEPROOF_PATH."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cachespec.kernel import DONE, NORMATIVE, Component, Operation, Outcome, Safety, Variant, variants


class Config(NamedTuple):
    top: int
    """Where counting ends; 0 for never."""


class State(NamedTuple):
    number: int


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """One more."""

    amount: int


@dataclass(frozen=True, slots=True)
class Reset(Operation):
    """From the beginning."""


def add(config: Config, state: State, op: Add) -> tuple[State, Outcome]:
    return State(state.number + op.amount), DONE


def add_too_much(config: Config, state: State, op: Add) -> tuple[State, Outcome]:
    return State(state.number + op.amount + state.number // 2), DONE


def reset(config: Config, state: State, op: Reset) -> tuple[State, Outcome]:
    return State(0), DONE


def calls(config: Config, state: State) -> Iterable[Operation]:
    if config.top == 0 or state.number < config.top:
        yield Add(1)
    if state.number > 0:
        yield Reset()


COUNTER: Variant[Config, State, State] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=State,
    initial=lambda config, containers: State(0),
    transitions={Add: add, Reset: reset},
    view=lambda config, state: state,
    alphabet=calls,
)
COMPONENT: Component[Config, State, Any] = Component(
    name="counter",
    summary="counts",
    config=Config,
    malformed=lambda config: "top must not be negative" if config.top < 0 else None,
    operations=(Add, Reset),
    variants=variants(
        COUNTER,
        COUNTER.era("C0", "counter-too-much", {Add: add_too_much}, {Add: "C-CNT-1: adds too much"}),
    ),
    observe=lambda config, view: {"count": view.number},
    interchangeable=lambda config: {},
    safety=(
        Safety(
            "CNT-1",
            "the top is not passed",
            lambda config, view: config.top == 0 or view.number <= config.top,
            lambda config, view: view.number == config.top > 0,
        ),
    ),
)
