"""The tables of requests on the device: pages that the host has, or will have, and hot regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cacheimpl.hisparse.tables import HiSparseAuxiliaryTables
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.request import ComputedRequest


class HiSparseResidentTables(HiSparseAuxiliaryTables):
    """Pages on the device. The table only grows; `residency_changes` has the pages that are read from elsewhere."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.residency_changes: dict[str, dict[int, KVCacheBlock]] = {}
        """By request and page the block that is read in place of the table's; the null block: the host's."""
        self._to_fill: dict[str, list[int]] = {}
        """Pages that the next step writes, and whose copies are gone."""
        self._written_from: dict[str, int] = {}
        """The first token that the next step writes."""

    @property
    def max_admission_blocks_per_request(self) -> int:
        """Blocks that a request has while it waits for no more than the tokens in flight."""
        return self.widest() if self.most_blocks is None else self.most_blocks

    def plan(self, request: ComputedRequest, demand: Demand, hits: Sequence[KVCacheBlock]) -> Plan:
        """Pages for the tokens to compute, and the last one of those that are loaded; earlier ones the host has."""
        del hits
        found, name = demand.found, request.request_id
        slots = min(demand.computed + found + demand.tokens + demand.lookahead, self.longest)
        length = max(blocks_for(slots, self.block_size), len(self.req_to_blocks.get(name, ())))
        everything = blocks_for(min(len(request.all_token_ids), self.longest), self.block_size)
        if name in self.holdings:
            existing, gone = (
                len(self.req_to_blocks[name]),
                len(self.coordinator.pages_gone(name, demand.computed, length)),
            )
            most = min(everything, self.max_admission_blocks_per_request)
            return self._plan(demand, [], length, length - existing + gone, most - existing + gone)
        begun = blocks_for(demand.computed + found, self.block_size)
        if demand.external > 0:
            loaded = blocks_for(demand.computed + found + demand.external, self.block_size)
            beginning = self.nulls(loaded - 1)
            planned = self._plan(demand, beginning, length, 1 + length - loaded, 1 + max(0, everything - loaded))
            return planned._replace(loaded=loaded)
        most = min(everything, self.max_admission_blocks_per_request)
        return self._plan(demand, self.nulls(begun), length, length - begun, most - begun)

    def estimated(
        self,
        request_id: str,
        tokens: int,
        hits: Sequence[KVCacheBlock],  # noqa: ARG002  # there are none
        computed: int,
        demand: Demand,
    ) -> int:
        """The free blocks that slots for `tokens` tokens in all take."""
        existing = len(self.req_to_blocks.get(request_id, ()))
        needed = blocks_for(tokens, self.block_size)
        if demand.external > 0:
            loaded = blocks_for(computed, self.block_size)
            has_tail = self.get_resident_page(request_id, loaded - 1) is not None
            return int(not has_tail) + max(0, needed - max(loaded, existing))
        if demand.whole:
            needed = min(needed, self.max_admission_blocks_per_request)
        return max(0, needed - max(existing, blocks_for(demand.found, self.block_size)))

    def begin(self, request: ComputedRequest, demand: Demand, plan: Plan) -> None:
        """Pages that only the host has stand as null blocks. The coordinator seeks copies of them."""
        name, holding = request.request_id, self.holdings.get(request.request_id)
        if holding is None:
            self.start(name, Holding(request, list(plan.beginning), computed=plan.found, scheduled=plan.end))
            self.coordinator.commit_computed_blocks(name, blocks_for(plan.found, self.block_size))
        else:
            self._to_fill[name] = self.coordinator.pages_gone(name, demand.computed, plan.length)
            self._written_from[name] = demand.computed
            holding.request, holding.scheduled = request, plan.end

    def lengthen(self, request: ComputedRequest, length: int) -> list[KVCacheBlock]:
        """The table gets this length, and pages that are written again get blocks."""
        name = request.request_id
        gone, first = self._to_fill.pop(name, ()), self._written_from.pop(name, 0)
        for page in gone:
            (block,) = self.pool.get_new_blocks(1)
            self.residency_changes.setdefault(name, {})[page] = block
            self.coordinator.page_is_back(name, page, reads_rows=first > page * self.block_size)
        return super().lengthen(request, length)

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The request has no table any more; these blocks have references of it."""
        held = self.get_residency_row(request_id)
        super().pop(request_id)
        self.residency_changes.pop(request_id, None)
        self._to_fill.pop(request_id, None)
        self._written_from.pop(request_id, None)
        return held

    def adopt_resident_page(self, request_id: str, page: int, block: KVCacheBlock) -> bool:
        """Read the page from this block, if only the host has it. Returns whether it is read from there now."""
        there = page < len(self.req_to_blocks.get(request_id, ()))
        if not there or self.get_resident_page(request_id, page) is not None:
            return False
        self.residency_changes.setdefault(request_id, {})[page] = block
        return True

    def drop_resident_page(self, request_id: str, page: int) -> KVCacheBlock | None:
        """Read the page from the host from now on; the block from which it was read, if there was one."""
        block = self.get_resident_page(request_id, page)
        if block is not None:
            (self.residency_changes.setdefault(request_id, {})[page],) = self.nulls(1)
        return block

    def get_resident_page(self, request_id: str, page: int) -> KVCacheBlock | None:
        """The block from which the page is read; None if that is the host's."""
        table = self.req_to_blocks.get(request_id, ())
        if page >= len(table):
            return None
        block = self.residency_changes.get(request_id, {}).get(page, table[page])
        return None if block.is_null else block

    def get_residency_row(self, request_id: str, start: int = 0) -> list[KVCacheBlock]:
        """The blocks from which pages from `start` on are read; the null block stands for the host."""
        table = self.req_to_blocks.get(request_id, ())
        changes = self.residency_changes.get(request_id, {})
        return [changes.get(page, table[page]) for page in range(start, len(table))]


class HiSparseHotTables(HiSparseAuxiliaryTables):
    """Hot regions. A request gets one when it is to read pages from the host."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.hot_required: set[str] = set()
        """Requests that get a hot region with their next slots."""

    @property
    def blocks_per_request(self) -> int:
        """Blocks of a hot region."""
        return int(self.kv_cache_spec.blocks_per_request)

    def require_hot(self, request_id: str) -> None:
        """The request gets a hot region with its next slots."""
        self.hot_required.add(request_id)

    def has_hot(self, request_id: str) -> bool:
        """Whether the request has its hot region."""
        return len(self.req_to_blocks.get(request_id, ())) == self.blocks_per_request

    def plan(self, request: ComputedRequest, demand: Demand, hits: Sequence[KVCacheBlock]) -> Plan:
        """The region, if the request reads from the host. A new one does if it begins with pages of the host."""
        del hits
        needed = self._missing(request.request_id, demand)
        length = len(self.req_to_blocks.get(request.request_id, ())) + needed
        return self._plan(demand, [], length, needed, needed)

    def estimated(
        self,
        request_id: str,
        tokens: int,  # noqa: ARG002  # a region has one size
        hits: Sequence[KVCacheBlock],  # noqa: ARG002  # there are none
        computed: int,  # noqa: ARG002  # the demand says which of them are found
        demand: Demand,
    ) -> int:
        """The free blocks that the region takes. Changes nothing."""
        return self._missing(request_id, demand)

    def begin(self, request: ComputedRequest, demand: Demand, plan: Plan) -> None:
        """The request has a table, and a region with its slots if it reads from the host."""
        name = request.request_id
        if self._reads_host(name, demand):
            self.require_hot(name)
        if name not in self.holdings:
            self.start(name, Holding(request, [], computed=plan.found))
        holding = self.holdings[name]
        holding.request, holding.scheduled = request, plan.end

    def allocate_new_blocks(
        self,
        request_id: str,
        num_tokens: int,  # noqa: ARG002  # the released signature
        num_tokens_main_model: int,  # noqa: ARG002  # the released signature
    ) -> list[KVCacheBlock]:
        """The region is taken, if the request wants one and has none. Raises `NoFreeBlocksError`."""
        table = self.req_to_blocks.setdefault(request_id, [])
        missing = self.blocks_per_request - len(table)
        if request_id not in self.hot_required or missing <= 0:
            return []
        fresh = self.pool.get_new_blocks(missing)
        table.extend(fresh)
        return fresh

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The request has no table any more."""
        self.hot_required.discard(request_id)
        return super().pop(request_id)

    def _reads_host(self, request_id: str, demand: Demand) -> bool:
        begins = request_id not in self.holdings and bool(demand.found)
        return demand.external > 0 or begins or request_id in self.hot_required

    def _missing(self, request_id: str, demand: Demand) -> int:
        """Blocks of the region that the request lacks."""
        if not self._reads_host(request_id, demand):
            return 0
        return max(0, self.blocks_per_request - len(self.req_to_blocks.get(request_id, ())))


CLASSES: Mapping[Kind, type[HiSparseAuxiliaryTables]] = {
    Kind.RESIDENT: HiSparseResidentTables,
    Kind.HOT: HiSparseHotTables,
}
"""The tables of the groups on the device."""
