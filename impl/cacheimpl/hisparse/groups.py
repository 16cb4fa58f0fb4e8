"""The groups of layers that a coordinator has, and its requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cacheimpl.hisparse.copies import DeviceCopies
from cacheimpl.hisparse.device_tables import HiSparseHotTables, HiSparseResidentTables
from cacheimpl.hisparse.messages import SparseKVPageTransfer
from cacheimpl.hisparse.state import PendingTransfer, RequestPages
from cacheimpl.hisparse.tables import HiSparseSourceTables, HiSparseTables
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.errors import InvalidSettingError
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.tables import Tables

WATERMARK = 10
"""Requests get hot regions when fewer than one block of this number is free on the device."""


class HiSparseGroups:
    """The tables of each role, and what is known of each request's pages."""

    def __init__(
        self,
        kv_cache_config: Any,
        managers: Sequence[Tables],
        max_model_len: int,
        *,
        num_reprefillable_tokens: int = 0,
    ) -> None:
        """Of `kv_cache_config` only `num_blocks` is read: the blocks of the device. Lengths are in tokens.

        The last `num_reprefillable_tokens` tokens of a request are computed again, so they are not written to the host.
        Raises `InvalidSettingError` if the tables have no host group, or no pages on the device.
        """
        self.managers = tuple(managers)
        self.max_model_len = max_model_len
        self.num_reprefillable_tokens = num_reprefillable_tokens
        sources = [its for its in managers if isinstance(its, HiSparseSourceTables)]
        self.resident_managers = tuple(its for its in managers if isinstance(its, HiSparseResidentTables))
        self.hot_managers = tuple(its for its in managers if isinstance(its, HiSparseHotTables))
        if len(sources) != 1 or not self.resident_managers:
            raise InvalidSettingError("managers must have one group of the host, and one with its pages on the device")
        (self.host_manager,) = sources
        self.host_group_id = self.managers.index(self.host_manager)
        self.page_size = self.host_manager.block_size
        """Tokens of a page."""
        self.gpu_pool: BlockPool = self.resident_managers[0].pool
        self.host_pool: BlockPool = self.host_manager.pool
        for its in managers:
            if isinstance(its, HiSparseTables):
                its.coordinator = self.as_coordinator()
        self.max_spill_pages = max_model_len // self.page_size
        """Transfers to the host that begin with one step, at most."""
        regions = sum(its.blocks_per_request for its in self.hot_managers)
        self.transition_watermark = max(regions, kv_cache_config.num_blocks // WATERMARK)
        """Requests get hot regions when fewer blocks of the device are free."""
        self.request_states: dict[str, RequestPages] = {}
        self.pending_spills: dict[int, PendingTransfer] = {}
        """Transfers that not all workers have completed, by number."""
        self.spills_to_send: list[SparseKVPageTransfer] = []
        """Transfers for the next step."""
        self.next_spill_id = 0
        self.device_copies = DeviceCopies(verified=self.host_manager.rules.verified)
        self._readers: dict[int, set[tuple[str, int]]] = {}
        """For the number of a block the requests, with their pages, that read it without a reference."""
        self._imports: dict[str, int] = {}
        """Tokens of the prefix that is loaded from outside, by request."""

    @property
    def copies(self) -> dict[Any, tuple[KVCacheBlock, ...]]:
        """Blocks of the device that hold what a host block holds, by the host block's key."""
        return self.device_copies.by_key

    def as_coordinator(self) -> Any:
        """This object, whose class has the rest of the calls."""
        return self

    def get_host_block_pool(self) -> BlockPool:
        """The host's pool."""
        return self.host_pool

    def pages_of(self, request_id: str) -> RequestPages:
        """What is known of the request's pages; nothing, if it is new."""
        return self.request_states.setdefault(request_id, RequestPages())

    def resident_blocks(self, request_id: str, page: int) -> list[KVCacheBlock] | None:
        """The page's block in each group of pages on the device; None if one has none."""
        blocks = [its.get_resident_page(request_id, page) for its in self.resident_managers]
        there = [block for block in blocks if block is not None]
        return there if len(there) == len(blocks) else None

    def host_blocks(self, request_id: str) -> Sequence[KVCacheBlock]:
        """The host blocks of the request's table."""
        return self.host_manager.req_to_blocks.get(request_id, ())
