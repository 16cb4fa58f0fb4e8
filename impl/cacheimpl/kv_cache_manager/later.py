"""The calls of `KVCacheManager` from 0.11 on: made from a `kv_cache_config`, with one call for all requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cacheimpl import counts
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, KVCacheBlocks
from cacheimpl.kv_cache_manager.common import PrefixCacheStats, check_running
from cacheimpl.kv_cache_manager.contents import HashFunction, check_request
from cacheimpl.kv_cache_manager.contexts import ranks_of
from cacheimpl.kv_cache_manager.errors import (
    ForeignBlockError,
    InvalidCountError,
    UnsupportedError,
)
from cacheimpl.kv_cache_manager.event_arrays import ARRAYS
from cacheimpl.kv_cache_manager.events import MAPS, Form, KVCacheEvent
from cacheimpl.kv_cache_manager.kinds import kind_of, window_of
from cacheimpl.kv_cache_manager.layouts import layout_of
from cacheimpl.kv_cache_manager.ordinary import FullTables, TokenTables, admit, go_on
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.progress import executed_of, tokens_of
from cacheimpl.kv_cache_manager.protocols import KVCacheConfig
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.rules import NORMATIVE, Rules
from cacheimpl.kv_cache_manager.scheduling import SchedulerCalls, skips
from cacheimpl.kv_cache_manager.sizes import at_least, whole
from cacheimpl.kv_cache_manager.slots import Demand
from cacheimpl.kv_cache_manager.unsupported import Unsupported
from cacheimpl.request import ComputedRequest


class LaterCalls(SchedulerCalls):
    """The calls of `LaterKVCacheManager`."""

    def __init__(
        self,
        kv_cache_config: KVCacheConfig,
        max_model_len: int,
        *,
        enable_caching: bool = True,
        use_eagle: bool = False,
        log_stats: bool = False,
        enable_kv_cache_events: bool = False,
        scheduler_block_size: int | None = None,
        hash_block_size: int | None = None,
        watermark: float = 0.0,
        rules: Rules = NORMATIVE,
        hash_function: HashFunction = hash,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
        num_hash_lookahead_tokens: int = 0,
        num_prefill_lookahead: int = 0,
        enable_mamba_shared_prefix_checkpoint: bool = False,
        max_in_flight_tokens: int | None = None,
        max_num_batched_tokens: int | None = None,
        metrics_collector: object = None,  # noqa: ARG002  # no effect here
        partial_hits: bool | None = None,
    ) -> None:
        in_flight = max_num_batched_tokens if max_in_flight_tokens is None else max_in_flight_tokens
        ranks = ranks_of(dcp_world_size, pcp_world_size)
        lookahead = at_least("num_hash_lookahead_tokens", _count(num_hash_lookahead_tokens), 0)
        layout = layout_of(
            kv_cache_config,
            scheduler_block_size,
            hash_block_size,
            in_flight,
            rules,
            ranks,
            partial_hits=partial_hits,
            lookahead=lookahead,
        )
        crosses = any(reach.kind is Kind.CROSS for reach in layout.reaches)
        counts.amount("watermark", watermark, InvalidCountError, most=1.0)
        prefill = at_least("num_prefill_lookahead", _count(num_prefill_lookahead), 0)
        if use_eagle and (layout.partial or lookahead):
            raise UnsupportedError(
                Unsupported.EAGLE_WITH_PARTIAL_HITS,
                "use_eagle drops the last block of a hit, which is not supported if hits may end within a block, or if"
                " hashes look ahead: those need no dropped block",
            )
        served = layout.paged is not None and not enable_caching
        if prefill and not served and not (0 < prefill <= lookahead and (prefill == 1 or len(layout.reaches) > 1)):
            raise UnsupportedError(Unsupported.PREFILL_LOOKAHEAD, f"num_prefill_lookahead must be 0, not {prefill!r}")
        if enable_mamba_shared_prefix_checkpoint is not False:
            raise UnsupportedError(Unsupported.SHARED_STATES, "enable_mamba_shared_prefix_checkpoint must be False")
        self._begin(
            layout.block_sizes[0],
            kv_cache_config.num_blocks,
            max_model_len,
            enable_caching=enable_caching and not crosses,
            rules=rules,
            hash_function=hash_function,
            null_block=True,
            layout=layout,
            events=enable_kv_cache_events,
            form=_form(kv_cache_config) if scheduler_block_size is not None else ARRAYS,
            drops_last=use_eagle,
        )
        self.kv_cache_config = kv_cache_config
        self.num_kv_cache_groups = len(self._groups)
        self.log_stats, self.use_eagle = log_stats, use_eagle
        self.enable_kv_cache_events = enable_kv_cache_events
        self.watermark_blocks = int(watermark * self.num_gpu_blocks)
        self._tells_boundary = scheduler_block_size is not None
        self._full = self._tables if len(self._groups) == 1 and isinstance(self._tables, FullTables) else None
        by_token = [group for group in self._groups if isinstance(group, TokenTables)]
        self._by_token = by_token if len(by_token) == len(self._groups) else []
        specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
        zeroing = bool(getattr(kv_cache_config, "needs_kv_cache_zeroing", False))
        retention = getattr(kv_cache_config, "prefix_cache_retention_interval", None)
        self._schedules(specs, eagle=use_eagle, zeroing=zeroing, retention=retention)
        self.hisparse = None if layout.paged is None else layout.paged.coordinator(self, max(0, prefill - 1))
        """What moves pages between the device and the host; None if no group has pages there."""
        for group, count in zip(self._groups, layout.shared_by, strict=True):
            group.dcp_world_size = ranks.decode if count > 1 else 1

    @property
    def block_pool(self) -> BlockPool:
        """Blocks, free queue and map of registered prefixes."""
        return self._pool

    @property
    def prefix_cache_stats(self) -> PrefixCacheStats | None:
        """Look-ups since the last report; None if `log_stats` is off."""
        return self._stats if self.log_stats else None

    def make_prefix_cache_stats(self) -> PrefixCacheStats | None:
        """Look-ups since the last call; None if `log_stats` is off."""
        return super().make_prefix_cache_stats() if self.log_stats else None

    def get_computed_blocks(self, request: ComputedRequest, max_cache_hit_length: int | None = None) -> tuple[Any, ...]:
        """The blocks of the longest cached prefix, and their number of tokens; at least one token is left to compute.

        `max_cache_hit_length` limits the tokens. In the shape of 0.33 there is a third value: the end of a longer
        prefix that all groups of full attention have, and 0 if there is none. The prefix is empty for a request with
        `skip_reading_prefix_cache` or `sampling_params.prompt_logprobs`.
        """
        if max_cache_hit_length is None and self._full is not None and self.enable_caching and not skips(request):
            found = self._full.found_packed(request)
            if found is not None:
                tokens = len(found) * self.block_size
                if self._tells_boundary:
                    return KVCacheBlocks((found,)), tokens, 0
                self._stats.record(len(request.all_token_ids), tokens)
                return KVCacheBlocks((found,)), tokens
        check_request(request)
        if max_cache_hit_length is not None:
            max_cache_hit_length = at_least("max_cache_hit_length", max_cache_hit_length, 0)
        if not self.enable_caching or skips(request):
            return (self.empty_kv_cache_blocks, 0, 0) if self._tells_boundary else (self.create_empty_block_list(), 0)
        hits, tokens, longest = self._found(request, max_cache_hit_length)
        if not self._tells_boundary:  # from 0.33 on the scheduler counts, by `record_prefix_cache_stats`
            self._stats.record(len(request.all_token_ids), tokens)
        blocks = KVCacheBlocks(tuple(hits))
        if not self._tells_boundary:
            return blocks, tokens
        return blocks, tokens, self._boundary(request, tokens, longest if max_cache_hit_length is None else None)

    def get_computed_blocks_for_connector(
        self, request: ComputedRequest, max_cache_hit_length: int | None = None
    ) -> tuple[Any, ...]:
        """The same, and False: every group of layers has what it needs behind the prefix."""
        return *self.get_computed_blocks(request, max_cache_hit_length), False

    def allocate_slots(
        self,
        request: ComputedRequest,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: KVCacheBlocks | None = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,  # noqa: FBT001, FBT002  # the released signature
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,  # noqa: FBT001, FBT002  # the released signature
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,  # noqa: FBT001, FBT002  # the released signature
        skip_zeroing_group_ids: tuple[int, ...] = (),  # noqa: ARG002  # the same: nothing is zeroed here
    ) -> KVCacheBlocks | None:
        """Allocate slots for `num_new_tokens` more tokens, behind the hits of a new request.

        Returns the new blocks; None if the pool lacks room. `num_external_computed_tokens`: tokens behind the hits
        whose keys and values are loaded from outside; with them `num_new_tokens` may be 0. `reserved_blocks` stay free,
        and so does the watermark if the request waits while others run. A request with fewer computed tokens than
        before computes the others again; it has gone back even if the pool lacks room. Raises as the early
        `allocate_slots`.
        """
        if (
            self._by_token
            and type(num_new_tokens) is type(num_lookahead_tokens) is type(num_new_computed_tokens) is int
            and type(num_external_computed_tokens) is type(num_encoder_tokens) is type(reserved_blocks) is int
            and num_external_computed_tokens == num_encoder_tokens == 0 <= min(num_lookahead_tokens, reserved_blocks)
            and not delay_cache_blocks
        ):
            taken: Sequence[KVCacheBlock] | None = None
            if new_computed_blocks is None:
                if (
                    num_new_computed_tokens == reserved_blocks == self.watermark_blocks == 0
                    and not full_sequence_must_fit
                ):
                    if self._full is None:
                        given = go_on(self._by_token, request, num_new_tokens, num_lookahead_tokens)
                        if given is not None:
                            return KVCacheBlocks(tuple(given)) if any(given) else self.empty_kv_cache_blocks
                    else:
                        taken = self._full.go_on(request, num_new_tokens, num_lookahead_tokens)
            elif type(new_computed_blocks) is KVCacheBlocks and self._cover(
                new_computed_blocks.blocks, num_new_computed_tokens
            ):
                watermark = (
                    self.watermark_blocks if self.watermark_blocks and _waits(request) and has_scheduled_reqs else 0
                )
                asked = num_lookahead_tokens, reserved_blocks, watermark, full_sequence_must_fit
                if self._full is not None:
                    taken = self._full.admit_packed(request, num_new_tokens, new_computed_blocks.blocks[0], *asked)
                    if taken is not None:
                        return KVCacheBlocks((taken,))
                given = admit(self._by_token, request, num_new_tokens, new_computed_blocks.blocks, *asked)
                if given is not None:
                    return KVCacheBlocks(tuple(given)) if any(given) else self.empty_kv_cache_blocks
            if taken is not None:
                return KVCacheBlocks((taken,)) if taken else self.empty_kv_cache_blocks
        encoder = at_least("num_encoder_tokens", num_encoder_tokens, 0)
        if encoder and not any(group.reach.kind is Kind.CROSS for group in self._groups):
            raise UnsupportedError(
                Unsupported.ENCODER_TOKENS, "num_encoder_tokens must be 0: there is no cross-attention here"
            )
        lookahead = at_least("num_lookahead_tokens", num_lookahead_tokens, 0)
        if lookahead and any(group.reach.kind is Kind.STATE and not group.drafts for group in self._groups):
            raise UnsupportedError(
                Unsupported.DRAFTS_OF_STATES,
                "num_lookahead_tokens must be 0: there are no blocks for the states of drafts",
            )
        if new_computed_blocks is not None and not isinstance(new_computed_blocks, KVCacheBlocks):
            raise ForeignBlockError(
                f"new_computed_blocks must be KVCacheBlocks, not {type(new_computed_blocks).__name__}"
            )
        at_least("num_new_computed_tokens", num_new_computed_tokens, 0)
        brought = (self.empty_kv_cache_blocks if new_computed_blocks is None else new_computed_blocks).blocks
        if len(brought) != len(self._groups):
            raise UnsupportedError(
                Unsupported.OTHER_GROUPS,
                f"there are {len(self._groups)} groups of layers, and {len(brought)} are brought along",
            )
        external = at_least("num_external_computed_tokens", num_external_computed_tokens, 0)
        used = num_new_computed_tokens + external
        brought = tuple(group.used_of(its, used) for its, group in zip(brought, self._groups, strict=True))
        if not all(
            group.covers(its, num_new_computed_tokens) for its, group in zip(brought, self._groups, strict=True)
        ):
            covered = [len(its) * group.block_size for its, group in zip(brought, self._groups, strict=True)]
            raise InvalidCountError(f"{num_new_computed_tokens} computed tokens are said to be in blocks of {covered}")
        new = whole("num_new_tokens", num_new_tokens)
        demand = Demand(
            computed=tokens_of(request),
            found=num_new_computed_tokens,
            executed=executed_of(request),
            external=external,
            encoder=encoder,
            goes_back=True,
            loads=delay_cache_blocks,
            tokens=new + external if new >= 0 else new,
            lookahead=lookahead,
            reserved=at_least("reserved_blocks", reserved_blocks, 0),
            watermark=self.watermark_blocks if has_scheduled_reqs and _waits(request) else 0,
            whole=full_sequence_must_fit,
        )
        fresh = self._allocated(request, demand, brought, registers=not delay_cache_blocks)
        return None if fresh is None else KVCacheBlocks(tuple(fresh))

    def _cover(self, hits: Sequence[Sequence[KVCacheBlock]], tokens: int) -> bool:
        """Whether the hits of each group of layers cover this number of tokens."""
        if self._full is not None:
            return len(hits) == 1 and len(hits[0]) * self.block_size == tokens
        sizes = [group.block_size for group in self._by_token]
        return [len(its) * size for its, size in zip(hits, sizes, strict=False)] == [tokens] * len(sizes) and len(
            hits
        ) == len(sizes)

    def free(self, request: ComputedRequest) -> None:
        """Release the blocks of a finished, aborted or preempted request (see `CommonCalls.free`)."""
        if self._full is None or not self._full.finish(request):
            super().free(request)

    def cache_blocks(self, request: ComputedRequest, num_computed_tokens: int) -> None:
        """Keys and values of the first `num_computed_tokens` tokens are written or loaded: full blocks are registered.

        Normatively as `commit`, but that fewer tokens than before change nothing. Under the rules of an era it
        registers what is not registered yet, as after `delay_cache_blocks`. Does nothing if caching is off. Raises
        `UnknownRequestError`, `InvalidCountError`, and `StaleCountError` for tokens without slots.
        """
        check_request(request)
        computed = at_least("num_computed_tokens", num_computed_tokens, 0)
        for group in self._groups if self.enable_caching else ():
            group.cache(request, computed)

    def get_num_common_prefix_blocks(
        self, request: ComputedRequest | str, num_running_requests: int = 1, *, running: Iterable[str] | None = None
    ) -> list[int]:
        """The number of leading blocks that all running requests share, by group of layers. See the early shape.

        Callers of 0.20 and later give a request id and no count.

        Raises `UnknownRequestError`, `NotRunningError`, `InvalidCountError`.
        """
        count = at_least("num_running_requests", num_running_requests, 1)
        if isinstance(request, str):
            return self._common_prefix(request, running, count)
        check_request(request)
        self._tables.known(request)
        check_running(request)
        return self._common_prefix(request.request_id, running, count)

    def get_blocks(self, request_id: str) -> KVCacheBlocks:
        """The block table of a request; empty if it has none."""
        if self._full is not None:
            return KVCacheBlocks((list(self._full.req_to_blocks.get(request_id, ())),))
        return KVCacheBlocks(tuple(list(group.req_to_blocks.get(request_id, ())) for group in self._groups))

    def get_block_ids(self, request_id: str) -> tuple[list[int], ...]:
        """The block numbers of a request's table, by group of layers."""
        return tuple([block.block_id for block in its] for its in self.get_blocks(request_id).blocks)

    def create_empty_block_list(self) -> KVCacheBlocks:
        """An empty list of blocks for each group of layers."""
        return KVCacheBlocks(tuple([] for _ in self._groups))

    def take_events(self) -> list[KVCacheEvent]:
        """Events since the last call, in order; none without `enable_kv_cache_events`.

        A publisher sends them as maps if the manager has a `scheduler_block_size`, as 0.33.0 does; otherwise as arrays,
        as 0.11.0 and 0.20.2 do.
        """
        return self._pool.take_events()


def _form(kv_cache_config: KVCacheConfig) -> Form:
    """Events as maps that name the kind of their group."""
    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    return MAPS._replace(kinds=tuple((kind_of(spec), window_of(spec)) for spec in specs))


def _waits(request: ComputedRequest) -> bool:
    return getattr(getattr(request, "status", None), "name", "") in ("WAITING", "PREEMPTED")


def _count(given: Any) -> Any:
    """A flag as the count that releases take it for."""
    return int(given) if isinstance(given, bool) else given
