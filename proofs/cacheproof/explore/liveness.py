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

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cacheproof.explore.components import strongly_connected
from cacheproof.explore.path import Graph
from cacheproof.trace import Violation
from cachespec.kernel import Kind, Operation, Progress

Edge = tuple[Operation, Any]
Edges = dict[Any, list[Edge]]


def lassos(graph: Graph, rules: Sequence[Progress[Any, Any]], expanded: Iterable[Any]) -> list[Violation]:
    """For each rule that can be violated, a lasso with the shortest stem; `expanded` in the order of discovery."""
    states = list(expanded)
    found = (_lasso(graph, rule, states) for rule in rules)
    return [violation for violation in found if violation is not None]


def _lasso(graph: Graph, rule: Progress[Any, Any], states: list[Any]) -> Violation | None:
    pending = [state for state in states if rule.pending(graph.config, graph.view(state))]
    edges: Edges = {state: _internal_steps(graph, state) for state in pending}
    inside = {state: [edge for edge in edges[state] if edge[1] in edges] for state in pending}
    cycles = {state: members for members in strongly_connected(inside) if _is_fair(edges, members) for state in members}
    for state in pending:
        if not edges[state]:
            return _stuck(graph, rule, state)
        if state in cycles:
            return _cycle(graph, rule, edges, state, cycles[state])
    return None


def _internal_steps(graph: Graph, state: Any) -> list[Edge]:
    """The steps that the system owes and that change the state."""
    owed = graph.variant.continuation(graph.config, state) is not None
    steps = (
        (operation, graph.canonical(after))
        for operation, after, _ in graph.moves(state)
        if owed or operation.kind is Kind.INTERNAL
    )
    return [(operation, after) for operation, after in steps if after != state]


def _is_fair(edges: Edges, members: frozenset[Any]) -> bool:
    """Whether a run that stays in these states for ever can be fair."""
    if len(members) == 1:
        return False
    enabled = frozenset.intersection(*(frozenset(operation for operation, _ in edges[state]) for state in members))
    taken = {operation for state in members for operation, after in edges[state] if after in members}
    return enabled <= taken


def _stuck(graph: Graph, rule: Progress[Any, Any], state: Any) -> Violation:
    """Nothing happens any more. A call in progress that goes round on the spot is shown as a cycle of one step."""
    operations, actual = graph.reach(state)
    following = graph.variant.continuation(graph.config, actual)
    if following is None:
        return Violation(rule.name, rule.statement, graph.trace(operations))
    return Violation(rule.name, rule.statement, graph.trace([*operations, following], cycle=len(operations)))


def _cycle(graph: Graph, rule: Progress[Any, Any], edges: Edges, entry: Any, members: frozenset[Any]) -> Violation:
    """A stem to the entry, then a fair cycle back to it."""
    stem, actual = graph.reach(entry)
    turn = fair_cycle(edges, entry, members)
    operations = list(stem)
    for wanted, target in turn:
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


def fair_cycle(edges: Edges, entry: Any, members: frozenset[Any]) -> list[Edge]:
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


def _enabled(edges: Edges, state: Any, operation: Operation | None) -> bool:
    return any(other == operation for other, _ in edges[state])


def _left_out(edges: Edges, entry: Any, turn: list[Edge]) -> Operation | None:
    """An operation that is enabled all along the cycle and never taken on it."""
    taken = {operation for operation, _ in turn}
    states = [after for _, after in turn]
    always = (operation for operation, _ in edges[entry] if all(_enabled(edges, state, operation) for state in states))
    return next((operation for operation in always if operation not in taken), None)


def _shortest(edges: Edges, start: Any, members: frozenset[Any], ends: Callable[[Edge, Any], bool]) -> list[Edge]:
    """The shortest walk of at least one step, inside the members, whose last edge satisfies `ends`."""
    came_from: dict[Any, tuple[Any, Edge] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for edge in edges[state]:
            if edge[1] not in members:
                continue
            if ends(edge, state):
                return [*_walk(came_from, state), edge]
            if edge[1] not in came_from:
                came_from[edge[1]] = (state, edge)
                waiting.append(edge[1])
    raise AssertionError("a strongly connected component has a way from each of its states to each")


def _walk(came_from: dict[Any, tuple[Any, Edge] | None], state: Any) -> list[Edge]:
    walk: list[Edge] = []
    while (reached := came_from[state]) is not None:
        state, edge = reached
        walk.append(edge)
    return walk[::-1]
