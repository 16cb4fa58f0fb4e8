"""The tables of one group of layers, and the blocks that a prefix finds (KV-7, LG-12)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock, keys_of
from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import Links, Piece, alike
from cacheimpl.kv_cache_manager.errors import (
    RequestMismatchError,
    UnknownRequestError,
)
from cacheimpl.kv_cache_manager.packed_prefix import PackedPrefix
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.reach import FULL, NEVER, Kind, Reach
from cacheimpl.kv_cache_manager.retention import Retention
from cacheimpl.kv_cache_manager.rules import Rules
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.request import ComputedRequest


@dataclass(slots=True)
class Holding:
    """The progress of a request with a table. Counts are in tokens, unless they name blocks."""

    request: ComputedRequest
    """The latest request object; a different object with this id is compared with it."""
    blocks: list[KVCacheBlock]
    registered: int = 0
    """The number of leading blocks that were hits or have been registered."""
    computed: int = 0
    """The number of leading tokens that are written."""
    scheduled: int = 0
    """The number of leading tokens that have slots."""
    given_back: int = 0
    """The number of leading blocks that went back to the pool; null blocks replace them in the table."""
    due: int = NEVER
    """The token count from which on the next block goes back."""
    quiet_until: int = 0
    """A step that ends with this token or before it changes counters only, if these two hold; 0 if that is unknown."""
    quiet_from: int = 0
    """The tokens that such a step must have behind it."""
    beside: tuple[Holding, ...] = field(default=(), repr=False, compare=False)
    """Of the first group: what the request holds in each group, if a step of it changed counters only."""
    loads: bool = False
    """Its tokens are being loaded: the count of the request does not show the written tokens."""
    packed: PackedPrefix | None = None
    """The contents of all full blocks that are known, as one object. None if they are in lists of their own."""
    hashes: list[Hashable] | tuple[()] = ()
    """The hashes of the blocks whose contents are packed."""
    _known: list[Piece] | None = None
    _links: Links | None = None

    @property
    def known(self) -> list[Piece]:
        """The tokens of its full blocks, as they were when the blocks got their slots.

        Those of a request with keys are read when its blocks are named, because the keys were made from them.
        """
        return self._unpacked()[0] if self._known is None else self._known

    @known.setter
    def known(self, known: list[Piece]) -> None:
        self._known = known  # by `+=`, the same list

    @property
    def links(self) -> Links:
        """The contents of its leading full blocks; the remaining full blocks are not named yet."""
        return self._unpacked()[1] if self._links is None else self._links

    @links.setter
    def links(self, links: Links) -> None:
        self._links = links  # by `+=`, the same lists

    @property
    def is_listed(self) -> bool:
        """Whether its contents are in lists of their own."""
        return self._known is not None or self._links is not None

    @property
    def known_blocks(self) -> int:
        """The number of full blocks whose tokens are known."""
        known = self.hashes if self._known is None else self._known
        return len(known)

    def packed_further(self, packed: PackedPrefix, hashes: list[Hashable]) -> None:
        """More full blocks are known, with these hashes; all blocks that are known are packed in this object."""
        self.packed, self.quiet_until = packed, 0
        if isinstance(self.hashes, list):
            self.hashes += hashes
        else:
            self.hashes = hashes

    def _unpacked(self) -> tuple[list[Piece], Links]:
        """The contents as lists, which are used from then on."""
        contents = [] if self.packed is None else self.packed.contents(len(self.hashes))
        self._known, self._links = [its.piece for its in contents], Links(contents, list(self.hashes))
        self.packed, self.hashes = None, ()
        return self._known, self._links


class LookedUp(NamedTuple):
    """What was found by the look-up of a request."""

    request: ComputedRequest | None
    pieces: list[Piece]
    """The tokens of the blocks that were found."""
    links: Links
    """Their contents."""
    blocks: list[KVCacheBlock]
    """The blocks; the null block stands for those that the layers do not read."""
    keys: list[Any]
    """Under what each was found."""
    removals: int = -1
    """As `Registered` had it then."""

    @staticmethod
    def of(request: ComputedRequest, links: Links, blocks: list[KVCacheBlock], removals: int) -> LookedUp:
        """The result of a look-up."""
        pieces = [its.piece for its in links.contents]
        return LookedUp(request, pieces, links, blocks, keys_of(blocks), removals)


class PackedLookUp:
    """The same of a request whose blocks are packed: the lists are made when they are read."""

    __slots__ = ("blocks", "hashes", "keys", "packed", "removals", "request")

    def __init__(
        self,
        request: ComputedRequest,
        packed: PackedPrefix,
        hashes: list[Hashable],
        blocks: list[KVCacheBlock],
        keys: list[Any],
        removals: int,
    ) -> None:
        self.request, self.packed, self.hashes, self.blocks, self.keys = request, packed, hashes, blocks, keys
        self.removals = removals
        """As `Registered` had it then."""

    @property
    def links(self) -> Links:
        """The contents of the blocks."""
        return Links(self.packed.contents(len(self.blocks)), self.hashes)

    @property
    def pieces(self) -> list[Piece]:
        """Their tokens."""
        return [its.piece for its in self.packed.contents(len(self.blocks))]


class Finding:
    """The tables of one group of layers, and the look-up of a request's prefix."""

    def __init__(
        self,
        pool: BlockPool,
        chains: Chains,
        longest: int,
        *,
        caching: bool = True,
        drops_last: bool = False,
        reach: Reach = FULL,
        alignment: int | None = None,
        in_flight: int | None = None,
    ) -> None:
        self.pool, self.chains, self.longest, self.reach = pool, chains, longest, reach
        self.rules: Rules = pool.rules
        self.alignment = alignment or chains.block_size
        """Tokens. The end of a hit is a multiple of this number."""
        self.most_blocks = reach.most_blocks(longest if in_flight is None else in_flight, longest, chains.block_size)
        """Blocks that a request has at once at most; None if it keeps all."""
        self.drops_last = drops_last
        """The last block of a prefix that is found is computed again, for a drafting head needs its hidden states."""
        self.proofs = int(drops_last and reach.kind is not Kind.STATE)
        """Blocks behind a hit that must be cached, too (LG-12/drafts). A state is not dropped."""
        self.caching = caching
        """False: no block is registered, and contents are not computed."""
        self.block_size = chains.block_size
        self.kv_cache_spec: Any = None
        """How these layers store keys and values, as the configuration has it."""
        self.kv_cache_group_id = 0
        self.is_zeroed = True
        """Whether new blocks can be zeroed by the workers."""
        self.dcp_world_size = 1
        """How many ranks of decoding share the tokens of a block."""
        self.records_new_block_ids = False
        """Whether the workers want to know which blocks are taken, to zero them."""
        self.new_block_ids: list[int] = []
        self.drafts = 0
        """Blocks for the states of drafts that a table has behind the running state."""
        self.looked_up: LookedUp | PackedLookUp = LookedUp(None, [], Links(), [], [])
        """The latest look-up."""
        self.beside: Finding | None = None
        """Another group with blocks of the same size, the one before if there is one: its blocks hold the same."""
        self.retention: Retention | None = None
        """Which of its blocks can be found; None: all."""
        self.this_step: set[int] = set()
        """Blocks that were registered in this step."""
        self.offers: list[tuple[str, KVCacheBlock, int]] | None = None
        """States that were registered, for a connector: request, block and tokens. None: nothing takes them."""
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}
        self.holdings: dict[str, Holding] = {}

    def thin_out(self, retention: Retention) -> None:
        """Of windows and states only those that these prefixes need can be found."""
        if self.reach.kind in (Kind.WINDOW, Kind.STATE):
            self.retention = retention

    @property
    def block_pool(self) -> BlockPool:
        """The same pool under the name that schedulers read."""
        return self.pool

    @property
    def num_cached_block(self) -> dict[str, int]:
        """By request id: how many leading blocks of its table were hits or are registered."""
        return {name: holding.registered for name, holding in self.holdings.items()}

    def new_step_starts(self) -> None:
        """What was registered before belongs to an earlier step."""
        self.this_step.clear()

    def widest(self) -> int:
        """Blocks of the longest request."""
        return blocks_for(self.longest, self.block_size)

    def found(self, request: ComputedRequest, most_tokens: int) -> list[KVCacheBlock]:
        """The blocks of the longest cached prefix of the request that is within the given number of tokens."""
        chains, pool = self.chains, self.pool
        count, first = chains.full_blocks(request, most_tokens), chains.first_key(request)
        if first is not None and first not in pool.registered.first:
            return []
        links, hits, longer = chains.first_copies(request, count)
        if longer:
            for link in chains.links(request, chains.pieces_of(request, len(links), count), links):
                block = pool.find(chains.key(link), link.content)
                if block is None:
                    break
                hits.append(block)
                links.append(link)
        self.looked_up = LookedUp.of(request, links, list(hits), pool.registered.removals)
        return hits[:-1] if self.drops_last else hits

    def links_of(self, request: ComputedRequest, tokens: int) -> Links:
        """The contents of the request's full blocks within the given number of tokens."""
        return self.chains.extended(request, Links(), self.chains.full_blocks(request, tokens))

    def links_of_hits(self, request: ComputedRequest, pieces: list[Piece], count: int) -> Links:
        """The contents of the request's first blocks; those of its look-up if the tokens are the same.

        `pieces` are its tokens. If they were not read, the request has brought keys, and they become those of the hits.
        """
        links, seen = self.looked_up.links, self.looked_up.pieces
        same = (
            self.looked_up.request is request
            and len(links) >= count
            and seen[:count] == (pieces[:count] or seen[:count])
        )
        if not pieces:
            pieces += seen[:count] if same else self.chains.pieces_of(request, 0, count)
        return links[:count] if same else self.chains.extended(request, Links(), count)

    def learn(self, request: ComputedRequest, holding: Holding, blocks: int) -> None:
        """The tokens of the first full blocks are known. Raises `InvalidRequestError` and changes nothing."""
        known = holding.known_blocks
        if known < blocks:
            holding.quiet_until = 0
            other = self.holding_beside(request)
            if other is not None and len(other.known) >= blocks:
                holding.known += other.known[known:blocks]
            else:
                holding.known += self.chains.pieces_of(request, known, blocks)

    def name(self, holding: Holding, count: int) -> None:
        """The links of the first `count` full blocks are made, of the tokens that were known with their slots."""
        if len(holding.links) < count:
            beside = self.named_beside(holding, count)
            holding.links += beside or self.chains.named(holding.request, holding.known, holding.links, count)

    def holding_beside(self, request: ComputedRequest) -> Holding | None:
        """The request's table in another group with blocks of the same size."""
        other = None if self.beside is None else self.beside.holdings.get(request.request_id)
        return None if other is None or other.request is not request else other

    def named_beside(self, holding: Holding, count: int) -> Links:
        """The links that are lacking, made of those of a group with blocks of the same size; none if they differ."""
        named, other = len(holding.links), self.holding_beside(holding.request)
        if other is None or len(other.links) < count:
            return Links()
        if named and not alike(holding.links.contents[-1], other.links.contents[named - 1]):
            return Links()
        if holding.known[named:count] != [its.piece for its in other.links.contents[named:count]]:
            return Links()
        return other.links[named:count]

    def name_all(self, holding: Holding) -> None:
        """The links of all full blocks are made."""
        if self.caching:
            full = self.chains.full_blocks(holding.request, holding.scheduled)
            self.learn(holding.request, holding, min(full, len(holding.blocks)))
            self.name(holding, len(holding.known))

    def hits_of(self, links: Links, tokens: int) -> list[KVCacheBlock] | None:
        """The blocks of a prefix, with null blocks for those that are not read (LG-12). None if one is not cached."""
        count, find = tokens // self.block_size, self.pool.find
        first, end = self.reach.first_needed(tokens, self.block_size), count + self.proofs
        if len(links) < end:
            return None
        hits = list[KVCacheBlock]()
        for key, content in zip(self.chains.keys(links.hashes[first:end]), links.contents[first:end], strict=True):
            block = find(key, content)
            if block is None:
                return None
            hits.append(block)
        return [*self.nulls(first), *hits[: count - first]]

    def nulls(self, count: int) -> list[KVCacheBlock]:
        """The null block, repeated."""
        if count <= 0:
            return []
        assert self.pool.null_block is not None
        return [self.pool.null_block] * count

    def holding(self, request: ComputedRequest) -> Holding | None:
        """The request's table, if it has one. Raises `RequestMismatchError` where its id is another request's."""
        holding = self.holdings.get(request.request_id)
        if holding is None or holding.request is request:
            return holding
        self.name_all(holding)
        if self.chains.full_blocks(request, len(holding.links) * self.block_size) < len(holding.links) or any(
            (ours.content.piece, ours.content.extra_keys) != (its.content.piece, its.content.extra_keys)
            for ours, its in zip(self.chains.extended(request, Links(), len(holding.links)), holding.links, strict=True)
        ):
            raise RequestMismatchError(f"{request.request_id!r} is another request, with other tokens")
        return holding

    def known(self, request: ComputedRequest) -> Holding:
        """The request's table. Raises `UnknownRequestError` where it has none."""
        holding = self.holding(request)
        if holding is None:
            raise UnknownRequestError(f"{request.request_id!r} has no table")
        return holding
