"""The longest prefix that all groups of layers have, if hits may end within a block (PH-8)."""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Links
from cacheimpl.kv_cache_manager.finding import LookedUp
from cacheimpl.kv_cache_manager.partial import PartialFullTables, PartialStateTables, PartialTables
from cacheimpl.kv_cache_manager.prefixes import brought, link_of
from cacheimpl.kv_cache_manager.reach import Kind
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest

Hits = list[list[KVCacheBlock]]


def found_partial(
    groups: Sequence[Tables], request: ComputedRequest, most: int, hash_size: int
) -> tuple[Hits, int, int]:
    """The blocks of each group, the tokens of the hit, and the end of the prefix that all full attention has.

    Full attention has every shorter prefix of what it has, so it says how long a hit can be. The others are asked for
    each end of a hash block, the last one first.
    """
    whole: dict[Tables, list[KVCacheBlock]] = {}
    longest = most // hash_size * hash_size
    for group in groups:
        if group.reach.kind is Kind.FULL:
            whole[group], tokens = _of_full_attention(group, request, longest)
            longest = min(longest, tokens)
    links = {group: _links(groups, group, request, longest) for group in groups if group not in whole}
    for tokens in range(longest, 0, -hash_size):
        hits = Hits()
        for group in groups:
            its = (
                whole[group][: blocks_for(tokens, group.block_size)]
                if group in whole
                else _ending(group, request, links[group], tokens)
            )
            if its is None:
                break
            hits.append(its)
        else:
            return hits, tokens, longest
    return [[] for _ in groups], 0, longest


def _of_full_attention(group: Tables, request: ComputedRequest, most: int) -> tuple[list[KVCacheBlock], int]:
    """Whole blocks, and the longest prefix that ends within the next one."""
    hits = group.found(request, most)
    start = len(hits) * group.block_size
    if isinstance(group, PartialFullTables):
        last = min(start + group.block_size - 1, most)
        for tokens in range(last // group.chains.hash_size * group.chains.hash_size, start, -group.chains.hash_size):
            block = _found_by(group, request, group.looked_up.links, tokens)
            if block is not None:
                return [*hits, block], tokens
    return hits, start


def _found_by(group: PartialTables, request: ComputedRequest, links: Links, tokens: int) -> KVCacheBlock | None:
    """The block that is found by this prefix; None if there is none."""
    if not brought(group.chains, request, tokens):
        return None
    link = link_of(group.chains, request, links, tokens)
    return None if link is None else group.keys.find(group.chains.key(link), link.content)


def _ending(group: Tables, request: ComputedRequest, links: Links, tokens: int) -> list[KVCacheBlock] | None:
    """The blocks of a hit that ends here; None if the group does not have them."""
    if not isinstance(group, PartialStateTables):
        return group.hits_of(links, tokens)
    block = _found_by(group, request, links, tokens)
    return None if block is None else [*group.nulls((tokens - 1) // group.block_size), block]


def _links(groups: Sequence[Tables], group: Tables, request: ComputedRequest, tokens: int) -> Links:
    """What the request's full blocks hold: as full attention has just found them, if its blocks have the same size."""
    count = group.chains.full_blocks(request, tokens)
    known = Links()
    for other in groups:
        its = other.looked_up.links
        if other.reach.kind is Kind.FULL and other.block_size == group.block_size and len(its) > len(known):
            known = its
    links = known[:count] if len(known) >= count else group.chains.extended(request, known, count)
    group.looked_up = LookedUp(request, [its.piece for its in links.contents], links, [], [])
    return links
