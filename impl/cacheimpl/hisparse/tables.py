"""The tables of requests in the groups of HiSparse: host blocks, and what the tables on the device have in common.

Each is a table of the manager's, so one call of `allocate_slots` gives slots in all groups or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cacheimpl.hisparse.protocols import Coordinator
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Links
from cacheimpl.kv_cache_manager.errors import TooManyTokensError
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


class HiSparseTables(Tables):
    """What the groups have in common."""

    coordinator: Coordinator
    """Set by the coordinator, which the manager makes with its tables."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.is_zeroed = False


class HiSparseSourceTables(HiSparseTables):
    """Host blocks: one for each page. A prefix finds those whose pages the host has.

    The hits of a look-up may be longer than those of other groups: a request uses as many as it takes over tokens, of
    which another source may bring what the other groups lack.
    """

    def used_of(self, hits: Sequence[KVCacheBlock], tokens: int) -> Sequence[KVCacheBlock]:
        """The hits with these tokens."""
        return hits[: blocks_for(tokens, self.block_size)]

    def covers(self, hits: Sequence[KVCacheBlock], tokens: int) -> bool:
        """Whether the hits have at least these tokens, which fill blocks."""
        return tokens % self.block_size == 0 and tokens <= len(hits) * self.block_size

    def covered(self, hits: Sequence[KVCacheBlock], demand: Demand) -> int:  # noqa: ARG002  # more than are used
        """The tokens that all groups have found."""
        return demand.found

    def filled(self, hits: Sequence[KVCacheBlock], found: int) -> int:  # noqa: ARG002  # all blocks are full
        """The tokens of all hits."""
        return len(hits) * self.block_size

    def kept_of(self, hits: list[KVCacheBlock], tokens: int) -> list[KVCacheBlock]:  # noqa: ARG002  # all are kept
        """All hits, also behind the end of what the other groups have."""
        return hits

    def estimated(
        self, request_id: str, tokens: int, hits: Sequence[KVCacheBlock], computed: int, demand: Demand
    ) -> int:
        """0 if the host's pool has room for these tokens; otherwise more blocks than the device's pool has."""
        needed = super().estimated(request_id, tokens, hits, computed, demand)
        if hits and demand.found % self.block_size:
            needed += 1  # the last hit is copied before the request writes behind the tokens found
        return 0 if needed <= self.pool.get_num_free_blocks() else self.coordinator.gpu_pool.num_gpu_blocks + 1

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        num_local_computed_tokens: int,
        num_tokens_main_model: int,  # noqa: ARG002  # the released signature
        apply_admission_cap: bool = False,  # noqa: FBT001, FBT002  # the released signature
        prefill_end: int = 0,  # noqa: ARG002  # the released signature
    ) -> int:
        """`estimated` under the field's name. Counts are in tokens."""
        demand = Demand(computed=0, tokens=0, found=num_local_computed_tokens, whole=apply_admission_cap)
        return self.estimated(request_id, num_tokens, new_computed_blocks, total_computed_tokens, demand)

    def begin(self, request: ComputedRequest, demand: Demand, plan: Plan) -> None:
        """The hits are adopted. What is loaded from outside counts when the load has ended."""
        is_new = request.request_id not in self.holdings
        super().begin(request, demand, plan)
        if is_new and demand.external > 0:
            self.coordinator.record_pending_host_import(request.request_id, plan.found + demand.external)

    def register(self, request: ComputedRequest, tokens: int) -> None:
        """The first `tokens` tokens can be found as soon as the host has their pages."""
        if self.caching:
            pages = self.chains.full_blocks(request, tokens)
            self.coordinator.publish_when_ready(request, tokens, pages)

    def name_pages(self, holding: Holding, pages: int) -> None:
        """The contents of the first `pages` pages are read now: the request may get other tokens later."""
        self.learn(holding.request, holding, pages)
        self.name(holding, pages)

    def roll_back(self, request: ComputedRequest, computed: int) -> None:
        """Tokens from `computed` on are computed again: the host does not have their pages any more."""
        if self.coordinator.goes_back(request.request_id, computed):
            self.coordinator.compute_again(request.request_id, computed)
        super().roll_back(request, computed)

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The request has no table any more; what the host has stays readable for others."""
        self.coordinator.free(request_id)
        return super().pop(request_id)


class HiSparseAuxiliaryTables(HiSparseTables):
    """Blocks on the device that no prefix finds."""

    @property
    def is_found(self) -> bool:
        """No prefix finds blocks here."""
        return False

    def covers(self, hits: Sequence[KVCacheBlock], tokens: int) -> bool:  # noqa: ARG002  # for any tokens
        """There are no hits."""
        return not hits

    def hits_of(self, links: Links, tokens: int) -> list[KVCacheBlock]:  # noqa: ARG002  # for any tokens
        """No hits."""
        return []

    def give_back(self, request: ComputedRequest, demand: Demand) -> None:
        """All pages are read."""

    def check_going_back(self, request: ComputedRequest, computed: int) -> None:  # noqa: ARG002  # the host's group knows
        """Raises `UnknownRequestError`."""
        self.known(request)

    def common_prefix(self, request_id: str, running: Iterable[str] | None, count: int) -> int:  # noqa: ARG002  # as above
        """Always 0: requests share no positions here."""
        return 0

    def _plan(self, demand: Demand, beginning: list[KVCacheBlock], length: int, needed: int, whole: int) -> Plan:
        """A plan without hits and contents."""
        found = demand.found
        end = demand.computed + found + demand.tokens
        if end > self.longest:
            raise TooManyTokensError(f"a request would have {end} tokens, and the longest has {self.longest}")
        whole = max(0, whole) if demand.whole else 0
        return Plan(beginning, found, Links(), 0, [], end, 0, length, max(0, needed), whole, 0)
