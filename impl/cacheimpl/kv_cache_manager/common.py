"""Calls and attributes that `KVCacheManager` has in both of its shapes.

One call is about one request; for bursts there are tensors elsewhere in `cacheimpl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cacheimpl.kv_cache_manager.allocation import allocate
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, keys_of
from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import HashFunction, Links, Piece, check_request
from cacheimpl.kv_cache_manager.draft_states import DraftPartialStates, DraftStates
from cacheimpl.kv_cache_manager.errors import (
    InvalidCountError,
    InvalidSettingError,
    NotRunningError,
    StaleBlocksError,
)
from cacheimpl.kv_cache_manager.events import MAPS, Form
from cacheimpl.kv_cache_manager.finding import LookedUp
from cacheimpl.kv_cache_manager.ordinary import FullTables, TokenTables
from cacheimpl.kv_cache_manager.paged import PagedLayout
from cacheimpl.kv_cache_manager.partial import PartialFullTables, PartialStateTables, PartialTables
from cacheimpl.kv_cache_manager.partial_finding import found_partial
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.progress import executed_of
from cacheimpl.kv_cache_manager.reach import FULL, Kind, Reach
from cacheimpl.kv_cache_manager.retention import Retention
from cacheimpl.kv_cache_manager.rules import Register, Rules
from cacheimpl.kv_cache_manager.several_keys import SeveralKeysPool
from cacheimpl.kv_cache_manager.sizes import at_least
from cacheimpl.kv_cache_manager.slots import Demand
from cacheimpl.kv_cache_manager.steps import Steps
from cacheimpl.kv_cache_manager.tables import CrossTables, Tables
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
        if preempted:
            self.preempted_requests += 1
            self.preempted_queries += num_tokens
            self.preempted_hits += num_hits
        else:
            self.requests += 1
            self.queries += num_tokens
            self.hits += num_hits


class Layout(NamedTuple):
    """The groups of layers of a manager."""

    reaches: tuple[Reach, ...]
    block_sizes: tuple[int, ...]
    """Tokens of a block in each group."""
    hash_block_size: int
    """Tokens for which a request brings one hash."""
    alignment: int
    """Tokens. The end of a hit is a multiple of this number."""
    drafting: frozenset[int] = frozenset()
    """Groups with layers of a draft model; none: all have."""
    in_flight: int | None = None
    """Tokens of a request that are scheduled and not executed, at most; None: not known."""
    retention: int | None = None
    """Tokens between the prefixes whose windows and states can be found; 0: those of prompts only; None: all."""
    shared_by: tuple[int, ...] = ()
    """For each group, how many ranks share the tokens of a block, which has as many times more; empty: one."""
    partial: bool = False
    """Hits may end within a block of full attention and state-space layers."""
    lookahead: int = 0
    """Tokens behind a block that its hash covers, too."""
    saved: tuple[int | None, ...] = ()
    """For each group, where its layers can save a state within a step (see `PartialStateTables`); none: in no group."""
    drafts: tuple[int, ...] = ()
    """For each group, the blocks for the states of drafts; none: no group has any."""
    paged: PagedLayout | None = None
    """Groups whose pages the host has; None: there are none."""


TABLES: Mapping[Kind, type[Tables]] = {
    Kind.FULL: FullTables,
    Kind.WINDOW: TokenTables,
    Kind.CHUNK: TokenTables,
    Kind.CROSS: CrossTables,
}
"""The tables of a kind of layers, if they are of a class of their own."""

PARTIAL: Mapping[Kind, type[Tables]] = {Kind.FULL: PartialFullTables, Kind.STATE: PartialStateTables}
"""The same if hits may end within a block."""


def tables_of(layout: Layout) -> list[type[Tables]]:
    """The class of the tables of each group. The ordinary calls do not know hashes that look ahead."""
    named = TABLES if not layout.lookahead else {Kind.CROSS: CrossTables}
    classes = [named.get(reach.kind, Tables) for reach in layout.reaches]
    if layout.partial:
        classes = [PARTIAL.get(reach.kind, its) for reach, its in zip(layout.reaches, classes, strict=True)]
    drafting = DraftPartialStates if layout.partial else DraftStates
    return [
        drafting if number < len(layout.drafts) and layout.drafts[number] else its for number, its in enumerate(classes)
    ]


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
        layout: Layout | None = None,
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
        layout = layout or Layout((FULL,), (self.block_size,), self.block_size, self.block_size)
        groups = len(layout.reaches)
        self._pool = (SeveralKeysPool if layout.partial else BlockPool)(
            self.num_gpu_blocks,
            rules,
            null_block=null_block,
            several_groups=groups > 1,
            events=events,
            form=form,
            hash_block_size=layout.hash_block_size,
        )
        self._pool.hash_function, self._pool.before_evicting = hash_function, self._forget_behind
        self._pool.lookahead = layout.lookahead
        self._alignment = layout.alignment
        paged = layout.paged or PagedLayout()
        host_pool = self._pool.host_pool = paged.host_pool(self._pool)
        if host_pool is not None:
            host_pool.hash_function, host_pool.before_evicting = hash_function, self._forget_behind
        pools = [host_pool if host_pool and number in paged.sources else self._pool for number in range(groups)]
        self._groups = [
            paged.tables.get(number, made)(
                pools[number],
                Chains(
                    size,
                    hash_function,
                    number if groups > 1 else None,
                    layout.hash_block_size,
                    compared=rules.verified or rules.whole_prefixes,
                    registered=pools[number].registered,
                    lookahead=layout.lookahead,
                ),
                self.max_model_len,
                caching=enable_caching and reach.kind not in (Kind.RESIDENT, Kind.HOT),
                drops_last=drops_last and (number in layout.drafting or not layout.drafting),
                reach=reach,
                alignment=layout.alignment,
                in_flight=layout.in_flight,
            )
            for number, (made, reach, size) in enumerate(
                zip(tables_of(layout), layout.reaches, layout.block_sizes, strict=True)
            )
        ]
        self._steps = Steps(self._pool) if isinstance(self._pool, SeveralKeysPool) else None
        for group, alignment, drafts in zip(
            self._groups, layout.saved or (None,) * groups, layout.drafts or (0,) * groups, strict=True
        ):
            group.drafts = drafts
            if self._steps is not None and isinstance(group, PartialTables):
                group.attach(self._steps)
            if isinstance(group, PartialStateTables):
                group.checkpoint_alignment = alignment
        self._tables = self._groups[0]
        for number, group in enumerate(self._groups):
            around = [*self._groups[number + 1 :], *self._groups[:number]][::-1]
            alike = (one for one in around if one.block_size == group.block_size and one.caching == group.caching)
            group.beside = next(alike, None)
        if layout.retention is not None:
            proof = max(group.proofs * group.block_size for group in self._groups)
            retention = Retention(layout.retention, layout.alignment, proof, drops_last, rules.aligned)
            for group in self._groups:
                group.thin_out(retention)

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
        for group in self._groups:
            group.release(request.request_id)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Unregister these blocks, also while requests hold them. Raises `ForeignBlockError`."""
        self._pool.evict_blocks(several("block_ids", block_ids))

    def _forget_behind(self, block: KVCacheBlock) -> None:
        for group in self._groups:
            group.forget_behind(block)

    def reset_prefix_cache(self) -> bool:
        """Unregister all blocks. Returns False and changes nothing while a request holds a block."""
        host_pool = self._pool.host_pool
        if host_pool is not None and (host_pool.num_held_blocks or self._pool.num_held_blocks):
            return False
        done = self._pool.reset_prefix_cache() and (host_pool is None or host_pool.reset_prefix_cache())
        self._stats.reset |= done
        return done

    # For both shapes ------------------------------------------------------------------------------------------------

    def _found(self, request: ComputedRequest, limit: int | None = None) -> tuple[list[list[KVCacheBlock]], int, int]:
        """The longest prefix that is cached in all groups of layers, and its tokens (LG-12).

        The third value is the end of the prefix that all groups of full attention have. Both prefixes leave out the
        last token of the request, and have at most `limit` tokens.
        """
        check_request(request)
        tokens = len(request.all_token_ids)
        most = max(0, tokens - 1) if self.rules.leaves_a_token else tokens
        most = most if limit is None else min(most, limit)
        if self._steps is not None:
            return found_partial(self._groups, request, most, self._alignment)
        if len(self._groups) == 1 and self._tables.reach.kind is Kind.FULL:
            hits = self._tables.found(request, self._proof(self._tables, most))
            tokens = len(hits) * self._tables.block_size
            return [hits], tokens, tokens
        return self._found_in_all(request, most)

    def _boundary(self, request: ComputedRequest, tokens: int, longest: int | None) -> int:
        """The end of a longer prefix that groups of full attention have; 0 if there is none.

        A scheduler ends a step there, so that the state or the window behind it is registered, too. `longest`: that
        prefix, if the look-up was not limited.
        """
        full = [group for group in self._groups if group.reach.kind is Kind.FULL]
        if len(full) == len(self._groups):
            return 0
        if longest is None or any(group.drops_last for group in full):
            most = max(0, len(request.all_token_ids) - 1)
            if self._steps is not None:
                _, _, longest = found_partial(self._groups, request, most, self._alignment)
                return longest if longest > tokens else 0
            ends = [len(group.found(request, most)) * group.block_size for group in full]
            longest = min(ends, default=0) // self._alignment * self._alignment
        return longest if full and longest > tokens else 0

    def _found_in_all(self, request: ComputedRequest, most: int) -> tuple[list[list[KVCacheBlock]], int, int]:
        """Full attention says how long a prefix can be; the others are asked for each length, the longest first."""
        proofs = [self._proof(group, most) for group in self._groups]
        whole: dict[Tables, list[KVCacheBlock]] = {}
        for group, proof in zip(self._groups, proofs, strict=True):
            if most >= self._alignment and group.reach.kind is Kind.FULL:
                whole[group] = group.found(request, proof)
                most = min(most, len(whole[group]) * group.block_size)
        longest = most // self._alignment * self._alignment
        if not longest:
            return [[] for _ in self._groups], 0, 0
        named = [
            ([], Links())
            if group in whole
            else self._named(group, request, min(proof, most + group.proofs * group.block_size))
            for group, proof in zip(self._groups, proofs, strict=True)
        ]
        for tokens in range(longest, 0, -self._alignment):
            hits = [
                group.kept_of(whole[group], tokens) if group in whole else group.hits_of(links, tokens)
                for group, (_, links) in zip(self._groups, named, strict=True)
            ]
            there = [its for its in hits if its is not None]
            if len(there) == len(hits):
                for group, (pieces, links), found in zip(self._groups, named, there, strict=True):
                    if group not in whole:
                        group.looked_up = LookedUp(
                            request, pieces, links, list(found), keys_of(found), self._pool.registered.removals
                        )
                return there, tokens, longest
        return [[] for _ in self._groups], 0, longest

    def _proof(self, group: Tables, most: int) -> int:
        """How far a hit of at most `most` tokens is looked up: a group with draft layers needs a block behind it."""
        further = self.rules.whole_prompts or len(self._groups) > 1
        return most + group.proofs * group.block_size if further else most

    def _named(self, group: Tables, request: ComputedRequest, tokens: int) -> tuple[list[Piece], Links]:
        """The tokens and contents of the request's full blocks: those of full attention, if it has just found them."""
        count = group.chains.full_blocks(request, tokens)
        for other in self._groups:
            pieces, links = other.looked_up.pieces, other.looked_up.links
            if other.reach.kind is Kind.FULL and other.block_size == group.block_size and len(links) >= count:
                return (pieces, links) if len(links) == count else (pieces[:count], links[:count])
        links = group.links_of(request, tokens)
        return [its.piece for its in links.contents], links

    def _allocated(
        self, request: ComputedRequest, demand: Demand, hits: Sequence[Sequence[Any]], *, registers: bool = True
    ) -> list[list[KVCacheBlock]] | None:
        """Allocate slots, and register the blocks if the rules register them when they are scheduled."""
        check_request(request)
        brought = [group.pool.own(its) for group, its in zip(self._groups, hits, strict=True)]
        if any(brought) and not self.enable_caching:
            raise StaleBlocksError("blocks are brought along, and prefix caching is off")
        fresh = allocate(self._groups, request, demand, brought)
        if fresh is not None and self._steps is not None:
            start = demand.computed + demand.found + demand.external
            self._steps.scheduled(request.request_id, start, self._tables.holdings[request.request_id].scheduled)
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


def several(what: str, given: Any) -> list[Any]:
    """A list of what an iterable holds. Raises `InvalidCountError` for anything else, text included."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidCountError(f"{what} must be several, in a list or the like, not {given!r}")
    return list(given)
