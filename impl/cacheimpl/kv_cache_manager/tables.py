"""The tables of requests: how far each has come, and what its calls do to the pool.

The rules are those of the specification's KV blocks, KV-1 to KV-13. Whatever a method answers but success, and whatever
it raises, nothing was changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cacheimpl import counts
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Chains, Link
from cacheimpl.kv_cache_manager.errors import (
    AlreadyAllocatedError,
    InvalidCountError,
    RequestMismatchError,
    SharedBlocksError,
    StaleBlocksError,
    StaleCountError,
    TooManyTokensError,
    UnknownRequestError,
)
from cacheimpl.kv_cache_manager.events import stored
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.rules import CommonPrefix, Register, Rules
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.request import ComputedRequest


@dataclass
class Holding:
    """How far a request has come that has a table. Counts are in tokens, but for blocks."""

    request: ComputedRequest
    """The object that was seen last: another one with this id is compared with it."""
    blocks: list[KVCacheBlock]
    registered: int = 0
    """So many of its blocks, from the first, were hits or have been registered."""
    computed: int = 0
    """Its tokens before this one are written."""
    scheduled: int = 0
    """It has slots for its tokens before this one."""
    loads: bool = False
    """Its tokens are being loaded: its own count is no word on what is written."""
    links: list[Link] = field(default_factory=list)
    """What its full blocks hold, as far as that was known when they got their slots."""


class Tables:
    """The requests of one pool, by id, in one group of layers."""

    def __init__(
        self, pool: BlockPool, chains: Chains, longest: int, *, caching: bool = True, drops_last: bool = False
    ) -> None:
        self.pool, self.chains, self.longest = pool, chains, longest
        self.drops_last = drops_last
        """The last block of a prefix that is found is computed again, for a drafting head needs its hidden states."""
        self.caching = caching
        """False: no block is registered, and contents are not computed."""
        self.block_size = chains.block_size
        self.kv_cache_spec: Any = None
        """How these layers store keys and values, as the configuration has it."""
        self.kv_cache_group_id = 0
        self.records_new_block_ids = False
        """Whether the workers want to know which blocks are taken, to zero them."""
        self.new_block_ids: list[int] = []
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}
        self.holdings: dict[str, Holding] = {}

    @property
    def rules(self) -> Rules:
        """The rules of the pool."""
        return self.pool.rules

    @property
    def block_pool(self) -> BlockPool:
        """The same pool under the name that schedulers read."""
        return self.pool

    @property
    def num_cached_block(self) -> dict[str, int]:
        """By request id: how many leading blocks of its table were hits or are registered."""
        return {name: holding.registered for name, holding in self.holdings.items()}

    def widest(self) -> int:
        """Blocks of the longest request."""
        return blocks_for(self.longest, self.block_size)

    # Finding --------------------------------------------------------------------------------------------------------

    def found(self, request: ComputedRequest, most_tokens: int) -> list[KVCacheBlock]:
        """The blocks of the longest cached prefix of the request, among its first so many tokens."""
        links = self.chains.extended(request, (), self.chains.full_blocks(request, most_tokens))
        hits: list[KVCacheBlock] = []
        for link in links:
            block = self.pool.find(link)
            if block is None:
                break
            hits.append(block)
        return hits[:-1] if self.drops_last else hits

    def holding(self, request: ComputedRequest) -> Holding | None:
        """The request's table, if it has one. Raises `RequestMismatchError` where its id is another request's."""
        holding = self.holdings.get(request.request_id)
        if holding is None or holding.request is request:
            return holding
        if self.chains.full_blocks(request, len(holding.links) * self.block_size) < len(holding.links) or any(
            ours.content is not its.content
            for ours, its in zip(self.chains.extended(request, (), len(holding.links)), holding.links, strict=True)
        ):
            raise RequestMismatchError(f"{request.request_id!r} is another request, with other tokens")
        return holding

    def known(self, request: ComputedRequest) -> Holding:
        """The request's table. Raises `UnknownRequestError` where it has none."""
        holding = self.holding(request)
        if holding is None:
            raise UnknownRequestError(f"{request.request_id!r} has no table")
        return holding

    # Slots ----------------------------------------------------------------------------------------------------------

    def plan(self, request: ComputedRequest, demand: Demand, hits: Sequence[KVCacheBlock]) -> Plan:
        """What slots behind these hits, or behind the table that there is, take. Changes nothing.

        Raises where what is asked for is not for what is the case now (KV-8).
        """
        holding = self.holding(request)
        end = demand.computed + len(hits) * self.block_size + demand.tokens
        links = self._links(request, holding, demand.computed, max(end, len(hits) * self.block_size))
        self._check(request, holding, demand, hits, links)
        owned = len(hits) + (len(holding.blocks) if holding else 0)
        needed = blocks_for(min(end + demand.lookahead, self.longest), self.block_size) - owned
        return Plan(
            hits=hits,
            links=links,
            end=end,
            needed=max(0, needed),
            whole=max(0, self._whole(request, owned) if demand.whole else 0),
            spare=self.widest() - owned - max(0, needed) if needed > 0 else 0,
        )

    def begin(self, request: ComputedRequest, demand: Demand, plan: Plan) -> None:
        """The hits are adopted, or the request's own word is taken on what was executed; no block is taken yet.

        Its tokens behind the computed ones may be others than before, so what was known of them is forgotten.
        """
        holding = self.holdings.get(request.request_id)
        if holding is None:
            holding = self._adopt(request, plan.hits)
        else:
            self._passed(request, holding, demand.executed)
        holding.request, holding.scheduled, holding.links = request, plan.end, plan.links
        holding.loads = demand.loads

    def lengthen(self, request: ComputedRequest, blocks: int) -> list[KVCacheBlock]:
        """The table becomes longer by so many free blocks."""
        fresh = [self.pool.take() for _ in range(blocks)]
        self.holdings[request.request_id].blocks.extend(fresh)
        if self.records_new_block_ids:
            self.new_block_ids.extend(block.block_id for block in fresh)
        return fresh

    def _links(self, request: ComputedRequest, holding: Holding | None, computed: int, tokens: int) -> list[Link]:
        """Links of the full blocks among the first `tokens` tokens; none if caching is off."""
        if not self.caching or tokens > self.longest:
            return []
        known = holding.links[: computed // self.block_size] if holding else ()
        return self.chains.extended(request, known, self.chains.full_blocks(request, tokens))

    def _check(
        self,
        request: ComputedRequest,
        holding: Holding | None,
        demand: Demand,
        hits: Sequence[KVCacheBlock],
        links: Sequence[Link],
    ) -> None:
        name, computed = request.request_id, demand.computed
        end = computed + len(hits) * self.block_size + demand.tokens
        least, most = (holding.computed, holding.scheduled) if holding else (0, 0)
        least = 0 if demand.goes_back else least
        if end > self.longest:
            raise TooManyTokensError(f"{name!r} would have {end} tokens, and the longest request has {self.longest}")
        if hits and holding is not None:
            raise AlreadyAllocatedError(f"{name!r} has a table, and takes no hits any more")
        if not least <= computed <= most:
            raise StaleCountError(
                f"num_computed_tokens of {name!r} cannot be {computed}: it has from {least} to {most}"
            )
        if self.rules.verified and not self._hold(hits, links):
            raise StaleBlocksError(f"{[block.block_id for block in hits]} are not the beginning of {name!r}")
        if demand.tokens <= 0:
            raise InvalidCountError(
                f"num_tokens (later num_new_tokens) of {name!r} must be 1 or more, not {demand.tokens}"
            )

    def _hold(self, hits: Sequence[KVCacheBlock], links: Sequence[Link]) -> bool:
        """Whether these blocks hold the beginning of the request, now (KV-7)."""
        there = zip(hits, links, strict=False)
        return len(hits) <= len(links) and all(block.content is link.content for block, link in there)

    def _whole(self, request: ComputedRequest, owned: int) -> int:
        """How many blocks more all tokens of the request need."""
        return blocks_for(min(len(request.all_token_ids), self.longest), self.block_size) - owned

    def _adopt(self, request: ComputedRequest, hits: Sequence[KVCacheBlock]) -> Holding:
        """The hits become the beginning of a new table (KV-1)."""
        self.pool.touch(hits)
        tokens = len(hits) * self.block_size
        blocks = self.req_to_blocks[request.request_id] = list(hits)
        holding = Holding(request, blocks, registered=len(hits), computed=tokens, scheduled=tokens)
        self.holdings[request.request_id] = holding
        return holding

    def release(self, request_id: str) -> None:
        """The request has no table any more; nothing, where it had none."""
        blocks = self.pop(request_id)
        self.pool.release(blocks if self.caching or self.rules.reversed_uncached else blocks[::-1])

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The same, and its blocks keep their references; none where it had no table."""
        self.holdings.pop(request_id, None)
        return self.req_to_blocks.pop(request_id, [])

    # Execution ------------------------------------------------------------------------------------------------------

    def commit(self, request: ComputedRequest, computed: int) -> None:
        """The request's tokens before `computed` are written: what they fill can be found (KV-7).

        Raises `UnknownRequestError`, `StaleCountError`.
        """
        holding = self.known(request)
        if not holding.computed <= computed <= holding.scheduled:
            least, most = holding.computed, holding.scheduled
            raise StaleCountError(
                f"num_computed_tokens of {request.request_id!r} cannot be {computed}: it may be from {least} to {most}"
            )
        registers = self.caching and self.rules.register is not Register.SCHEDULED
        if registers:  # what raises for tokens that are none does so before anything changes
            full = min(self.chains.full_blocks(request, computed), len(holding.blocks))
            holding.links = self.chains.extended(request, holding.links, max(full, len(holding.links)))
        holding.request, holding.computed, holding.loads = request, computed, False
        if registers:
            self.register(request, computed)

    def cache(self, request: ComputedRequest, tokens: int) -> None:
        """The caller says that the request's tokens before `tokens` are written or loaded."""
        holding = self.known(request)
        if tokens > holding.scheduled:
            count = f"num_computed_tokens of {request.request_id!r}"
            raise StaleCountError(f"{count} cannot be {tokens}: {holding.scheduled} tokens have slots")
        if self.rules.register is Register.SCHEDULED:
            self.register(request, tokens)
        elif tokens > holding.computed:
            self.commit(request, tokens)

    def passed(self, request: ComputedRequest, executed: int) -> None:
        """What the request says itself of how far it is, where that can be and is to be believed."""
        holding = self.holdings.get(request.request_id)
        if holding is not None and not holding.loads:
            self._passed(request, holding, executed)

    def _passed(self, request: ComputedRequest, holding: Holding, executed: int) -> None:
        if self.rules.register is Register.PASSED and holding.computed < executed <= holding.scheduled:
            self.commit(request, executed)

    def roll_back(self, request: ComputedRequest, computed: int) -> None:
        """Tokens from `computed` on are computed again, and their blocks are not found until then.

        What stands behind a shared one in other tables is not found either (KV-6). Does nothing if no more tokens were
        executed. Rules that register what is scheduled leave the blocks findable.
        """
        holding = self.holdings.get(request.request_id)
        if holding is None or computed >= holding.computed:
            return
        holding.computed = computed
        if self.rules.register is Register.SCHEDULED:
            return
        first, holding.scheduled = computed // self.block_size, computed
        del holding.links[first:]
        for block in reversed(holding.blocks[first : holding.registered]):
            if block.ref_cnt > 1:
                self.evict(block)
            else:
                self.pool.forget(block)
        holding.registered = min(holding.registered, first)

    def check_going_back(self, request: ComputedRequest, computed: int) -> None:
        """Raises `UnknownRequestError`, `StaleCountError`, and `SharedBlocksError` if others have these blocks."""
        holding = self.known(request)
        if computed > holding.computed:
            what = f"num_computed_tokens of {request.request_id!r}"
            raise StaleCountError(f"{what} cannot go back to {computed}: it is {holding.computed}")
        shared = [block.block_id for block in holding.blocks[computed // self.block_size :] if block.ref_cnt > 1]
        if shared:
            raise SharedBlocksError(f"blocks {shared} of {request.request_id!r} are in other tables too")

    def register(self, request: ComputedRequest, tokens: int) -> None:
        """The full blocks among the first so many tokens can be found; what comes behind one that is evicted stays out.

        KV-6: a block that is found is found behind all that come before it.
        """
        if not self.caching:
            return
        holding = self.holdings[request.request_id]
        full = min(self.chains.full_blocks(request, tokens), len(holding.blocks))
        holding.links = self.chains.extended(request, holding.links, max(full, len(holding.links)))
        begin, links = holding.registered, list[Link]()
        for position in range(begin, full):
            cut = position > 0 and holding.blocks[position - 1].block_hash is None
            if not (cut and self.rules.whole_prefixes):
                self.pool.register(holding.blocks[position], holding.links[position])
                links.append(holding.links[position])
        if links and self.pool.events is not None:  # what is cut off begins at the first of them, or there is none
            before = holding.links[begin - 1] if begin > 0 else None
            self.pool.events.append(stored(self.pool.form, request, before, links, begin, self.block_size))
        holding.registered = max(holding.registered, full)

    def evict(self, block: KVCacheBlock) -> None:
        """The block cannot be found any more, nor what stands behind its content in any table (KV-6, C-KV-19)."""
        if block.block_hash is None:
            return
        for holding in self.holdings.values() if self.rules.whole_prefixes else ():
            alike = (position for position, link in enumerate(holding.links) if link.content is block.content)
            for other in holding.blocks[next(alike, len(holding.blocks)) + 1 :]:
                self.pool.forget(other)
        self.pool.forget(block)

    # Sharing --------------------------------------------------------------------------------------------------------

    def common_prefix(self, request_id: str, running: Iterable[str] | None, count: int) -> int:
        """How many leading blocks of the request all running ones have (KV-13).

        `running`: which run. None: all that have a table, of whom at least `count` run; with fewer tables than that,
        somebody who runs has no block.
        """
        if request_id not in self.holdings:
            raise UnknownRequestError(f"{request_id!r} has no table")
        if self.rules.common_prefix is CommonPrefix.NONE:
            return 0
        blocks = self.req_to_blocks[request_id]
        if self.rules.common_prefix is CommonPrefix.REFERENCES:
            return leading(block.ref_cnt == count for block in blocks)
        if running is None and count > len(self.holdings):
            return 0
        tables = [self.req_to_blocks.get(name, []) for name in (self.holdings if running is None else running)]
        return leading(
            all(position < len(table) and table[position] is block for table in tables)
            for position, block in enumerate(blocks)
        )


def leading(flags: Iterable[bool]) -> int:
    """How many are true before the first that is not."""
    count = 0
    for flag in flags:
        if not flag:
            break
        count += 1
    return count


def blocks_for(tokens: int, block_size: int) -> int:
    """How many blocks so many tokens need."""
    return -(-tokens // block_size)


def whole(what: str, count: Any) -> int:
    """A count that is an integer. Raises `InvalidCountError`."""
    return counts.whole(what, count, InvalidCountError)


def at_least(what: str, count: Any, least: int) -> int:
    """A count that is an integer and not too small. Raises `InvalidCountError`."""
    return counts.whole(what, count, InvalidCountError, least=least)
