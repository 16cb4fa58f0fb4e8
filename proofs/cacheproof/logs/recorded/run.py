"""A recorded run: operations with their outcomes, and what could be seen. It is validated, and written, as a log.

What validation has beyond that of any log: the properties of the specification are looked at after every operation.
It is no `lockstep.Pair`: the run is over, so the validator of logs follows it, and no target is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import json_of
from cacheproof.lockstep.properties import broken_by_call
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.lines import Line
from cacheproof.logs.validate.possible import CAP
from cacheproof.logs.validate.validator import Validator
from cacheproof.logs.validate.verdict import Impossible, Inconclusive
from cacheproof.logs.validate.writing import LogWriter
from cacheproof.model.finding import Subject
from cacheproof.model.trace import Violation, record
from cachespec.kernel import NORMATIVE, Observation, Operation, Outcome

Finding = Impossible | Inconclusive | Violation


@dataclass(frozen=True, slots=True)
class Recorded:
    """One operation as it was recorded."""

    operation: Operation
    outcome: Outcome
    observations: Mapping[str, Observation] = field(default_factory=dict)
    source: str = ""

    @property
    def line(self) -> Line:
        """The same as a line of a log, of which all is known."""
        operands = {one.name: getattr(self.operation, one.name) for one in fields(self.operation)}
        kind, outcome = type(self.operation), self.outcome
        return Line(
            True, kind, operands, self.operation, outcome.code, outcome.values, dict(self.observations), self.source
        )


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A whole run. `trouble` is why the recordings do not go on as one run after the last step, or nothing."""

    subject: Subject
    steps: tuple[Recorded, ...]
    trouble: str = ""

    @property
    def header(self) -> Header:
        """Of the log."""
        subject = self.subject
        return Header(subject.component, subject.variant, subject.config, {}, promises=("lines", "sha256"))


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


def validated(run: RecordedRun) -> Verdict:
    """Take the run as a log, properties included, up to the first operation that is impossible."""
    validator = Validator(run.header, CAP)
    for count, step in enumerate(run.steps):
        before = list(validator.possible)
        finding: Finding | None = validator.take(step.line, count + 2, str(step.operation))
        if finding is None and run.subject.variant.tag == NORMATIVE:
            finding = _broken(run, count, before, list(validator.possible))
        if finding is not None:
            return Verdict(count, finding, step.source, "")
    return Verdict(len(run.steps), None, "", run.trouble)


def _broken(run: RecordedRun, count: int, before: list[Any], after: list[Any]) -> Violation | None:
    """The property that does not hold of a step; all of each operation is known, so there is one state."""
    if len(before) != 1 or len(after) != 1:
        return None
    subject, step = run.subject, run.steps[count]
    broken = broken_by_call(subject, before[0], step.operation, step.outcome, after[0])
    if broken is None:
        return None
    operations = [one.operation for one in run.steps[: count + 1]]
    trace = record(subject.component, subject.variant, subject.config, operations, whole_calls=True)
    return Violation(broken.name, broken.statement, trace)


def write(run: RecordedRun, stream: BinaryIO) -> None:
    """The run as a log, which `cacheproof validate` reads."""
    log = LogWriter(stream, run.header)
    for step in run.steps:
        log.line(step.operation, step.outcome, step.observations, step.source)
    log.end()


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of NDJSON. An unfinished line after the last newline is left out."""
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            message = json_of(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(message, dict):
            raise InputError(f"{path}:{number}: not an object")
        found.append(message)
    if not found:
        raise InputError(f"{path}: nothing is recorded")
    return found
