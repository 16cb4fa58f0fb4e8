"""Blocks for the states of drafts: behind the block of the running state, one for each draft token of a step.

Workers write the state behind each draft into one of them. Nothing finds them, so they move along as the table grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.partial import PartialStateTables
from cacheimpl.kv_cache_manager.sizes import blocks_for
from cacheimpl.kv_cache_manager.slots import Demand, Plan
from cacheimpl.kv_cache_manager.tables import Tables
from cacheimpl.request import ComputedRequest


class DraftStates(Tables):
    """What a table of states has more if there are drafts. `drafts` is the number of blocks for them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.scratch = set[int]()
        """The numbers of blocks for drafts."""

    def plan(self, request: ComputedRequest, demand: Demand, hits: Sequence[KVCacheBlock]) -> Plan:
        """The same; a new table takes its blocks for drafts, too. Slots for drafts do not make it longer."""
        plan = super().plan(request, replace(demand, lookahead=0), hits)
        if request.request_id in self.holdings:
            return plan
        more = min(self.drafts, max(0, plan.length - len(plan.beginning) - 1))
        return plan._replace(needed=plan.needed + more, whole=plan.whole + (self.drafts if demand.whole else 0))

    def _length(self, owned: int, tokens: int, demand: Demand) -> int:  # noqa: ARG002  # cross attention reads it
        return max(owned, blocks_for(tokens, self.block_size) + self.drafts)

    def skip(self, table: list[KVCacheBlock], length: int) -> None:
        """The blocks for drafts come behind the block of the running state; one at its place becomes that block."""
        before, running = len(table), length - 1 - self.drafts
        super().skip(table, length - self.drafts)
        for position in range(max(0, before - self.drafts), min(before, running)):
            block = table[position]
            if not block.is_null and block.block_id in self.scratch:
                (table[position],) = self.nulls(1)
                table.append(block)

    def lengthen(self, request: ComputedRequest, length: int) -> list[KVCacheBlock]:
        """The same; what is behind the running state is for drafts."""
        table = self.req_to_blocks[request.request_id]
        fresh = super().lengthen(request, length)
        if length > 0 and len(table) > self.drafts:
            self.scratch.discard(table[len(table) - 1 - self.drafts].block_id)
            self.scratch.update(block.block_id for block in table[len(table) - self.drafts :])
        return fresh

    def pop(self, request_id: str) -> list[KVCacheBlock]:
        """The same."""
        blocks = super().pop(request_id)
        self.scratch.difference_update(block.block_id for block in blocks)
        return blocks


class DraftPartialStates(DraftStates, PartialStateTables):
    """The same if hits may end within a block."""
