"""Prefixes in pages, in plain Python: what a peer has to be, with a switch for each way of being wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.targets.prefixes.peer import Answer, Call, Shown

BUGS = {
    "keeps the page that was there already": "KV-2",
    "gives pages back twice": "KV-2",
    "forgets the last page of a request": "KV-2",
    "evicts what is in use": "KV-4",
    "finds one page too few": "KV-7/found",
    "finds what was evicted": "KV-7/found",
    "finds by the page alone": "KV-7/found",
    "refuses early": "KV-8/reasons",
    "drops what it could keep": "KV-3/kept",
    "counts the locked wrongly": "KV-1",
    "goes on with its own copy": "KV-6/chain",
    "does not note that a page was hit": "KV-11",
    "evicts what was used last": "KV-11",
    "fails when it is full": "KV-8/answered",
    "hangs when it is full": "KV-8/answered",
}
"""Each bug, and the property that shows it first."""


class PlainRadix:
    """Contents name all before them, so the cache is a map from content to page, and a leaf is one without children."""

    claims: tuple[str, ...] = ("eviction_order",)

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def reset(self, config: Mapping[str, Any]) -> Shown:
        self.size, self.chains, self.lengths = config["block_size"], config["chains"], config["lengths"]
        self.free = list(range(1, config["blocks"] + 1))
        self.cached: dict[int, int] = {}  # oldest first
        self.ghosts: dict[int, int] = {}
        self.tables: dict[int, list[int]] = {}
        self.parents = {c: p for chain in self.chains for c, p in zip(chain, [-1, *chain], strict=False)}
        return self.shown()

    def shown(self) -> Shown:
        held = {page for table in self.tables.values() for page in table}
        locked = len(held & set(self.cached.values())) * self.size
        wrong = self.size if self.bug == "counts the locked wrongly" and len(self.tables) > 1 else 0
        everything = len(self.cached) * self.size
        return Shown(
            tuple(sorted(self.free)),
            tuple(sorted(self.cached.values())),
            everything - locked - wrong,
            locked + wrong,
            len(self.free) * self.size,
        )

    def ask(self, call: Call) -> Answer:
        code, pages = getattr(self, call.name)(call.request)
        return Answer(code, tuple(pages), None if code == "diverged" else self.shown())

    def hits(self, request: int) -> list[int]:
        found: list[int] = []
        known = self.cached | (self.ghosts if self.bug == "finds what was evicted" else {})
        for content in self.chains[request][: (self.lengths[request] - 1) // self.size]:
            if content not in known:
                if self.bug == "finds by the page alone" and found and self.cached:
                    found.append(next(iter(self.cached.values())))
                break
            found.append(known[content])
            if content in self.cached and self.bug != "does not note that a page was hit":
                self.cached[content] = self.cached.pop(content)
        return found[:-1] if self.bug == "finds one page too few" and len(found) > 1 else found

    def lookup(self, request: int) -> tuple[str, list[int]]:
        found = self.hits(request)
        return "hit" if found else "miss", found

    def admit(self, request: int) -> tuple[str, list[int]]:
        hits = self.hits(request)
        needed = -(-self.lengths[request] // self.size) - len(hits)
        spare = 1 if self.bug == "refuses early" else 0
        while len(self.free) < needed + spare and self.evict(hits):
            pass
        if len(self.free) < needed + spare:
            return {"fails when it is full": "failed", "hangs when it is full": "diverged"}.get(self.bug, "refused"), []
        new, self.free = self.free[:needed], self.free[needed:]
        self.tables[request] = hits + new
        return "done", self.tables[request]

    def evict(self, hits: list[int]) -> bool:
        used = set(hits) | {page for table in self.tables.values() for page in table}
        pages = list(self.cached.items())
        for content, page in reversed(pages) if self.bug == "evicts what was used last" else pages:
            leaf = not any(self.parents[other] == content for other in self.cached)
            if leaf and (page not in used or (self.bug == "evicts what is in use" and page not in hits)):
                self.ghosts[content] = self.cached.pop(content)
                self.free.append(page)
                return True
        return False

    def commit(self, request: int) -> tuple[str, list[int]]:
        table = self.tables[request]
        for place, content in enumerate(self.chains[request][: self.lengths[request] // self.size]):
            there = self.cached.get(content)
            if self.bug != "does not note that a page was hit":
                self.cached.pop(content, None)
            self.cached[content] = table[place] if there is None else there
            if there is not None and there != table[place]:
                if self.bug != "keeps the page that was there already":
                    self.free.append(table[place])
                if self.bug != "goes on with its own copy":
                    table[place] = there
        if self.bug == "drops what it could keep":
            self.evict([])
        return "done", table

    def finish(self, request: int) -> tuple[str, list[int]]:
        table = self.tables.pop(request)
        mine = [page for page in table if page not in self.cached.values()]
        others = {page for other in self.tables.values() for page in other}
        mine = [page for page in mine if page not in others]
        if self.bug == "forgets the last page of a request":
            mine = mine[:-1]
        self.free += mine * 2 if self.bug == "gives pages back twice" else mine
        return "done", []
