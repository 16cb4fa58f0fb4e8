"""The two caches of a scheduler in the proof that follows requests: who may hold blocks, and who may hold items.

Each stand-in for a call of a cache allows every result that the laws of the cache's own proof allow (`KV-5/freed`,
`KV-5/given` in `obligations/kv_blocks.py`; `ENC-5/given`, `ENC-5/freed`, `ENC-11/undone` in
`obligations/encoder_cache.py`). A request that is not listed holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every
from cacheproof.prove.executor import NotFollowedError, path
from cacheproof.prove.scheduler.queues import ANSWERS, Members
from cacheproof.prove.scheduler.stand_ins import any_answer, any_line
from cacheproof.prove.shapes import INTEGER
from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import DONE, HIT, MISS, REFUSED, Outcome


class Blocks(NamedTuple):
    """The KV blocks."""

    holders: Any
    """`Members`: the requests that may have blocks."""


class Items(NamedTuple):
    """The encoder cache."""

    kept: Any
    """`Members`: the requests that may hold an item that no attempt to admit them has pinned."""
    pinned: Any
    """`Members`: those that may hold one that such an attempt has pinned in this round."""

    @property
    def held(self) -> Items:
        """The inputs that are held."""
        return self

    def has(self, _pair: Any) -> Any:
        """Whether one of them is: either answer."""
        return any_answer()


class StandIn(NamedTuple):
    """In the place of a variant: a result for each call."""

    calls: dict[type, Callable[[Any, Any], tuple[Any, Outcome]]]

    def step(self, _config: Any, state: Any, operation: Any) -> tuple[Any, Outcome]:
        """Any result that the laws of the cache allow."""
        if type(operation) not in self.calls:
            raise NotFollowedError(f"nothing is known of {type(operation).__name__} in this proof")
        return self.calls[type(operation)](state, operation)


def done_or_not(state: Any, operation: Any) -> tuple[Any, Outcome]:
    """No request holds more than before; any answer is possible."""
    return state, DONE if any_answer() else REFUSED


def unchanged(state: Any, operation: Any) -> tuple[Any, Outcome]:
    """No request holds more than before. The answer is not read."""
    return state, DONE


def given(blocks: Blocks, operation: Any) -> tuple[Blocks, Outcome]:
    """Only the request of the call gets blocks, and only if the call is done."""
    if not any_answer():
        return blocks, REFUSED
    return Blocks(blocks.holders.joined(operation.request)), DONE


def blocks_freed(blocks: Blocks, operation: Any) -> tuple[Blocks, Outcome]:
    """The request has no block."""
    return Blocks(blocks.holders.without(operation.request)), DONE


def found(blocks: Blocks, operation: Any) -> tuple[Blocks, Outcome]:
    """Any hits."""
    return blocks, Outcome(HIT.code, any_line())


def looked_up(items: Items, operation: Any) -> tuple[Items, Outcome]:
    """A hit pins the item, for the request of the call."""
    if not any_answer():
        return items, MISS
    return items._replace(pinned=items.pinned.joined(operation.request)), HIT


def allocated(items: Items, operation: Any) -> tuple[Items, Outcome]:
    """The request of the call holds an item, and its attempt is over."""
    return items._replace(kept=items.kept.joined(operation.request)), DONE


def abandoned(items: Items, operation: Any) -> tuple[Items, Outcome]:
    """ENC-11: what the attempt has pinned is let go."""
    return items._replace(pinned=items.pinned.without(operation.request)), DONE


def items_freed(items: Items, operation: Any) -> tuple[Items, Outcome]:
    """The request holds nothing."""
    return Items(items.kept.without(operation.request), items.pinned.without(operation.request)), DONE


def settled(items: Items, operation: Any) -> tuple[Items, Outcome]:
    """The pass is over: what was pinned is kept."""
    kept = path().fresh("kept", ANSWERS)
    path().assume(
        every(
            INTEGER, lambda request: kept[request] == z3.Or(items.kept.members[request], items.pinned.members[request])
        )
    )
    return Items(Members(kept), Members.of(())), Outcome(DONE.code, any_line())


KV = StandIn(
    {
        kv_blocks.GetComputedBlocks: found,
        kv_blocks.AllocateSlots: given,
        kv_blocks.Commit: unchanged,
        kv_blocks.RollBack: unchanged,
        kv_blocks.FreeRequest: blocks_freed,
        kv_blocks.ResetPrefixCache: done_or_not,
    }
)

ENCODER = StandIn(
    {
        encoder_cache.CheckAndUpdate: looked_up,
        encoder_cache.CanAllocate: done_or_not,
        encoder_cache.Allocate: allocated,
        encoder_cache.FreeInput: unchanged,
        encoder_cache.FreeRequest: items_freed,
        encoder_cache.Abandon: abandoned,
        encoder_cache.Report: settled,
        encoder_cache.Reset: settled,
    }
)
