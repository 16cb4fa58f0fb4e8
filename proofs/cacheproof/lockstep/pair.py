"""A target and the specification, side by side: one whole call at a time, or in bursts of calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.properties import AnyProperty, broken_by_call, broken_in
from cacheproof.lockstep.renaming import Renaming, renaming_of
from cacheproof.lockstep.showing import Showing
from cacheproof.lockstep.tally import Tally
from cacheproof.model.burst import Answered, Together, burst_of, view_of
from cacheproof.model.finding import Answer, Breakdown, Difference, Finding, Subject, differing, parting, said
from cacheproof.model.target import Failure, Target, TargetError
from cacheproof.model.trace import Trace, TraceStep, Violation, record
from cacheproof.model.wording import operation_text
from cachespec.kernel import FROZEN, NORMATIVE, REROOTING, Code, Containers, Observation, Operation, Outcome

PATIENCE = 20
"""Calls in a row that show nothing that was not seen before in the episode: then it is over, as where all are gone."""
MOST_WITH_PROPERTIES = 512
"""Requests up to which properties are looked at beside bursts; their cost grows with the square of this."""


class Wrong(NamedTuple):
    """What is wrong after a burst. `sort` is `difference`, `violation` (a property does not hold) or `breakdown`."""

    sort: str
    statements: tuple[str, ...]
    property: str = ""


class Pair:
    """Both sides in the same state, as far as the target shows.

    `restart` and `apply` compare after each call: how it ended, what is shown, and every property. With `begin_bursts`
    and `burst` a target makes calls at once, offered or not, and the specification makes them one by one. How each
    ended is compared; the states, which may have thousands of requests, only by `compare_states`.

    Properties are checked on the specification's side where its variant is the normative one: an era breaks some of
    them by design. `left_out` are operations that are never offered, for targets that lack them.

    A target that has names of its own is asked first: the specification then takes the same free names.
    """

    def __init__(
        self,
        subject: Subject,
        target: Target,
        name: str,
        left_out: frozenset[str] = frozenset(),
        patience: int = PATIENCE,
    ) -> None:
        self.subject = subject
        self.name = name
        self.patience = patience
        self.operations: list[Operation] = []
        """The calls since the last restart."""
        self.outcomes: list[Outcome] = []
        """How they ended, by the specification."""
        self.tally = Tally()
        self.target = target
        self._names = {
            kind: kind.wire_name() for kind in subject.variant.transitions if kind.wire_name() not in left_out
        }
        """Operations that the variant has, and that are not left out."""
        self._views: tuple[tuple[Any, Any], ...] = ()
        """The last two states, with their views."""
        self._checks = subject.variant.tag == NORMATIVE
        self._state: Any = None
        self.latest: tuple[Any, Outcome] | None = None
        """The specification's state before the last call, and how that call ended; None in the initial state."""
        self._offered: tuple[Operation, ...] | None = None
        self._over = False
        self._seen: set[int] = set()
        self._idle = 0
        self._showing = Showing(subject)
        self.remark = ""
        """What the target said of the last call beside its outcome."""
        self._renaming: Renaming | None = None
        """Between the target's names and the specification's; None where they are the same."""
        self._initial: dict[str, Observation] = {}
        self._steps: list[TraceStep] = []
        """The calls since the last restart with the names that the target chose; empty where names are the same."""

    @property
    def offered(self) -> tuple[Operation, ...]:
        """The operations that the environment may do now; none where the episode is over."""
        if self._offered is None:
            self._offered = self.offers(self._state) if not self._over else ()
            self.tally.offered.update(self._names[kind] for kind in {type(one) for one in self._offered})
        return self._offered

    def offers(self, state: Any) -> tuple[Operation, ...]:
        """The operations that the environment may do in this state, and that are not left out."""
        alphabet = self.subject.variant.alphabet(self.config, state)
        return tuple(one for one in alphabet if type(one) in self._names and self._can_ask(one))

    @property
    def config(self) -> Any:
        """The configuration of both sides."""
        return self.subject.config

    @property
    def state(self) -> Any:
        """The specification's state: where both sides agree, what the target was seen to have come to."""
        return self._state

    def configure(self, config: Any) -> None:
        """Take another configuration, from the next restart on."""
        if config is not self.subject.config:
            self.subject = replace(self.subject, config=config)
            self._showing = Showing(self.subject)
            self._views = ()

    def restart(self) -> Finding | None:
        """Both sides begin again; what they show in the initial state is compared."""
        self._begin(FROZEN)
        if not self.offered:
            raise InputError(f"{self.subject.component.name}: this configuration offers no operation to begin with")
        self.tally.episodes += 1
        try:
            actual = self._begun(self._asked(None, None))
        except TargetError as error:
            return Breakdown(self.name, f"{error} (at the start)", self._trace(), error.failure, error.details)
        broken = broken_in(self.subject, self._state, self.viewed) if self._checks else None
        expected = self._expected(None)
        self.tally.rules.update(self._showing.restart(expected.observations))
        return self._compared(expected, actual, broken)

    def apply(self, operation: Operation) -> Finding | None:
        """One whole call on both sides; what they answer and show is compared."""
        first = self._asked_first(operation) if self._renaming is not None else None
        before = self._state
        outcome = self._make(operation)
        broken = self._broken_by(before, operation, outcome) if self._checks else None
        if self._renaming is not None:
            self._steps.append(TraceStep(operation, outcome, self._observed()))
        try:
            if isinstance(first, TargetError):
                raise first
            actual = self._asked(operation, outcome) if first is None else first
        except TargetError as error:
            return Breakdown(self.name, str(error), self._trace(), error.failure, error.details)
        expected = self._expected(outcome)
        self.tally.rules.update(self._showing.call(before, operation, outcome, expected.observations))
        return self._compared(expected, actual, broken)

    def replay(self, operations: Iterable[Operation], *, only_offered: bool) -> Finding | None:
        """The first finding of these calls from the start, or None.

        With `only_offered`, the run ends where an operation is not offered when its turn comes. It ends anyway where
        an operation has a name that a target with names of its own has not shown.
        """
        finding = self.restart()
        for operation in operations:
            if finding is not None or (only_offered and operation not in self.offered) or not self._can_ask(operation):
                break
            finding = self.apply(operation)
        return finding

    def offered_after(self, operations: Iterable[Operation]) -> list[Operation]:
        """The operations that the environment may do after these calls from the start, in the order of the alphabet.

        If the target chooses names, it makes the calls too, and the specification follows its choices.
        """
        subject = self.subject
        if self._renaming is not None:
            self.replay(operations, only_offered=False)
            return list(self.offers(self._state))
        state = subject.variant.start(subject.config)
        for operation in operations:
            state, _ = subject.variant.call(subject.config, state, operation)
        return list(subject.variant.alphabet(subject.config, state))

    def begin_bursts(self) -> Wrong | None:
        """Both sides begin again, and their states are compared. Raises `TargetError` where the target fails."""
        self._begin(REROOTING)
        self.tally.episodes += 1
        self.target.reset(self.config)
        return self.compare_states()

    def burst(self, together: Together) -> tuple[Answered, str]:
        """The calls that the target made, and what is wrong with them or with how they ended; empty if nothing is."""
        answered = burst_of(self.target, together) if together.calls else []
        return answered, together.lacking(answered) or self.follow(answered)

    def follow(self, answered: Answered) -> str:
        """The specification makes the calls of a burst: what is wrong with the first that ended in another way."""
        for turn, (call, outcome) in enumerate(answered):
            wanted = self._make(call)
            if outcome != wanted:
                where = f"call {turn + 1} of {len(answered)} in its burst, {operation_text(call)}"
                return f"{where}: the specification says {said(wanted)}, the target {said(outcome)}"
        return ""

    def compare_states(self) -> Wrong | None:
        """What differs in what both show, in the variant's normal form, and in what the target keeps of the view."""
        component, variant = self.subject.component, self.subject.variant
        state = self._state if variant.normal is None else variant.normal(self.config, self._state)
        view = variant.view(self.config, state)
        expected, actual = component.observe(self.config, view), self.target.observe()
        self.tally.observables.update(actual)
        statements = [
            parting(name, expected.get(name, ()), value)
            for name, value in sorted(actual.items())
            if expected.get(name) != value
        ]
        for name, value in () if statements else view_of(self.target).items():
            if (wanted := getattr(view, name)) != value:
                statements.append(parting(f"{name} of the state", *(_listed(one) for one in (wanted, value))))
        if statements:
            return Wrong("difference", tuple(statements))
        if self._checks and size_of(self.config) <= MOST_WITH_PROPERTIES:
            broken = broken_in(self.subject, self._state)
            if broken is not None:
                return Wrong("violation", (f"{broken.name} does not hold: {broken.statement}",), broken.name)
        return None

    def _begin(self, containers: Containers) -> None:
        """The specification's side begins again."""
        self.operations, self.outcomes = [], []
        self._state = self.subject.variant.start(self.config, containers)
        self.latest = None
        self._offered, self._over = None, False
        self._seen, self._idle = set(), 0
        self._renaming, self._steps = None, []

    def _make(self, operation: Operation) -> Outcome:
        """The specification's side makes the call."""
        before = self._state
        self._state, outcome = self.subject.variant.call(self.config, before, operation)
        self.latest = before, outcome
        self.operations.append(operation)
        self.outcomes.append(outcome)
        self._offered = None
        self._over = outcome.code is Code.DIVERGED
        self.tally.count(operation, outcome)
        return outcome

    def _broken_by(self, before: Any, operation: Operation, outcome: Outcome) -> AnyProperty | None:
        return broken_by_call(self.subject, before, operation, outcome, self._state, self.viewed)

    def viewed(self, state: Any) -> Any:
        """The view of one of the last two states, made once."""
        for known, view in self._views:
            if known is state:
                return view
        view = self.subject.variant.view(self.config, state)
        self._views = ((state, view), *self._views[:1])
        return view

    def _expected(self, outcome: Outcome | None) -> Answer:
        answer = Answer(outcome, self._observed())
        shown = hash(tuple(answer.observations.values()))
        self._idle = self._idle + 1 if shown in self._seen else 0
        self._seen.add(shown)
        self.tally.states.add(shown)
        self._over = self._over or self._idle >= self.patience
        return answer

    def _asked(self, operation: Operation | None, expected: Outcome | None) -> Answer:  # noqa: ARG002  # see `Foreseen`
        """What the target answers to the call, or shows at the start. `expected` is what the specification says."""
        if operation is None:
            self.target.reset(self.config)
            return self._answer(None)
        return self._answer(self.target.apply(operation))

    def _begun(self, shown: Answer) -> Answer:
        """What the target shows at the start, in the specification's names."""
        self._renaming = renaming_of(self.subject.component, self.config, self.target)
        if self._renaming is None:
            return shown
        self._offered, self._initial = None, self._observed()
        self.tally.renaming = self._renaming.text
        self._renaming.learn(self._initial, shown.observations)
        return Answer(None, self._renaming.shown(shown.observations))

    def _asked_first(self, operation: Operation) -> Answer | TargetError:
        """What a target with names of its own answers; the specification then has the names next that it chose."""
        assert self._renaming is not None
        try:
            answer = self._asked(self._renaming.asked(operation), None)
        except TargetError as error:
            return error
        assert answer.outcome is not None
        outcome = self._renaming.answered(operation, answer.outcome, self._observed())
        self._state = self._renaming.chosen(operation, outcome, self._state)
        remark = "; ".join(text for text in (answer.remark, self._renaming.remark()) if text)
        return Answer(outcome, self._renaming.shown(answer.observations), remark)

    def _can_ask(self, operation: Operation) -> bool:
        return self._renaming is None or self._renaming.can_ask(operation)

    def _observed(self) -> dict[str, Observation]:
        return dict(self.subject.component.observe(self.config, self.viewed(self._state)))

    def _answer(self, outcome: Outcome | None) -> Answer:
        """What the target says; a call that never returned has nothing to show after it."""
        hangs = outcome is not None and outcome.code is Code.DIVERGED
        self.remark = str(getattr(self.target, "remark", "")) if outcome is not None else ""
        return Answer(outcome, {} if hangs else dict(self.target.observe()), self.remark)

    def _compared(self, expected: Answer, actual: Answer, broken: AnyProperty | None) -> Finding | None:
        strange = sorted(set(actual.observations) - set(expected.observations))
        if strange:
            there_are = ", ".join(sorted(expected.observations))
            reason = f"the target shows {', '.join(strange)}: {self.subject.component.name} has {there_are}"
            return Breakdown(self.name, reason, self._trace(), Failure.GARBAGE)
        if broken is not None:
            return Violation(broken.name, broken.statement, self._trace())
        if expected.outcome is not None and expected.outcome.code is Code.DIVERGED:
            actual = Answer(actual.outcome, {})
        if self._renaming is not None:
            expected = self._renaming.comparable(expected)
        self.tally.observables.update(actual.observations)
        if differing(expected, actual):
            return Difference(self.name, self._trace(), expected, actual)
        return None

    def _trace(self) -> Trace:
        subject = self.subject
        if self._renaming is not None:
            return Trace(subject.component.name, subject.variant.tag, subject.config, self._initial, tuple(self._steps))
        return record(subject.component, subject.variant, subject.config, self.operations, whole_calls=True)


def size_of(config: Any) -> int:
    """The longest table of a configuration, which is one of requests."""
    return max((len(value) for value in config if isinstance(value, tuple)), default=1)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
