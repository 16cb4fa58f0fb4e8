"""Few and short runs from the initial state that take every edge of a graph.

A run goes on along edges that no run has taken, and where there is none, on a shortest way to the next one. At the end
a run is left out if the others take all its edges. This is not the least that there is, and in most scopes close to it:
each edge is taken one to three times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from cacheproof.vectors.graph import Edge, Move, Node, Walker
from cachespec.kernel import Code, Operation

LONGEST = 40
"""Calls in a run: the first difference hides what follows it, so runs are not too long."""

Nodes = Mapping[Any, Node]


def covering(walker: Walker, nodes: Nodes) -> list[tuple[Operation, ...]]:
    """Runs that take every edge; the same for the same graph."""
    left = {form: dict.fromkeys(node.edges) for form, node in nodes.items() if node.edges}
    runs: list[tuple[tuple[Operation, ...], frozenset[Edge]]] = []
    while left:
        walk = _Walk(walker, nodes, left)
        walk.go()
        if not walk.news:
            walk = _Walk(walker, nodes, left)
            walk.go_to(next(iter(left)))
        runs.append((tuple(walk.operations), frozenset(walk.taken)))
    return _needed(runs)


class _Walk:
    def __init__(self, walker: Walker, nodes: Nodes, left: dict[Any, dict[Edge, None]]) -> None:
        self.walker, self.nodes, self.left = walker, nodes, left
        self.state = walker.start()
        self.form = walker.canonical(self.state)
        self.operations: list[Operation] = []
        self.taken: set[Edge] = set()
        self.news = 0
        self.over = False

    def go(self) -> None:
        """As far as a run may go."""
        while not self.over and len(self.operations) < LONGEST:
            following = self.new_edge()
            if following is not None:
                self.take(following)
                continue
            way = self.nearest(LONGEST - len(self.operations) - 1)
            if way is None:
                return
            self.follow(way)

    def go_to(self, form: Any) -> None:
        """On the shortest way to an edge that no run has come to, however long that is, and then further."""
        for operation in self.nodes[form].way:
            self.take(next(move for move in self.walker.moves(self.state) if move.operation == operation))
        fresh = self.new_edge()
        assert fresh is not None
        self.take(fresh)
        self.go()

    def new_edge(self) -> Move | None:
        """A call that takes an edge for the first time; one that changes nothing is taken first."""
        wanted = self.left.get(self.form)
        if wanted is None:
            return None
        fresh = [move for move in self.walker.moves(self.state) if move.edge in wanted]
        return next((move for move in fresh if move.target == self.form), fresh[0] if fresh else None)

    def take(self, move: Move) -> None:
        self.operations.append(move.operation)
        self.taken.add(move.edge)
        wanted = self.left.get(self.form)
        if wanted is not None and move.edge in wanted:
            self.news += 1
            del wanted[move.edge]
            if not wanted:
                del self.left[self.form]
        self.state, self.form = move.after, move.target
        self.over = move.outcome.code is Code.DIVERGED

    def nearest(self, most: int) -> list[Any] | None:
        """The canonical states on a shortest way to one with an edge that is left, at most so many away."""
        back: dict[Any, Any] = {self.form: None}
        pending = deque([(self.form, 0)])
        while pending:
            form, distance = pending.popleft()
            if form in self.left and form != self.form:
                return _way(back, form)
            if distance < most:
                for target in self.nodes[form].edges.values():
                    if target not in back and target in self.nodes:
                        back[target] = form
                        pending.append((target, distance + 1))
        return None

    def follow(self, way: list[Any]) -> None:
        for form in way:
            moves = self.walker.moves(self.state)
            self.take(next(move for move in moves if move.target == form and move.outcome.code is not Code.DIVERGED))


def _way(back: Mapping[Any, Any], form: Any) -> list[Any]:
    way = [form]
    while back[way[-1]] is not None:
        way.append(back[way[-1]])
    return way[-2::-1]


def _needed(runs: list[tuple[tuple[Operation, ...], frozenset[Edge]]]) -> list[tuple[Operation, ...]]:
    """The runs without those of which every edge is taken by another one that stays."""
    times: dict[Edge, int] = {}
    for _, edges in runs:
        for edge in edges:
            times[edge] = times.get(edge, 0) + 1
    kept = []
    for operations, edges in runs:
        if all(times[edge] > 1 for edge in edges):
            for edge in edges:
                times[edge] -= 1
        else:
            kept.append(operations)
    return kept
