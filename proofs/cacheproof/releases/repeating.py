"""A violation that an era shows, repeated on an implementation: does that do the same, call by call?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.plan import not_there
from cacheproof.model.finding import Breakdown, Difference, Finding, Subject
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import TargetError
from cacheproof.model.trace import Violation
from cacheproof.model.wording import count
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.eras import Era, table


class Repetition(NamedTuple):
    """How an implementation answered the calls of a trace."""

    same: bool
    """Whether it answered and showed the same from the first call to the last."""
    sentence: str


def refusal(name: str, component: AnyComponent, variant: AnyVariant, config: Any) -> str | None:
    """Why the release is not compared in this configuration, or None; None for what is no release of the table."""
    return next((era.refusal(config) for era in _lines(component, variant) if era.release.name == name), None)


def refusal_of_all(component: AnyComponent, variant: AnyVariant, config: Any) -> str | None:
    """Why no release of an era is compared in this configuration; None if one is, and for an era without releases."""
    reasons = [era.refusal(config) for era in _lines(component, variant)]
    return "; ".join(filter(None, reasons)) if all(reasons) and reasons else None


def _lines(component: AnyComponent, variant: AnyVariant) -> list[Era]:
    return [era for era in table().eras if (era.component, era.variant) == (component.name, variant.tag)]


def repeated(
    name: str, component: AnyComponent, variant: AnyVariant, violations: Iterable[Violation]
) -> list[Repetition]:
    """One for each violation. The implementation is opened once, and closed whatever happens.

    Raises InputError or TargetError if it cannot be opened.
    """
    target = open_target(name, component, variant, SECONDS_TO_ANSWER)
    try:
        left_out = not_there(component, target)
        return [_repetition(Pair(_subject(component, variant, one), target, name, left_out), one) for one in violations]
    finally:
        target.close()


def _subject(component: AnyComponent, variant: AnyVariant, violation: Violation) -> Subject:
    return Subject(component, variant, violation.trace.config)


def _repetition(pair: Pair, violation: Violation) -> Repetition:
    subject, operations = pair.subject, tuple(step.operation for step in violation.trace.steps)
    reason = refusal(pair.name, subject.component, subject.variant, subject.config)
    if reason is not None:
        return Repetition(same=False, sentence=f"not repeated: {reason}")
    try:
        finding = pair.replay(operations, only_offered=True)
    except TargetError as error:
        return Repetition(same=False, sentence=f"{pair.name} failed: {error}")
    if finding is not None:
        return Repetition(same=False, sentence=_parting(pair.name, finding))
    if len(pair.operations) < len(operations):
        return Repetition(same=False, sentence=f"not repeated: {pair.name} lacks a call of the trace")
    return Repetition(same=True, sentence=f"{pair.name} does the same in {count(len(operations), 'call')}")


def _parting(name: str, finding: Finding) -> str:
    if isinstance(finding, Difference):
        return f"{name} does otherwise in call {finding.index + 1}: {finding.statements[0]}"
    after = f" after {count(len(finding.trace.steps), 'call')}" if finding.trace.steps else ""
    if isinstance(finding, Breakdown):
        return f"{name} gave no answer{after}: {finding.reason}"
    return f"{name} does otherwise{after}"
