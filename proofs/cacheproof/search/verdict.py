"""What an exploration means: each property's verdict against the expected one, and what else is amiss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.scope import DRAWN, Scope
from cacheproof.search.coverage import never_fired
from cacheproof.search.result import Ending, Exploration, Parting
from cachespec.kernel import NORMATIVE, Progress


class Finding(Enum):
    """What is said of one property in one scope."""

    HOLDS = "holds"
    """In every state, step or fair run that the scope asks for."""
    VIOLATED = "violated"
    OPEN = "open"
    """Not violated in what was explored, which is not the whole scope."""
    EXEMPT = "exempt"
    """The property does not apply to this variant; its declaration says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One property in one run. Lengths are those of the shortest counterexample, in operations."""

    rule: str
    expected: Finding
    found: Finding
    trace_length: int | None = None
    expected_length: int | None = None
    catalogue: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether it is the expected one, with a counterexample of the expected length."""
        return self.expected is self.found and self.trace_length == self.expected_length


@dataclass(frozen=True, slots=True)
class RunJudgement:
    """All verdicts of a run. `drift` says which golden counts changed, `amiss` what else is wrong, one line each."""

    verdicts: tuple[Verdict, ...]
    drift: tuple[str, ...]
    amiss: tuple[str, ...]
    status: ExitStatus


def judge(
    component: AnyComponent, variant: AnyVariant, scope: Scope, exploration: Exploration, remarks: tuple[str, ...] = ()
) -> RunJudgement:
    """Compare what was found with what the scope file expects. A remark says what else is wrong with the run."""
    verdicts = tuple(_verdicts(component, variant, scope, exploration))
    violated_unasked = any(v.found is Finding.VIOLATED and v.expected is not Finding.VIOLATED for v in verdicts)
    if exploration.parting is not None:
        return RunJudgement(verdicts, (), (_parted(exploration.parting),), ExitStatus.FELL_SHORT)
    if remarks:
        return RunJudgement(verdicts, (), remarks, ExitStatus.FELL_SHORT)
    golden = scope.expectation(variant.tag).states
    if exploration.ending is Ending.STATES and golden is not None and exploration.states > golden:
        beyond = f"states: {exploration.states} and more, where {golden} was expected: stopped there"
        return RunJudgement(verdicts, (beyond,), (), ExitStatus.FELL_SHORT)
    if not exploration.ending.conclusive:
        status = ExitStatus.FELL_SHORT if violated_unasked else ExitStatus.INCONCLUSIVE
        return RunJudgement(verdicts, (), (), status)
    cut_short = exploration.ending is Ending.FOUND and violated_unasked
    drift = () if cut_short else tuple(_drift(scope, exploration))
    amiss = tuple(_uncovered(scope, exploration))
    good = all(verdict.as_expected for verdict in verdicts) and not drift and not amiss
    return RunJudgement(verdicts, drift, amiss, ExitStatus.AS_EXPECTED if good else ExitStatus.FELL_SHORT)


def unwitnessed(component: AnyComponent, explorations: Iterable[Exploration]) -> tuple[str, ...]:
    """The properties whose witness none of these runs of the normative variant reached."""
    seen = {name for run in explorations if run.variant == NORMATIVE for name in run.witnessed}
    exempt = component.normative.exempt
    return tuple(rule.name for rule in component.properties() if rule.name not in seen and rule.name not in exempt)


def _verdicts(
    component: AnyComponent, variant: AnyVariant, scope: Scope, exploration: Exploration
) -> Iterator[Verdict]:
    expectation = scope.expectation(variant.tag)
    wanted = {violation.property: violation for violation in expectation.violations}
    shown = {violation.property: len(violation.trace.steps) for violation in exploration.violations}
    whole = exploration.ending in (Ending.EXHAUSTED, Ending.DEPTH)
    partial = bool(wanted) and not expectation.exhaust
    for rule in component.properties():
        if rule.name in variant.exempt:
            yield Verdict(rule.name, Finding.EXEMPT, Finding.EXEMPT)
            continue
        if isinstance(rule, Progress) and not scope.plan.liveness:
            continue
        expected = Finding.OPEN if partial else Finding.HOLDS
        if rule.name in wanted:
            expected = Finding.VIOLATED
        found = Finding.HOLDS if whole and not partial else Finding.OPEN
        if rule.name in shown:
            found = Finding.VIOLATED
        known = wanted.get(rule.name)
        yield Verdict(
            rule.name,
            expected,
            found,
            trace_length=shown.get(rule.name),
            expected_length=known.length if known else None,
            catalogue=known.catalogue if known else "",
        )


def _parted(parting: Parting) -> str:
    calls = len(parting.difference.trace.steps)
    return f"parts from the specification after {calls} operation{'s' * (calls != 1)}: {parting.sentence}"


def _drift(scope: Scope, exploration: Exploration) -> Iterator[str]:
    if scope.set == DRAWN:
        return
    expectation = scope.expectation(exploration.variant)
    for name in ("states", "transitions", "depth", "digest"):
        golden, found = getattr(expectation, name), getattr(exploration, name)
        if golden is None:
            yield f"{name}: {found}, and the scope file expects nothing yet"
        elif golden != found:
            yield f"{name}: {found}, where {golden} was expected"


def _uncovered(scope: Scope, exploration: Exploration) -> Iterator[str]:
    """Coverage is asked of runs that saw all that the scope asks for."""
    if exploration.ending is Ending.FOUND or scope.set == DRAWN:
        return
    silent, reasons = never_fired(exploration.coverage), scope.reasons(exploration.variant)
    for name in silent:
        if name not in reasons:
            yield f"operation {name} never happened: widen the scope, or say why in uncovered"
    for name in reasons:
        if name not in silent and name in exploration.coverage:
            yield f"operation {name} happened, although uncovered says that it cannot"
