"""Calls and attributes that `KVCacheManager` has in both of its shapes.

One call is about one request; for bursts there are tensors elsewhere in `cacheimpl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cacheimpl.kv_cache_manager.allocation import allocate
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Chains, HashFunction, check_request
from cacheimpl.kv_cache_manager.errors import (
    InvalidCountError,
    InvalidSettingError,
    NotRunningError,
    StaleBlocksError,
)
from cacheimpl.kv_cache_manager.events import MAPS, Form
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.rules import Register, Rules
from cacheimpl.kv_cache_manager.slots import Demand
from cacheimpl.kv_cache_manager.tables import Tables, at_least
from cacheimpl.request import ComputedRequest


@dataclass
class PrefixCacheStats:
    """Prefix look-ups since the last report, counted in tokens (until 0.7 in blocks)."""

    reset: bool = False
    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    """Look-ups of requests that were preempted before; the other counts leave these out."""
    preempted_queries: int = 0
    preempted_hits: int = 0

    def record(self, num_tokens: int, num_hits: int, preempted: bool = False) -> None:  # noqa: FBT001, FBT002
        """Count a look-up of `num_tokens` tokens."""
        before = "preempted_" if preempted else ""
        for name, more in (("requests", 1), ("queries", num_tokens), ("hits", num_hits)):
            setattr(self, before + name, getattr(self, before + name) + more)


class CommonCalls:
    """What both shapes of `KVCacheManager` share."""

    def _begin(
        self,
        block_size: int,
        num_gpu_blocks: int,
        max_model_len: int,
        *,
        enable_caching: bool,
        rules: Rules,
        hash_function: HashFunction,
        null_block: bool,
        groups: int = 1,
        events: bool = False,
        form: Form = MAPS,
        drops_last: bool = False,
    ) -> None:
        self.block_size: int = at_least("block_size", block_size, 1)
        self.num_gpu_blocks: int = at_least("the number of blocks", num_gpu_blocks, 1)
        self.max_model_len: int = at_least("max_model_len", max_model_len, 1)
        self.enable_caching = enable_caching
        if not isinstance(rules, Rules):
            raise InvalidSettingError(f"rules must be Rules, as `KV_2026_11` is, not {type(rules).__name__}")
        if not callable(hash_function):
            raise InvalidSettingError(f"hash_function must be a function, not {hash_function!r}")
        self.rules = rules
        self._stats = PrefixCacheStats()
        self._pool = BlockPool(
            self.num_gpu_blocks,
            rules,
            null_block=null_block,
            several_groups=groups > 1,
            events=events,
            form=form,
            hash_block_size=self.block_size,
        )
        chains = [Chains(self.block_size, hash_function, group if groups > 1 else None) for group in range(groups)]
        self._groups = [
            Tables(self._pool, chain, self.max_model_len, caching=enable_caching, drops_last=drops_last)
            for chain in chains
        ]
        self._tables = self._groups[0]

    @property
    def usage(self) -> float:
        """The fraction of blocks that are in a table, from 0 to 1."""
        return self._pool.get_usage()

    @property
    def req_to_blocks(self) -> dict[str, list[KVCacheBlock]]:
        """Block tables by request id, of the first group of layers. Read only."""
        return self._tables.req_to_blocks

    @property
    def num_cached_block(self) -> dict[str, int]:
        """By request id: how many leading blocks of its table were hits or are registered (first group of layers)."""
        return self._tables.num_cached_block

    @property
    def prefix_cache_stats(self) -> PrefixCacheStats | None:
        """Look-ups since the last report; in the later shape None without `log_stats`."""
        return self._stats

    def make_prefix_cache_stats(self) -> PrefixCacheStats | None:
        """Look-ups since the last call."""
        stats, self._stats = self._stats, PrefixCacheStats()
        return stats

    def commit(self, request: ComputedRequest, num_computed_tokens: int) -> None:
        """A step was executed: keys and values of the first `num_computed_tokens` tokens are written.

        The full blocks among them are registered, so that prefix look-ups find them. vLLM calls this `cache_blocks`
        from 0.11 on and has no such call before. Raises `UnknownRequestError`, `StaleCountError`, `InvalidCountError`.
        """
        check_request(request)
        computed = at_least("num_computed_tokens", num_computed_tokens, 0)
        for group in self._groups:
            group.commit(request, computed)

    def roll_back(self, request: ComputedRequest, num_computed_tokens: int) -> None:
        """The request's tokens from `num_computed_tokens` on are computed again, as after a failed load.

        Their blocks stay in the table, and are not found until then. In the later shape `allocate_slots` does this by
        itself for a request with fewer computed tokens than before. Raises `UnknownRequestError`, `InvalidCountError`,
        `StaleCountError` if the request has fewer, and `SharedBlocksError` if other requests hold the blocks.
        """
        check_request(request)
        computed = at_least("num_computed_tokens", num_computed_tokens, 0)
        for group in self._groups:
            group.check_going_back(request, computed)
        for group in self._groups:
            group.roll_back(request, computed)

    def free(self, request: ComputedRequest) -> None:
        """Release the blocks of a finished, aborted or preempted request. Does nothing if it has no table.

        Raises `RequestMismatchError` if the table belongs to another request with the same id.
        """
        check_request(request)
        if self._tables.holding(request) is None:
            return
        executed = executed_of(request)
        for group in self._groups:
            group.passed(request, executed)
            group.release(request.request_id)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Unregister these blocks, also while requests hold them. Raises `ForeignBlockError`."""
        for block in [self._pool.block(number) for number in several("block_ids", block_ids)]:
            for group in self._groups:
                group.evict(block)

    def reset_prefix_cache(self) -> bool:
        """Unregister all blocks. Returns False and changes nothing while a request holds a block."""
        done = self._pool.reset_prefix_cache()
        self._stats.reset |= done
        return done

    # For both shapes ------------------------------------------------------------------------------------------------

    def _found(self, request: ComputedRequest) -> list[list[KVCacheBlock]]:
        """The longest prefix that is cached in all groups of layers, without the last token of the request."""
        check_request(request)
        tokens = len(request.all_token_ids)
        most = max(0, tokens - 1) if self.rules.leaves_a_token else tokens
        prefixes = [group.found(request, most) for group in self._groups]
        common = min(len(hits) for hits in prefixes)
        return [hits[:common] for hits in prefixes]

    def _allocated(
        self, request: ComputedRequest, demand: Demand, hits: Sequence[Sequence[Any]], *, registers: bool = True
    ) -> list[list[KVCacheBlock]] | None:
        """Allocate slots, and register the blocks if the rules register them when they are scheduled."""
        check_request(request)
        brought = [self._pool.own(its) for its in hits]
        if any(brought) and not self.enable_caching:
            raise StaleBlocksError("blocks are brought along, and prefix caching is off")
        fresh = allocate(self._groups, request, demand, brought)
        if fresh is not None and registers and self.rules.register is Register.SCHEDULED:
            for group in self._groups:
                group.register(request, group.holdings[request.request_id].scheduled)
        return fresh

    def _common_prefix(self, request_id: str, running: Iterable[str] | None, count: int) -> list[int]:
        named = None if running is None else several("running", running)
        return [group.common_prefix(request_id, named, count) for group in self._groups]


def check_running(request: ComputedRequest) -> None:
    """Raises `NotRunningError` for a request whose status is not RUNNING."""
    status = getattr(getattr(request, "status", None), "name", "RUNNING")
    if status != "RUNNING":
        raise NotRunningError(f"{request.request_id!r} is {status}, and does not run")


def tokens_of(request: ComputedRequest) -> int:
    """The request's own count of computed tokens. Raises `InvalidCountError`."""
    check_request(request)
    name = f"num_computed_tokens of request {request.request_id!r}"
    return at_least(name, getattr(request, "num_computed_tokens", None), 0)


IN_FLIGHT = ("num_in_flight_tokens", "num_output_placeholders")
"""What requests of releases say of their tokens in flight: from 0.33 on exactly, before of decodes only."""


def executed_of(request: ComputedRequest) -> int:
    """The request's computed tokens but those in flight, as it says itself. Raises `InvalidCountError`.

    Engines count a token as computed when they schedule it. A request without a count of tokens in flight has none.
    """
    computed = at_least("num_computed_tokens", getattr(request, "num_computed_tokens", 0), 0)
    for name in IN_FLIGHT:
        count = getattr(request, name, None)
        if count is not None:
            return max(0, computed - at_least(f"{name} of request {request.request_id!r}", count, 0))
    return computed


def several(what: str, given: Any) -> list[Any]:
    """A list of what an iterable holds. Raises `InvalidCountError` for anything else, text included."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidCountError(f"{what} must be several, in a list or the like, not {given!r}")
    return list(given)
