"""Vectors run on a target: case by case, each from the initial state, up to the first answer that is wrong.

It is no `lockstep.pair`: the expected answers are those of a file, and no specification runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.limits import MEGABYTES, TooSlowError, too_large, within
from cacheproof.foundation.misspelt import UnknownNameError
from cacheproof.lockstep.renaming import Renaming, renaming_of
from cacheproof.model.declaration import Declaration
from cacheproof.model.features import REFUSALS, observable_feature, operation_feature
from cacheproof.model.finding import CRASHES, Answer, Breakdown, Difference, Finding, said
from cacheproof.model.finding import shown as worded
from cacheproof.model.registry import variant_named
from cacheproof.model.target import Failure, Target, TargetError
from cacheproof.model.trace import record
from cacheproof.model.wording import operation_text
from cacheproof.vectors.mixed import Expected, Mixed, rules_among
from cacheproof.vectors.vector import CallStep, Case, RefusedStep, Reply, Shown, VectorSet, is_shown
from cachespec.kernel import Code, Observation, Outcome

MOST_BREAKDOWNS = 5
"""A driver that failed so often has ended the run: each time may be as long as an answer may take."""


class Verdict(Enum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    DEVIATED = "deviated"
    """It gave the answers that declared deviations give."""
    SKIPPED = "skipped"
    """It needs a feature that was to be left out, or that the target lacks: up to there its answers were right."""
    BROKE_DOWN = "broke_down"
    """The driver failed: nothing is known."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case of one file."""

    path: Path
    vectors: VectorSet
    number: int
    """From 1 on, as in the file."""
    verdict: Verdict
    step: int = 0
    """The step at which it ended, from 1 on; 0 for the initial state."""
    reason: str = ""
    asked: bool = False
    """The user asked to skip it."""
    deviation: str = ""
    """The declared deviations that it showed, separated by commas."""
    variant: str = ""
    """The tag of the mixture that it was held to; empty if it is the variant of the file."""
    failure: Failure | None = None
    details: str = ""
    """The traceback of an implementation that crashed, or its standard error."""
    actual: Answer | None = None

    @property
    def case(self) -> Case:
        """The case itself."""
        return self.vectors.cases[self.number - 1]

    @property
    def name(self) -> str:
        """The file and the case in it."""
        return f"{self.vectors.stem} case {self.number}"


@dataclass(slots=True)
class Consumption:
    """What a run of several files was."""

    declaration: Declaration
    deviations: tuple[str, ...]
    """Those that were expected: declared by the target or given by the user."""
    results: list[CaseResult] = field(default_factory=list)
    observables: set[str] = field(default_factory=set)
    """The features of the observables that were compared."""
    could_show: set[str] = field(default_factory=set)
    """The deviations that some call that was made could show."""
    shown: set[str] = field(default_factory=set)
    """Those that some case has shown."""
    calls: int = 0
    seen: set[tuple[str, str]] = field(default_factory=set)
    """The operations that were called, each with a code that was expected of it."""
    renaming: str = ""
    """How the target's own names are compared; empty where they are the specification's."""
    interrupted: bool = False
    given_up: bool = False

    def of(self, verdict: Verdict) -> list[CaseResult]:
        """The results with this verdict."""
        return [result for result in self.results if result.verdict is verdict]

    @property
    def vanished(self) -> tuple[str, ...]:
        """Expected deviations that no case showed, although calls were made that show them."""
        return tuple(number for number in self._not_seen() if number in self.could_show)

    @property
    def untried(self) -> tuple[str, ...]:
        """Expected deviations that no call that was made could show."""
        return tuple(number for number in self._not_seen() if number not in self.could_show)

    @property
    def partial(self) -> str:
        """Why the run says little: most cases that the user did not skip need what the target lacks. Or empty."""
        skipped = [result for result in self.of(Verdict.SKIPPED) if not result.asked]
        ran = len(self.results) - len(self.of(Verdict.SKIPPED))
        if len(skipped) <= ran:
            return ""
        return f"{ran:,} of {ran + len(skipped):,} cases ran, because the target lacks what the others need"

    def _not_seen(self) -> list[str]:
        return [number for number in self.deviations if number not in self.shown]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A target, and what is not asked of it."""

    target: Target
    name: str
    declaration: Declaration
    skipped: frozenset[str] = frozenset()
    """Features by name."""
    deviations: tuple[str, ...] = ()
    seconds: float | None = None
    """What a case may take, where the target is in this process and has no limit of its own."""

    def consume(self, sets: Iterable[tuple[Path, VectorSet]], progress: Show | None = None) -> Consumption:
        """Run every case; Ctrl-C ends it with what is known."""
        whole = Consumption(self.declaration, tuple(dict.fromkeys((*self.declaration.deviations, *self.deviations))))
        try:
            for path, vectors in sets:
                for number in range(1, len(vectors.cases) + 1):
                    whole.results.append(self._case(whole, path, vectors, number))
                    if progress is not None:
                        progress(f"{vectors.stem}: {len(whole.results):,} cases, {whole.calls:,} calls")
                    if len(whole.of(Verdict.BROKE_DOWN)) >= MOST_BREAKDOWNS:
                        whole.given_up = True
                        return whole
        except KeyboardInterrupt:
            whole.interrupted = True
        return whole

    def _case(self, whole: Consumption, path: Path, vectors: VectorSet, number: int) -> CaseResult:
        case = vectors.cases[number - 1]
        asked = next((feature for feature in vectors.needs(case) if feature in self.skipped), "")
        runs, lacking = (0, f"{asked} is left out") if asked else self._runs(vectors, case)
        if runs == 0:
            return CaseResult(path, vectors, number, Verdict.SKIPPED, reason=lacking, asked=bool(asked))
        run = _Run(self, whole, path, vectors, number, runs, lacking)
        try:
            with within(self.seconds):
                return run.result()
        except TargetError as error:
            in_call = run.place > 0 and isinstance(case[run.place - 1], CallStep)
            verdict = Verdict.FAILED if in_call and error.failure in CRASHES else Verdict.BROKE_DOWN
            return run.ended(verdict, str(error), failure=error.failure, details=error.details)
        except TooSlowError as error:
            return run.ended(Verdict.BROKE_DOWN, str(error))
        except MemoryError:
            return run.ended(Verdict.BROKE_DOWN, too_large(MEGABYTES))

    def _runs(self, vectors: VectorSet, case: Case) -> tuple[int, str]:
        """How many steps of the case the target can run, and what it lacks for the next one."""
        missing = self.declaration.missing(vectors.component)
        refuses = self.declaration.refuses and hasattr(self.target, "offer")
        for place, step in enumerate(case):
            if isinstance(step, RefusedStep) and not refuses:
                return place, f"the target does not have {REFUSALS}"
            if isinstance(step, CallStep) and step.operation.wire_name() in missing:
                return place, f"the target does not have {operation_feature(vectors.component, type(step.operation))}"
        return len(case), ""


@dataclass(slots=True)
class _Run:
    consumer: Consumer
    whole: Consumption
    path: Path
    vectors: VectorSet
    number: int
    runs: int
    """The number of steps that the target can run, from the first one on."""
    lacking: str
    """What it lacks for the next step."""
    place: int = 0
    mixed: Mixed | None = None
    """What the rules among the declared deviations make of the case, or the target's own names and choices."""
    names: Renaming | None = None
    shown: set[str] = field(default_factory=set)
    """The rules that it has shown."""

    def result(self) -> CaseResult:
        target, vectors = self.consumer.target, self.vectors
        base = variant_named(vectors.component, vectors.variant)
        rules = rules_among(vectors.component, base, self.whole.deviations)
        try:
            target.reset(vectors.config)
        except UnknownNameError:
            raise
        except InputError as error:
            return self.ended(Verdict.SKIPPED, f"the target does not take this configuration: {error}")
        self.names = renaming_of(vectors.component, vectors.config, target)
        self.whole.renaming = "" if self.names is None else self.names.text
        self.mixed = None if self.names is None and not rules else Mixed(vectors, rules, self.names)
        shown = target.observe() if self.mixed is None else self.mixed.begun(target.observe())
        before, showing = (vectors.initial, frozenset[str]()) if self.mixed is None else self.mixed.start()
        wrong = self.differing(None, before, None, shown)
        self.whole.could_show.update(showing)
        self.whole.could_show.update(vectors.deviations)
        for number in self.whole.deviations if wrong else ():
            if any(not self.differing(None, other, None, shown) for other in vectors.deviations.get(number, ())):
                return self.deviated(wrong, number)
        if wrong:
            return self.ended(Verdict.FAILED, wrong, actual=Answer(None, shown))
        self.shown.update(showing)
        self.whole.shown.update(showing)
        for place, step in enumerate(vectors.cases[self.number - 1][: self.runs], 1):
            self.place = place
            if isinstance(step, RefusedStep):
                wrong = self.refused(step, before)
                if wrong:
                    return self.ended(Verdict.FAILED, wrong)
                continue
            if self.mixed is not None and not self.mixed.is_asked(step.operation):
                return self.unasked(step)
            self.whole.calls += 1
            ended, before = self.call(step)
            if ended is not None:
                return ended
        return self.ended(Verdict.SKIPPED, self.lacking) if self.lacking else self.agreed()

    def agreed(self) -> CaseResult:
        """The case has come to its end, or to a call that callers do not make."""
        if not self.shown:
            return self.ended(Verdict.PASSED)
        return self.ended(Verdict.DEVIATED, "as declared", deviation=", ".join(sorted(self.shown)))

    def unasked(self, step: CallStep) -> CaseResult:
        """Callers do not make this call, by a declared rule: nothing is said of it and of what comes after it."""
        if self.place > 1:
            return self.agreed()
        return self.ended(Verdict.SKIPPED, f"callers do not make the call {operation_text(step.operation)}", asked=True)

    def call(self, step: CallStep) -> tuple[CaseResult | None, Mapping[str, Shown]]:
        """Make the call; the result where the case ends here, and what is to be shown after it."""
        self.whole.seen.add((step.operation.wire_name(), step.reply.outcome.code.value))
        outcome = self.consumer.target.apply(step.operation if self.names is None else self.names.asked(step.operation))
        shown: Mapping[str, Observation] = {} if outcome.code is Code.DIVERGED else self.consumer.target.observe()
        expected = Expected(step.reply)
        if self.mixed is not None:
            outcome, shown = self.mixed.answered(step.operation, outcome, shown)
            expected = self.mixed.call(step.operation)
        return self.judged(step, expected, outcome, shown), expected.reply.observations

    def judged(
        self, step: CallStep, expected: Expected, outcome: Outcome, shown: Mapping[str, Observation]
    ) -> CaseResult | None:
        """The result where the case ends with this answer."""
        wrong = self.differs(expected.reply, outcome, shown)
        self.whole.could_show.update(step.deviations, expected.shown)
        if not wrong:
            self.shown.update(expected.shown)
            self.whole.shown.update(expected.shown)
            return None
        for number in self.whole.deviations if not self.shown and self.names is None else ():
            if any(not self.differs(other, outcome, shown) for other in step.deviations.get(number, ())):
                return self.deviated(wrong, number)
        if expected.shown and not self.differs(step.reply, outcome, shown):
            wrong = f"{wrong}; it is right without {', '.join(sorted(expected.shown))}, which is declared"
        return self.ended(Verdict.FAILED, wrong, actual=Answer(outcome, shown))

    def deviated(self, wrong: str, number: str) -> CaseResult:
        """The case ends with an answer that the file has for this entry of the catalogue."""
        self.whole.shown.add(number)
        return self.ended(Verdict.DEVIATED, wrong, deviation=number)

    def refused(self, step: RefusedStep, before: Mapping[str, Shown]) -> str:
        """What is wrong with how a message was refused; empty where nothing is."""
        offer: Any = self.consumer.target
        answer = offer.offer(dict(step.message))
        if answer.get("answer") != "error":
            return f"{worded_message(step)} must be refused as {step.error}, and was taken"
        if answer.get("error") != step.error:
            return f"{worded_message(step)} must be refused as {step.error}, not as {answer.get('error')}"
        state = offer.offer({"do": "observe"})
        if state.pop("answer", None) != "state":
            return f"after {worded_message(step)} was refused, it does not answer 'observe' with its state"
        changed = {name: value for name, value in before.items() if name in state}
        after = {name: tuple(value) if isinstance(value, list) else value for name, value in state.items()}
        after = after if self.names is None else self.names.shown(after)
        wrong = [name for name, value in changed.items() if not is_shown(value, after[name])]
        return f"{worded_message(step)} was refused, and changed {', '.join(wrong)}" if wrong else ""

    def differs(self, expected: Reply, outcome: Outcome, shown: Mapping[str, Observation]) -> str:
        diverged = expected.outcome.code is Code.DIVERGED
        return self.differing(expected.outcome, expected.observations, outcome, {} if diverged else shown)

    def differing(
        self,
        wanted: Outcome | None,
        expected: Mapping[str, Shown],
        outcome: Outcome | None,
        shown: Mapping[str, Observation],
    ) -> str:
        """What differs; raises TargetError for an observable that the component does not have."""
        strange = sorted(set(shown) - set(expected))
        if strange:
            there_are = ", ".join(sorted(expected))
            said_it = f"the target shows {', '.join(strange)}: {self.vectors.component.name} has {there_are}"
            raise TargetError(said_it, Failure.GARBAGE)
        lines = []
        if wanted != outcome:
            lines.append(f"outcome: the specification says {said(wanted)}, the target {said(outcome)}")
        for name, value in sorted(shown.items()):
            feature = observable_feature(self.vectors.component, name)
            if feature in self.consumer.skipped:
                continue
            self.whole.observables.add(feature)
            if not is_shown(expected[name], value):
                lines.append(f"{name}: the specification has {_worded(expected[name])}, the target {worded(value)}")
        return "; ".join(lines)

    def ended(self, verdict: Verdict, reason: str = "", **more: Any) -> CaseResult:
        variant = "" if self.mixed is None else self.mixed.subject.variant.tag
        return CaseResult(self.path, self.vectors, self.number, verdict, self.place, reason, variant=variant, **more)


def worded_run(result: CaseResult) -> list[str]:
    """The calls and messages of a case up to where it ended, as people read them."""
    steps = result.case[: result.step]
    return [operation_text(step.operation) if isinstance(step, CallStep) else worded_message(step) for step in steps]


def _worded(expected: Shown) -> str:
    return expected if isinstance(expected, str) else worded(expected)


def worded_message(step: RefusedStep) -> str:
    """A message that is refused, as people read it."""
    return " ".join(f"{key}={value}" for key, value in step.message.items())


def finding_of(result: CaseResult, target: str) -> Finding | None:
    """The finding that a case ended with, executed again by the specification; None for what was to be refused."""
    vectors = result.vectors
    variant = variant_named(vectors.component, result.variant or vectors.variant)
    steps = result.case[: result.step]
    operations = [step.operation for step in steps if isinstance(step, CallStep)]
    trace = record(vectors.component, variant, vectors.config, operations, whole_calls=True)
    if result.failure is not None:
        return Breakdown(target, result.reason, trace, result.failure, result.details)
    if result.actual is None:
        return None
    last = trace.steps[-1] if trace.steps else None
    outcome, observations = (None, trace.initial) if last is None else (last.outcome, last.observations)
    return Difference(target, trace, Answer(outcome, observations), result.actual)
