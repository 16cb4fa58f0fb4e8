"""A recorded run: NDJSON, a header and then one line for each operation, with its outcome and what could be seen.

The header has `format`, `version`, `component`, `variant` and `config` as a trace has them. A line has `operation` and
`outcome` as the steps of a trace do; `observations` may leave out what was not recorded, and `source` says where in the
recordings of the processes the operation is. Validating is lockstep with a target that plays the recording back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cacheproof.errors import InputError
from cacheproof.fuzz.difference import Finding, Subject
from cacheproof.fuzz.pair import Pair
from cacheproof.registry import component_named, variant_named
from cacheproof.targets.target import TargetError
from cacheproof.wire import (
    config_from_message,
    config_to_message,
    observations_from_message,
    observations_to_message,
    operation_from_message,
    operation_to_message,
    outcome_from_message,
    outcome_to_message,
)
from cachespec.kernel import Observation, Operation, Outcome

FORMAT, VERSION = "cacheproof-recorded-run", "0.1"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One operation as it was recorded."""

    operation: Operation
    outcome: Outcome
    observations: Mapping[str, Observation] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A whole run. `trouble` is why the recordings do not go on as one run after the last step, or nothing."""

    subject: Subject
    steps: tuple[Recorded, ...]
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What validation says: the run is one of the specification where there is neither a finding nor trouble."""

    performed: int
    """How many operations the specification performed as recorded."""
    finding: Finding | None
    source: str
    """Where the first impossible operation was recorded."""
    trouble: str

    @property
    def possible(self) -> bool:
        """Whether the whole recording was consumed, and the specification does the same."""
        return self.finding is None and not self.trouble


class Playback:
    """A recorded run as a target: it answers what was recorded, whatever it is asked."""

    def __init__(self, run: RecordedRun) -> None:
        self._config, self._steps, self._next = run.subject.config, run.steps, 0

    def reset(self, config: Any) -> None:
        if config != self._config:
            raise TargetError(f"the run was recorded in {self._config}, not in {config}")
        self._next = 0

    def apply(self, operation: Operation) -> Outcome:
        step = self._steps[self._next]
        if step.operation != operation:
            raise TargetError(f"{operation} was not recorded at this place")
        self._next += 1
        return step.outcome

    def observe(self) -> Mapping[str, Observation]:
        return self._steps[self._next - 1].observations if self._next > 0 else {}

    def close(self) -> None:
        """Nothing is held."""


def validated(run: RecordedRun) -> Verdict:
    """Perform the run on the specification, properties included, up to the first operation that is impossible."""
    pair = Pair(run.subject, Playback(run), "the recording")
    finding = pair.restart()
    for step in run.steps:
        if finding is not None:
            break
        finding = pair.apply(step.operation)
    count = len(pair.operations)
    if finding is None:
        return Verdict(count, None, "", run.trouble)
    return Verdict(max(count - 1, 0), finding, run.steps[count - 1].source if count else "", "")


# Files --------------------------------------------------------------------------------------------------------------


def written(run: RecordedRun) -> Iterable[str]:
    """The lines of the run's file."""
    subject = run.subject
    yield json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "component": subject.component.name,
            "variant": subject.variant.tag,
            "config": config_to_message(subject.config),
        }
    )
    for step in run.steps:
        line = {"operation": operation_to_message(step.operation), "outcome": outcome_to_message(step.outcome)}
        line |= {"observations": observations_to_message(step.observations)} if step.observations else {}
        yield json.dumps(line | ({"source": step.source} if step.source else {}))


def read(path: Path) -> RecordedRun:
    """The run in a file; InputError, with the line, where it is none."""
    header, *lines = lines_of(path)
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise InputError(f"{path}:1: not a recorded run of format {FORMAT} {VERSION}")
    component = component_named(str(header.get("component")))
    variant = variant_named(component, str(header.get("variant")))
    given = header.get("config")
    config = config_from_message(component, given if isinstance(given, dict) else {})
    steps = []
    for number, line in enumerate(lines, start=2):
        try:
            steps.append(_step(component.operations, line, f"{path.name}:{number}"))
        except InputError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    return RecordedRun(Subject(component, variant, config), tuple(steps))


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of NDJSON. What follows the last newline was never finished, and is left out."""
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            message = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(message, dict):
            raise InputError(f"{path}:{number}: not an object")
        found.append(message)
    if not found:
        raise InputError(f"{path}: nothing is recorded")
    return found


def _step(operations: Iterable[type[Operation]], line: Mapping[str, Any], source: str) -> Recorded:
    parts = {name: line.get(name, {}) for name in ("operation", "outcome", "observations")}
    for name, part in parts.items():
        if not isinstance(part, dict):
            raise InputError(f"{name} must be an object")
    return Recorded(
        operation_from_message(operations, parts["operation"]),
        outcome_from_message(parts["outcome"]),
        observations_from_message(parts["observations"]),
        str(line.get("source", source)),
    )
