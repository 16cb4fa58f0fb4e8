"""One call after another through a variant, and through a target beside it: shared by every way of serving.

It is no `lockstep.pair`: it runs without a target too, checks properties now and then, and has a request for a finding.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent
from cacheproof.model.target import Target
from cacheproof.model.wire import operation_to_message, outcome_to_message
from cacheproof.model.wording import operation_text, outcome_text
from cacheproof.replay.checking import Found, Inspector
from cacheproof.replay.result import ReplayResult, Setting, Violation
from cacheproof.replay.workload import Arrival
from cachespec.kernel import REROOTING, Code, Gauge, Operation, Outcome, Rounds, Service


def service_of(component: AnyComponent) -> Service[Any] | Rounds[Any]:
    """How the component serves a workload, or an error."""
    if component.service is None:
        raise InputError(f"{component.name} does not say how it serves a workload: it has no 'service'")
    return component.service


def configuration(setting: Setting) -> Any:
    """The component's configuration for this workload."""
    service = service_of(setting.component)
    if isinstance(service, Rounds) and setting.workload.engine is None:
        raise InputError(
            f"{setting.component.name} serves in rounds, and this workload says nothing of tokens and rounds"
        )
    if setting.workload.window and not (isinstance(service, Service) and service.windows):
        raise InputError(f"{setting.component.name} has no sliding windows: use layer_groups, or no option 'window'")
    config = service.configure(setting.workload.demand(setting.capacity))
    problem = setting.component.invalid(config)
    if problem is not None:
        raise InputError(f"{setting.component.name}: {problem}")
    return config


def with_known_hash(config: Any) -> Any:
    """An equal configuration whose hash is computed once: composites look up those of their parts by it."""
    known = hash(config)
    sort: Any = type(config)
    return type(sort.__name__, (sort,), {"__hash__": lambda _self: known})(*config)


class Driver:
    """The state of the specification, the target if there is one, and the counts so far."""

    def __init__(self, setting: Setting, target: Target | None, gauges: Sequence[Gauge]) -> None:
        self.setting = setting
        self.result = ReplayResult()
        given = configuration(setting)
        self.config = with_known_hash(given)
        self.state = setting.variant.start(self.config, REROOTING)
        self._inspector = Inspector(setting.component, setting.variant, self.config, self.result)
        self._gauges = gauges if setting.variant.state is setting.component.normative.state else ()
        self._target = target
        if target is not None:
            target.reset(given)

    def attempt(self, arrival: Arrival, name: int, work: Callable[[], None], turn: int) -> bool:
        """Do the work; what it finds becomes the violation, at this request. One turn of so many is checked in full."""
        every = self.setting.check_every
        self._inspector.in_full = every > 0 and turn % every == 0
        try:
            work()
        except Found as found:
            self.result.violations.append(_violation(found, arrival, name))
            return False
        return True

    def perform(self, operation: Operation) -> Outcome:
        """One whole call, checked; the target does it too, and must answer the same."""
        if type(operation) not in self.setting.variant.transitions:
            raise self._unsupported(operation)
        self.result.events += 1
        self.state, outcome = self._inspector.call(self.state, operation)
        if outcome.code is Code.UNSUPPORTED:
            raise self._unsupported(operation)
        self._read_gauges()
        if self._target is not None:
            self._compare(self._target, operation, outcome)
        return outcome

    def end(self) -> None:
        """Everything is checked once more."""
        self._inspector.inspect_end(self.state)
        self._compare_observations()

    def _read_gauges(self) -> None:
        peaks = self.result.peaks
        for gauge in self._gauges:
            peaks[gauge.name] = max(peaks.get(gauge.name, 0), gauge.value(self.config, self.state))

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
        """The target's observables equal the specification's; observables that it does not show are left out."""
        if self._target is None:
            return
        expected = self._inspector.observe(self.state)
        for name, shown in self._target.observe().items():
            if name in expected and shown != expected[name]:
                raise Found("target", f"{name} differs from the specification", operation, outcome)


class Serving(ABC):
    """One replay, however the component serves.

    `result` can be read at any time, so that an interrupted replay still says what it knows.
    """

    def __init__(self, setting: Setting, target: Target | None, gauges: Sequence[Gauge]) -> None:
        self.setting = setting
        self._driver = Driver(setting, target, gauges)

    @property
    def result(self) -> ReplayResult:
        """The counts so far."""
        return self._driver.result

    def run(self, progress: Show = lambda _line: None) -> ReplayResult:
        """Replay all requests, or until something does not hold."""
        began = time.perf_counter()
        try:
            self.serve_all(progress)
        finally:
            self.result.seconds = time.perf_counter() - began
        return self.result

    @abstractmethod
    def serve_all(self, progress: Show) -> None:
        """Every request of the workload, and then the end."""


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
