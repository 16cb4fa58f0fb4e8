"""Which properties a side breaks, by what it answers and shows itself.

If a side agrees with a variant at every call, its states are taken to be the variant's, and it breaks what the variant
breaks. If it agrees with none, the nearest variant's last view is changed to what the side shows, and the properties
are evaluated on that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cacheproof.lockstep.properties import AnyProperty, all_broken_by_call
from cacheproof.lockstep.violations_progress import settled
from cacheproof.model.finding import Answer, Subject, differing
from cacheproof.model.registry import AnyVariant
from cacheproof.releases.against.shown import EQUAL, Watched, over
from cachespec.kernel import Code, Operation, Outcome, Step

STRANGE = (ValueError, KeyError, IndexError, TypeError, AttributeError)
"""What a property may raise of a view that no state has."""
UNFIT = (ArithmeticError, LookupError)
"""What a variant may raise that is for other configurations."""
SHOWN = "shown"
"""A property is broken by what a side shows, whichever variant it is nearest to."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A property and how it is known to be broken."""

    rule: str
    statement: str
    by: str
    """The variant that the side agrees with; `SHOWN` if what it shows says so."""


@dataclass(frozen=True, slots=True)
class Run:
    """A variant along the calls: its states and outcomes, as far as it agrees with a side."""

    subject: Subject
    states: tuple[Any, ...]
    outcomes: tuple[Outcome, ...]
    whole: bool
    """Whether it agrees to the end."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The rules that a side breaks, and the names of those that could be asked of it."""

    broken: tuple[Broken, ...]
    asked: frozenset[str]

    def alone(self, other: Judged) -> tuple[Broken, ...]:
        """What this side breaks, and the other one was seen not to break."""
        known = {one.rule for one in other.broken}
        return tuple(one for one in self.broken if one.rule in other.asked and one.rule not in known)


def judged(subject: Subject, calls: Sequence[Operation], answers: Sequence[Answer], others: Sequence[Answer]) -> Judged:
    """What a side breaks in these calls. `others` are the answers of the base, whose nearest variant has the rest."""
    runs = [along(subject, variant, calls, answers) for variant in _variants(subject)]
    agreeing = next((run for run in runs if run.whole), None)
    if agreeing is not None:
        variant = agreeing.subject.variant
        asked = frozenset(rule.name for rule in variant.held_to(subject.component.properties()))
        return Judged(tuple(dict.fromkeys(_of_the_variant(agreeing, calls))), asked)
    of_others = [along(subject, variant, calls, others) for variant in _variants(subject)]
    nearest = next((run for run in of_others if run.whole), None)
    if nearest is None or not calls:
        return Judged((), frozenset())
    asked_of = list(_of_what_is_shown(nearest, calls, answers))
    fresh = [Broken(rule.name, rule.statement, SHOWN) for rule, holds in asked_of if not holds]
    before = _in_calls(nearest, calls[:-1])
    return Judged(tuple(dict.fromkeys((*before, *fresh))), frozenset(rule.name for rule, _ in asked_of))


def _of_what_is_shown(run: Run, calls: Sequence[Operation], answers: Sequence[Answer]) -> Iterator[tuple[Any, bool]]:
    """Rules that read nothing of the last view but what the side shows, and whether each holds there."""
    subject, before, after = run.subject, run.states[-2], run.states[-1]
    outcome = answers[-1].outcome
    view = subject.variant.view(subject.config, after)
    usual = subject.component.observe(subject.config, view)
    try:
        known = over(subject.component.name, view, {**usual, **answers[-1].observations})
    except STRANGE:  # what it shows has no sense, and the difference says so
        known = None
    if known is None or outcome is None or outcome.code is Code.DIVERGED:
        return
    old = subject.variant.view(subject.config, before)
    rules: list[AnyProperty] = [*subject.component.safety, *subject.component.steps]
    for rule in subject.variant.held_to(rules):
        holds = _holds(rule, subject, old, calls[-1], outcome, *known)
        if holds is not None:
            yield rule, holds


def _holds(
    rule: Any, subject: Subject, old: Any, call: Operation, outcome: Outcome, new: Any, fields: frozenset[str]
) -> bool | None:
    """None if the rule reads more than what is shown. A state that was wrong before is no news."""
    reads = set[str]()
    watched = Watched(new, reads)
    try:
        if isinstance(rule, Step):
            holds = rule.holds(subject.config, old, call, outcome, watched)
        else:
            holds = rule.holds(subject.config, watched) or not rule.holds(subject.config, old)
    except STRANGE:  # what is shown does not fit the rest
        return None
    return holds if reads <= {*fields, EQUAL} else None


def along(subject: Subject, variant: AnyVariant, calls: Sequence[Operation], answers: Sequence[Answer]) -> Run:
    """The variant's run, until it and the answers part."""
    own = Subject(subject.component, variant, subject.config)
    states, outcomes = [variant.start(subject.config)], list[Outcome]()
    if not _agrees(own, states[0], None, answers[0]):
        return Run(own, tuple(states), (), whole=False)
    for call, answer in zip(calls, answers[1:], strict=False):
        try:
            state, outcome = variant.call(subject.config, states[-1], call)
        except UNFIT:
            return Run(own, tuple(states), tuple(outcomes), whole=False)
        if not _agrees(own, state, outcome, answer):
            return Run(own, tuple(states), tuple(outcomes), whole=False)
        states.append(state)
        outcomes.append(outcome)
    return Run(own, tuple(states), tuple(outcomes), whole=len(outcomes) == len(calls))


def _agrees(subject: Subject, state: Any, outcome: Outcome | None, answer: Answer) -> bool:
    shown = subject.component.observe(subject.config, subject.variant.view(subject.config, state))
    if outcome is not None and outcome.code is Code.DIVERGED:
        return answer.outcome == outcome
    known = {name: value for name, value in answer.observations.items() if name in shown}
    return not differing(Answer(outcome, shown), Answer(answer.outcome, known))


def _variants(subject: Subject) -> Iterator[AnyVariant]:
    """That of the environment first, then the others."""
    yield subject.variant
    yield from (one for one in subject.component.variants.values() if one is not subject.variant)


def _of_the_variant(run: Run, calls: Sequence[Operation]) -> Iterator[Broken]:
    """What each call breaks, and what is owed at the end and never comes."""
    yield from _in_calls(run, calls)
    ends = not run.outcomes or run.outcomes[-1].code is not Code.DIVERGED
    if ends and (end := settled(run.subject, run.states[-1])) is not None:
        for rule in end.rules:
            yield Broken(rule.name, rule.statement, run.subject.variant.tag)


def _in_calls(run: Run, calls: Sequence[Operation]) -> Iterator[Broken]:
    subject = run.subject

    def viewed(state: Any) -> Any:
        return subject.variant.view(subject.config, state)

    for number, (call, outcome) in enumerate(zip(calls, run.outcomes, strict=False)):
        before, after = run.states[number], run.states[number + 1]
        for rule in all_broken_by_call(subject, before, call, outcome, after, viewed):
            yield Broken(rule.name, rule.statement, subject.variant.tag)
