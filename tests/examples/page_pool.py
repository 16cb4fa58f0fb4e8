"""A page allocator of its own: pages are addresses, the last freed is taken first, and its adapter for `kv_blocks`.

`bug` plants one, by a name in `BUGS`: for the tests.
"""

from __future__ import annotations

from cachespec.kv_blocks import Config

BUGS = (
    "takes a page that a request uses",
    "evicts a page and still finds it",
    "forgets a page that it could keep",
    "gives a page back twice",
    "never gives the last page back",
    "finds one page too few",
    "finds the last token too",
    "shares what was not written",
    "refuses one page early",
    "takes the first hit again",
    "does not count a second holder",
    "takes pages for fewer tokens",
)
BASE, STRIDE = 1 << 20, 4096


class PagePool:
    """Pages of one memory, by address; `keys` are the pages that can be found, `users` how often each is used."""

    def __init__(self, pages: int, bug: str = "") -> None:
        self.bug = bug
        self.free = [BASE + STRIDE * index for index in range(pages)]
        self.keys: dict[int, int] = {}
        self.users: dict[int, int] = {}

    def take(self, count: int) -> list[int]:
        """The last freed first, those without a key before all others: no queue, and no least recently used."""
        plain = [page for page in self.free if page not in self.keys]
        pages = [*reversed(plain), *(page for page in reversed(self.free) if page in self.keys)][:count]
        if self.bug == "takes a page that a request uses" and pages and len(self.users) > 1:
            pages[-1] = next(iter(self.users))
        for page in pages:
            if self.bug != "evicts a page and still finds it":
                self.keys.pop(page, None)
            self.use(page)
        return pages

    def use(self, page: int) -> None:
        second = page in self.users and self.bug == "does not count a second holder"
        self.users[page] = self.users.get(page, 0) + (not second)
        if page in self.free:
            self.free.remove(page)

    def drop(self, page: int) -> None:
        self.users[page] -= 1
        if not self.users[page]:
            del self.users[page]
            self.free += [page] * (2 if self.bug == "gives a page back twice" and page in self.keys else 1)
            if self.bug == "forgets a page that it could keep" and len(self.keys) > 2:
                self.keys.pop(page, None)

    def find(self, key: int) -> int | None:
        return next((page for page, other in self.keys.items() if other == key), None)


class Adapter:
    """Requests are tables of addresses; the keys of pages are the contents of the configuration."""

    bug = ""

    def __init__(self, config: Config) -> None:
        self.config, self.size = config, config.block_size
        self.pool = PagePool(config.blocks, self.bug)
        self.rows: dict[int, list[int]] = {}
        self.done: dict[int, int] = {}
        self.planned: dict[int, int] = {}
        self.keyed: dict[int, int] = {}
        self.limit = config.limit or max(config.lengths)

    def get_computed_blocks(self, request: int, tokens: int) -> tuple[str, list[int]]:
        found = []
        last = tokens if self.bug == "finds the last token too" else tokens - 1
        for key in self.config.chains[request][: last // self.size]:
            page = self.pool.find(key)
            if page is None:
                break
            found.append(page)
        found = found[:-1] if self.bug == "finds one page too few" and len(found) > 1 else found
        return ("hit" if found else "miss"), found

    def allocate_slots(self, request: int, computed: int, tokens: int, hits: tuple[int, ...]) -> object:
        row, end = self.rows.get(request, []), computed + len(hits) * self.size + tokens
        if end > self.limit:
            return "too_large"
        if hits and row:
            return "present"
        valid = [self.pool.keys.get(page) for page in hits] == list(self.config.chains[request][: len(hits)])
        if not self.done.get(request, 0) <= computed <= self.planned.get(request, 0) or not valid:
            return "stale"
        needed = -(-end // self.size) - len(row) - len(hits)
        if self.bug != "takes pages for fewer tokens":
            needed = max(0, needed)
        spare = 1 if self.bug == "refuses one page early" and self.rows else 0
        if tokens <= 0 or needed + spare > len([page for page in self.pool.free if page not in hits]):
            return "refused"
        late = self.bug == "takes the first hit again" and hits and hits[0] in self.pool.free
        for page in hits[1:] if late else hits:
            self.pool.use(page)
        new = self.pool.take(needed)
        self.rows[request] = [*row, *hits, *new]
        if not row:
            self.done[request] = len(hits) * self.size
            self.keyed[request] = len(hits)
        self.planned[request] = end
        return "done", new

    def commit(self, request: int, computed: int) -> str:
        if request not in self.rows:
            return "absent"
        if not self.done[request] <= computed <= self.planned[request]:
            return "stale"
        self.done[request] = computed
        full = -(-computed // self.size) if self.bug == "shares what was not written" else computed // self.size
        row, chain = self.rows[request], self.config.chains[request]
        for index in range(self.keyed[request], min(full, len(chain))):
            if index == 0 or row[index - 1] in self.pool.keys:
                self.pool.keys[row[index]] = chain[index]
            self.keyed[request] = index + 1
        return "done"

    def free_request(self, request: int) -> str:
        if request not in self.rows:
            return "absent"
        row = self.rows.pop(request)
        for held in (self.done, self.planned, self.keyed):
            held.pop(request)
        for page in row[:-1] if self.bug == "never gives the last page back" else row:
            self.pool.drop(page)
        return "done"

    withdraw = free_request

    def reset_prefix_cache(self) -> str:
        if self.rows:
            return "refused"
        self.pool.keys.clear()
        return "done"

    def observe(self) -> dict[str, list[int]]:
        rows = [
            part for request in sorted(self.rows) for part in (request, len(self.rows[request]), *self.rows[request])
        ]
        return {
            "free": self.pool.free,
            "references": [part for page in sorted(self.pool.users) for part in (page, self.pool.users[page])],
            "tables": rows,
            "carried": [part for page in sorted(self.pool.keys) for part in (page, self.pool.keys[page])],
        }
