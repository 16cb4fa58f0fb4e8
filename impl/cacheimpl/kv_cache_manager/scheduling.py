"""What the schedulers of 0.20 and 0.33 ask of a `KVCacheManager` besides look-ups and slots.

Copies and states to hand on are those of `steps` and `partial`; kinds of layers that are refused have none.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, KVCacheBlocks
from cacheimpl.kv_cache_manager.by_hash import longest_by_hash
from cacheimpl.kv_cache_manager.common import CommonCalls
from cacheimpl.kv_cache_manager.contents import check_request
from cacheimpl.kv_cache_manager.errors import InvalidCountError
from cacheimpl.kv_cache_manager.partial import PartialStateTables
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.progress import executed_of
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.sizes import at_least, blocks_for
from cacheimpl.kv_cache_manager.slots import Demand
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


@dataclass(frozen=True)
class Coordinator:
    """The pool and the groups of layers, under the names that schedulers and vLLM's own tests read."""

    block_pool: BlockPool
    single_type_managers: tuple[Tables, ...]
    """The tables of each group of layers."""
    enable_partial_hash_hits: bool = False
    num_reprefillable_tokens: int = 0
    eagle_group_ids: tuple[int, ...] = ()
    retention_interval: int | None = None

    @property
    def group_block_sizes(self) -> tuple[int, ...]:
        """Tokens of a block in each group, those of all ranks that share it."""
        return tuple(group.block_size for group in self.single_type_managers)

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[Sequence[KVCacheBlock]],
        num_encoder_tokens: int = 0,
        total_computed_tokens: int = 0,
        *,
        num_local_computed_tokens: int | None = None,
        apply_admission_cap: bool = False,
        **_: Any,
    ) -> int:
        """How many free blocks a request needs for `num_tokens` tokens in all, beside its table and these hits.

        A hit that is free counts: it is no longer free afterwards. `num_local_computed_tokens`: those of the computed
        tokens that are not loaded from outside; None for all. The other arguments of the releases have no effect.
        """
        tokens = at_least("num_tokens", num_tokens, 0)
        computed = at_least("total_computed_tokens", total_computed_tokens, 0)
        local = computed if num_local_computed_tokens is None else num_local_computed_tokens
        demand = Demand(
            computed=0,
            tokens=0,
            found=at_least("num_local_computed_tokens", local, 0),
            external=max(0, computed - local),
            encoder=at_least("num_encoder_tokens", num_encoder_tokens, 0),
            whole=apply_admission_cap,
        )
        needed = 0
        for group, hits in zip(self.single_type_managers, new_computed_blocks, strict=True):
            needed += group.estimated(request_id, tokens, hits, computed, demand)
        return needed

    def find_longest_cache_hit_per_group(
        self, block_hashes: Sequence[Hashable], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], tuple[int, ...]]:
        """The longest prefix of each group by itself, by hashes alone: its blocks, and its tokens.

        Raises `UnsupportedError` for layers that read a window, a chunk or the encoder's tokens.
        """
        most = at_least("max_cache_hit_length", max_cache_hit_length, 0)
        groups = self.single_type_managers
        found = [longest_by_hash(its, block_hashes, most) if its.is_found else ([], 0) for its in groups]
        return tuple(blocks for blocks, _ in found), tuple(tokens for _, tokens in found)


class UnitaryKVCacheCoordinator(Coordinator):
    """The same for one group of layers, under the release's name."""


class HybridKVCacheCoordinator(Coordinator):
    """The same for several groups of layers."""


class KVCacheCoordinatorNoPrefixCache(Coordinator):
    """The same without prefix caching."""


class SchedulerCalls(CommonCalls):
    """The calls of `LaterKVCacheManager` that only schedulers make."""

    _tells_boundary = False
    """Whether look-ups have the third value of 0.33."""
    log_stats = True
    mamba_shared_prefix_checkpoint = False
    retained_hit_group_ids: tuple[int, ...] = ()

    def _schedules(self, specs: Sequence[Any], *, eagle: bool, zeroing: bool, retention: int | None) -> None:
        """Give the groups what schedulers read of them."""
        for number, (group, spec) in enumerate(zip(self._groups, specs, strict=True)):
            group.kv_cache_spec, group.kv_cache_group_id = spec, number
            group.records_new_block_ids = zeroing and group.is_zeroed
            group.offers = [] if group.reach.kind is Kind.STATE and self._tells_boundary else None
        eagles = tuple(range(len(self._groups))) if eagle else ()
        several = HybridKVCacheCoordinator if len(self._groups) > 1 else UnitaryKVCacheCoordinator
        coordinator = several if self.enable_caching else KVCacheCoordinatorNoPrefixCache
        self.coordinator: Coordinator = coordinator(
            self._pool,
            tuple(self._groups),
            enable_partial_hash_hits=self._steps is not None,
            eagle_group_ids=eagles,
            retention_interval=retention,
        )
        self.empty_kv_cache_blocks = KVCacheBlocks(tuple(() for _ in self._groups))

    # Look-ups

    def prefix_cache_lookup_enabled(self, request: ComputedRequest) -> bool:
        """Whether the request may be looked up."""
        check_request(request)
        return self.enable_caching and not skips(request)

    def record_prefix_cache_stats(self, request: ComputedRequest, num_hits: int) -> None:
        """Count a look-up that found `num_hits` tokens. In the shape of 0.33 nothing else counts them."""
        check_request(request)
        hits = at_least("num_hits", num_hits, 0)
        if self.log_stats and self.enable_caching and not skips(request):
            preempted = getattr(request, "num_preemptions", 0) > 0
            self._stats.record(len(request.all_token_ids), hits, preempted=preempted)

    def create_kv_cache_blocks(self, blocks: tuple[Sequence[KVCacheBlock], ...]) -> KVCacheBlocks:
        """These blocks by group of layers; one object for all calls if there are none."""
        return KVCacheBlocks(blocks) if any(blocks) else self.empty_kv_cache_blocks

    def truncate_computed_blocks(self, blocks: KVCacheBlocks, num_computed_tokens: int) -> KVCacheBlocks:
        """The hits that cover the first `num_computed_tokens` tokens: whole blocks, and no more than were found."""
        tokens = at_least("num_computed_tokens", num_computed_tokens, 0)
        counts = [tokens // group.block_size if group.is_found else 0 for group in self._groups]
        short = any(len(its) < count for its, count in zip(blocks.blocks, counts, strict=True))
        if short or any(tokens % group.block_size for group in self._groups if group.is_found):
            raise InvalidCountError(f"num_computed_tokens must be of whole blocks among the hits, not {tokens}")
        cut = (list(its[:count]) for its, count in zip(blocks.blocks, counts, strict=True))
        return self.create_kv_cache_blocks(tuple(cut))

    # Tables

    def get_block_ids_for_computed_tokens(self, request_id: str, num_computed_tokens: int) -> tuple[list[int], ...]:
        """The numbers of the blocks that cover the first `num_computed_tokens` tokens, by group of layers."""
        tokens = at_least("num_computed_tokens", num_computed_tokens, 0)
        tables = [group.req_to_blocks.get(request_id, []) for group in self._groups]
        cut = (
            its[: blocks_for(tokens, group.block_size)] if group.reach.kind.is_by_token else its
            for group, its in zip(self._groups, tables, strict=True)
        )
        return tuple([block.block_id for block in its] for its in cut)

    def estimate_cached_tokens(self, request: ComputedRequest) -> int:
        """The request's tokens in registered blocks, as far as all groups of layers have them."""
        check_request(request)
        ends = list[int]()
        for group in self._groups:
            if group.reach.kind is not Kind.CROSS and group.is_found:
                table = group.req_to_blocks.get(request.request_id, ())
                last = len(table)
                while last and table[last - 1]._block_hash is None:  # noqa: SLF001  # as `block_hash`, without a call
                    last -= 1
                ends.append(last * group.block_size)
        return min(ends, default=0)

    def can_fit_full_sequence(
        self,
        request: ComputedRequest,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: KVCacheBlocks | None = None,
        num_external_computed_tokens: int = 0,
        num_encoder_tokens: int = 0,
    ) -> bool:
        """Whether the pool has room for all tokens of the request, behind these hits. A call of 0.20."""
        check_request(request)
        tokens = min(len(request.all_token_ids), self.max_model_len)
        hits = self.empty_kv_cache_blocks if new_computed_blocks is None else new_computed_blocks
        needed = self.coordinator.get_num_blocks_to_allocate(
            request.request_id,
            tokens,
            hits.blocks,
            at_least("num_encoder_tokens", num_encoder_tokens, 0),
            at_least("num_new_computed_tokens", num_new_computed_tokens, 0)
            + at_least("num_external_computed_tokens", num_external_computed_tokens, 0),
            apply_admission_cap=True,
        )
        return needed <= self._pool.get_num_free_blocks()

    def pop_blocks_for_free(self, request: ComputedRequest) -> list[KVCacheBlock]:
        """Take the request's tables away, and keep the references of their blocks.

        The caller gives them to `block_pool.free_blocks` in reverse order, when no step in flight writes them any more.
        """
        check_request(request)
        if self._tables.holding(request) is None:
            return []
        executed = executed_of(request)
        blocks = list[KVCacheBlock]()
        for group in self._groups:
            group.passed(request, executed)
            blocks.extend(block for block in group.pop(request.request_id) if not block.is_null)
        return blocks

    def remove_skipped_blocks(
        self,
        request_id: str,
        processed_computed_tokens: int = 0,
        num_prompt_tokens: int | None = None,  # noqa: ARG002  # the released signature
        *,
        total_computed_tokens: int | None = None,
    ) -> None:
        """Blocks go back that the request's layers do not read behind its executed tokens (LG-5).

        Until 0.20.2 the count is called `total_computed_tokens`.
        """
        given = processed_computed_tokens if total_computed_tokens is None else total_computed_tokens
        tokens = at_least("processed_computed_tokens (total_computed_tokens)", given, 0)
        for group in self._groups:
            if request_id in group.holdings:
                group.forget_before(group.holdings[request_id], tokens)

    # Steps

    def new_step_starts(self) -> None:
        """What was registered before belongs to an earlier step. Rules of eras ask for it before they find states."""
        for group in self._groups:
            group.new_step_starts()

    def take_new_block_ids(self) -> list[int]:
        """Blocks taken since the last call, if the configuration wants new blocks to be zeroed."""
        taken = [number for group in self._groups for number in group.new_block_ids]
        for group in self._groups:
            group.new_block_ids.clear()
        return taken

    def record_blocks_for_zeroing(self, request_id: str, start_token: int) -> None:
        """Zero the request's blocks from this token on, too: a failed load has left them unwritten."""
        start = at_least("start_token", start_token, 0)
        if any(start % group.block_size for group in self._groups):
            raise InvalidCountError(f"start_token must be a multiple of every block size, not {start}")
        for group in self._groups:
            if not group.records_new_block_ids:
                continue
            blocks = group.req_to_blocks.get(request_id, [])[start // group.block_size :]
            group.new_block_ids.extend(block.block_id for block in blocks)

    def take_kv_cache_block_copies(self) -> tuple[list[Any], list[KVCacheBlock]]:
        """Copies that workers make before they compute anything of the planned step, and the blocks kept for them.

        The scheduler asks once for each step, at its end, and gives the blocks to `block_pool.free_blocks`. There are
        none unless hits may end within a block.
        """
        return ([], []) if self._steps is None else self._steps.take()

    def commit_step(self) -> None:
        """Workers have executed the oldest step whose copies were taken: what they have copied can be found.

        Not a call of the releases. Without it the manager knows as soon as a request of the step, or of a later one, is
        known to be further.
        """
        if self._steps is not None:
            self._steps.commit_step()

    def take_boundary_state_offloads(self) -> dict[str, list[tuple[int, int, int]]]:
        """States that were registered since the last call: by request, the group, the block and the tokens of each.

        The blocks are not held for the caller.
        """
        offered: dict[str, list[tuple[int, int, int]]] = {}
        for group in self._groups:
            for request_id, block, tokens in group.offers or ():
                offered.setdefault(request_id, []).append((group.kv_cache_group_id, block.block_id, tokens))
            if group.offers:
                group.offers = []
        return offered

    def finalize_partial_tail_offloads(self, request: ComputedRequest) -> list[tuple[int, int, int]]:
        """The state behind the prompt of a finished request that ends there, for a connector: group, block, tokens."""
        check_request(request)
        states = [group for group in self._groups if isinstance(group, PartialStateTables)]
        return [its for group in states if (its := group.tail_state(request, executed_of(request))) is not None]


def skips(request: ComputedRequest) -> bool:
    """Whether the request asks to skip prefix look-ups. From 0.20 on it says so; before, by `prompt_logprobs` only."""
    skipping = getattr(request, "skip_reading_prefix_cache", None)
    if skipping is not None:
        return bool(skipping)
    return getattr(getattr(request, "sampling_params", None), "prompt_logprobs", None) is not None
