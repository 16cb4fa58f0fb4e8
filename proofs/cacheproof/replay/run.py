"""A workload through one variant of a component, at production size, with properties checked as it goes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cacheproof.errors import InputError
from cacheproof.registry import AnyComponent, AnyVariant
from cacheproof.replay.checking import Found, Inspector
from cacheproof.replay.workload import Arrival, Workload
from cacheproof.show.wording import operation_text, outcome_text
from cacheproof.targets.target import Target
from cacheproof.wire import Message, operation_to_message, outcome_to_message
from cachespec.kernel import REROOTING, Code, Demand, Operation, Outcome, Request, Script, Served, Service

CHECK_EVERY = 97
"""Of how many requests one is checked in full: coprime to the periods that recorded orders have."""

REQUESTS_BETWEEN_PROGRESS = 500


@dataclass(frozen=True, slots=True)
class Setting:
    """What is replayed, and how closely it is looked at."""

    component: AnyComponent
    variant: AnyVariant
    workload: Workload
    capacity: int
    """In the workload's unit."""
    check_every: int = CHECK_EVERY
    """Of how many requests one is checked in full; 0 for none but the end."""
    concurrency: int = 1
    """How many requests hold what they use at the same time at the most."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What went wrong, at which request, and where that request was read."""

    property: str
    statement: str
    request: int
    path: str
    line: int
    call: str = ""
    """In words: the call that showed it, and how it ended."""
    operation: Message | None = None
    outcome: Message | None = None

    def sentence(self) -> str:
        """One line for a person."""
        call = f" ({self.call})" if self.call else ""
        return f"{self.path}, line {self.line}, request {self.request}: {self.property}: {self.statement}{call}"


@dataclass(slots=True)
class Result:
    """Counts of a replay; `violations` has at most one, because a replay stops at the first."""

    requests: int = 0
    references: int = 0
    hits: int = 0
    waited: int = 0
    """Requests that were admitted only after another one had finished."""
    rejected: int = 0
    """Requests that were not admitted although nothing else was running."""
    events: int = 0
    """Whole calls."""
    seconds: float = 0.0
    constant_checks: int = 0
    full_states: int = 0
    """States of which every safety property was evaluated."""
    full_steps: int = 0
    """Steps of which every step property was evaluated."""
    compared: int = 0
    """Outcomes of a target that were compared."""
    violations: list[Violation] = field(default_factory=list)

    @property
    def hit_ratio(self) -> float:
        """Of references; a request that had to wait counts with its first look-up."""
        return self.hits / self.references if self.references else 0.0

    @property
    def events_per_second(self) -> float:
        """Whole calls a second, the checks included."""
        return self.events / self.seconds if self.seconds else 0.0


def service_of(component: AnyComponent) -> Service[Any]:
    """How the component serves a workload, or an error."""
    if component.service is None:
        raise InputError(f"{component.name} does not say how it serves a workload: it has no 'service'")
    return component.service


def configuration(setting: Setting) -> Any:
    """The component's configuration for this workload."""
    contents = tuple(arrival.contents for arrival in setting.workload.arrivals)
    config = service_of(setting.component).configure(Demand(setting.capacity, setting.workload.sizes, contents))
    problem = setting.component.invalid(config)
    if problem is not None:
        raise InputError(f"{setting.component.name}: {problem}")
    return config


Seen = Callable[[Request, Served], None]


def _unseen(request: Request, served: Served) -> None:
    """Nobody is told."""


class Replay:
    """One replay: the state of the specification, the target if there is one, and the counts so far.

    `result` can be read at any time, so that an interrupted replay still says what it knows. `seen` is told of each
    request, and of what its first look-up gave, when it was admitted or turned down.
    """

    def __init__(self, setting: Setting, target: Target | None = None, seen: Seen = _unseen) -> None:
        self.setting = setting
        self._seen = seen
        self.result = Result()
        self._service = service_of(setting.component)
        self._config = configuration(setting)
        self._state = setting.variant.start(self._config, REROOTING)
        self._inspector = Inspector(setting.component, setting.variant, self._config, self.result)
        self._target = target
        self._running: deque[Request] = deque()
        if target is not None:
            target.reset(self._config)

    def run(self, progress: Callable[[str], None] = lambda _line: None) -> Result:
        """Replay all requests, or until something does not hold."""
        began = time.perf_counter()
        try:
            self._serve_all(progress)
        finally:
            self.result.seconds = time.perf_counter() - began
        return self.result

    def _serve_all(self, progress: Callable[[str], None]) -> None:
        arrivals = self.setting.workload.arrivals
        for name, arrival in enumerate(arrivals):
            if not self._attempt(arrival, name, partial(self._serve, Request(name, arrival.contents))):
                return
            if name % REQUESTS_BETWEEN_PROGRESS == 0:
                progress(f"{name:,} of {len(arrivals):,} requests, {self.result.hits:,} hits")
        self._attempt(arrivals[-1], len(arrivals) - 1, self._end)

    def _attempt(self, arrival: Arrival, name: int, work: Callable[[], None]) -> bool:
        """Do the work; what it finds becomes the violation, at this request."""
        every = self.setting.check_every
        self._inspector.in_full = every > 0 and name % every == 0
        try:
            work()
        except Found as found:
            self.result.violations.append(_violation(found, arrival, name))
            return False
        return True

    def _serve(self, request: Request) -> None:
        """Admit the request, once there is room, and let it run beside the others that may run."""
        first = served = self._perform_script(self._service.admit(self._config, request))
        waited = False
        while not served.admitted and self._running:
            self._finish_oldest()
            served = self._perform_script(self._service.admit(self._config, request))
            waited = True
        self._count(request, first, served, waited=waited)
        if served.admitted:
            self._running.append(request)
        while len(self._running) >= self.setting.concurrency:
            self._finish_oldest()

    def _count(self, request: Request, first: Served, served: Served, *, waited: bool) -> None:
        result = self.result
        result.requests += 1
        result.references += len(request.contents)
        result.hits += sum(first.hits)
        result.waited += waited and served.admitted
        result.rejected += not served.admitted
        self._seen(request, first)

    def _end(self) -> None:
        """The running requests finish, and everything is checked once more."""
        while self._running:
            self._finish_oldest()
        self._inspector.inspect_end(self._state)
        self._compare_observations()

    def _finish_oldest(self) -> None:
        for operation in self._service.finish(self._config, self._running.popleft()):
            self._perform(operation)

    def _perform_script(self, script: Script) -> Served:
        try:
            operation = next(script)
            while True:
                operation = script.send(self._perform(operation))
        except StopIteration as stopped:
            served: Served = stopped.value
            return served

    def _perform(self, operation: Operation) -> Outcome:
        """One whole call, checked; the target does it too, and must answer the same."""
        if type(operation) not in self.setting.variant.transitions:
            raise self._unsupported(operation)
        self.result.events += 1
        self._state, outcome = self._inspector.call(self._state, operation)
        if outcome.code is Code.UNSUPPORTED:
            raise self._unsupported(operation)
        if self._target is not None:
            self._compare(self._target, operation, outcome)
        return outcome

    def _unsupported(self, operation: Operation) -> InputError:
        name = f"the variant {self.setting.variant.tag} of {self.setting.component.name}"
        return InputError(f"{name} cannot be replayed: it has no {operation.wire_name()}")

    def _compare(self, target: Target, operation: Operation, expected: Outcome) -> None:
        answered = target.apply(operation)
        self.result.compared += 1
        if answered != expected:
            statement = f"the target answers {outcome_text(answered)}, and the specification {outcome_text(expected)}"
            raise Found("target", statement, operation, answered)
        if self._inspector.in_full:
            self._compare_observations(operation, expected)

    def _compare_observations(self, operation: Operation | None = None, outcome: Outcome | None = None) -> None:
        """What the target shows is what the specification shows; observables that it does not show are left out."""
        if self._target is None:
            return
        expected = self._inspector.observe(self._state)
        for name, shown in self._target.observe().items():
            if name in expected and shown != expected[name]:
                raise Found("target", f"{name} differs from the specification", operation, outcome)


def _violation(found: Found, arrival: Arrival, name: int) -> Violation:
    return Violation(
        property=found.property,
        statement=found.statement,
        request=name,
        path=str(arrival.path),
        line=arrival.line,
        call=_in_words(found),
        operation=None if found.operation is None else operation_to_message(found.operation),
        outcome=None if found.outcome is None else outcome_to_message(found.outcome),
    )


def _in_words(found: Found) -> str:
    if found.operation is None or found.outcome is None:
        return ""
    return f"{operation_text(found.operation)}: {outcome_text(found.outcome)}"
