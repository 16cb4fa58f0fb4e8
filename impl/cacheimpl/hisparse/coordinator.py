"""`HiSparseCoordinator`: what a scheduler's connector tells the workers in each step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cacheimpl.hisparse import given
from cacheimpl.hisparse.errors import NoHiSparseError
from cacheimpl.hisparse.messages import SparseKVOffloadCommand, SparseKVResidencyUpdate, SparseKVRowMirror
from cacheimpl.hisparse.transfers import HiSparseTransfers
from cacheimpl.kv_cache_manager.sizes import blocks_for


class HiSparseCoordinator(HiSparseTransfers):
    """Which pages of each request are on the device, which the host has, and what is copied between both.

    A connector calls, in each step: `advance_scheduled`, `build_offload_command`, `take_host_block_copies`,
    `build_row_mirrors`, `all_context_pages_resident` and `take_residency_updates`; when workers report, it calls
    `update_spills` and `finish_host_import`. The manager makes it (`get_hisparse_coordinator`).
    """

    def advance_scheduled(self, requests: Iterable[tuple[str, int]]) -> None:
        """A step is to be told: plan transfers, and update residency.

        `requests`: each request of the step, and its tokens that are computed when the step ends. Requests without
        tables are left out. Raises `InvalidPageError`, as the other calls of a step do.
        """
        for request_id, num_tokens in given.parts(requests, 1):
            self.plan_prefix_materialization(request_id, max(0, num_tokens - self.num_reprefillable_tokens))
            self.update_residency(request_id)

    def build_offload_command(self) -> SparseKVOffloadCommand:
        """The transfers that begin with the next step. They are told once."""
        transfers, self.spills_to_send = self.spills_to_send, []
        return SparseKVOffloadCommand(transfers)

    def build_row_mirrors(self, requests: Iterable[tuple[str, int, int]]) -> tuple[SparseKVRowMirror, ...]:
        """The rows that steps write on the device and the host gets, too.

        `requests`: each with its computed tokens and the tokens of the step. Pages without a copy on the device or
        without a host block are left out.
        """
        mirrors = list[SparseKVRowMirror]()
        for request_id, computed, scheduled in given.parts(requests, 2):
            host_blocks, token, end = self.host_blocks(request_id), computed, computed + scheduled
            while token < end:
                page, row = divmod(token, self.page_size)
                rows = min(self.page_size - row, end - token)
                blocks = self.resident_blocks(request_id, page)
                if blocks is not None and page < len(host_blocks) and not host_blocks[page].is_null:
                    sources = tuple(block.block_id * self.page_size + row for block in blocks)
                    mirrors.append(SparseKVRowMirror(sources, host_blocks[page].block_id * self.page_size + row, rows))
                token += rows
        return tuple(mirrors)

    def all_context_pages_resident(self, requests: Iterable[tuple[str, int, int]]) -> bool:
        """Whether these requests read all pages from the device. The triples are those of `build_row_mirrors`."""
        for request_id, computed, scheduled in given.parts(requests, 2):
            count = blocks_for(computed + scheduled, self.page_size)
            rows = [its.get_residency_row(request_id) for its in self.resident_managers]
            if len(rows[0]) < count or any(block.is_null for row in rows for block in row):
                return False
        return True

    def take_residency_updates(self, request_ids: Iterable[str]) -> dict[str, SparseKVResidencyUpdate]:
        """What workers do not know of these requests: pages that are new, and pages that are read from elsewhere.

        Other requests keep their changes until a step has them.
        """
        updates = dict[str, SparseKVResidencyUpdate]()
        for request_id in given.names(request_ids):
            rows = [its.get_residency_row(request_id) for its in self.resident_managers]
            pages = self.pages_of(request_id) if rows[0] else None
            if pages is None or not (pages.stale_pages or pages.synced_pages < len(rows[0])):
                continue
            told = [*sorted(pages.stale_pages), *range(pages.synced_pages, len(rows[0]))]
            blocks = tuple([row[page].block_id for page in told] for row in rows)
            updates[request_id] = SparseKVResidencyUpdate(told, blocks)
            pages.stale_pages, pages.synced_pages = set(), len(rows[0])
        return updates


def get_hisparse_coordinator(kv_cache_manager: Any) -> HiSparseCoordinator:
    """The coordinator of a manager. Raises `NoHiSparseError` if no group of it has pages in the host's memory."""
    coordinator = getattr(kv_cache_manager, "hisparse", None)
    if not isinstance(coordinator, HiSparseCoordinator):
        raise NoHiSparseError(f"{type(kv_cache_manager).__name__} has no group with pages in the host's memory")
    return coordinator
