"""What must be seen of anything that keeps prefixes in pages, by the names of the properties of `kv_blocks`.

Which page holds what is known from the calls alone: a request that is executed writes its contents into its pages. So
what is expected never asks the implementation; what it shows is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cacheproof.targets.prefixes.peer import Answer, Call, Shown
from cacheproof.targets.prefixes.recency import REFUSED, Recency

Wrong = tuple[str, str]
"""The property, and what is seen instead."""


class Ledger:
    """One run: which requests hold which pages, and what the pages in the cache hold.

    `ordered`: the least recently used page is evicted first.
    """

    def __init__(self, config: Mapping[str, Any], *, ordered: bool = False) -> None:
        self.size, self.pages = int(config["block_size"]), int(config["blocks"])
        self.chains = [tuple(chain) for chain in config["chains"]]
        self.lengths = list(config["lengths"])
        self.tables: dict[int, tuple[int, ...]] = {}
        self.written: set[int] = set()
        """Requests whose step was executed."""
        self.hits: dict[int, int] = {}
        self.contents: dict[int, int] = {}
        """What each page of the cache holds."""
        self.evicted = False
        """Whether something has left the cache."""
        self._before: Shown | None = None
        self._every: frozenset[int] = frozenset()
        """All pages, by the implementation's own numbers."""
        self._recency = Recency(self.chains) if ordered else None

    def offered(self) -> list[Call]:
        """What may be asked now, in the order of a scheduler."""
        calls = [Call("lookup", request) for request in range(len(self.lengths))]
        for request in range(len(self.lengths)):
            if request not in self.tables:
                calls.append(Call("admit", request))
                continue
            calls.append(Call("finish", request))
            if request not in self.written:
                calls.append(Call("commit", request))
        return calls

    def begin(self, shown: Shown) -> Wrong | None:
        """What is wrong with the initial state."""
        self._before = shown
        self._every = frozenset((*shown.free, *shown.cached))
        if len(self._every) != self.pages:
            return "KV-2", f"there are {len(self._every)} pages at the start, and there should be {self.pages}"
        return next(self._standing(shown), None)

    def expected_hits(self, request: int) -> tuple[int, ...]:
        """The pages of the longest cached prefix that leaves a token to compute."""
        by_content = {content: page for page, content in self.contents.items()}
        found = []
        for content in self.chains[request][: (self.lengths[request] - 1) // self.size]:
            if content not in by_content:
                break
            found.append(by_content[content])
        return tuple(found)

    def take(self, call: Call, answer: Answer) -> Wrong | None:
        """Note the call and its answer; the first thing that is wrong with it, or with what is shown."""
        if answer.shown is None:
            return "KV-8/answered", f"{call} does not return"
        if answer.code not in ("done", "hit", "miss", "refused"):
            return "KV-8/answered", f"{call} ends as {answer.code}"
        hits, used = self.expected_hits(call.request), self._used(call)
        wrong = self._noted(call, answer)
        if self._recency is not None:
            self._recency.use(answer.code if answer.code == REFUSED else call.name, used)
        wrong = wrong or self._dropped(call, answer.shown) or self._out_of_order(hits, answer.shown)
        self._note(answer.shown)
        found: Wrong | None = wrong if wrong is not None else next(self._standing(answer.shown), None)
        self._before = answer.shown
        return found

    def _noted(self, call: Call, answer: Answer) -> Wrong | None:
        match call.name:
            case "lookup":
                return self._as_found(call.request, answer.pages)
            case "admit":
                return self._admit(call.request, answer)
            case "commit":
                return self._commit(call.request, answer)
        del self.tables[call.request]
        self.written.discard(call.request)
        return None

    def _as_found(self, request: int, pages: tuple[int, ...]) -> Wrong | None:
        expected = self.expected_hits(request)
        if len(pages) != len(expected):
            return "KV-7/longest", f"request {request} finds {len(pages)} pages, where {len(expected)} are cached"
        if pages != expected:
            return "KV-7/found", f"request {request} finds pages {list(pages)}, its contents are in {list(expected)}"
        return None

    def _admit(self, request: int, answer: Answer) -> Wrong | None:
        needed = -(-self.lengths[request] // self.size)
        expected = self.expected_hits(request)
        if answer.code == "refused":
            locked = {page for table in self.tables.values() for page in table} | set(expected)
            assert self._before is not None
            room = len(self._before.free) + len(set(self._before.cached) - locked)
            if room >= needed - len(expected):
                return "KV-8/reasons", f"request {request} is refused, with room for {room} pages"
            return None
        if len(answer.pages) != needed:
            return "KV-10/covers", f"request {request} has {len(answer.pages)} pages, and needs {needed}"
        self.tables[request], self.hits[request] = answer.pages, len(expected)
        assert answer.shown is not None
        if strange := sorted(set(answer.pages[len(expected) :]) & set(answer.shown.cached)):
            return "KV-7/found", f"request {request} goes on in pages {strange}, which hold something else"
        return self._as_found(request, answer.pages[: len(expected)])

    def _commit(self, request: int, answer: Answer) -> Wrong | None:
        """Full pages are in the cache from now on; what was there already stays, and takes the place of the own."""
        chain = self.chains[request][: self.lengths[request] // self.size]
        there = {content: page for page, content in self.contents.items()}
        table = self.tables[request]
        expected = tuple(there.get(content, page) for content, page in zip(chain, table, strict=False))
        expected += table[len(chain) :]
        self.written.add(request)
        self.tables[request] = answer.pages
        self.contents |= dict(zip(expected, chain, strict=False))
        if answer.pages != expected:
            return "KV-6/chain", f"request {request} goes on with pages {list(answer.pages)}, not {list(expected)}"
        return None

    def _dropped(self, call: Call, shown: Shown) -> Wrong | None:
        """Whether something left the cache although no memory was needed; a whole leaf may go for one page."""
        gone = set(self.contents) - set(shown.cached)
        assert self._before is not None
        missing = -(-self.lengths[call.request] // self.size) - len(self.expected_hits(call.request))
        needed = call.name == "admit" and missing > len(self._before.free)
        return None if not gone or needed else ("KV-3/kept", f"pages {sorted(gone)} leave the cache without need")

    def _out_of_order(self, hits: tuple[int, ...], shown: Shown) -> Wrong | None:
        """Whether a page was evicted, and one that was used longer ago was not."""
        if self._recency is None:
            return None
        gone = set(self.contents) - set(shown.cached)
        in_use = {*hits, *(page for table in self.tables.values() for page in table)}
        wrong = self._recency.evict(self.contents, gone, in_use)
        return wrong and ("KV-11", f"page {wrong[0]} is evicted, and page {wrong[1]} was used longer ago")

    def _used(self, call: Call) -> list[int]:
        """The cached contents that the call uses."""
        if call.name == "commit":
            return list(self.chains[call.request][: self.lengths[call.request] // self.size])
        pages = self.tables[call.request] if call.name == "finish" else self.expected_hits(call.request)
        return [self.contents[page] for page in pages if page in self.contents]

    def _note(self, shown: Shown) -> None:
        """What has left the cache holds nothing any more."""
        gone = set(self.contents) - set(shown.cached)
        self.evicted = self.evicted or bool(gone)
        for page in gone:
            del self.contents[page]

    def _standing(self, shown: Shown) -> Iterator[Wrong]:
        """What must hold of every state."""
        free, cached = set(shown.free), set(shown.cached)
        held = {page for table in self.tables.values() for page in table}
        if len(free) < len(shown.free) or len(cached) < len(shown.cached):
            yield "KV-2", "a page is twice in the free list, or twice in the cache"
        if free & (cached | held):
            yield "KV-2", f"pages {sorted(free & (cached | held))} are free, and in use"
        if lost := self._every ^ (free | cached | held):
            yield "KV-2", f"pages {sorted(lost)} are nowhere, or there are no such pages"
        own = [page for table in self.tables.values() for page in table if page not in cached]
        if len(own) > len(set(own)):
            yield "KV-4", "two requests write into one page"
        if cached != set(self.contents):
            yield "KV-3/kept", f"pages {sorted(cached ^ set(self.contents))} are cached, or not, for no reason"
        if len(set(self.contents.values())) < len(self.contents):
            yield "KV-3", "two cached pages hold the same"
        locked = len(cached & held) * self.size
        counted = (shown.protected, shown.evictable)
        if None not in counted and counted != (locked, len(cached) * self.size - locked):
            yield (
                "KV-1",
                (
                    f"{shown.protected} slots are counted as locked and {shown.evictable} as not: "
                    f"they are {locked} and {len(cached) * self.size - locked}"
                ),
            )
        if shown.available not in (None, len(free) * self.size):
            yield "KV-2", f"{shown.available} slots are said to be available: there are {len(free) * self.size}"
