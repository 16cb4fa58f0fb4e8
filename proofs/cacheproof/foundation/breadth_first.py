"""Breadth-first search where it is plain: what is nearest comes first, each key once, with the way there.

Three searches are their own. The explorer divides its levels among processes and keeps them as bytes, its tensor engine
expands a level at once, and `mutants.equivalence` looks for any difference, not for a nearest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Node = TypeVar("Node")


class BreadthFirst(Generic[Key, Node]):
    """Iterate to visit what was reached, nearest first; `reach` what a visited node leads to.

    `most` limits how many keys are reached, the first one included.
    """

    def __init__(self, key: Key, node: Node, most: int | None = None) -> None:
        self._most = most
        self._nodes: dict[Key, tuple[Node, Key | None]] = {key: (node, None)}
        """Each key with its node, and the key from which it was reached first."""
        self._waiting = deque([key])
        self._visited: Key | None = None

    def __len__(self) -> int:
        """How many keys were reached."""
        return len(self._nodes)

    def __iter__(self) -> Iterator[tuple[Key, Node]]:
        while self._waiting:
            self._visited = key = self._waiting.popleft()
            yield key, self._nodes[key][0]

    def reach(self, key: Key, node: Node) -> bool:
        """Whether the key is new, and there is room: then it will be visited, from the node that is visited now."""
        if key in self._nodes or (self._most is not None and len(self._nodes) >= self._most):
            return False
        self._nodes[key] = node, self._visited
        self._waiting.append(key)
        return True

    def way(self) -> list[Node]:
        """The nodes on a shortest way to the one that is visited now, both ends included."""
        nodes: list[Node] = []
        key = self._visited
        while key is not None:
            node, key = self._nodes[key]
            nodes.append(node)
        return nodes[::-1]
