"""Bugs planted in HiSparse, by name. Each is one changed part of a function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.planting import Change

from cacheimpl.hisparse.coordinator import HiSparseCoordinator
from cacheimpl.hisparse.copies import DeviceCopies
from cacheimpl.hisparse.device_tables import HiSparseHotTables, HiSparseResidentTables
from cacheimpl.hisparse.residency import HiSparseResidency
from cacheimpl.hisparse.state import PendingTransfer, RequestPages
from cacheimpl.hisparse.transfers import HiSparseTransfers
from cacheimpl.kv_cache_manager.allocation import _has_room
from cacheimpl.kv_cache_manager.pool import BlockPool

IS_DONE: Any = vars(PendingTransfer)["is_done"]
"""A property."""

BUGS: Mapping[str, Change] = {
    "one worker is enough": Change(
        IS_DONE.fget,
        "0 < self.expected <= self.completed",
        "0 < self.expected and 0 < self.completed",
    ),
    "found before the host has it": Change(
        HiSparseTransfers._publish, "pages.ready_prefix_pages * self.page_size", "publication.tokens"
    ),
    "a gap in the prefix": Change(
        RequestPages.extend_ready,
        "self.ready_prefix_pages in self.valid_pages",
        "self.ready_prefix_pages < max(self.valid_pages, default=-1) + 1",
    ),
    "no reference to the device's block of a transfer": Change(
        HiSparseTransfers._plan_transfer, "its.pool.touch([block])", "None"
    ),
    "no reference to the host's block of a transfer": Change(
        HiSparseTransfers._plan_transfer, "self.host_pool.touch([table[page]])", "None"
    ),
    "the host's block of a transfer is kept": Change(
        HiSparseTransfers._completed, "self.host_pool.free_blocks([pending.host_block])", "None"
    ),
    "no reference to the pages of an ended request": Change(
        HiSparseTransfers.free, "self.host_pool.touch(holding.blocks[:publication.pages])", "None"
    ),
    "pages of an ended request are found with the first transfer": Change(
        HiSparseTransfers._publish_detached, "min(pages.ready_prefix_pages, publication.pages)", "publication.pages"
    ),
    "an unpinned page is not noted": Change(HiSparseResidency.unpin_page, "pages.unpinned_pages.add(page)", "None"),
    "an unpinned page has no reader": Change(
        HiSparseResidency.unpin_page,
        "self._readers.setdefault(block.block_id, set()).add((request_id, page))",
        "None",
    ),
    "unpinned without a hot region": Change(
        HiSparseResidency.update_residency, "self.can_read_from_host(request_id)", "True"
    ),
    "readers of a block that is taken go on": Change(
        HiSparseResidency._block_is_taken, "self._readers.pop(block.block_id, set())", "set()"
    ),
    "copies outlive their block": Change(
        HiSparseResidency._block_is_taken, "self.device_copies.drop_block(block)", "None"
    ),
    "nobody hears that a block is taken": Change(BlockPool._tell_watchers, "on_reuse is not None", "False"),
    "workers do not hear of lost pages": Change(HiSparseResidency._lose, "self._is_stale(pages, page)", "None"),
    "workers do not hear of new pages": Change(
        HiSparseCoordinator.take_residency_updates,
        "range(pages.synced_pages, len(rows[0]))",
        "range(pages.synced_pages + 1, len(rows[0]))",
    ),
    "an adopted block has no reference": Change(HiSparseResidency._adopt, "its.pool.touch([block])", "None"),
    "copies of a block that is recorded again": Change(DeviceCopies.drop_block, "key is not None", "False"),
    "unpinned blocks are given back twice": Change(
        HiSparseResidentTables.pop,
        "self.get_residency_row(request_id)",
        "list(self.req_to_blocks.get(request_id, ()))",
    ),
    "a hot region is wanted for ever": Change(HiSparseHotTables.pop, "self.hot_required.discard(request_id)", "None"),
    "a hit needs no hot region": Change(
        HiSparseHotTables._reads_host,
        "demand.external > 0 or begins or request_id in self.hot_required",
        "request_id in self.hot_required",
    ),
    "a failed load counts": Change(
        HiSparseTransfers.finish_host_import, "tokens is not None and not failed", "tokens is not None"
    ),
    "pages that nothing was loaded into have no blocks": Change(
        HiSparseResidency.pages_gone, "self.resident_blocks(request_id, page) is None or $rest", "False"
    ),
    "the host keeps what is computed again": Change(
        HiSparseResidency.compute_again, "its.intersection_update(range(first))", "None"
    ),
    "a transfer of what is computed again counts": Change(
        HiSparseResidency.compute_again, "self.pending_spills[number].is_void = True", "None"
    ),
    "the host's room is not asked": Change(_has_room, "wanted <= _free(host_pool, taking)", "True"),
}
"""What is changed."""
