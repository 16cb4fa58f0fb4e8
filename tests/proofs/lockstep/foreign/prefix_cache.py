"""A page allocator with a prefix cache, as other projects write one, and bugs that are planted in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.planting import Change

from cachespec.kv_blocks import Config

CACHE = "kv_blocks"


@dataclass
class Sequence:
    """A request with a table: how many tokens are computed, and scheduled, and how many of its pages were looked at."""

    pages: list[int] = field(default_factory=list)
    computed: int = 0
    scheduled: int = 0
    looked_at: int = 0


class PrefixCache:
    """Pages that are found by their content, a free list, and reference counts."""

    claims = ("eviction_order", "names")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.page_size = config.block_size
        self.limit = config.limit or max(config.lengths)
        self.free_pages = list(range(config.blocks))  # taken from the front
        self.count = [0] * config.blocks
        self.content: dict[int, int] = {}  # in the order of registering
        self.running: dict[int, Sequence] = {}

    def _chain(self, request: int, position: int) -> int:
        chain = self.config.chains[request]
        return chain[position] if position < len(chain) else -1

    def get_computed_blocks(self, request: int, tokens: int) -> tuple[str, list[int]]:
        pages: list[int] = []
        while len(pages) < max(0, tokens - 1) // self.page_size:
            page = self._page_of(self._chain(request, len(pages)))
            if page is None:
                break
            pages.append(page)
        return ("hit", pages) if pages else ("miss", [])

    def _page_of(self, content: int) -> int | None:
        return next((page for page, known in self.content.items() if known == content), None)

    def allocate_slots(self, request: int, computed: int, tokens: int, hits: tuple[int, ...]) -> tuple[str, list[int]]:
        sequence = self.running.get(request, Sequence())
        end = computed + len(hits) * self.page_size + tokens
        if end > self.limit:
            return "too_large", []
        if hits and sequence.pages:
            return "present", []
        if not sequence.computed <= computed <= sequence.scheduled:
            return "stale", []
        if any(self.content.get(page, -1) != self._chain(request, at) for at, page in enumerate(hits)):
            return "stale", []
        owned = len(sequence.pages) + len(hits)
        wanted = -(-end // self.page_size) - owned
        if tokens <= 0 or wanted > len(self.free_pages) - sum(self.count[page] == 0 for page in hits):
            return "refused", []
        if not sequence.pages:
            sequence.computed = sequence.scheduled = len(hits) * self.page_size
            sequence.looked_at = len(hits)
        for page in hits:
            self._hold(sequence, page)
        for _ in range(wanted):
            page = self.free_pages[0]
            self.content.pop(page, None)
            self._hold(sequence, page)
        sequence.scheduled = end
        self.running[request] = sequence
        return "done", sequence.pages[owned:]

    def _hold(self, sequence: Sequence, page: int) -> None:
        if self.count[page] == 0:
            self.free_pages.remove(page)
        self.count[page] += 1
        sequence.pages.append(page)

    def commit(self, request: int, computed: int) -> str:
        sequence = self.running.get(request)
        if sequence is None:
            return "absent"
        if not sequence.computed <= computed <= sequence.scheduled:
            return "stale"
        sequence.computed = computed
        while sequence.looked_at < computed // self.page_size:
            self._register(request, sequence, sequence.looked_at)
            sequence.looked_at += 1
        return "done"

    def _register(self, request: int, sequence: Sequence, position: int) -> None:
        if position > 0 and sequence.pages[position - 1] not in self.content:
            return
        self.content[sequence.pages[position]] = self._chain(request, position)

    def free_request(self, request: int) -> str:
        sequence = self.running.pop(request, None)
        if sequence is None:
            return "absent"
        for page in sequence.pages:
            if page not in self.content:
                self._let_go(page)
        for page in reversed(sequence.pages):
            if page in self.content:
                self._let_go(page)
        return "done"

    def withdraw(self, request: int) -> str:
        return self.free_request(request)

    def _let_go(self, page: int) -> None:
        self.count[page] -= 1
        if self.count[page] > 0:
            return
        if page in self.content:
            self.free_pages.append(page)
        else:
            self.free_pages.insert(0, page)

    def evict_block(self, block: int) -> str:
        if block not in self.content:
            return "absent"
        content = self.content[block]
        for request, sequence in self.running.items():
            contents = [self._chain(request, at) for at in range(len(sequence.pages))]
            if content in contents:
                for page in sequence.pages[contents.index(content) + 1 :]:
                    self.content.pop(page, None)
        del self.content[block]
        return "done"

    def reset_prefix_cache(self) -> str:
        if self.running:
            return "refused"
        self.content.clear()
        return "done"

    def common_prefix(self, request: int, running: tuple[int, ...]) -> tuple[str, list[int]]:
        mine = self.running.get(request, Sequence()).pages
        others = [self.running.get(other, Sequence()).pages for other in running]
        shared = 0
        while shared < len(mine) and all(pages[shared : shared + 1] == [mine[shared]] for pages in others):
            shared += 1
        return "done", [shared]

    def observe(self) -> dict[str, list[int]]:
        held = [part for page, count in enumerate(self.count) if count for part in (page, count)]
        return {"free": self.free_pages, "references": held}


FACTORY = PrefixCache
BUGS = {
    "all tokens of a prompt are a hit": Change(
        PrefixCache.get_computed_blocks, "max(0, tokens - 1) // self.page_size", "tokens // self.page_size"
    ),
    "a hit goes on behind a gap": Change(
        PrefixCache.get_computed_blocks, "break", "page = next(iter(self.content), 0)"
    ),
    "the last copy is found": Change(PrefixCache._page_of, "self.content.items()", "reversed(self.content.items())"),
    "hits are not counted as free": Change(
        PrefixCache.allocate_slots,
        "len(self.free_pages) - sum(self.count[page] == 0 for page in hits)",
        "len(self.free_pages)",
    ),
    "a page that is taken can still be found": Change(
        PrefixCache.allocate_slots, "self.content.pop(page, None)", "pass"
    ),
    "the last free page is never given": Change(
        PrefixCache.allocate_slots, "tokens <= 0 or wanted > $x", "tokens <= 0 or wanted >= $x and wanted > 0"
    ),
    "a request as long as the limit is refused": Change(
        PrefixCache.allocate_slots, "end > self.limit", "end >= self.limit"
    ),
    "old hits are taken": Change(
        PrefixCache.allocate_slots, "self.content.get(page, -1) != self._chain(request, at)", "False"
    ),
    "a table can adopt twice": Change(PrefixCache.allocate_slots, "hits and sequence.pages", "False"),
    "a refused request keeps its hits": Change(
        PrefixCache.allocate_slots,
        'return "refused", []',
        'for page in hits:\n    self._hold(sequence, page)\nreturn "refused", []',
    ),
    "hits of a running request stay in the free list": Change(
        PrefixCache._hold,
        "if self.count[page] == 0:\n    $body",
        "if self.count[page] == 0 and page not in self.content:\n    $body",
    ),
    "pages are found before they are full": Change(
        PrefixCache.commit, "computed // self.page_size", "-(-computed // self.page_size)"
    ),
    "a hit is registered again": Change(
        PrefixCache.allocate_slots, "sequence.looked_at = len(hits)", "sequence.looked_at = 0"
    ),
    "what is behind an evicted page is registered": Change(PrefixCache._register, "position > 0 and $x", "False"),
    "a freed table goes back from its beginning": Change(
        PrefixCache.free_request, "reversed(sequence.pages)", "sequence.pages"
    ),
    "pages without content go to the back": Change(
        PrefixCache._let_go, "self.free_pages.insert(0, page)", "self.free_pages.append(page)"
    ),
    "a shared page is free when the first request ends": Change(
        PrefixCache._let_go, "self.count[page] > 0", "self.count[page] > 1"
    ),
    "what is behind an evicted block stays": Change(PrefixCache.evict_block, "content in contents", "False"),
    "a reset is not refused": Change(PrefixCache.reset_prefix_cache, "self.running", "len(self.running) > 1"),
    "a common prefix is compared with two requests only": Change(
        PrefixCache.common_prefix,
        "[$x for other in running]",
        "[$x for other in running[:2]]",
    ),
}
