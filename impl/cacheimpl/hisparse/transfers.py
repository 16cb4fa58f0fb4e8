"""Pages on their way between the device and the host, and what the host has then (publication)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cacheimpl.hisparse import given
from cacheimpl.hisparse.messages import KVCacheBlockCopy, SparseKVPageTransfer
from cacheimpl.hisparse.residency import HiSparseResidency
from cacheimpl.hisparse.state import PendingTransfer, Publication, RequestPages
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.request import ComputedRequest


class HiSparseTransfers(HiSparseResidency):
    """Transfers of pages, loads from outside, and publication of what the host has."""

    # Planning -------------------------------------------------------------------------------------------------------

    def plan_prefix_materialization(self, request_id: str, num_computed_tokens: int) -> None:
        """Plan transfers to the host of the full pages among these tokens that it does not have.

        At most `max_spill_pages` begin with one step. Pages that are being loaded from outside are left out.
        """
        end = given.tokens("num_computed_tokens", num_computed_tokens) // self.page_size
        if not self.host_blocks(request_id):
            return
        pages = self.pages_of(request_id)
        budget = self.max_spill_pages - len(self.spills_to_send)
        loading = blocks_for(self._imports.get(request_id, 0), self.page_size)
        for page in range(max(pages.ready_prefix_pages, loading), end):
            if budget <= 0:
                return
            if page not in pages.valid_pages and self._plan_transfer(request_id, page, after_forward=True):
                budget -= 1

    def _plan_transfer(self, request_id: str, page: int, *, after_forward: bool, restore: bool = False) -> bool:
        """Plan a transfer of one page, and keep both of its ends. Returns False if one is planned, or an end lacks."""
        pages, table = self.pages_of(request_id), self.host_blocks(request_id)
        blocks = self.resident_blocks(request_id, page)
        if page in pages.pending_pages or page >= len(table) or table[page].is_null or blocks is None:
            return False
        self.host_pool.touch([table[page]])
        for its, block in zip(self.resident_managers, blocks, strict=True):
            its.pool.touch([block])
        number, self.next_spill_id = self.next_spill_id, self.next_spill_id + 1
        ids = tuple(block.block_id for block in blocks)
        transfer = SparseKVPageTransfer(number, table[page].block_id, ids, after_forward, restore)
        self.pending_spills[number] = PendingTransfer(transfer, request_id, page, pages, table[page], tuple(blocks))
        pages.pending_pages[page] = number
        self.spills_to_send.append(transfer)
        return True

    def page_is_back(self, request_id: str, page: int, *, reads_rows: bool) -> None:
        """The page has blocks on the device again. If it has rows before those that are written, they are copied."""
        pages = self.pages_of(request_id)
        self._is_stale(pages, page)
        if reads_rows:
            self._plan_transfer(request_id, page, after_forward=False, restore=True)

    # Completion -----------------------------------------------------------------------------------------------------

    def update_spills(self, enqueued_counts: Mapping[int, int], completed_counts: Mapping[int, int]) -> None:
        """Workers have begun and completed transfers: how many workers, by the number of the transfer.

        The first count of those that have begun one is the number of workers. Unknown numbers have no effect. Raises
        `InvalidPageError`.
        """
        given.reports("enqueued_counts", enqueued_counts)
        given.reports("completed_counts", completed_counts)
        for number, count in enqueued_counts.items():
            pending = self.pending_spills.get(number)
            if pending is not None:
                pending.expected = pending.expected or count
        for number, count in completed_counts.items():
            pending = self.pending_spills.get(number)
            if pending is not None:
                pending.completed += count
        done = [pending for pending in self.pending_spills.values() if pending.is_done]
        for pending in done:
            del self.pending_spills[pending.transfer.transfer_id]
            for its, block in zip(self.resident_managers, pending.device_blocks, strict=True):
                its.pool.free_blocks([block])
        for pending in done:
            self._completed(pending)
        for name in dict.fromkeys(pending.request_id for pending in done):
            self._publish(name)

    def _completed(self, pending: PendingTransfer) -> None:
        """All workers have completed a transfer; the references to the page's blocks on the device are gone."""
        pages, page = pending.pages, pending.page
        pages.pending_pages.pop(page, None)
        if not pending.is_void and not pending.transfer.restore:
            pages.valid_pages.add(page)
            pages.extend_ready()
        if page in pages.valid_pages and self.request_states.get(pending.request_id) is pages:
            self.page_became_clean(pending.request_id, pages, page)
            if pending.transfer.restore:
                self._record_copy(pending.request_id, page)
        self._publish_detached(pages)
        self.host_pool.free_blocks([pending.host_block])

    def has_pending_reclamation(self) -> bool:
        """Whether a transfer on its way will free a block when it is completed."""
        return any(
            pending.host_block.ref_cnt == 1
            or (pending.request_id in self.request_states and self.can_read_from_host(pending.request_id))
            for pending in self.pending_spills.values()
        )

    # Publication ----------------------------------------------------------------------------------------------------

    def publish_when_ready(self, request: ComputedRequest, tokens: int, pages: int) -> None:
        """The first `tokens` tokens, with `pages` full pages, can be found as far as the host has them."""
        self.pages_of(request.request_id).publication = Publication(request, tokens, pages)
        self._publish(request.request_id)

    def _publish(self, request_id: str) -> None:
        """Register the host blocks of the leading pages that the host has."""
        pages = self.request_states.get(request_id)
        publication = None if pages is None else pages.publication
        holding = self.host_manager.holdings.get(request_id)
        if pages is None or publication is None or holding is None:
            return
        tokens = min(publication.tokens, pages.ready_prefix_pages * self.page_size)
        self.host_manager.register_holding(publication.request, holding, tokens)
        recorded = min(tokens // self.page_size, len(holding.blocks))
        for page in range(pages.copies_recorded, recorded):
            if page not in pages.pending_pages:
                self._record_copy(request_id, page)
        pages.copies_recorded = max(pages.copies_recorded, recorded)
        if pages.ready_prefix_pages >= publication.pages:
            pages.publication = None

    def _record_copy(self, request_id: str, page: int) -> None:
        """Later requests that find the page on the host may read its copy on the device."""
        host_block, blocks = self.host_blocks(request_id)[page], self.resident_blocks(request_id, page)
        if host_block.block_hash is not None and blocks is not None:
            self.device_copies.record(host_block, blocks)

    def _publish_detached(self, pages: RequestPages) -> None:
        """A request that has ended: its pages can be found when its last transfer is completed."""
        publication = pages.publication
        if publication is None or publication.detached is None or pages.pending_pages:
            return
        holding, pages.publication = publication.detached, None
        count = min(pages.ready_prefix_pages, publication.pages)
        self.host_manager.register_holding(publication.request, holding, count * self.page_size)
        self.host_pool.free_blocks(reversed(holding.blocks[: publication.pages]))

    def free(self, request_id: str) -> None:
        """The request gives up its tables. Its transfers go on, and copies of its valid pages stay readable.

        What was computed can still be found when the transfers are completed: under rules of eras only if the request
        has finished, for a request that is preempted may have planned a transfer of pages that it did not compute.
        """
        self._imports.pop(request_id, None)
        pages = self.request_states.pop(request_id, None)
        if pages is None:
            return
        holding, publication = self.host_manager.holdings.get(request_id), pages.publication
        if publication is not None and holding is not None and pages.pending_pages and self._counts(publication):
            publication.detached = holding
            self.host_manager.name_pages(holding, publication.pages)
            self.host_pool.touch(holding.blocks[: publication.pages])
        else:
            pages.publication = None
        self.leave_copies(request_id, pages)

    def _counts(self, publication: Publication) -> bool:
        """Whether the tokens of a publication are computed whatever becomes of the request."""
        finished = getattr(publication.request, "is_finished", None)
        known = self.host_manager.rules.register is not Register.SCHEDULED
        return known or (callable(finished) and bool(finished()))

    # Loads from outside ---------------------------------------------------------------------------------------------

    def record_pending_host_import(self, request_id: str, num_tokens: int) -> None:
        """The first `num_tokens` tokens are being loaded into host blocks."""
        self._imports[request_id] = given.tokens("num_tokens", num_tokens)

    def finish_host_import(self, request_id: str, *, failed: bool) -> None:
        """The load has ended. A failed one leaves nothing that can be read."""
        tokens = self._imports.pop(request_id, None)
        if tokens is not None and not failed:
            self.complete_host_import(request_id, tokens)

    def complete_host_import(self, request_id: str, num_computed_tokens: int) -> None:
        """The host has the full pages of these tokens. The last page is copied to the device before the next step."""
        count = given.tokens("num_computed_tokens", num_computed_tokens) // self.page_size
        pages = self.pages_of(request_id)
        pages.valid_pages = set(range(count))
        pages.ready_prefix_pages = count
        if num_computed_tokens:
            last = (num_computed_tokens - 1) // self.page_size
            self._plan_transfer(request_id, last, after_forward=False, restore=True)
        self._publish(request_id)

    # Copies within the host's pool ----------------------------------------------------------------------------------

    def take_host_block_copies(self) -> tuple[KVCacheBlockCopy, ...]:
        """Copies of host blocks for the next step; none, for hits end with a block."""
        return ()

    def release_completed_host_copies(self, dst_block_ids: Iterable[int]) -> None:
        """Workers have made copies of host blocks. There are none."""

    def has_pending_work(self) -> bool:
        """Whether a transfer is to begin, or is on its way."""
        return bool(self.spills_to_send or self.pending_spills)
