"""What the coordinator knows of the pages of a request, and of transfers that are on their way."""

from __future__ import annotations

from dataclasses import dataclass, field

from cacheimpl.hisparse.messages import SparseKVPageTransfer
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.request import ComputedRequest


@dataclass
class Publication:
    """Tokens of a request that may be found as soon as the host has their pages."""

    request: ComputedRequest
    tokens: int
    pages: int
    """Full pages of these tokens."""
    detached: Holding | None = None
    """The request's table of host blocks, if the request has ended; its first `pages` blocks have a reference here."""


@dataclass
class RequestPages:
    """The pages of one request, by their positions in its table.

    A page is valid if the host has all of it. A valid page is pinned until the request can read from the host; then it
    is unpinned: the pool may hand its block out.
    """

    valid_pages: set[int] = field(default_factory=set)
    ready_prefix_pages: int = 0
    """Leading pages that are all valid."""
    pending_pages: dict[int, int] = field(default_factory=dict)
    """Pages with a transfer on its way, and its number."""
    publication: Publication | None = None
    copies_recorded: int = 0
    """Leading pages whose copies on the device are recorded for later requests, or were found."""
    pinned_clean: set[int] = field(default_factory=set)
    """Valid pages whose copies on the device have a reference of this request."""
    unpinned_pages: set[int] = field(default_factory=set)
    """Valid pages whose copies are read without a reference."""
    pages_to_adopt: int = 0
    """Leading pages for which copies on the device are sought in the next step."""
    synced_pages: int = 0
    """Leading pages whose blocks the workers know, but for the stale ones."""
    stale_pages: set[int] = field(default_factory=set)

    def may_be_read_by_others(self, page: int) -> bool:
        """Whether another request may read the page's blocks on the device: the host has it, and no copy is made."""
        return page in self.valid_pages and page not in self.pending_pages

    def extend_ready(self) -> None:
        """Count the leading valid pages."""
        while self.ready_prefix_pages in self.valid_pages:
            self.ready_prefix_pages += 1


@dataclass
class PendingTransfer:
    """A transfer that not all workers have completed. Its blocks have a reference each."""

    transfer: SparseKVPageTransfer
    request_id: str
    page: int
    pages: RequestPages
    """Those of the request that planned it: another request may have its id by now."""
    host_block: KVCacheBlock
    device_blocks: tuple[KVCacheBlock, ...]
    expected: int = 0
    """Workers that have begun it; 0 until they say so."""
    completed: int = 0
    """Workers that have completed it."""
    is_void: bool = False
    """The page is computed again, so what is copied does not count. Until it is copied no other transfer is planned."""

    @property
    def is_done(self) -> bool:
        """Whether all workers have completed it."""
        return 0 < self.expected <= self.completed
