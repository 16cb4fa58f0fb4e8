"""Few and short runs from the initial state that take every edge of a graph.

A run goes on along edges that no run has taken, and where there is none, on a shortest way to the next one. At the end
a run is left out if the others take all its edges. This is not the least that there is, and in most scopes close to it:
each edge is taken one to three times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.vectors.graph import Edge, Move, Node, Walker
from cachespec.kernel import Code, Operation

LONGEST = 40
"""Calls in a run: the first difference hides what follows it, so runs are not too long."""

Nodes = Mapping[Any, Node]
Left = dict[Any, dict[Edge, None]]
"""Edges that are still to be taken, by the canonical state that they leave."""


def covering(walker: Walker, nodes: Nodes) -> list[tuple[Operation, ...]]:
    """Runs that take every edge; the same for the same graph.

    First come runs with nothing but the first operations of the vocabulary, then with one more, and so on: who lacks
    some of the later ones is held to every edge of the others all the same.
    """
    done: set[Edge] = set()
    runs: list[tuple[tuple[Operation, ...], frozenset[Edge]]] = []
    there = {edge[0] for node in nodes.values() for edge in node.edges}
    kinds = [kind for kind in walker.component.operations if kind in there]
    for count in range(1, len(kinds) + 1):
        allowed = frozenset(kinds[:count])
        within = _within(walker, nodes, done, allowed)
        while within:
            walk = _Walk(walker, nodes, within, allowed)
            walk.go()
            if not walk.news:
                walk = _Walk(walker, nodes, within, allowed)
                walk.follow(walk.nearest(len(nodes)) or [])
                walk.go(further=1)
            runs.append((tuple(walk.operations), frozenset(walk.taken)))
            done |= walk.taken
    return _needed(runs)


def _within(walker: Walker, nodes: Nodes, done: set[Edge], allowed: frozenset[type[Operation]]) -> Left:
    """The edges that no run has taken and that can be taken with these operations alone."""
    start = walker.canonical(walker.start())
    pending, reached = [start], {start}
    while pending:
        for edge, target in nodes[pending.pop()].edges.items():
            if edge[0] in allowed and target in nodes and target not in reached:
                reached.add(target)
                pending.append(target)
    found = {
        form: {edge: None for edge in node.edges if edge[0] in allowed and edge not in done}
        for form, node in nodes.items()
        if form in reached
    }
    return {form: edges for form, edges in found.items() if edges}


class _Walk:
    def __init__(self, walker: Walker, nodes: Nodes, left: Left, allowed: frozenset[type[Operation]]) -> None:
        self.walker, self.nodes, self.left, self.allowed = walker, nodes, left, allowed
        self.state = walker.start()
        self.form = walker.canonical(self.state)
        self.operations: list[Operation] = []
        self.taken: set[Edge] = set()
        self.news = 0
        self.over = False

    def moves(self) -> list[Move]:
        """The calls that the run may make now."""
        return [move for move in self.walker.moves(self.state) if type(move.operation) in self.allowed]

    def go(self, further: int = 0) -> None:
        """As far as a run may go; where it has come to its first new edge on a long way, that much further."""
        most = max(LONGEST, len(self.operations) + further)
        while not self.over and len(self.operations) < most:
            following = self.new_edge()
            if following is not None:
                self.take(following)
                continue
            way = self.nearest(most - len(self.operations) - 1)
            if way is None:
                return
            self.follow(way)

    def new_edge(self) -> Move | None:
        """A call that takes an edge for the first time; one that changes nothing comes first."""
        wanted = self.left.get(self.form)
        if wanted is None:
            return None
        fresh = [move for move in self.moves() if move.edge in wanted]
        return min(fresh, key=lambda move: move.target != self.form, default=None)

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
        search = BreadthFirst(self.form, (self.form, 0))
        for form, (_, distance) in search:
            if form in self.left and form != self.form:
                return [state for state, _ in search.way()[1:]]
            if distance < most:
                for edge, target in self.nodes[form].edges.items():
                    if edge[0] in self.allowed and target in self.nodes:
                        search.reach(target, (target, distance + 1))
        return None

    def follow(self, way: list[Any]) -> None:
        for form in way:
            self.take(
                next(move for move in self.moves() if move.target == form and move.outcome.code is not Code.DIVERGED)
            )


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
