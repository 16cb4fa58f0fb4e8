"""The explored graph, and the way back from a canonical state to a trace of the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from cacheproof.model.plan import Granularity, Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.trace import Trace, Violation, record
from cacheproof.search.canonical import Canonical
from cacheproof.search.rules import INITIAL, MOVES, Where
from cachespec.kernel import Operation, Outcome, Progress, Safety, Step

Move = tuple[Operation, Any, Outcome]
AnyRule = Safety[Any, Any] | Step[Any, Any] | Progress[Any, Any]
Accept = Callable[[Operation, Any, Outcome], bool]
Lineage = Callable[[int], list[Any]]
"""From the number of a state to the canonical states on a shortest way to it, both ends included."""


class UnsoundReductionError(Exception):
    """A canonical state cannot be reached by the specification itself: names or ranks mean more than was declared."""


class Graph:
    """A variant in one configuration, as a graph of canonical states; how they are found is not its concern."""

    def __init__(
        self, component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan, canonical: Canonical
    ) -> None:
        self.component, self.variant, self.config, self.canonical = component, variant, config, canonical
        self.whole_calls = plan.granularity is Granularity.CALL
        self.move = variant.call if self.whole_calls else variant.step

    def start(self) -> Any:
        """The canonical initial state."""
        return self.canonical(self.variant.start(self.config))

    def view(self, state: Any) -> Any:
        """What properties read."""
        return self.variant.view(self.config, state)

    def moves(self, state: Any) -> Iterator[Move]:
        """Every operation that can happen, the state after it, and its outcome.

        While a call is in progress nothing but its continuation can happen; so a call that diverged has one successor.
        """
        config, variant, move = self.config, self.variant, self.move
        following = variant.continuation(config, state)
        if following is not None:
            yield (following, *variant.step(config, state, following))
            return
        for operation in variant.alphabet(config, state):
            if type(operation) in variant.transitions:
                yield (operation, *move(config, state, operation))

    def follow(self, state: Any, wanted: Sequence[Any]) -> tuple[list[Operation], Any]:
        """Walk from an actual state through actual states that have the wanted canonical forms."""
        operations: list[Operation] = []
        for target in wanted:
            operation, state = self.next(state, self._becomes(target))
            operations.append(operation)
        return operations, state

    def _becomes(self, target: Any) -> Accept:
        return lambda operation, after, outcome: self.canonical(after) == target

    def next(self, state: Any, accept: Accept) -> tuple[Operation, Any]:
        """The first move that is accepted."""
        for operation, after, outcome in self.moves(state):
            if accept(operation, after, outcome):
                return operation, after
        raise UnsoundReductionError(
            f"{self.component.name} ({self.variant.tag}): a canonical step has no counterpart in the specification; "
            "names that are declared interchangeable, or ranks, mean more than their identity or order"
        )

    def reach(self, states: Sequence[Any]) -> tuple[list[Operation], Any]:
        """Operations that lead through these canonical states, the initial one first, and the actual last state."""
        return self.follow(self.variant.start(self.config), states[1:])

    def trace(self, operations: Iterable[Operation], cycle: int | None = None) -> Trace:
        """The operations, executed again by the specification."""
        return record(self.component, self.variant, self.config, operations, whole_calls=self.whole_calls, cycle=cycle)


def violation_at(graph: Graph, rule: AnyRule, at: Where, lineage: Lineage) -> Violation:
    """The counterexample that ends with the given step of the explored graph, and breaks the rule."""
    if at == INITIAL:
        return Violation(rule.name, rule.statement, graph.trace([]))
    number, move = divmod(at, MOVES)
    states = lineage(number)
    operations, actual = graph.reach(states)
    step = next(islice(graph.moves(states[-1]), move, None), None)
    if step is None:
        raise UnsoundReductionError(f"{graph.component.name}: a state has no move number {move} in the specification")
    kind = type(step[0])
    last, _ = graph.next(actual, _breaks(graph, rule, actual, kind))
    return Violation(rule.name, rule.statement, graph.trace([*operations, last]))


def violation_of(graph: Graph, rule: AnyRule, operations: Sequence[Operation]) -> Violation:
    """These operations as a counterexample. Raises `UnsoundReductionError` if the rule holds at their end."""
    state = graph.variant.start(graph.config)
    view = graph.view(state)
    broken = isinstance(rule, Safety) and not rule.holds(graph.config, view)
    for operation in operations:
        before = view
        state, outcome = graph.move(graph.config, state, operation)
        view = graph.view(state)
        broken = _broken(graph, rule, before, operation, outcome, view)
    if not broken:
        raise UnsoundReductionError(
            f"{graph.component.name} ({graph.variant.tag}): {rule.name} holds where these operations end"
        )
    return Violation(rule.name, rule.statement, graph.trace(operations))


def _breaks(graph: Graph, rule: AnyRule, before: Any, kind: type[Operation]) -> Accept:
    def accept(operation: Operation, after: Any, outcome: Outcome) -> bool:
        if type(operation) is not kind:
            return False
        return _broken(graph, rule, graph.view(before), operation, outcome, graph.view(after))

    return accept


def _broken(graph: Graph, rule: AnyRule, before: Any, operation: Operation, outcome: Outcome, after: Any) -> bool:
    """Whether this step breaks the rule; the states are as properties read them."""
    if isinstance(rule, Step):
        return not rule.holds(graph.config, before, operation, outcome, after)
    return isinstance(rule, Safety) and not rule.holds(graph.config, after)
