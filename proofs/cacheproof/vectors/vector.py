"""A set of vectors as it is in memory, and as lines: a header, then one case a line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheproof.model.features import REFUSALS, operation_feature
from cacheproof.model.registry import AnyComponent
from cacheproof.model.wire import Message, observations_to_message, operation_to_message, outcome_to_message
from cachespec.kernel import Observation, Operation, Outcome

FORMAT, VERSION = "cacheproof-vectors", "1.1"
MOST_INTEGERS = 64
"""A longer sequence is in a file as its digest."""
DIGEST = "sha256:"
DIGITS = 16
"""Hexadecimal digits of a digest: of a long sequence, and in the name of a file."""

Shown = int | tuple[int, ...] | str
"""An observable in a file: itself, or the digest of a long sequence."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: how the call ended, and all that can be observed after it."""

    outcome: Outcome
    observations: Mapping[str, Shown]


@dataclass(frozen=True, slots=True)
class CallStep:
    """One call and the answer to it; `deviations` has other answers by the number of the catalogue that they show."""

    operation: Operation
    reply: Reply
    deviations: Mapping[str, tuple[Reply, ...]]


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """A message that is no call of the component: it is refused with this code of the protocol, and changes nothing."""

    message: Mapping[str, Any]
    error: str


Step = CallStep | RefusedStep
Case = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class VectorSet:
    """Cases of one component in one configuration, and where they come from."""

    spec: str
    component: AnyComponent
    variant: str
    origin: str
    """`exploration`, `fuzzing` or `refusals`."""
    scope: str
    about: str
    config: Any
    initial: Mapping[str, Shown]
    cases: tuple[Case, ...]
    deviations: Mapping[str, tuple[Mapping[str, Shown], ...]] = field(default_factory=dict)
    """By the number of the catalogue: other observables of the initial state."""

    @property
    def stem(self) -> str:
        """What the name of its file begins with: a set that is filled anew takes the place of the one before."""
        variant = "" if self.variant == "normative" else f".{self.variant}"
        return f"{self.component.name}{variant}.{self.scope}.{self.origin}"

    def needs(self, case: Case) -> tuple[str, ...]:
        """The features without which a case says nothing about an implementation, in the order of the declarations."""
        kinds = {type(step.operation) for step in case if isinstance(step, CallStep)}
        refusing = any(isinstance(step, RefusedStep) for step in case)
        operations = (operation_feature(self.component, kind) for kind in self.component.operations if kind in kinds)
        return (*operations, *([REFUSALS] if refusing else []))

    def features(self) -> tuple[str, ...]:
        """The features that some case needs, sorted."""
        return tuple(sorted({feature for case in self.cases for feature in self.needs(case)}))


def shown(value: Observation) -> Shown:
    """An observable as a file has it."""
    return digest_of(value) if isinstance(value, tuple) and len(value) > MOST_INTEGERS else value


def digest_of(value: tuple[int, ...]) -> str:
    """The digest of a long sequence: of its integers in decimal with commas between them."""
    return DIGEST + hashlib.sha256(",".join(map(str, value)).encode("ascii")).hexdigest()[:DIGITS]


def is_shown(expected: Shown, actual: Observation) -> bool:
    """Whether an implementation shows what a file expects."""
    if isinstance(expected, str):
        return isinstance(actual, tuple) and digest_of(actual) == expected
    return expected == actual


def all_shown(observations: Mapping[str, Observation]) -> dict[str, Shown]:
    """Observables as a file has them."""
    return {name: shown(value) for name, value in observations.items()}


def lines_of(found: VectorSet, config: Message) -> Iterable[str]:
    """The lines of the file, without newlines: always the same for the same set."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "spec": found.spec,
        "component": found.component.name,
        "variant": found.variant,
        "origin": found.origin,
        "scope": found.scope,
        "about": found.about,
        "config": config,
        "features": list(found.features()),
        "initial": _plain(found.initial),
        **_at_first(found),
        "cases": len(found.cases),
    }
    yield _json(header)
    for number, case in enumerate(found.cases, 1):
        yield _json({"case": number, "steps": list(_steps(found.initial, case))})


def _at_first(found: VectorSet) -> Message:
    """Other observables of the initial state: those that are not as they are there."""
    others = {
        number: [
            _plain({name: value for name, value in one.items() if found.initial.get(name) != value}) for one in shown
        ]
        for number, shown in found.deviations.items()
    }
    return {"deviations": others} if others else {}


def content_of(found: VectorSet, config: Message) -> bytes:
    """The whole file, in ASCII."""
    return "".join(f"{line}\n" for line in lines_of(found, config)).encode("ascii")


def name_of(stem: str, content: bytes) -> str:
    """The name of a file with this content: it has the digest of it."""
    return f"{stem}.{hashlib.sha256(content).hexdigest()[:DIGITS]}.ndjson"


def _steps(initial: Mapping[str, Shown], case: Case) -> Iterable[Message]:
    before = initial
    for step in case:
        if isinstance(step, RefusedStep):
            yield {"refused": dict(step.message), "error": step.error}
            continue
        deviations = {
            number: [_reply(step.reply.observations, other) for other in others]
            for number, others in step.deviations.items()
        }
        known = {"deviations": deviations} if deviations else {}
        yield {"call": operation_to_message(step.operation), **_reply(before, step.reply), **known}
        before = step.reply.observations


def _reply(before: Mapping[str, Shown], reply: Reply) -> Message:
    """The outcome, and the observables that are not as they were."""
    changed = {name: value for name, value in reply.observations.items() if before.get(name) != value}
    return {"outcome": outcome_to_message(reply.outcome), **({"changed": _plain(changed)} if changed else {})}


def _plain(shown_values: Mapping[str, Shown]) -> Message:
    texts = {name: value for name, value in shown_values.items() if isinstance(value, str)}
    others = {name: value for name, value in shown_values.items() if not isinstance(value, str)}
    values = observations_to_message(others)
    return {name: texts.get(name, values.get(name)) for name in shown_values}


def _json(message: Message) -> str:
    return json.dumps(message, ensure_ascii=True, separators=(",", ":"))
