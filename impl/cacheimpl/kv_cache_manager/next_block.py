"""A running request that has filled one more block, in several groups of layers: the block is registered at once."""

from __future__ import annotations

from typing import Any

from cacheimpl.kv_cache_manager.contents import WIDTH, Content, is_plain, packed
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


class NextBlock(Tables):
    """The tables of layers that read all tokens, a window of them, or a chunk."""

    def commit(self, request: ComputedRequest, computed: int) -> None:
        """The request's tokens before `computed` are written: what they fill can be found (see `Execution.commit`)."""
        holding = self.holdings.get(getattr(request, "request_id", ""))
        if holding is None or not self.pool.several_groups or not self._commit_next(request, holding, computed):
            super().commit(request, computed)

    def _commit_next(self, request: ComputedRequest, holding: Holding, computed: int) -> bool:
        """The same if one block is new, no other request has it, and its key depends on tokens only.

        False, and nothing is changed, otherwise.
        """
        position, size, chains, rules = holding.registered, self.block_size, self.chains, self.rules
        if holding.request is not request or not holding.computed <= computed <= holding.scheduled:
            return False
        if not holding.is_listed:
            return False
        if computed // size != position + 1 or not self.caching or rules.register is Register.SCHEDULED:
            return False
        if rules.aligned or chains.lookahead or self.retention is not None or self.pool.events is not None:
            return False
        given: Any = getattr(request, "block_hashes", None)
        last, links, known = (position + 1) * chains.scale, holding.links, holding.known
        if type(given) is not list or last > len(given) or len(links) != position or len(known) != position:
            return False
        block, hashed = holding.blocks[position], given[last - 1]
        if block.is_null or block.block_hash is not None or type(hashed) is not bytes or not is_plain(request):
            return False
        behind = position > 0 and self.reach.kind is Kind.FULL and rules.whole_prefixes
        if behind and holding.blocks[position - 1].block_hash is None:
            return False
        piece, key = packed(request.all_token_ids[position * size : (position + 1) * size]), hashed + chains.ending
        if piece is None or len(piece) != size * WIDTH or key in self.pool.registered.first:
            return False
        content = self._next_content(request, links.contents[-1] if position else None, position, piece)
        self.pool._register_all((block,), (key,), (content,))  # noqa: SLF001  # a table's own
        known.append(piece)
        links.contents.append(content)
        links.hashes.append(hashed)
        holding.registered, holding.quiet_until = position + 1, 0
        holding.computed, holding.loads = computed, False
        return True

    def _next_content(self, request: ComputedRequest, parent: Content | None, position: int, piece: bytes) -> Content:
        """The content of this block: that of another group with blocks of this size, if it is one object there."""
        other = self.holding_beside(request)
        if other is not None and len(other.links) > position:
            its = other.links.contents[position]
            if its.parent is parent and its.piece == piece and its.extra_keys is None:
                return its
        return Content(parent, piece, None)
