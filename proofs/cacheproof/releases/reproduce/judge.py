"""A case performed on a target, and whether the violation occurred.

Target and era make the calls side by side. If they part, the violation is not shown. If they agree throughout, and the
era's run breaks the property, the target broke it. Where there is a look at the target itself (`looks`), that decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from cacheproof.lockstep.pair import Pair
from cacheproof.model.finding import Answer, Breakdown, Difference, said, shown
from cacheproof.model.target import Target, TargetError
from cacheproof.model.wording import operation_text, settings
from cacheproof.releases.reproduce.case import Case
from cacheproof.releases.reproduce.looks import look
from cacheproof.search.breaking import Run
from cachespec.kernel import Code, Observation, Operation, Outcome


class Ending(IntEnum):
    """Exit statuses of a reproduction."""

    NOT_SHOWN = 0
    VIOLATED = 1
    CANNOT_RUN = 3

    @property
    def words(self) -> str:
        """The beginning of the last line."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Call:
    """One call, the target's answer, and what the specification's rules say where both can be compared."""

    operation: Operation
    answer: Outcome
    era: Outcome
    rules: Outcome | None
    """The normative variant's answer to the same calls until here; None from the first different answer on."""
    changed: dict[str, Observation]
    """Observables of the target that the call changed."""

    @property
    def text(self) -> str:
        """`put(key=0, size=1)`."""
        return operation_text(self.operation)

    def as_message(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "call": self.text,
            "answer": said(self.answer),
            "era": said(self.era),
            "specification": None if self.rules is None else said(self.rules),
            "changed": {name: shown(value) for name, value in self.changed.items()},
        }


@dataclass(frozen=True, slots=True)
class Judged:
    """What was seen."""

    case: Case
    calls: tuple[Call, ...]
    ending: Ending
    says: str

    @property
    def last_line(self) -> str:
        """What it comes to."""
        return f"{self.ending.words}: {self.says}"

    @property
    def as_recorded(self) -> bool:
        """Whether it ended as is recorded: the status, and the line if there is one."""
        return self.ending == self.case.recorded and self.case.printed in ("", self.last_line)

    def as_message(self) -> dict[str, Any]:
        """For JSON."""
        case = self.case
        return {
            "id": case.id,
            "target": case.target,
            "component": case.component,
            "variant": case.variant,
            "property": case.rule,
            "statement": case.statement,
            "config": case.config,
            "calls": [call.as_message() for call in self.calls],
            "violated": self.ending is Ending.VIOLATED,
            "verdict": self.last_line,
        }

    def lines(self) -> Iterator[str]:
        """For people, the verdict last."""
        yield from head(self.case)
        width = max((len(call.text) for call in self.calls), default=0)
        for number, call in enumerate(self.calls, 1):
            other = "" if call.rules in (None, call.answer) else f" (the specification: {said(call.rules)})"
            changed = "; ".join(f"{name} {shown(value)}" for name, value in call.changed.items())
            line = f"{number:>4}  {call.text:<{width}}  -> {said(call.answer)}{other}"
            yield f"{line}; {changed}" if changed else line
        yield ""
        yield self.last_line


def head(case: Case) -> Iterator[str]:
    """What is performed, and what should hold."""
    about = f" ({case.known_as})" if case.known_as else ""
    yield f"{case.id}{about}"
    with_first = f" with {case.first}" if case.first else ""
    yield f"{case.target}{with_first}, {case.component}, described by era {case.variant}"
    yield f"{case.rule}: {case.statement}".removeprefix(": ")
    if case.reach:
        yield f"reach: {case.reach}"
    yield f"configuration: {settings(case.subject.component.config, case.config)}; everything else as by default"
    yield ""


def judged(case: Case, target: Target) -> Judged:
    """Perform the case. Raises InputError for a case that is none; a driver that fails ends in CANNOT_RUN."""
    subject = case.subject
    operations = case.calls()
    pair, rules = Pair(subject, target, case.target), _Rules(case)
    calls: list[Call] = []

    def ended(ending: Ending, says: str) -> Judged:
        return Judged(case, tuple(calls), ending, says)

    finding = pair.restart()
    before = dict(target.observe()) if finding is None else {}
    for operation in operations:
        if finding is not None:
            break
        finding = pair.apply(operation)
        if isinstance(finding, Breakdown) or pair.latest is None:
            break
        era = pair.latest[1]
        answer = finding.actual.outcome if isinstance(finding, Difference) and finding.actual.outcome else era
        after = before if answer.code is Code.DIVERGED else dict(target.observe())
        changed = {name: value for name, value in after.items() if before.get(name) != value}
        calls.append(Call(operation, answer, era, rules.answer(operation, answer), changed))
        before = after
    if isinstance(finding, Breakdown):
        return ended(Ending.CANNOT_RUN, f"the driver failed: {finding.reason}")
    if isinstance(finding, Difference) and not case.rule and calls[-1:] and calls[-1].answer.code is Code.FAILED:
        last = calls[-1]
        return ended(
            Ending.VIOLATED, f"at call {len(calls)}, {last.text} -> failed, where {case.variant} says {said(last.era)}"
        )
    if isinstance(finding, Difference):
        where = f"at call {len(calls)}, {calls[-1].text}," if calls else "in the initial state"
        return ended(Ending.NOT_SHOWN, f"{where} it is not as {case.variant}: {'; '.join(_parting(finding))}")
    if not case.rule:
        return ended(Ending.NOT_SHOWN, f"no call fails, and {case.variant} answers alike")
    rule = next(each for each in subject.component.properties() if each.name == case.rule)
    cycle = len(case.operations) if case.cycle else None
    run = Run(subject.component, subject.variant, subject.config, operations, whole_calls=True)
    number = run.broken_after(rule, cycle)
    try:
        seen = look(case, [call.answer for call in calls], target)
    except TargetError as error:
        return ended(Ending.CANNOT_RUN, f"the driver failed: {error}")
    if seen is not None and not seen.violated:
        return ended(Ending.NOT_SHOWN, seen.says)
    if seen is None and number is None:
        return ended(Ending.NOT_SHOWN, f"{case.rule} holds throughout in {case.variant}, which answers alike")
    number = len(calls) if number is None else number
    answered = f"after call {number}, {calls[number - 1].text} -> {said(calls[number - 1].answer)}" if number else ""
    where = answered or "in the initial state"
    more = f"; {seen.says}" if seen is not None else ""
    return ended(Ending.VIOLATED, f"{where}, {case.rule} does not hold: {case.statement}{more}")


class _Rules:
    """The normative variant, given the same calls as long as it answers them alike."""

    def __init__(self, case: Case) -> None:
        subject = case.subject
        self._variant, self._config = subject.component.normative, subject.config
        self._state: Any = self._variant.start(self._config)
        self._compared = True

    def answer(self, operation: Operation, actual: Outcome) -> Outcome | None:
        """Its answer; None once it parted, or if its environment does not make this call now."""
        variant, config = self._variant, self._config
        if not self._compared or operation not in variant.alphabet(config, self._state):
            self._compared = False
            return None
        self._state, outcome = variant.call(config, self._state, operation)
        self._compared = outcome == actual
        return outcome


def _parting(finding: Difference) -> Iterator[str]:
    """The outcome alone if that differs: what is shown after it follows from it."""
    expected, actual = finding.expected, finding.actual
    if expected.outcome != actual.outcome:
        yield f"it answers {said(actual.outcome)}, not {said(expected.outcome)}"
        return
    yield from (
        f"{name} is {shown(value)}, not {_shown_by(expected, name)}"
        for name, value in sorted(actual.observations.items())
        if expected.observations.get(name) != value
    )


def _shown_by(answer: Answer, name: str) -> str:
    value = answer.observations.get(name)
    return "shown" if value is None else shown(value)
