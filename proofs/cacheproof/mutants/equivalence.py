"""Whether anyone could tell a mutant from the original: both are driven alike, and compared after every step.

Properties read views and outcomes and nothing else. So where the two give the same views and the same outcomes however
they are driven, no property can tell them apart in this scope, whatever it says: what differs is never read.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from cacheproof.model.registry import AnyComponent
from cacheproof.model.rewriting import Rewritten
from cacheproof.model.scope import Scope
from cacheproof.search.canonical import canonical
from cacheproof.search.path import Graph, Move

PAIRS = 200_000
"""The most pairs of two different states that are looked at: states of which only ranks grow would never end."""


def looks_the_same(component: AnyComponent, scope: Scope, forms: Rewritten) -> bool:
    """Every pair of states that the same operations lead to has one view, one alphabet, and equal outcomes.

    A pair of one and the same state stands for all that are like it; other pairs are taken as they are. The depth of
    the scope bounds them, too.
    """
    variant, config = scope.plan.explored(component.normative), scope.config
    graph = Graph(
        component, variant, config, scope.plan, canonical(component, variant, config, symmetry=scope.plan.symmetry)
    )
    forms.choose(rewritten=False)
    start = graph.start()
    known, pending, differing = {(start, start)}, deque([(start, start, 0)]), 0
    try:
        while pending and differing < PAIRS:
            one, other, depth = pending.popleft()
            if depth == scope.plan.depth:
                continue
            moves = list(graph.moves(one))
            forms.choose(rewritten=True)
            others = list(graph.moves(other))
            forms.choose(rewritten=False)
            if not _alike(graph, moves, others):
                return False
            for (_, after, _), (_, after_other, _) in zip(moves, others, strict=True):
                pair = _pair(graph, after, after_other)
                if pair not in known:
                    known.add(pair)
                    differing += pair[0] is not pair[1]
                    pending.append((*pair, depth + 1))
    finally:
        forms.choose(rewritten=True)
    return not pending


def _alike(graph: Graph, moves: list[Move], others: list[Move]) -> bool:
    """The same operations with the same outcomes, and the same to be seen after each."""
    if [(move[0], move[2]) for move in moves] != [(move[0], move[2]) for move in others]:
        return False
    return all(
        after is other or after == other or graph.view(after) == graph.view(other)
        for (_, after, _), (_, other, _) in zip(moves, others, strict=True)
    )


def _pair(graph: Graph, after: Any, other: Any) -> tuple[Any, Any]:
    if after == other:
        after = graph.canonical(after)
        return after, after
    return after, other
