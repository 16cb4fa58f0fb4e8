"""Progress properties on the explored graph, under weak fairness, with a lasso that anybody can replay.

Once calls and faults have stopped, only INTERNAL steps happen (and the continuation of the call in progress). A step
counts where it changes the state. Weak fairness: an operation, with its fields, that stays enabled is taken. So
`pending` can hold for ever exactly if there is, among the states where it holds,

- a state in which no INTERNAL operation changes anything, or
- a strongly connected set of states in which every operation that is enabled in all of them is also taken inside it.

For weak fairness it is enough to look at whole components: what is enabled everywhere in a component and taken nowhere
in it is so in every part of it. Names are not exchanged here, because fairness is per operation with its fields.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.model.trace import Violation
from cacheproof.search.components import strongly_connected
from cacheproof.search.crew import Crew
from cacheproof.search.path import Graph, Lineage
from cacheproof.search.shard import Owed, Shard
from cachespec.kernel import Operation, Progress

Edge = tuple[Operation, int]


class OwedGraph:
    """The states in which something is pending, and the steps that are owed from them, as arrays of numbers.

    `pending` has one bit for each property, by state, in the order of discovery.
    """

    def __init__(self, pending: Mapping[int, int], steps: Sequence[Owed]) -> None:
        self.pending = pending
        self.operations = {label: operation for owed in steps for label, operation in owed.operations.items()}
        self.labels, self.targets = array("Q"), array("Q")
        sources = array("Q")
        for source, _, label, target in _in_order(steps):
            sources.append(source)
            self.labels.append(label)
            self.targets.append(target)
        ends = [place for place, (one, other) in enumerate(pairwise((*sources, -1)), 1) if one != other]
        self.ranges = {sources[last - 1]: range(first, last) for first, last in pairwise((0, *ends))}

    @classmethod
    def gathered(cls, crew: Crew, whole: int) -> OwedGraph:
        """Of what the crew has found, the first `whole` states: those that were expanded."""
        found = chain.from_iterable(zip(*answer, strict=True) for answer in crew.ask(Shard.pending_states))
        return cls({state: bits for state, bits in sorted(found) if state < whole}, crew.ask(Shard.owed_steps))

    def __getitem__(self, state: int) -> list[Edge]:
        steps = self.ranges.get(state, range(0))
        return [(self.operations[self.labels[step]], self.targets[step]) for step in steps]


class _Inside:
    """The steps that stay among some states."""

    def __init__(self, owed: OwedGraph, states: Sequence[int]) -> None:
        self.owed, self.states = owed, dict.fromkeys(states)

    def __iter__(self) -> Iterator[int]:
        return iter(self.states)

    def __getitem__(self, state: int) -> list[Edge]:
        return [edge for edge in self.owed[state] if edge[1] in self.states]


def _in_order(steps: Sequence[Owed]) -> Iterator[tuple[int, int, int, int]]:
    """By the state that a step leads from, and its place among that state's moves."""
    several = chain.from_iterable(zip(one.sources, one.moves, one.labels, one.targets, strict=True) for one in steps)
    return iter(sorted(several) if len(steps) > 1 else several)


def lassos(graph: Graph, rules: Sequence[Progress[Any, Any]], owed: OwedGraph, lineage: Lineage) -> list[Violation]:
    """For each rule that can be violated, a lasso with the shortest stem; a rule's place is its bit."""
    found = (_lasso(graph, rule, bit, owed, lineage) for bit, rule in enumerate(rules))
    return [violation for violation in found if violation is not None]


def _lasso(graph: Graph, rule: Progress[Any, Any], bit: int, owed: OwedGraph, lineage: Lineage) -> Violation | None:
    pending = [state for state, bits in owed.pending.items() if bits >> bit & 1]
    inside = _Inside(owed, pending)
    cycles = {state: members for members in strongly_connected(inside) if _is_fair(owed, members) for state in members}
    for state in pending:
        if not owed[state]:
            return _stuck(graph, rule, lineage(state))
        if state in cycles:
            return _cycle(graph, rule, owed, state, cycles[state], lineage)
    return None


def _is_fair(edges: OwedGraph, members: frozenset[int]) -> bool:
    """Whether a run that stays in these states for ever can be fair."""
    if len(members) == 1:
        return False
    enabled = frozenset.intersection(*(frozenset(operation for operation, _ in edges[state]) for state in members))
    taken = {operation for state in members for operation, after in edges[state] if after in members}
    return enabled <= taken


def _stuck(graph: Graph, rule: Progress[Any, Any], states: Sequence[Any]) -> Violation:
    """Nothing happens any more. A call in progress that goes round on the spot is shown as a cycle of one step."""
    operations, actual = graph.reach(states)
    following = graph.variant.continuation(graph.config, actual)
    if following is None:
        return Violation(rule.name, rule.statement, graph.trace(operations))
    return Violation(rule.name, rule.statement, graph.trace([*operations, following], cycle=len(operations)))


def _cycle(
    graph: Graph, rule: Progress[Any, Any], edges: OwedGraph, entry: int, members: frozenset[int], lineage: Lineage
) -> Violation:
    """A stem to the entry, then a fair cycle back to it."""
    stem, actual = graph.reach(lineage(entry))
    operations = list(stem)
    for wanted, number in fair_cycle(edges, entry, members):
        target = lineage(number)[-1]
        exact = [
            after
            for operation, after, _ in graph.moves(actual)
            if operation == wanted and graph.canonical(after) == target
        ]
        if exact:
            operations.append(wanted)
            actual = exact[0]
        else:
            (operation,), actual = graph.follow(actual, [target])
            operations.append(operation)
    return Violation(rule.name, rule.statement, graph.trace(operations, cycle=len(stem)))


def fair_cycle(edges: OwedGraph, entry: int, members: frozenset[int]) -> list[Edge]:
    """A short cycle from the entry to itself on which every operation is taken, or disabled somewhere."""
    turn = _shortest(edges, entry, members, lambda edge, _: edge[1] == entry)
    while (unfair := _left_out(edges, entry, turn)) is not None:
        forth = _shortest(
            edges, entry, members, lambda edge, _: edge[0] == unfair or not _enabled(edges, edge[1], unfair)
        )
        back = (
            [] if forth[-1][1] == entry else _shortest(edges, forth[-1][1], members, lambda edge, _: edge[1] == entry)
        )
        turn = [*turn, *forth, *back]
    return turn


def _enabled(edges: OwedGraph, state: int, operation: Operation | None) -> bool:
    return any(other == operation for other, _ in edges[state])


def _left_out(edges: OwedGraph, entry: int, turn: list[Edge]) -> Operation | None:
    """An operation that is enabled all along the cycle and never taken on it."""
    taken = {operation for operation, _ in turn}
    states = [after for _, after in turn]
    always = (operation for operation, _ in edges[entry] if all(_enabled(edges, state, operation) for state in states))
    return next((operation for operation in always if operation not in taken), None)


def _shortest(edges: OwedGraph, start: int, members: frozenset[int], ends: Callable[[Edge, int], bool]) -> list[Edge]:
    """The shortest walk of at least one step, inside the members, whose last edge satisfies `ends`."""
    search = BreadthFirst[int, Edge | None](start, None)
    for state, _ in search:
        for edge in edges[state]:
            if edge[1] not in members:
                continue
            if ends(edge, state):
                return [*(step for step in search.way() if step is not None), edge]
            search.reach(edge[1], edge)
    raise AssertionError("a strongly connected component has a way from each of its states to each")
