"""The specification at work, over the containers for production size: how fast the oracle is."""

from __future__ import annotations

from typing import Any

from cacheproof.bench.measure import Contender, Work
from cacheproof.bench.plain import Apply, Plain, Turn
from cacheproof.model.registry import AnyComponent
from cacheproof.model.running_digest import DIGESTED, digest_of
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.native.following import NativeFollower
from cachespec.kernel import REROOTING, Containers, Operation, Outcome, Service
from cachespec.kernel import Request as Arrival

YARDSTICK = "plain dictionaries"
REROOTED = "specification"
WITH_DIGESTS = "specification, digests"
COMPILED = "specification, compiled"


class Oracle:
    """One component over one realisation. With `digests`, each call is followed by a digest of the state."""

    def __init__(
        self, component: AnyComponent, config: Any, containers: Containers, turn: Turn, *, digests: bool
    ) -> None:
        self.config, self.step, self.run, self.digests = config, component.normative.call, turn, digests
        self.state = component.normative.start(config, containers)
        self.outcomes: list[Outcome] = []

    def warm_up(self) -> None:
        """Run the turn before the first."""
        self.run(self.apply, -1)

    def turn(self, number: int) -> Work:
        """The calls of this turn, each answered by the specification."""
        self.outcomes = []
        return Work(self.run(self.apply, number), self.outcomes)

    def apply(self, operation: Operation) -> Outcome:
        """One call."""
        self.state, outcome = self.step(self.config, self.state, operation)
        if self.digests:
            digest_of(self.state)
        self.outcomes.append(outcome)
        return outcome


class CompiledOracle:
    """One component in compiled code, which has the state. Python makes the operations and reads the outcomes."""

    def __init__(self, component: AnyComponent, config: Any, turn: Turn) -> None:
        self.run, self.follower = turn, NativeFollower(component, component.normative, config)
        self.follower.enter(component.normative.start(config, REROOTING), {})
        self.outcomes: list[Outcome] = []

    def warm_up(self) -> None:
        """Run the turn before the first."""
        self.run(self.apply, -1)

    def turn(self, number: int) -> Work:
        """The calls of this turn, each answered by the compiled specification."""
        self.outcomes = []
        return Work(self.run(self.apply, number), self.outcomes)

    def apply(self, operation: Operation) -> Outcome:
        """One call."""
        outcome = self.follower.call(operation)
        self.outcomes.append(outcome)
        return outcome


def contenders_of(component: AnyComponent, config: Any, turn: Turn, yardstick: Plain) -> dict[str, Contender]:
    """The plain implementation, and the specification with and without digests, and compiled if there is a compiler."""
    wrong = component.invalid(config)
    assert wrong is None, wrong
    made: dict[str, Contender] = {
        YARDSTICK: yardstick,
        REROOTED: Oracle(component, config, REROOTING, turn, digests=False),
        WITH_DIGESTS: Oracle(component, config, DIGESTED, turn, digests=True),
    }
    if compiler_of_this_machine() is not None:
        made[COMPILED] = CompiledOracle(component, config, turn)
    return made


def served(service: Service[Any], config: Any, arrivals: list[Arrival], alive: int, apply: Apply) -> int:
    """Serve requests in the order of arrival, at most `alive` at a time; the number of calls.

    A refused request waits until the oldest running request has finished, as in an engine.
    """
    calls = 0
    running: list[Arrival] = []

    def call(operation: Operation) -> Outcome:
        nonlocal calls
        calls += 1
        return apply(operation)

    def finish_oldest() -> None:
        for operation in service.finish(config, running.pop(0)):
            call(operation)

    for arrival in arrivals:
        while not admitted(service, config, arrival, call) and running:
            finish_oldest()
        running.append(arrival)
        if len(running) > alive:
            finish_oldest()
    while running:
        finish_oldest()
    return calls


def admitted(service: Service[Any], config: Any, arrival: Arrival, call: Apply) -> bool:
    """One attempt to admit a request."""
    script = service.admit(config, arrival)
    operation = next(script)
    while True:
        try:
            operation = script.send(call(operation))
        except StopIteration as end:
            return bool(end.value.admitted)


def skewed(count: int, start: int, length: int) -> list[int]:
    """A fixed sequence of numbers below `count`; small numbers are more frequent.

    Squares of the numbers of a linear congruential generator modulo 2**31, so the sequence is the same on all machines.
    """
    value, numbers = start * 7919 + 12345, []
    for _ in range(length):
        value = (value * 1103515245 + 12345) % (1 << 31)
        numbers.append((value >> 8) ** 2 * count >> 46)
    return numbers
