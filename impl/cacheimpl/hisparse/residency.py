"""Which pages a request reads from the device: pinned, unpinned, lost, and adopted from others."""

from __future__ import annotations

from cacheimpl.hisparse.groups import HiSparseGroups
from cacheimpl.hisparse.messages import ACTIVE_TAIL_PAGES
from cacheimpl.hisparse.state import RequestPages
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.rules import Register


class HiSparseResidency(HiSparseGroups):
    """The copies of pages on the device."""

    def commit_computed_blocks(self, request_id: str, num_host_pages: int) -> None:
        """The request begins with this number of pages that the host has."""
        count = min(num_host_pages, len(self.host_blocks(request_id)))
        if count == 0:
            return
        pages = self.pages_of(request_id)
        pages.valid_pages.update(range(count))
        pages.ready_prefix_pages = max(count, pages.ready_prefix_pages)
        pages.pages_to_adopt = max(count, pages.pages_to_adopt)
        pages.copies_recorded = max(count, pages.copies_recorded)

    def can_read_from_host(self, request_id: str) -> bool:
        """Whether the request has its hot regions, so that its copies on the device may go."""
        return bool(self.hot_managers) and all(its.has_hot(request_id) for its in self.hot_managers)

    def update_residency(self, request_id: str) -> None:
        """Before a step of the request: adopt copies, ask for a hot region if blocks are scarce, and unpin valid pages.

        Blocks are scarce if fewer than `transition_watermark` are free, and if the request has as many pages on the
        device as its admission counted.
        """
        if not self.host_blocks(request_id):
            return
        pages = self.pages_of(request_id)
        if pages.pages_to_adopt:
            self._adopt(request_id, pages)
        if self.can_read_from_host(request_id):
            for page in sorted(pages.pinned_clean, reverse=True):  # the pool takes the last page first
                self.unpin_page(request_id, pages, page)
        elif self.gpu_pool.get_num_free_blocks() < self.transition_watermark or self._fills_admission(request_id):
            for its in self.hot_managers:
                its.require_hot(request_id)

    def _fills_admission(self, request_id: str) -> bool:
        return any(
            len(its.req_to_blocks.get(request_id, ())) >= its.max_admission_blocks_per_request
            for its in self.resident_managers
        )

    def _adopt(self, request_id: str, pages: RequestPages) -> None:
        """Pages that were found on the host are read from copies on the device, where there are any."""
        count, pages.pages_to_adopt = pages.pages_to_adopt, 0
        for page, host_block in enumerate(self.host_blocks(request_id)[:count]):
            blocks = self.device_copies.find(host_block)
            for its, block in zip(self.resident_managers if blocks else (), blocks, strict=True):
                if its.adopt_resident_page(request_id, page, block):
                    its.pool.touch([block])
                    pages.pinned_clean.add(page)
                    self._is_stale(pages, page)

    def page_became_clean(self, request_id: str, pages: RequestPages, page: int) -> None:
        """The host has the page now."""
        if self.resident_blocks(request_id, page) is None:
            return
        pages.pinned_clean.add(page)
        if self.can_read_from_host(request_id):
            self.unpin_page(request_id, pages, page)

    def unpin_page(self, request_id: str, pages: RequestPages, page: int) -> bool:
        """Give the page's blocks back to the pool, and read them until they are taken. Returns whether it was done.

        The last pages of the table stay, and pages that the host does not have or that are being copied.
        """
        blocks = self.resident_blocks(request_id, page)
        last = min(len(its.req_to_blocks.get(request_id, ())) for its in self.resident_managers)
        if page in pages.pending_pages or page not in pages.valid_pages or blocks is None:
            return False
        if page >= last - ACTIVE_TAIL_PAGES:
            return False
        for its, block in zip(self.resident_managers, blocks, strict=True):
            self._readers.setdefault(block.block_id, set()).add((request_id, page))
            its.pool.unpin_blocks([block], self._block_is_taken)
        pages.pinned_clean.discard(page)
        pages.unpinned_pages.add(page)
        return True

    def _block_is_taken(self, block: KVCacheBlock) -> None:
        """The pool hands the block out. Its requests read the page from the host from now on."""
        self.device_copies.drop_block(block)
        for request_id, page in self._readers.pop(block.block_id, set()):
            self._lose(request_id, page)

    def _lose(self, request_id: str, page: int) -> None:
        """The page is read from the host."""
        pages = self.request_states.get(request_id)
        if pages is None:
            return
        self._stop_reading(request_id, page)
        pages.unpinned_pages.discard(page)
        self._is_stale(pages, page)
        for its in self.hot_managers:
            its.require_hot(request_id)

    def _stop_reading(self, request_id: str, page: int) -> list[KVCacheBlock]:
        """The page is not read from the device; the blocks from which it was read."""
        dropped = list[KVCacheBlock]()
        for its in self.resident_managers:
            block = its.drop_resident_page(request_id, page)
            if block is not None:
                dropped.append(block)
                readers = self._readers.get(block.block_id, set())
                readers.discard((request_id, page))
                if not readers:
                    self._readers.pop(block.block_id, None)
        return dropped

    def _is_stale(self, pages: RequestPages, page: int) -> None:
        if page < pages.synced_pages:
            pages.stale_pages.add(page)

    def leave_copies(self, request_id: str, pages: RequestPages) -> None:
        """The request ends: valid pages become free copies for others, the last one of the table first to be taken."""
        for page in reversed(range(len(self.resident_managers[0].req_to_blocks.get(request_id, ())))):
            if page in pages.unpinned_pages:
                self._stop_reading(request_id, page)
            elif page in pages.valid_pages and page not in pages.pending_pages:
                for block in self._stop_reading(request_id, page):
                    self.gpu_pool.unpin_blocks([block], self._block_is_taken)

    # Tokens that are computed again ---------------------------------------------------------------------------------

    def goes_back(self, request_id: str, computed: int) -> bool:
        """Whether the host has, or gets, pages with tokens from `computed` on. Rules of eras do not ask."""
        holding, pages = self.host_manager.holdings.get(request_id), self.request_states.get(request_id)
        if holding is None or pages is None or computed >= holding.scheduled:
            return False
        first = computed // self.page_size
        known = self.host_manager.rules.register is not Register.SCHEDULED
        return known and any(page >= first for its in (pages.valid_pages, pages.pending_pages) for page in its)

    def pages_gone(self, request_id: str, computed: int, end: int) -> list[int]:
        """The pages that a step from token `computed` on writes, before page `end`, and that need blocks for it.

        These are pages of the table that only the host has. A page that is computed again gets a block of its own, too:
        others may read the one that it has.
        """
        table = self.resident_managers[0].req_to_blocks.get(request_id, ())
        again = self.request_states.get(request_id) if self.goes_back(request_id, computed) else None
        return [
            page
            for page in range(computed // self.page_size, min(end, len(table)))
            if self.resident_blocks(request_id, page) is None
            or (again is not None and again.may_be_read_by_others(page))
        ]

    def compute_again(self, request_id: str, computed: int) -> None:
        """Tokens from `computed` on are computed again: the host does not have their pages until they are."""
        pages = self.request_states.get(request_id)
        if pages is None:
            return
        first = computed // self.page_size
        for page in sorted(page for page in pages.valid_pages if page >= first and pages.may_be_read_by_others(page)):
            pinned = page not in pages.unpinned_pages
            for block in self._stop_reading(request_id, page):
                self.device_copies.drop_block(block)
                if pinned:
                    self.gpu_pool.free_blocks([block])
            self._is_stale(pages, page)
        for page, number in pages.pending_pages.items():
            if page >= first:
                self.pending_spills[number].is_void = True
        for its in (pages.valid_pages, pages.unpinned_pages, pages.pinned_clean):
            its.intersection_update(range(first))
        pages.ready_prefix_pages = min(pages.ready_prefix_pages, first)
        pages.copies_recorded = min(pages.copies_recorded, first)
        if pages.publication is not None:
            pages.publication.tokens = min(pages.publication.tokens, computed)
            pages.publication.pages = min(pages.publication.pages, first)
