"""The calls that an engine makes most: a request that goes on, in all groups of layers, and one that is admitted.

Each does what `plan`, `begin` and `lengthen` do, without an object for the demand and the plan. It returns None, and
changes nothing, if the call needs more or has to be refused; the caller then uses the general path.
"""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, keys_of
from cacheimpl.kv_cache_manager.contents import Links, Piece, check_request, contents_of
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.packed import PackedTables
from cacheimpl.kv_cache_manager.progress import executed_of
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.request import ComputedRequest


class TokenTables(PackedTables):
    """The tables of layers that read all tokens, a window of them, or a chunk."""

    def advance(self, request: ComputedRequest, holding: Holding, computed: int, executed: int, end: int) -> None:
        """The request goes on to the token `end`; no block is taken yet.

        `computed` are its tokens before this step, `executed` those of them whose step was executed.
        """
        if self.caching:
            size = self.block_size
            full, known = min(end, len(request.all_token_ids)) // size, holding.known_blocks
            kept = min(computed // size, known, full)
            brought = kept >= full or self.chains.brings_keys(request, full)
            more = [] if brought else self.chains.pieces_of(request, kept, full)
            if executed // size > holding.registered:
                self._passed(request, holding, executed)
            if kept < known or more:
                del holding.known[kept:], holding.links[kept:]
                holding.known += more
                holding.quiet_until = 0
        if self.rules.register is Register.PASSED:
            holding.computed = executed
        holding.scheduled, holding.loads = end, False

    def go_past(self, request: ComputedRequest, holding: Holding, executed: int, read: int) -> None:
        """Blocks that no token behind `read` reads go back; what was executed is registered before."""
        if self.reach.kind is Kind.FULL:
            return
        if self.caching and executed // self.block_size > holding.registered:
            self._passed(request, holding, executed)
        self.forget_before(holding, holding.computed if self.rules.register is Register.COMMITTED else read)


def goes_on_quietly(
    holdings: Sequence[Holding],
    request: ComputedRequest,
    computed: int,
    executed: int,
    end: int,
    slots: int,
    total: int,
) -> bool:
    """Whether the next step of a request changes counters only, as an earlier one did; they are changed then."""
    for its in holdings:
        if slots > its.quiet_until or its.loads or its.request is not request:
            return False
        if executed < its.computed or not its.quiet_from <= computed <= its.scheduled or total < its.quiet_from:
            return False
    for its in holdings:
        its.computed, its.scheduled = executed, end
    return True


def go_on(
    groups: Sequence[TokenTables], request: ComputedRequest, tokens: int, lookahead: int
) -> list[Sequence[KVCacheBlock]] | None:
    """Slots for `tokens` tokens more of a request that has tables, and is known by this object; the new blocks.

    None, and nothing is changed, if the call needs more or has to be refused.
    """
    name, first = getattr(request, "request_id", ""), groups[0]
    computed, ahead = request.num_computed_tokens, getattr(request, "num_in_flight_tokens", None)
    executed = computed - ahead if type(computed) is type(ahead) is int and ahead >= 0 else executed_of(request)
    if type(computed) is not int or tokens <= 0:
        return None
    end, everything = computed + tokens, len(request.all_token_ids)
    slots, total = end + lookahead, min(everything, end)
    own = first.holdings.get(name)
    if own is not None and own.beside and goes_on_quietly(own.beside, request, computed, executed, end, slots, total):
        return []
    rules, longest = first.rules, first.longest
    if end > longest:
        return None
    slots = min(slots, longest)
    read, needed = computed if rules.window_in_flight else executed, 0
    changed: list[TokenTables] = []
    holdings: list[Holding] = []
    every = rules.register is not Register.PASSED
    for group in groups:
        holding = group.holdings.get(name)
        if holding is None or holding.request is not request or holding.loads:
            return None
        if executed < holding.computed or computed > holding.scheduled:
            return None
        holdings.append(holding)
        if slots <= holding.quiet_until and computed >= holding.quiet_from <= total:
            continue
        size, blocks = group.block_size, len(holding.blocks)
        if slots > blocks * size:
            needed += -(-slots // size) - blocks
            changed.append(group)
        elif every or read >= holding.due:
            changed.append(group)
        elif group.caching:
            known, full = holding.known_blocks, total // size
            brought = full == known or (full > known and group.chains.brings_keys(request, full))
            if executed // size > holding.registered or not brought or computed // size < known:
                changed.append(group)
            else:
                holding.quiet_from = known * size
                holding.quiet_until = min(
                    blocks * size, longest, holding.due, (holding.registered + 1) * size, (known + 1) * size - 1
                )
    if not changed:
        for holding in holdings:
            holding.computed, holding.scheduled = executed, end
        holdings[0].beside = tuple(holdings)
        return []
    if needed > first.pool.free_block_queue.num_free_blocks:
        return None
    for group in changed:
        group.go_past(request, group.holdings[name], executed, read)
    for group, holding in zip(groups, holdings, strict=True):
        if group in changed:
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


def admit(
    groups: Sequence[TokenTables],
    request: ComputedRequest,
    tokens: int,
    hits: Sequence[Sequence[KVCacheBlock]],
    lookahead: int,
    reserved: int,
    watermark: int,
    whole: bool,  # noqa: FBT001  # as the caller has it
) -> list[Sequence[KVCacheBlock]] | None:
    """Slots for a new request that brings keys, behind the hits of its look-up; the new blocks of each group.

    None, and nothing is changed, if the call needs more or has to be refused.
    """
    check_request(request)
    name, pool, longest = request.request_id, groups[0].pool, groups[0].longest
    found, everything = len(hits[0]) * groups[0].block_size, len(request.all_token_ids)
    computed, end = getattr(request, "num_computed_tokens", None), found + tokens
    if type(computed) is not int or computed or tokens <= 0 or end > longest or not groups[0].caching:
        return None
    free, needed, later = pool.free_block_queue.num_free_blocks, 0, 0
    begun: list[Holding] = []
    lengths: list[int] = []
    for group, its in zip(groups, hits, strict=True):
        size, count = group.block_size, len(its)
        known: list[Piece] | None = None  # nothing is found: the contents may be packed
        links: Links | None = None
        if name in group.holdings or not group.chains.brings_keys(request, min(end, everything) // size):
            return None
        if count:
            seen = group.looked_up
            if seen.request is not request or list(its) != seen.blocks[:count]:
                return None
            first = group.reach.first_needed(found, size)
            read = seen.blocks[first:count]
            keys, links, known = keys_of(read), seen.links[:count], seen.pieces[:count]
            if None in keys or seen.blocks[:first] != group.nulls(first):
                return None
            if seen.removals != pool.registered.removals:  # otherwise nothing else can have changed
                if keys != seen.keys[first:count]:
                    return None
                if group.rules.verified and contents_of(read) != links.contents[first:]:
                    return None
            free -= [block.ref_cnt for block in read].count(0)
        length = -(-min(end + lookahead, longest) // size)
        needed += length - count
        most = -(-min(everything, longest) // size)
        later += max(0, (most if group.most_blocks is None else min(most, group.most_blocks)) - count)
        due = group.reach.unread_from(0, size)
        begun.append(Holding(request, list(its), count, found, end, due=due, _known=known, _links=links))
        lengths.append(length)
    room = free - watermark
    if needed > room - reserved or (whole and later > room):
        return None
    for group, holding in zip(groups, begun, strict=True):
        group.start(name, holding)
    fresh: list[Sequence[KVCacheBlock]] = []
    for group, length in zip(groups, lengths, strict=True):
        fresh.append(group.lengthen(request, length))
    if groups[0].rules.register is Register.SCHEDULED:
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
        if self.rules.register is Register.SCHEDULED and end // self.block_size > holding.registered:
            self.register(request, end)
        return fresh
