"""The calls that an engine makes most: a request that goes on, in all groups of layers, and one that is admitted.

Each does what `plan`, `begin` and `lengthen` do, without an object for the demand and the plan. It returns None, and
changes nothing, if the call needs more or has to be refused; the caller then uses the general path.
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Link, check_request
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.progress import executed_of
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


class TokenTables(Tables):
    """The tables of layers that read all tokens, a window of them, or a chunk."""

    def advance(self, request: ComputedRequest, holding: Holding, computed: int, executed: int, end: int) -> None:
        """The request goes on to the token `end`; no block is taken yet.

        `computed` are its tokens before this step, `executed` those of them whose step was executed.
        """
        if self.caching:
            size = self.block_size
            full, known = min(end, len(request.all_token_ids)) // size, len(holding.known)
            kept = min(computed // size, known, full)
            brought = kept >= full or self.chains.brings_keys(request, full)
            more = [] if brought else self.chains.pieces_of(request, kept, full)
            if executed // size > holding.registered:
                self._passed(request, holding, executed)
            if kept < known or more:
                del holding.known[kept:], holding.links[kept:]
                holding.known += more
        if self.rules.register is Register.PASSED:
            holding.computed = executed
        holding.scheduled, holding.loads = end, False


def go_on(
    groups: Sequence[TokenTables], request: ComputedRequest, tokens: int, lookahead: int
) -> list[Sequence[KVCacheBlock]] | None:
    """Slots for `tokens` tokens more of a request that has tables, and is known by this object; the new blocks.

    None, and nothing is changed, if the call needs more or has to be refused.
    """
    name, pool, longest = getattr(request, "request_id", ""), groups[0].pool, groups[0].longest
    computed, ahead = request.num_computed_tokens, getattr(request, "num_in_flight_tokens", None)
    executed = computed - ahead if type(computed) is type(ahead) is int and ahead >= 0 else executed_of(request)
    end = computed + tokens
    if type(computed) is not int or tokens <= 0 or end > longest:
        return None
    rules, slots = groups[0].rules, min(end + lookahead, longest) if lookahead else end
    read, total = computed if rules.window_in_flight else executed, min(end, len(request.all_token_ids))
    needed = 0
    changed: list[TokenTables] = []
    holdings: list[Holding] = []
    every = rules.register is not Register.PASSED
    for group in groups:
        holding = group.holdings.get(name)
        if holding is None or holding.request is not request or holding.loads:
            return None
        if executed < holding.computed or computed > holding.scheduled:
            return None
        size, blocks = group.block_size, len(holding.blocks)
        if slots > blocks * size:
            needed += -(-slots // size) - blocks
            changed.append(group)
        elif every or read >= holding.due:
            changed.append(group)
        elif group.caching:
            known = len(holding.known)
            if executed // size > holding.registered or total // size != known or computed // size < known:
                changed.append(group)
        holdings.append(holding)
    if needed > pool.free_block_queue.num_free_blocks:
        return None
    for group in changed:
        if group.reach.kind is not Kind.FULL:
            holding = group.holdings[name]
            if group.caching and executed // group.block_size > holding.registered:
                group._passed(request, holding, executed)  # noqa: SLF001  # part of the tables
            group.forget_before(holding, holding.computed if rules.register is Register.COMMITTED else read)
    for group, holding in zip(groups, holdings, strict=True):
        if changed and group in changed:
            group.advance(request, holding, computed, executed, end)
        else:
            holding.computed, holding.scheduled = executed, end
    fresh: list[Sequence[KVCacheBlock]] = []
    if needed:
        fresh = [group.lengthen(request, -(-slots // group.block_size)) for group in groups]
    if rules.register is Register.SCHEDULED:
        for group in groups:
            group.register(request, end)
    return fresh


class FullTables(TokenTables):
    """The tables of full attention."""

    def go_on(self, request: ComputedRequest, tokens: int, lookahead: int) -> Sequence[KVCacheBlock] | None:
        """The same if this is the only group of layers."""
        holding = self.holdings.get(getattr(request, "request_id", ""))
        if holding is None or holding.request is not request:
            return None
        computed, ahead = request.num_computed_tokens, getattr(request, "num_in_flight_tokens", None)
        executed = computed - ahead if type(computed) is type(ahead) is int and ahead >= 0 else executed_of(request)
        if type(computed) is not int or not holding.computed <= executed <= computed <= holding.scheduled:
            return None
        end = computed + tokens
        length = -(-min(end + lookahead, self.longest) // self.block_size)
        if (
            tokens <= 0
            or end > self.longest
            or length - len(holding.blocks) > self.pool.free_block_queue.num_free_blocks
        ):
            return None
        self.advance(request, holding, computed, executed, end)
        fresh = self.lengthen(request, length) if length > len(holding.blocks) else ()
        if self.rules.register is Register.SCHEDULED:
            self.register(request, end)
        return fresh

    def admit(
        self,
        request: ComputedRequest,
        tokens: int,
        hits: Sequence[KVCacheBlock],
        lookahead: int,
        reserved: int,
        watermark: int,
        whole: bool,  # noqa: FBT001  # as the caller has it
    ) -> Sequence[KVCacheBlock] | None:
        """Slots for a new request that brings keys, behind the hits of its look-up; the new blocks."""
        check_request(request)
        size, count, pool = self.block_size, len(hits), self.pool
        computed, end = getattr(request, "num_computed_tokens", None), count * size + tokens
        if type(computed) is not int or computed or request.request_id in self.holdings:
            return None
        if tokens <= 0 or end > self.longest or not self.caching:
            return None
        everything = len(request.all_token_ids)
        if not self.chains.brings_keys(request, min(end, everything) // size):
            return None
        links: list[Link] = []
        if hits:
            looked_up, seen, links = self.looked_up
            if looked_up is not request or len(links) < count:
                return None
            links, known = links[:count], seen[:count]
        else:
            known = []
        free = pool.free_block_queue.num_free_blocks
        hits = pool.own(hits)
        for block, link in zip(hits, links, strict=True):
            if block.content is not link.content and self.rules.verified:
                return None
            if block.ref_cnt == 0:
                free -= 1
        length = -(-min(end + lookahead, self.longest) // size)
        room, most = free - watermark, -(-min(everything, self.longest) // size)
        if length - count > room - reserved or (whole and most - count > room):
            return None
        name, blocks = request.request_id, hits
        pool.touch(blocks)
        self.req_to_blocks[name] = blocks
        self.holdings[name] = Holding(request, blocks, count, count * size, end, known=known, links=links)
        fresh = self.lengthen(request, length)
        if self.rules.register is Register.SCHEDULED:
            self.register(request, end)
        return fresh
