"""The order of eviction: the page that was used longest ago goes first, for some meaning of a use.

Implementations note a use at different moments: when they look a request up, admit it, execute it, or end it. Each set
of moments is a meaning, as long as a request that is served counts. An eviction rules out the meanings by which a page
that could go instead was used longer ago; what evicts by recency has a meaning left at the end of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

LOOKED_UP, REFUSED = "lookup", "refused"
SERVED = ("admit", "commit", "finish")
MOMENTS = (LOOKED_UP, REFUSED, *SERVED)
MEANINGS = tuple(
    frozenset(chosen)
    for count in range(1, len(MOMENTS) + 1)
    for chosen in combinations(MOMENTS, count)
    if set(chosen) & set(SERVED)
)
"""The moments at which a use is noted; a cache that notes none of a served request does not evict by recency."""


class Recency:
    """When each content was last used, in calls, for each meaning that is left.

    A radix tree notes a use for a node of several pages, and so for pages behind the last one that was used. Of those
    it is not known: a page has the moment since when it counts as used for certain, and since when it may.
    """

    def __init__(self, chains: Iterable[Sequence[int]]) -> None:
        self._now = 0
        self._certain: dict[frozenset[str], dict[int, int]] = {meaning: {} for meaning in MEANINGS}
        self._possible: dict[frozenset[str], dict[int, int]] = {meaning: {} for meaning in MEANINGS}
        self._parents = {
            content: parent for chain in chains for content, parent in zip(chain[1:], chain[:-1], strict=True)
        }

    def use(self, moment: str, contents: Sequence[int]) -> None:
        """At this moment a call used these contents of a chain; one that is new is used by every meaning."""
        self._now += 1
        for meaning, certain in self._certain.items():
            possible = self._possible[meaning]
            noted = [one for one in contents if moment in meaning or one not in certain]
            certain.update(dict.fromkeys(noted, self._now))
            tail = self._tail(contents[-1], certain) if contents and moment in meaning else []
            possible.update(dict.fromkeys((*noted, *tail), self._now))

    def evict(
        self, cached: Mapping[int, int], gone: Collection[int], in_use: Collection[int]
    ) -> tuple[int, int] | None:
        """Rule meanings out; if none is left, a page that is gone, and one that should have gone instead.

        `cached` are the pages before the call with their contents. A page can go alone if no cached content follows
        its own and no request uses it.
        """
        inner = {self._parents.get(content) for content in cached.values()}
        stayed = [page for page, content in cached.items() if page not in (*gone, *in_use) and content not in inner]
        wrong = None
        for meaning, certain in list(self._certain.items()):
            possible = self._possible[meaning]
            late = [
                (page, other) for page in gone for other in stayed if certain[cached[page]] > possible[cached[other]]
            ]
            if late:
                wrong = late[0]
                del self._certain[meaning], self._possible[meaning]
        for page in gone:
            for moments in (*self._certain.values(), *self._possible.values()):
                moments.pop(cached[page], None)
        return None if self._certain else wrong

    def _tail(self, content: int, known: Collection[int]) -> list[int]:
        """The contents behind this one up to where the cached chains part."""
        tail: list[int] = []
        while True:
            following = [one for one in known if self._parents.get(one) == (tail[-1] if tail else content)]
            if len(following) != 1:
                return tail
            tail += following
