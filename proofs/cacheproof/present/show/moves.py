"""The states near a trace: what each call would answer there, and which properties it would break."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheproof.lockstep.properties import all_broken_by_call
from cacheproof.lockstep.renaming import Renaming
from cacheproof.model.finding import Finding, Subject
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.trace import Trace, TraceStep
from cachespec.kernel import Observation, Operation, Outcome

CALLS = 2
"""How many calls from a state of the trace the neighbourhood reaches."""

MOVES = 1_500
"""The number of moves at which the neighbourhood is complete enough: a page holds them all."""


@dataclass(frozen=True, slots=True)
class Move:
    """A call that could be made in a state, and the number of the state after it."""

    operation: Operation
    outcome: Outcome
    to: int
    broken: tuple[str, ...]
    """The properties that this very call breaks."""


@dataclass(slots=True)
class Nearby:
    """States by number, each with what it shows; `moves` has the states whose calls were tried."""

    observations: list[dict[str, Observation]] = field(default_factory=list)
    path: list[int] = field(default_factory=list)
    """The states of the trace: the initial one, then the one after each step."""
    moves: dict[int, tuple[Move, ...]] = field(default_factory=dict)
    complete: bool = True
    """Whether every call within reach was tried."""


def subject_of(trace: Trace) -> Subject:
    """The variant and the configuration of a trace."""
    component = component_named(trace.component)
    return Subject(component, variant_named(component, trace.variant), trace.config)


def whole_calls(trace: Trace) -> bool:
    """Whether the trace is one of whole calls, as an implementation sees them, rather than of single steps."""
    return executed(trace).is_whole


class Executed(NamedTuple):
    """A trace as the specification executes it."""

    is_whole: bool
    """Whether it is one of whole calls."""
    states: list[Any]
    """The initial state, then the one after each step."""
    before: Any
    """The state in which the last call was made: with the names next that it took."""


def executed(trace: Trace) -> Executed:
    """The states of a trace.

    If an implementation chose names itself, such as the blocks of an allocation, the specification takes the same.
    A trace that is none of the specification is executed by single steps.
    """
    ways = ((True, False), (True, True), (False, False))
    runs = (_executed(trace, is_whole=is_whole, is_free=is_free) for is_whole, is_free in ways)
    return next((run for run in runs if run is not None), None) or _run(trace, is_whole=False, is_free=False)[0]


def _executed(trace: Trace, *, is_whole: bool, is_free: bool) -> Executed | None:
    """The run, if all is answered and shown as in the trace."""
    if is_free and subject_of(trace).component.own_names is None:
        return None
    run, steps = _run(trace, is_whole=is_whole, is_free=is_free)
    return run if steps == list(trace.steps) else None


def _run(trace: Trace, *, is_whole: bool, is_free: bool) -> tuple[Executed, list[TraceStep]]:
    """The states of the operations, and what is answered and shown; with `is_free` by the names that the trace took."""
    subject = subject_of(trace)
    component, config, variant = subject.component, subject.config, subject.variant
    move = variant.call if is_whole else variant.step
    state = before = variant.start(config)
    states, steps = [state], []
    for step in trace.steps:
        if is_free and component.own_names is not None:
            names = Renaming(component, config, component.own_names, ordered=False)
            state = names.chosen(step.operation, step.outcome, state)
        before = state
        state, outcome = move(config, state, step.operation)
        steps.append(TraceStep(step.operation, outcome, dict(component.observe(config, variant.view(config, state)))))
        states.append(state)
    return Executed(is_whole, states, before), steps


def nearby(finding: Finding, calls: int = CALLS, moves: int = MOVES) -> Nearby:
    """The states at most `calls` calls away from the trace, nearest first, by at most `moves` moves."""
    search = Search(finding.trace)
    return search.run(search.done.path, calls, moves)


class Search:
    """States by number, each once: those of a trace, and what calls make of them."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.subject = trace, subject_of(trace)
        self.run_of_trace = executed(trace)
        self.whole, path = self.run_of_trace.is_whole, self.run_of_trace.states
        self.states: list[Any] = []
        self.views: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self.done = Nearby()
        self.done.path += [self._number(state) for state in path]

    def run(self, start: Iterable[int], calls: int, moves: int) -> Nearby:
        """Add the states at most `calls` calls away from these, nearest first, by at most `moves` moves."""
        layer: Iterable[int] = dict.fromkeys(start)
        for _ in range(calls):
            layer = self._next(layer, moves)
        return self.done

    def performed(self, state: Any, operation: Operation) -> tuple[Any, Outcome]:
        """One operation of the trace's granularity: a whole call, or a single step."""
        config, variant = self.subject.config, self.subject.variant
        in_progress = variant.continuation(config, state) is not None
        move = variant.call if self.whole and not in_progress else variant.step
        return move(config, state, operation)

    def _next(self, layer: Iterable[int], most: int) -> list[int]:
        """Every call in the states of a layer; the states after them whose calls were not tried yet."""
        reached = dict[int, None]()
        for number in layer:
            if number in self.done.moves:
                continue
            if sum(map(len, self.done.moves.values())) >= most:
                self.done.complete = False
                break
            self.done.moves[number] = tuple(self._move(number, each) for each in self._offered(self.states[number]))
            reached |= dict.fromkeys(move.to for move in self.done.moves[number])
        return list(reached)

    def _offered(self, state: Any) -> list[Operation]:
        """What can happen: the next turn of a call in progress, or else all that the environment may do."""
        config, variant = self.subject.config, self.subject.variant
        following = variant.continuation(config, state)
        if following is not None:
            return [following]
        return [one for one in dict.fromkeys(variant.alphabet(config, state)) if type(one) in variant.transitions]

    def _move(self, number: int, operation: Operation) -> Move:
        after, outcome = self.performed(self.states[number], operation)
        to = self._number(after)
        views = {id(self.states[number]): self.views[number], id(after): self.views[to]}
        broken = all_broken_by_call(
            self.subject, self.states[number], operation, outcome, after, lambda state: views[id(state)]
        )
        return Move(operation, outcome, to, tuple(rule.name for rule in broken))

    def _number(self, state: Any) -> int:
        if state not in self.numbers:
            self.numbers[state] = len(self.states)
            view = self.subject.variant.view(self.subject.config, state)
            self.states.append(state)
            self.views.append(view)
            self.done.observations.append(dict(self.subject.component.observe(self.subject.config, view)))
        return self.numbers[state]
