"""Strongly connected components (Tarjan 1972), without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class LabelledEdges(Protocol):
    """Vertices, and for each of them its edges: labels and targets."""

    def __iter__(self) -> Iterator[Any]:
        """All vertices."""
        ...

    def __getitem__(self, vertex: Any, /) -> Sequence[tuple[Any, Any]]:
        """The edges from a vertex."""
        ...


def strongly_connected(edges: LabelledEdges) -> Iterator[frozenset[Any]]:
    """The components of a graph given as labelled edges; every target must be a key."""
    number: dict[Any, int] = {}
    low: dict[Any, int] = {}
    open_states: list[Any] = []
    is_open: set[Any] = set()
    for root in edges:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        open_states.append(root)
        is_open.add(root)
        walk = [(root, iter(edges[root]))]
        while walk:
            state, rest = walk[-1]
            for _, after in rest:
                if after not in number:
                    number[after] = low[after] = len(number)
                    open_states.append(after)
                    is_open.add(after)
                    walk.append((after, iter(edges[after])))
                    break
                if after in is_open:
                    low[state] = min(low[state], number[after])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[state])
                if low[state] == number[state]:
                    yield _closed(state, open_states, is_open)


def _closed(root: Any, open_states: list[Any], is_open: set[Any]) -> frozenset[Any]:
    members: set[Any] = set()
    while root not in members:
        state = open_states.pop()
        is_open.discard(state)
        members.add(state)
    return frozenset(members)
