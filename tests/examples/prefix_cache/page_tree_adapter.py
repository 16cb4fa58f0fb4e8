"""The prefix cache as the judge of prefix caches asks it: `cacheproof conform python:page_tree_adapter:Adapter`."""

from typing import Any

from page_tree import PageTree


class Adapter:
    claims = ("eviction_order",)
    bug = ""

    def __init__(self, requests: Any) -> None:
        self.tokens, self.size = requests.tokens, requests.block_size
        self.tree = PageTree(requests.blocks, self.size, self.bug)
        self.tables: dict[int, list[int]] = {}

    def lookup(self, request: int) -> list[int]:
        return self.tree.match(self.tokens[request][:-1])

    def admit(self, request: int) -> list[int] | None:
        hits = self.lookup(request)
        self.tree.lock(hits, 1)
        new = self.tree.take(-(-len(self.tokens[request]) // self.size) - len(hits))
        if new is None:
            self.tree.lock(hits, -1)
            return None
        self.tree.lock(new, 1)
        self.tables[request] = hits + new
        return self.tables[request]

    def commit(self, request: int) -> list[int]:
        self.tree.lock(self.tables[request], -1)
        self.tables[request] = self.tree.insert(self.tokens[request], self.tables[request])
        if self.bug != "frees the pages of a running request":
            self.tree.lock(self.tables[request], 1)
        return self.tables[request]

    def finish(self, request: int) -> None:
        pages = self.tables.pop(request)
        self.tree.lock(pages, -1)
        self.tree.free += [page for page in pages if page not in self.cached() and not self.tree.users[page]]

    def cached(self) -> list[int]:
        return list(self.tree.pages.values())

    def free(self) -> list[int]:
        return self.tree.free
