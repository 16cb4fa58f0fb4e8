"""Slots for one request in all groups of layers at once."""

from __future__ import annotations

from collections.abc import Sequence

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.pool import BlockPool
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


def allocate(
    groups: Sequence[Tables], request: ComputedRequest, demand: Demand, hits: Sequence[Sequence[KVCacheBlock]]
) -> list[list[KVCacheBlock]] | None:
    """Slots in every group, behind its hits; the new blocks of each. None, and nothing changed, where room lacks.

    The hits of all groups are touched before a block is taken for any (KV-9, LG-9, C-KV-12). A request that goes back
    does so even if room lacks, and so do blocks that its layers do not read any more (LG-5).
    """
    plans = [group.plan(request, demand, its) for group, its in zip(groups, hits, strict=True)]
    pool = next(group.pool for group in groups if not group.pool.is_host)
    if any(group.awaits_step(plan) for group, plan in zip(groups, plans, strict=True)):
        return None
    for group in groups:
        group.roll_back(request, demand.computed)
        group.give_back(request, demand)
    if pool.host_pool is not None and not _has_room(pool.host_pool, groups, plans):
        return None
    taking = [plan for group, plan in zip(groups, plans, strict=True) if group.pool is pool]
    free = _free(pool, taking)
    room, needed = free - demand.watermark, sum(plan.needed for plan in taking)
    if needed > room - demand.reserved or sum(plan.whole for plan in taking) > room:
        return None
    for group, plan in zip(groups, plans, strict=True):
        group.begin(request, demand, plan)
    fresh = [group.lengthen(request, plan.loaded) for group, plan in zip(groups, plans, strict=True)]
    in_advance = free - needed
    for group, plan, taken in zip(groups, plans, fresh, strict=True):
        more = min(demand.preallocated, in_advance, plan.spare)
        taken.extend(group.lengthen(request, plan.length + more))
        in_advance -= more
    return fresh


def _has_room(host_pool: BlockPool, groups: Sequence[Tables], plans: Sequence[Plan]) -> bool:
    """Whether the host has the blocks that these plans take of it."""
    taking = [plan for group, plan in zip(groups, plans, strict=True) if group.pool is host_pool]
    wanted = max(sum(plan.needed for plan in taking), sum(plan.whole for plan in taking))
    return wanted <= _free(host_pool, taking)


def _free(pool: BlockPool, plans: Sequence[Plan]) -> int:
    """The free blocks of the pool that are not hits of these plans."""
    idle = (len([block for block in plan.beginning if block.ref_cnt == 0 and not block.is_null]) for plan in plans)
    return pool.get_num_free_blocks() - sum(idle)
