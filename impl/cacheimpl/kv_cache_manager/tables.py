"""The tables of requests: how far each has come, and what its calls do to the pool.

The rules are KV-1 to KV-13 of the specification's KV blocks. A method that raises, or does not answer success, has
changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Links, Piece, alike
from cacheimpl.kv_cache_manager.errors import (
    AlreadyAllocatedError,
    InvalidCountError,
    StaleBlocksError,
    StaleCountError,
    TooManyTokensError,
    UnknownRequestError,
)
from cacheimpl.kv_cache_manager.execution import Execution
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.rules import CommonPrefix, Register
from cacheimpl.kv_cache_manager.sizes import blocks_for, leading
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.request import ComputedRequest


class Tables(Execution):
    """The requests of one pool, by id, in one group of layers."""

    # Slots ----------------------------------------------------------------------------------------------------------

    def plan(self, request: ComputedRequest, demand: Demand, hits: Sequence[KVCacheBlock]) -> Plan:
        """What slots behind these hits, or behind the table that there is, take. Changes nothing.

        Raises where what is asked for is not for what is the case now (KV-8).
        """
        holding = self.holding(request)
        found = self.covered(hits, demand)
        end, start = demand.computed + found + demand.tokens, demand.computed + found + demand.external
        filled = self.filled(hits, found)
        kept, more = self._known(request, holding, demand.computed, max(end, filled))
        links = (
            self.links_of_hits(request, more, min(len(hits), self._full_within(request, filled))) if hits else Links()
        )
        self._check(request, holding, demand, hits, links, found)
        beginning = [] if holding else self._beginning(hits, start)
        owned = len(holding.blocks) if holding else len(beginning)
        loaded = self._length(owned, start, demand) if demand.external and not holding else 0
        length = self._length(owned, min(end + demand.lookahead, self.longest), demand)
        needed = self._needed(owned, loaded) + self._needed(max(owned, loaded), length)
        return Plan(
            beginning=beginning,
            found=found,
            links=links,
            kept=kept,
            more=more,
            end=end,
            loaded=loaded,
            length=length,
            needed=needed,
            whole=max(0, self._whole(request, owned) if demand.whole else 0),
            spare=max(0, self.widest() - owned - needed) if needed > 0 else 0,
        )

    def covers(self, hits: Sequence[KVCacheBlock], tokens: int) -> bool:
        """Whether these can be the blocks of a hit of this many tokens, by their number."""
        return len(hits) * self.block_size == tokens

    def covered(self, hits: Sequence[KVCacheBlock], demand: Demand) -> int:  # noqa: ARG002  # the same
        """The tokens of a hit with these blocks."""
        return len(hits) * self.block_size

    def _beginning(self, hits: Sequence[KVCacheBlock], start: int) -> list[KVCacheBlock]:
        """What a new table begins with if tokens from `start` on are computed: hits, as far as they are read (LG-9)."""
        first = self.reach.first_needed(start, self.block_size)
        return [*self.nulls(first), *hits[first:]]

    def estimated(
        self, request_id: str, tokens: int, hits: Sequence[KVCacheBlock], computed: int, demand: Demand
    ) -> int:
        """The free blocks that slots for `tokens` tokens in all take. Free blocks among the hits count.

        If the demand is for a whole request, blocks that go back before the last ones are taken do not count.
        """
        table = self.req_to_blocks.get(request_id)
        beginning = self._beginning(hits, computed) if table is None else []
        owned = len(beginning) if table is None else len(table)
        free = sum(block.ref_cnt == 0 and not block.is_null for block in beginning)
        length = self._length(owned, tokens, demand)
        if demand.whole and self.most_blocks is not None:
            length = max(owned, min(length, self.most_blocks))
        return self._needed(owned, length) + free

    def _length(self, owned: int, tokens: int, demand: Demand) -> int:
        """The length of a table that has slots for these tokens."""
        counted = demand.encoder if self.reach.kind is Kind.CROSS else tokens
        return max(owned, blocks_for(counted, self.block_size))

    def _needed(self, owned: int, length: int) -> int:
        """Blocks that a table takes to have this length. A state-space group takes one, for the state behind a step."""
        missing = max(0, length - owned)
        return min(1, missing) if self.reach.kind is Kind.STATE else missing

    def begin(self, request: ComputedRequest, demand: Demand, plan: Plan) -> None:
        """The hits are adopted, or the request's own word is taken on what was executed; no block is taken yet.

        Its tokens behind the computed ones may be others than before, so what was known of them is forgotten.
        """
        holding = self.holdings.get(request.request_id)
        if holding is None:
            holding = self._adopt(request, plan)
        else:
            self._passed(request, holding, demand.executed)
        holding.request, holding.scheduled, holding.loads = request, plan.end, demand.loads
        if plan.kept < holding.known_blocks:
            del holding.known[plan.kept :], holding.links[plan.kept :]
        holding.quiet_until = 0
        if plan.more or len(plan.links):
            holding.known += plan.more
            holding.links += plan.links

    def awaits_step(self, plan: Plan) -> bool:
        """Whether the hit is a state that this step computes: rules that register when they schedule (C-KV-23)."""
        states = self.reach.kind is Kind.STATE and self.rules.register is Register.SCHEDULED
        return states and any(block.block_id in self.this_step for block in plan.beginning)

    def lengthen(self, request: ComputedRequest, length: int) -> list[KVCacheBlock]:
        """The table gets this length with free blocks; of states only the last one has a block. Returns what is new.

        Null blocks are returned, too: workers append to their tables what they are given.
        """
        table = self.req_to_blocks[request.request_id]
        if self.reach.kind is Kind.STATE:
            return self._lengthen_states(table, length)
        missing = length - len(table)
        fresh = self.pool._take_all(missing) if missing > 0 else []  # noqa: SLF001  # a table's own
        table.extend(fresh)
        if self.records_new_block_ids:
            self.new_block_ids.extend(block.block_id for block in fresh)
        return fresh

    def _lengthen_states(self, table: list[KVCacheBlock], length: int) -> list[KVCacheBlock]:
        before = len(table)
        self.skip(table, length)
        fresh = self.pool._take_all(max(0, length - len(table)))  # noqa: SLF001  # the same
        table.extend(fresh)
        if self.records_new_block_ids:
            self.new_block_ids.extend(block.block_id for block in fresh)
        return table[before:]

    def skip(self, table: list[KVCacheBlock], length: int) -> None:
        """Null blocks stand before the block of the running state, which is the last one of this length."""
        table.extend(self.nulls(length - 1 - len(table)))

    def give_back(self, request: ComputedRequest, demand: Demand) -> None:
        """Blocks that no later token reads go back, the last one first, and null blocks are in their places (LG-5).

        Only executed tokens count: a step in flight reads its own window. What has been executed is registered before.
        """
        holding = self.holdings.get(request.request_id)
        if holding is None or self.reach.kind in (Kind.FULL, Kind.CROSS):
            return
        self.passed(request, demand.executed)
        tokens = demand.computed if self.rules.window_in_flight else demand.executed
        self.forget_before(holding, holding.computed if self.rules.register is Register.COMMITTED else tokens)

    def forget_before(self, holding: Holding, tokens: int) -> None:
        """The blocks that the token behind these does not read go back."""
        if tokens < holding.due:
            return
        first = min(self.reach.first_needed(tokens, self.block_size), len(holding.blocks))
        for position in reversed(range(holding.given_back, first)):
            block = holding.blocks[position]
            if not block.is_null:
                (holding.blocks[position],) = self.nulls(1)
                self.pool.let_go(block)
        holding.given_back = max(holding.given_back, first)
        holding.due = self.reach.unread_from(holding.given_back, self.block_size)

    def _known(
        self, request: ComputedRequest, holding: Holding | None, computed: int, tokens: int
    ) -> tuple[int, list[Piece]]:
        """How many of the table's full blocks stay known, and the tokens of those behind them within `tokens` tokens.

        None if caching is off, and if the request brings keys: then they are read when its blocks are named.
        """
        if not self.caching or tokens > self.longest:
            return 0, []
        known, full = 0 if holding is None else holding.known_blocks, self.chains.full_blocks(request, tokens)
        kept = min(computed // self.block_size, known, full)
        return kept, [] if self.chains.brings_keys(request, full) else self.chains.pieces_of(request, kept, full)

    def _full_within(self, request: ComputedRequest, tokens: int) -> int:
        """The number of full blocks among these tokens; none if caching is off."""
        return self.chains.full_blocks(request, tokens) if self.caching and tokens <= self.longest else 0

    def _check(
        self,
        request: ComputedRequest,
        holding: Holding | None,
        demand: Demand,
        hits: Sequence[KVCacheBlock],
        links: Links,
        found: int,
    ) -> None:
        name, computed = request.request_id, demand.computed
        end = computed + found + demand.tokens
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
        if self.rules.verified and not self.hold(request, hits, links, found):
            raise StaleBlocksError(f"{[block.block_id for block in hits]} are not the beginning of {name!r}")
        if demand.tokens <= 0:
            raise InvalidCountError(
                f"num_tokens (later num_new_tokens) of {name!r} must be 1 or more, not {demand.tokens}"
            )

    def hold(self, request: ComputedRequest, hits: Sequence[KVCacheBlock], links: Links, found: int) -> bool:  # noqa: ARG002  # read where a hit may end within a block
        """Whether these blocks hold the first `found` tokens of the request, now (KV-7)."""
        return self._hold(hits, links)

    def _hold(self, hits: Sequence[KVCacheBlock], links: Links) -> bool:
        """Whether these blocks hold the beginning of the request, now (KV-7)."""
        if len(hits) > len(links):
            return False
        first = self.reach.first_needed(len(hits) * self.block_size, self.block_size)
        for position, (block, link, key) in enumerate(zip(hits, links, self.chains.keys(links.hashes), strict=False)):
            its = block.content
            holds = its is link.content or (its is not None and alike(its, link.content))
            if not (holds and block._block_hash == key) and not (block.is_null and position < first):  # noqa: SLF001
                return False
        return True

    def _whole(self, request: ComputedRequest, owned: int) -> int:
        """How many blocks more all tokens of the request need."""
        blocks = blocks_for(min(len(request.all_token_ids), self.longest), self.block_size)
        if self.most_blocks is not None:
            blocks = min(blocks, self.most_blocks)
        return 0 if self.reach.kind is Kind.CROSS else blocks - owned

    def _adopt(self, request: ComputedRequest, plan: Plan) -> Holding:
        """The hits become the beginning of a new table (KV-1)."""
        blocks, due = list(plan.beginning), self.reach.unread_from(0, self.block_size)
        holding = Holding(request, blocks, len(blocks), computed=plan.found, scheduled=plan.found, due=due)
        self.start(request.request_id, holding)
        return holding

    def start(self, request_id: str, holding: Holding) -> None:
        """The request has this table, which begins with hits."""
        blocks = holding.blocks
        self.pool._touch_all([block for block in blocks if not block.is_null])  # noqa: SLF001  # a table's own
        self.req_to_blocks[request_id], self.holdings[request_id] = blocks, holding

    def release(self, request_id: str) -> None:
        """The request has no table any more; nothing, where it had none."""
        blocks = [block for block in self.pop(request_id) if not block.is_null]
        forwards = self.caching or self.rules.reversed_uncached
        self.pool._release(blocks if forwards else blocks[::-1])  # noqa: SLF001  # a table's own

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The same, and its blocks keep their references; none where it had no table."""
        holding = self.holdings.pop(request_id, None)
        if holding is not None:
            holding.quiet_until = 0  # those beside it may still name it
        if self.offers:
            self.offers = [its for its in self.offers if its[0] != request_id]
        return self.req_to_blocks.pop(request_id, [])

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

    # What a manager with groups of several kinds asks ---------------------------------------------------------------

    @property
    def is_found(self) -> bool:
        """Whether a prefix finds blocks in this group."""
        return True

    def used_of(self, hits: Sequence[KVCacheBlock], tokens: int) -> Sequence[KVCacheBlock]:  # noqa: ARG002  # as below
        """The hits that a request uses which takes over `tokens` tokens, those loaded from outside included."""
        return hits

    def filled(self, hits: Sequence[KVCacheBlock], found: int) -> int:  # noqa: ARG002  # other groups read it
        """The tokens of the blocks of a hit, which may be more than the `found` tokens that are used."""
        return found

    def kept_of(self, hits: list[KVCacheBlock], tokens: int) -> list[KVCacheBlock]:
        """The hits of this group, if all groups have these tokens."""
        return hits[: tokens // self.block_size]


class CrossTables(Tables):
    """The same for cross attention: a class of its own, so that an engine can tell the group."""
