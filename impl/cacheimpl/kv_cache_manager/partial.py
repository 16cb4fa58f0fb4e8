"""Tables of layers whose hits may end within a block (the specification's hits within a block, PH-4 to PH-7).

Such a hit shares its last block. The request gets a block of its own for it, which workers fill with a copy of the
shared one. Of full attention the end of a prompt is registered within its block. Of state-space layers the state behind
a step is registered if it is that of a block or of the prompt. It is copied for others before its request overwrites
it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, cast

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Link, Links, alike
from cacheimpl.kv_cache_manager.errors import UnsupportedError
from cacheimpl.kv_cache_manager.events import stored_end
from cacheimpl.kv_cache_manager.finding import Holding
from cacheimpl.kv_cache_manager.prefixes import link_of
from cacheimpl.kv_cache_manager.retention import whole
from cacheimpl.kv_cache_manager.rules import Register
from cacheimpl.kv_cache_manager.several_keys import SeveralKeysPool
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.kv_cache_manager.steps import Kept, Steps
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.kv_cache_manager.unsupported import Unsupported
from cacheimpl.request import ComputedRequest


def prompt_tokens(request: ComputedRequest) -> int:
    """The tokens of the request's prompt; all that it has if it does not say so."""
    return whole(getattr(request, "num_prompt_tokens", None), len(request.all_token_ids))


class PartialTables(Tables):
    """What both kinds of layers share."""

    steps: Steps
    """Those of the manager."""

    def attach(self, steps: Steps) -> None:
        """The manager's steps, before the first call."""
        self.steps = steps
        self._tails: dict[str, int] = {}
        self._redirected: dict[str, int] = {}

    @property
    def keys(self) -> SeveralKeysPool:
        """The pool, whose blocks can have several keys."""
        return cast("SeveralKeysPool", self.pool)

    def prompt_end(self, tokens: int) -> int:
        """Where an equal prompt of this many tokens can be found at most: a token is left, and what the hash covers."""
        left = tokens - max(1, self.chains.lookahead)
        return max(0, left) // self.chains.hash_size * self.chains.hash_size

    def ends_within(self, tokens: int) -> bool:
        """Whether a prefix of this many tokens ends within a block."""
        return tokens % self.block_size > 0

    # Slots ----------------------------------------------------------------------------------------------------------

    def covers(self, hits: Sequence[KVCacheBlock], tokens: int) -> bool:
        """The last block may have more tokens than the hit."""
        return len(hits) == blocks_for(tokens, self.block_size) and tokens % self.chains.hash_size == 0

    def covered(self, hits: Sequence[KVCacheBlock], demand: Demand) -> int:
        """As many as were found."""
        return demand.found if hits else 0

    def plan(self, request: ComputedRequest, demand: Demand, hits: Sequence[KVCacheBlock]) -> Plan:
        """The same, and a block for each copy."""
        plan = super().plan(request, demand, hits)
        if self.ends_within(plan.found) and demand.external:
            raise UnsupportedError(
                Unsupported.EXTERNAL_BEHIND_PARTIAL_HIT,
                "nothing can be loaded behind a hit that ends within a block: leave that block out",
            )
        copies = self.copies(request, demand, plan)
        return plan._replace(needed=plan.needed + copies, whole=plan.whole + (copies if demand.whole else 0))

    def copies(self, request: ComputedRequest, demand: Demand, plan: Plan) -> int:  # noqa: ARG002  # states read them
        """The blocks that are taken for copies."""
        return int(self.ends_within(plan.found))

    def hold(self, request: ComputedRequest, hits: Sequence[KVCacheBlock], links: Links, found: int) -> bool:
        """The same, for a hit whose last block may be found by a longer prefix."""
        if not self.ends_within(found):
            return self._hold(hits, links)
        return self.hold_whole(hits[:-1], links) and self._holds_end(request, hits[-1], links, found)

    def hold_whole(self, hits: Sequence[KVCacheBlock], links: Links) -> bool:
        """Whether these are the blocks before the last one of a hit that ends within a block."""
        return self._hold(hits, links)

    def _holds_end(self, request: ComputedRequest, block: KVCacheBlock, links: Links, found: int) -> bool:
        """Whether the block can be found by a prefix of the request that reaches the end of the hit."""
        first = found // self.block_size
        for key, content in self.keys.keys_of(block):
            tokens = first * self.block_size + content.size
            if self.reaches(tokens, found):
                known = links
                if not self.ends_within(tokens) and self.chains.full_blocks(request, tokens) > first:
                    known = self.chains.extended(request, links, first + 1)
                link = link_of(self.chains, request, known, tokens)
                if link is not None and self.chains.key(link) == key and alike(content, link.content):
                    return True
        return False

    def reaches(self, tokens: int, found: int) -> bool:
        """Whether what is found by a prefix of `tokens` tokens serves a hit of `found` tokens."""
        return tokens >= found

    def _adopt(self, request: ComputedRequest, plan: Plan) -> Holding:
        holding = super()._adopt(request, plan)
        holding.registered = plan.found // self.block_size
        if self.ends_within(plan.found):
            self._redirected[request.request_id] = holding.registered
        self._tails[request.request_id] = self.prompt_end(prompt_tokens(request))
        return holding

    def lengthen(self, request: ComputedRequest, length: int) -> list[KVCacheBlock]:
        """The same; the copies of the request come first."""
        if length <= 0:
            return []
        position = self._redirected.pop(request.request_id, None)
        own = [] if position is None else [self._redirect(request, position)]
        return [*own, *super().lengthen(request, length)]

    def _redirect(self, request: ComputedRequest, position: int) -> KVCacheBlock:
        """PH-4: the request gets a block of its own for a hit that ends within one, and workers copy the shared one."""
        table = self.req_to_blocks[request.request_id]
        source, (target,) = table[position], self.pool._take_all(1)  # noqa: SLF001  # a table's own
        table[position] = target
        target.ref_cnt += 1
        self.steps.copy(self.kv_cache_group_id, source, target)
        if self.records_new_block_ids:
            self.new_block_ids.append(target.block_id)
        return target

    def forget_before(self, holding: Holding, tokens: int) -> None:
        """The same; all at once, the last one first."""
        if tokens < holding.due:
            return
        first = min(self.reach.first_needed(tokens, self.block_size), len(holding.blocks))
        gone = [block for block in holding.blocks[holding.given_back : first] if not block.is_null]
        holding.blocks[holding.given_back : first] = self.nulls(first - holding.given_back)
        holding.given_back = max(holding.given_back, first)
        holding.due = self.reach.unread_from(holding.given_back, self.block_size)
        self.keys.let_all_go(reversed(gone))

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The same, and nothing is kept of the request. Copies that were planned stay, and do no harm."""
        self._tails.pop(request_id, None)
        self._redirected.pop(request_id, None)
        self.steps.left(request_id)
        return super().pop(request_id)

    # What was executed ----------------------------------------------------------------------------------------------

    def commit(self, request: ComputedRequest, computed: int) -> None:
        """The same; copies of the steps that were executed are found first."""
        self.known(request)
        self.steps.passed(request.request_id, computed)
        super().commit(request, computed)

    def roll_back(self, request: ComputedRequest, computed: int) -> None:
        """The same; a block in which tokens are computed again is not found by what is before them, either."""
        holding = self.holdings.get(request.request_id)
        if holding is not None and computed < holding.computed and self.rules.register is not Register.SCHEDULED:
            for block in reversed(holding.blocks[computed // self.block_size :]):
                if not block.is_null:
                    self.pool.forget(block)
        super().roll_back(request, computed)

    def link(self, request: ComputedRequest, holding: Holding, tokens: int) -> Link | None:
        """The content and the hash of the first tokens of a request with a table."""
        full = min(self.chains.full_blocks(request, tokens), len(holding.blocks))
        self.learn(request, holding, full)
        self.name(holding, full)
        return link_of(self.chains, request, holding.links, tokens)

    def enter(self, request: ComputedRequest, holding: Holding, position: int, tokens: int) -> Hashable | None:
        """The block at this position can be found by the request's first `tokens` tokens. Returns a new key."""
        block = holding.blocks[position] if position < len(holding.blocks) else None
        link = None if block is None or block.is_null else self.link(request, holding, tokens)
        if block is None or link is None:
            return None
        key, full = self.chains.key(link), not self.ends_within(tokens)
        if self.keys.has(block, key):
            return None
        if full and self.rules.register is Register.SCHEDULED:  # rules of eras: a full block loses its other keys
            self.pool.forget(block)
        told = self.pool._untold([key], position)  # noqa: SLF001  # a table's own
        self.keys.add(block, key, link.content, first=full)
        if told and self.pool.events is not None:
            event = stored_end(self.pool.form, request, holding.links, link, tokens, self.chains)
            self.pool.events.append(event)
        return key

    def forget_behind(self, block: KVCacheBlock) -> None:
        """The same, by any of the keys of the block."""
        if not self.rules.whole_prefixes:
            return
        gone = dict(self.keys.keys_of(block))
        for holding in self.holdings.values() if gone else ():
            self.name_all(holding)
            for position, link in enumerate(holding.links):
                content = gone.get(self.chains.key(link))
                if holding.blocks[position] is block or (content is not None and alike(link.content, content)):
                    for other in holding.blocks[position + 1 :]:
                        self.pool.forget(other)
                    break


class PartialFullTables(PartialTables):
    """The tables of full attention: a block only grows, so it can be found by each prefix that ends within it."""

    def register(self, request: ComputedRequest, tokens: int) -> None:
        """PH-4/found: the full blocks, and the last hash block of the prompt within its block."""
        if not self.caching:
            return
        holding = self.holdings[request.request_id]
        begin = holding.registered
        holding.registered = max(begin, min(self.chains.full_blocks(request, tokens), len(holding.blocks)))
        for position in range(begin, holding.registered):
            if self._follows(holding, position):
                self.enter(request, holding, position, (position + 1) * self.block_size)
        tail = self._tails[request.request_id]
        if self.ends_within(tail) and tokens >= tail and self._follows(holding, tail // self.block_size):
            self.enter(request, holding, tail // self.block_size, tail)

    def _follows(self, holding: Holding, position: int) -> bool:
        """KV-6: a block that is found is found behind all that come before it."""
        return not (self.rules.whole_prefixes and position and holding.blocks[position - 1].block_hash is None)


class Checkpoint(NamedTuple):
    """A state that a step saves in its middle."""

    tokens: int
    position: int
    """Of its block in the table."""
    end: int
    """Where the step ends."""


class PartialStateTables(PartialTables):
    """The tables of state-space layers: a step writes the state behind it over the one before it in the same block."""

    checkpoint_alignment: int | None = None
    """Tokens: where a step can save a state, counted from its start. None: it saves none in its middle."""

    def attach(self, steps: Steps) -> None:
        """The same."""
        super().attach(steps)
        self._preserved: dict[str, int] = {}
        self._checkpoints: dict[str, Checkpoint] = {}
        self._keys_this_step: set[Hashable] = set()

    # Slots ----------------------------------------------------------------------------------------------------------

    def reaches(self, tokens: int, found: int) -> bool:
        """A state is that of one prefix."""
        return tokens == found

    def hold_whole(self, hits: Sequence[KVCacheBlock], links: Links) -> bool:  # noqa: ARG002  # full attention reads them
        """One state stands for all tokens before it."""
        return all(block.is_null for block in hits)

    def copies(self, request: ComputedRequest, demand: Demand, plan: Plan) -> int:
        """The same, the copy of a state that is overwritten, and a block for a state within the step."""
        kept, saved = self._overwrites(request, demand), self._checkpoint(request, demand, plan) is not None
        return super().copies(request, demand, plan) + int(kept) + int(saved)

    def _whole(self, request: ComputedRequest, owned: int) -> int:
        """Behind the state of a hit the request needs a block for the next one, until the first has gone back."""
        return min(1, max(0, blocks_for(min(len(request.all_token_ids), self.longest), self.block_size) - owned))

    def _overwrites(self, request: ComputedRequest, demand: Demand) -> bool:
        """PH-7: the step begins where others can find the state, so it overwrites that."""
        holding, start = self.holdings.get(request.request_id), demand.computed
        if holding is None or not self.caching or not self.ends_within(start) or holding.computed > start:
            return False
        position = start // self.block_size
        if start != self._tails[request.request_id] or position >= len(holding.blocks):
            return False
        block = holding.blocks[position]
        return not block.is_null and (self.rules.register is not Register.SCHEDULED or block.block_hash is not None)

    def _checkpoint(self, request: ComputedRequest, demand: Demand, plan: Plan) -> Checkpoint | None:
        """The state that the step saves in its middle, if the layers can save the last one that will be found."""
        if self.checkpoint_alignment is None or not self.caching:
            return None
        start, size, holding = demand.computed + plan.found, self.block_size, self.holdings.get(request.request_id)
        end, position = demand.computed + plan.found + demand.tokens, plan.length - 2 - self.drafts
        if self.retention is not None and not self.retention.interval and not self._ends_prompt(request, end):
            return None
        tokens = self.prompt_end(end)
        length = len(plan.beginning) if holding is None else len(holding.blocks) - self.drafts
        if position < length or position <= (start - 1) // size or start % self.chains.hash_size:
            return None
        within = start + self.chains.hash_size <= tokens < end and (tokens - start) % self.checkpoint_alignment == 0
        return Checkpoint(tokens, position, end) if within else None

    def _ends_prompt(self, request: ComputedRequest, end: int) -> bool:
        """Whether a step that ends here computes the end of the prompt, or of what a resumed request computes again."""
        return end >= max(prompt_tokens(request), len(request.all_token_ids) - 1)

    def begin(self, request: ComputedRequest, demand: Demand, plan: Plan) -> None:
        """The same; whether a state is to be kept follows from what was planned."""
        if self._overwrites(request, demand):
            self._preserved[request.request_id] = demand.computed
        checkpoint = self._checkpoint(request, demand, plan)
        if checkpoint is not None:
            self._checkpoints[request.request_id] = checkpoint
        super().begin(request, demand, plan)

    def lengthen(self, request: ComputedRequest, length: int) -> list[KVCacheBlock]:
        """The same; a state that is overwritten is copied, and a state within the step has a block."""
        if length <= 0:
            return []
        start = self._preserved.pop(request.request_id, None)
        if start is not None:
            self._keep(request, start)
        checkpoint, more = self._checkpoints.get(request.request_id), list[KVCacheBlock]()
        if checkpoint is not None and checkpoint.position + 2 + self.drafts == length:
            more = super().lengthen(request, length - 1)
        return [*more, *super().lengthen(request, length)]

    def _keep(self, request: ComputedRequest, start: int) -> None:
        """PH-7: the state that others can find is copied into a new block before the request overwrites it.

        Under the rules of eras the copy is found at once; otherwise as soon as it has been made.
        """
        holding = self.holdings[request.request_id]
        source, kept = holding.blocks[start // self.block_size], None
        link = self.link(request, holding, start)
        scheduled = self.rules.register is Register.SCHEDULED
        moved = list(self.keys.keys_of(source)) if scheduled else []
        if not scheduled:
            self.pool.forget(source)
            kept = None if link is None else Kept(self.chains.key(link), link.content)
        (target,) = self.pool._take_all(1)  # noqa: SLF001  # a table's own
        source.ref_cnt += 1
        self.steps.copy(self.kv_cache_group_id, source, target, kept)
        if moved:
            self._keys_this_step.update(self.keys.move(source, target))
            if self.offers is not None:
                self.offers.append((request.request_id, target, start))

    def awaits_step(self, plan: Plan) -> bool:
        """Whether the hit is a state that this step computes or copies: rules that register when they schedule."""
        last = plan.beginning[-1].block_hash if plan.beginning else None
        return self.rules.register is Register.SCHEDULED and last in self._keys_this_step

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The same."""
        self._preserved.pop(request_id, None)
        self._checkpoints.pop(request_id, None)
        return super().pop(request_id)

    def new_step_starts(self) -> None:
        """The same."""
        super().new_step_starts()
        self._keys_this_step.clear()

    # What was executed ----------------------------------------------------------------------------------------------

    def tail_state(self, request: ComputedRequest, executed: int) -> tuple[int, int, int] | None:
        """Group, block and tokens of the state behind the prompt if it is still in the table; None otherwise."""
        holding, position = self.holdings.get(request.request_id), (executed - 1) // self.block_size
        if holding is None or executed != self._tails[request.request_id] or not self.ends_within(executed):
            return None
        block = holding.blocks[position]
        return None if block.is_null else (self.kv_cache_group_id, block.block_id, executed)

    def register(self, request: ComputedRequest, tokens: int) -> None:
        """PH-4/found: the state behind the step, if it is that of a block or of the prompt."""
        if not self.caching:
            return
        holding = self.holdings[request.request_id]
        begin = holding.registered
        holding.registered = max(begin, min(self.chains.full_blocks(request, tokens), len(holding.blocks)))
        scheduled = self.rules.register is Register.SCHEDULED
        saved = self._checkpoints.get(request.request_id)
        for position in range(begin, holding.registered) if scheduled else ():
            if (saved is None or saved.position != position) and self._retained(holding, position):
                self._found(request, holding, position, (position + 1) * self.block_size)
        if saved is not None and tokens >= saved.end:
            self._save(request, holding, saved)
        tail = tokens == self._tails[request.request_id]
        full = not self.ends_within(tokens) and self._retained(holding, tokens // self.block_size - 1)
        if (tail if scheduled else self._stays(request, tokens) and (tail or full)) and tokens > 0:
            self._found(request, holding, (tokens - 1) // self.block_size, tokens)

    def _save(self, request: ComputedRequest, holding: Holding, saved: Checkpoint) -> None:
        """A state within the step can be found if it is that of a block, or of the prompt."""
        full = not self.ends_within(saved.tokens) and self._retained(holding, saved.tokens // self.block_size - 1)
        if full or saved.tokens == self._tails[request.request_id]:
            self._found(request, holding, saved.position, saved.tokens)

    def _retained(self, holding: Holding, position: int) -> bool:
        """Whether a retention interval lets the state behind the block at this position be found."""
        return position in self._kept(holding, (position,))

    def _stays(self, request: ComputedRequest, tokens: int) -> bool:
        """Whether a step has ended with this state, and no later one of the request overwrites it."""
        later = self.steps.next_end(request.request_id, tokens)
        overwritten = later is not None and (later - 1) // self.block_size == (tokens - 1) // self.block_size
        return self.steps.ends_at(request.request_id, tokens) and not overwritten

    def _found(self, request: ComputedRequest, holding: Holding, position: int, tokens: int) -> None:
        key = self.enter(request, holding, position, tokens)
        if key is not None:
            self._keys_this_step.add(key)
            if self.offers is not None and not self.ends_within(tokens):
                self.offers.append((request.request_id, holding.blocks[position], tokens))
