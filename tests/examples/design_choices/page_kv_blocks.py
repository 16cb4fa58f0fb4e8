"""The page allocator as `kv_blocks`: `cacheproof fit kv_blocks --target python:page_kv_blocks:Adapter`."""

from page_allocator import PageAllocator

from cachespec.kv_blocks import Config


class Adapter:
    claims = ("names", "eviction_order")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.pages = PageAllocator(config.blocks, config.block_size)

    def get_computed_blocks(self, request: int, tokens: int) -> tuple[str, list[int]]:
        contents = self.config.chains[request][: (tokens - 1) // self.config.block_size]
        pages = self.pages.find(list(contents))
        return ("hit", pages) if pages else ("miss", [])

    def allocate_slots(self, request: int, computed: int, tokens: int, hits: tuple[int, ...]) -> tuple[str, list[int]]:
        end = computed + len(hits) * self.config.block_size + tokens
        taken = self.pages.extend(request, end, list(hits)) if tokens > 0 else None
        return ("refused", []) if taken is None else ("done", taken)

    def commit(self, request: int, computed: int) -> None:
        self.pages.fill(request, list(self.config.chains[request][: computed // self.config.block_size]))

    def free_request(self, request: int) -> None:
        self.pages.release(request)

    withdraw = free_request

    def observe(self) -> dict[str, object]:
        pages = self.pages
        tables = [part for key in sorted(pages.tables) for part in (key, len(pages.tables[key]), *pages.tables[key])]
        carried = [part for page in sorted(pages.content_of) for part in (page, pages.content_of[page])]
        return {"free": pages.free[::-1], "tables": tables, "carried": carried}
