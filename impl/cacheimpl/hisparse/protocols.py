"""What tables ask of the coordinator."""

from __future__ import annotations

from typing import Protocol

from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.request import ComputedRequest


class Coordinator(Protocol):
    """The calls of `HiSparseCoordinator` that its tables make."""

    gpu_pool: BlockPool

    def commit_computed_blocks(self, request_id: str, num_host_pages: int) -> None:
        """The request begins with this number of pages that the host has."""

    def record_pending_host_import(self, request_id: str, num_tokens: int) -> None:
        """The first `num_tokens` tokens are being loaded into host blocks."""

    def publish_when_ready(self, request: ComputedRequest, tokens: int, pages: int) -> None:
        """The first `tokens` tokens, with `pages` full pages, can be found as far as the host has them."""

    def goes_back(self, request_id: str, computed: int) -> bool:
        """Whether the host has, or gets, pages with tokens from `computed` on."""

    def compute_again(self, request_id: str, computed: int) -> None:
        """Tokens from `computed` on are computed again."""

    def pages_gone(self, request_id: str, computed: int, end: int) -> list[int]:
        """The pages before page `end` that a step from token `computed` on writes, and that need blocks for it."""

    def page_is_back(self, request_id: str, page: int, *, reads_rows: bool) -> None:
        """The page has blocks on the device again."""

    def free(self, request_id: str) -> None:
        """The request gives up its tables."""
