"""The graph of a small scope with every edge of it: states up to exchange of names, and the calls that lead from them.

An edge is a state with a call, up to exchange of names in both at once: `contains(0)` and `contains(1)` are one edge
where 0 and 1 are alike in that state, and two where they are not.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from cacheproof.foundation.breadth_first import BreadthFirst
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.canonical import Canonical, canonical
from cachespec.kernel import Code, Operation, Outcome
from cachespec.kernel.names import hints_of

Edge = tuple[type[Operation], Any]
"""The sort of call, and the canonical form of the state before it with what the call names."""


@dataclass(frozen=True, slots=True)
class Move:
    """A call from an actual state: where it leads, how it ends, and which edge it is."""

    operation: Operation
    after: Any
    outcome: Outcome
    edge: Edge
    target: Any
    """The canonical state after it."""


class Walker:
    """Moves of actual states of one variant in one configuration; what was worked out once is kept."""

    def __init__(self, component: AnyComponent, variant: AnyVariant, config: Any) -> None:
        self.component, self.variant, self.config = component, variant, config
        self.canonical: Canonical = canonical(component, variant, config)
        self._forms: dict[type[Operation], Callable[[Any], Any]] = {}
        self._makers: dict[type[Operation], Any] = {}
        self._moves: dict[Any, tuple[Move, ...]] = {}

    def start(self) -> Any:
        """The initial state."""
        return self.variant.start(self.config)

    def moves(self, state: Any) -> tuple[Move, ...]:
        """Every call that is offered in the state and that the variant has."""
        if state not in self._moves:
            offered = self.variant.alphabet(self.config, state)
            known = (operation for operation in offered if type(operation) in self.variant.transitions)
            self._moves[state] = tuple(self._move(state, operation) for operation in known)
        return self._moves[state]

    def _move(self, state: Any, operation: Operation) -> Move:
        after, outcome = self.variant.call(self.config, state, operation)
        return Move(operation, after, outcome, self._edge(state, operation), self.canonical(after))

    def _edge(self, state: Any, operation: Operation) -> Edge:
        kind: Any = type(operation)
        if kind not in self._forms:
            self._makers[kind], self._forms[kind] = self._form(kind)
        before = state if self.variant.normal is None else self.variant.normal(self.config, state)
        values = [getattr(operation, field.name) for field in fields(kind)]
        return kind, self._forms[kind](self._makers[kind](before, *values))

    def _form(self, kind: Any) -> tuple[Any, Callable[[Any], Any]]:
        """A record of a state and the fields of a call, and the function that makes one canonical."""
        named = {field.name: hints_of(kind)[field.name] for field in fields(kind)}
        record = _record({"state_before": self.variant.state, **named})
        return record, canonical(self.component, replace(self.variant, state=record, normal=None), self.config)


def _record(hints: Mapping[str, Any]) -> Any:
    make: Any = namedtuple  # noqa: PYI024  # a class of which the fields are known at run time only
    made: Any = make("Edge", tuple(hints))
    made.__annotations__ = dict(hints)
    return made


@dataclass(frozen=True, slots=True)
class Node:
    """A canonical state: an actual state of it with the shortest way there, and the edges that leave it."""

    way: tuple[Operation, ...]
    edges: Mapping[Edge, Any]
    """Each edge, and the canonical state that it leads to."""


def graph(walker: Walker, most_edges: int) -> dict[Any, Node]:
    """Every canonical state with its edges, in the order they are found in; InputError where there are too many."""
    nodes: dict[Any, Node] = {}
    start = walker.start()
    search = BreadthFirst[Any, tuple[Any, tuple[Operation, ...]]](walker.canonical(start), (start, ()))
    count = 0
    for form, (state, way) in search:
        edges: dict[Edge, Any] = {}
        for move in walker.moves(state):
            edges.setdefault(move.edge, move.target)
            if move.outcome.code is not Code.DIVERGED:
                search.reach(move.target, (move.after, (*way, move.operation)))
        nodes[form] = Node(way, edges)
        count += len(edges)
        if count > most_edges:
            raise InputError(f"{walker.component.name}: more than {most_edges} edges: choose a smaller scope")
    return nodes
