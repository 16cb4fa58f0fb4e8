"""What was executed can be found: registration, and tokens that are computed again (KV-7, LG-7)."""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, keys_of
from cacheimpl.kv_cache_manager.contents import alike
from cacheimpl.kv_cache_manager.errors import (
    SharedBlocksError,
    StaleCountError,
)
from cacheimpl.kv_cache_manager.finding import Finding, Holding
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.retention import Thinned
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.request import ComputedRequest


class Execution(Finding):
    """The tables of one group of layers, and what was executed of their requests."""

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
            self.learn(request, holding, min(self.chains.full_blocks(request, computed), len(holding.blocks)))
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
        holding.computed, holding.quiet_until = computed, 0
        if self.rules.register is Register.SCHEDULED:
            return
        first, holding.scheduled = computed // self.block_size, computed
        del holding.links[first:], holding.known[first:]
        for block in reversed(holding.blocks[first : holding.registered]):
            if block.ref_cnt > 1:
                self.forget_behind(block)
            self.pool.forget(block)
        holding.registered = min(holding.registered, first)

    def check_going_back(self, request: ComputedRequest, computed: int) -> None:
        """Raises `UnknownRequestError`, `StaleCountError`, and `SharedBlocksError` if others have these blocks."""
        holding = self.known(request)
        if computed > holding.computed:
            what = f"num_computed_tokens of {request.request_id!r}"
            raise StaleCountError(f"{what} cannot go back to {computed}: it is {holding.computed}")
        needed = self.reach.first_needed(computed, self.block_size)
        if any(block.is_null for block in holding.blocks[needed : computed // self.block_size]):
            raise StaleCountError(f"{request.request_id!r} cannot go back to {computed} tokens: it gave blocks back")
        shared = [block.block_id for block in holding.blocks[computed // self.block_size :] if block.ref_cnt > 1]
        if shared:
            raise SharedBlocksError(f"blocks {shared} of {request.request_id!r} are in other tables too")

    def register(self, request: ComputedRequest, tokens: int) -> None:
        """Register the full blocks of the first `tokens` tokens. A block behind an evicted one is not registered.

        KV-6: a block that is found is found behind all that come before it.
        """
        if self.caching:
            self.register_holding(request, self.holdings[request.request_id], tokens)

    def register_holding(self, request: ComputedRequest, holding: Holding, tokens: int) -> None:
        """The same of a table, which need not be the request's any more."""
        begin, full = holding.registered, self._full(request, tokens, holding)
        if full <= begin:
            return
        self.learn(request, holding, full)
        self.name(holding, full)
        for first, end in _without_hashes(holding.blocks, self._runs(holding, begin, full, tokens)):
            blocks = holding.blocks[first:end]
            self.pool._register_told(request, blocks, holding.links, first, self.chains)  # noqa: SLF001  # a table's own
        holding.registered = full

    def _runs(self, holding: Holding, begin: int, full: int, tokens: int) -> list[tuple[int, int]]:
        """Consecutive full blocks that can be found: not null blocks, nor states that are not the last one (LG-7)."""
        if self.reach.kind is Kind.FULL:  # behind a block that cannot be found is none that can be
            cut = begin > 0 and holding.blocks[begin - 1].block_hash is None
            return [] if cut and self.rules.whole_prefixes else [(begin, full)]
        densely = self.retention is None and not self.rules.aligned
        if self.reach.kind is not Kind.STATE and densely and self.pool.null_block is not None:
            while begin < full and holding.blocks[begin].is_null:
                begin += 1
            if self.pool.null_block not in holding.blocks[begin:full]:
                return [(begin, full)] if begin < full else []
        runs, kept = list[tuple[int, int]](), self._kept(holding, range(begin, full))
        for position in kept:
            if self._is_registered(holding, position, tokens):
                self.this_step.add(holding.blocks[position].block_id)
                if self.offers is not None:
                    self.offers.append(
                        (holding.request.request_id, holding.blocks[position], (position + 1) * self.block_size)
                    )
                first = runs.pop()[0] if runs and runs[-1][1] == position else position
                runs.append((first, position + 1))
        return runs

    def _kept(self, holding: Holding, positions: Sequence[int]) -> Sequence[int]:
        """Those of the positions whose blocks a retention interval lets be found, ascending."""
        if self.retention is None:
            return positions
        group = Thinned(self.reach, self.block_size, self.proofs, self.drops_last)
        return sorted(self.retention.kept(group, holding.request, positions))

    def _full(self, request: ComputedRequest, tokens: int, holding: Holding) -> int:
        """How many leading blocks of the table are full, as far as hits can end with them."""
        if self.rules.aligned:
            tokens = min(tokens, len(request.all_token_ids))
            ends = tokens // self.alignment * self.alignment
            tokens = min(tokens, ends + self.block_size) if self.drops_last and ends else ends
        full = min(self.chains.full_blocks(request, tokens), len(holding.blocks))
        given = getattr(request, "block_hashes", None) if self.rules.register is Register.SCHEDULED else None
        return min(full, len(given) // self.chains.scale) if given else full

    def _is_registered(self, holding: Holding, position: int, tokens: int) -> bool:
        """Whether a full block of another kind than full attention can be found."""
        if holding.blocks[position].is_null:
            return False
        if self.reach.kind is Kind.STATE and not self.rules.aligned:
            return (position + 1) * self.block_size == tokens
        per_hit = self.alignment // self.block_size
        if not self.rules.aligned or self.retention is not None:
            return True
        proofs = int(self.drops_last)
        return self.reach.is_reachable(position, per_hit, self.block_size, proofs)

    def forget_behind(self, block: KVCacheBlock) -> None:
        """What stands behind the content of this block in any table cannot be found any more (KV-6, C-KV-19)."""
        if block.block_hash is None or not self.rules.whole_prefixes:
            return
        for holding in self.holdings.values():
            self.name_all(holding)
            copies = (
                position
                for position, link in enumerate(holding.links)
                if self.chains.key(link) == block.block_hash and alike(link.content, block.content)
            )
            for other in holding.blocks[next(copies, len(holding.blocks)) + 1 :]:
                self.pool.forget(other)


def _without_hashes(blocks: Sequence[KVCacheBlock], runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs, without blocks that are registered: another request has them too, and both computed them again."""
    if all(keys_of(blocks[first:end]).count(None) == end - first for first, end in runs):
        return runs
    left = [n for first, end in runs for n in range(first, end) if blocks[n].block_hash is None]
    return [(n, n + 1) for n in left]
