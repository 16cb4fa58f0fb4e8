"""What slots a request is to have, and how they are given in all groups of layers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Link

if TYPE_CHECKING:
    from cacheimpl.kv_cache_manager.tables import Tables


@dataclass(frozen=True)
class Demand:
    """Slots that a request is to have."""

    computed: int
    """Its tokens that are said to be computed, without hits."""
    tokens: int
    """Tokens more: to be computed, or loaded from outside."""
    lookahead: int = 0
    """Slots for drafts beyond those, as far as the longest request has them."""
    preallocated: int = 0
    """Blocks that are taken in advance wherever one is taken at all, as far as there are any."""
    reserved: int = 0
    """Blocks that must be left."""
    whole: bool = False
    """There must be room for all tokens that the request has."""


class Plan(NamedTuple):
    """What that takes in one group of layers."""

    hits: Sequence[KVCacheBlock]
    links: list[Link]
    """What the request's full blocks hold, up to the end of its slots."""
    end: int
    """Its tokens before this one have slots then."""
    needed: int
    """Blocks to be taken."""
    must_fit: int
    """Blocks for which there must be room."""
    spare: int
    """How many blocks more the table could have in advance."""


def allocate(
    groups: Sequence[Tables], request: Any, demand: Demand, hits: Sequence[Sequence[KVCacheBlock]]
) -> list[list[KVCacheBlock]] | None:
    """Slots in every group, behind its hits; the new blocks of each. None, and nothing changed, where room lacks.

    The hits of all groups are touched before a block is taken for any (KV-9, C-KV-12).
    """
    plans = [one.plan(request, demand, its) for one, its in zip(groups, hits, strict=True)]
    pool = groups[0].pool
    free = pool.get_num_free_blocks() - sum(block.ref_cnt == 0 for its in hits for block in its)
    if sum(plan.must_fit for plan in plans) > free - demand.reserved:
        return None
    for one, plan in zip(groups, plans, strict=True):
        one.begin(request, demand, plan)
    in_advance, fresh = free - sum(plan.needed for plan in plans), list[list[KVCacheBlock]]()
    for one, plan in zip(groups, plans, strict=True):
        more = min(demand.preallocated, in_advance, plan.spare)
        fresh.append(one.lengthen(request, plan.needed + more))
        in_advance -= more
    return fresh
