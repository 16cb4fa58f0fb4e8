"""The call that takes events. All others are those of the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.kv_blocks.operations import (
    AllocateSlots,
    Commit,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    Withdraw,
)


@dataclass(frozen=True, slots=True)
class TakeEvents(Operation):
    """`take_events()`: returns the events since the last such call, and a subscriber applies them.

    DONE. For each event, in their order: its kind (0 stored, 1 removed, 2 cleared), the hash of the block before the
    first one or -1, the number of hashes, and the hashes. Removals that follow one another are one event with its
    hashes in ascending order: a subscriber sees no difference.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("kv cache manager", "subscriber")


POOL_OPERATIONS: tuple[type[Operation], ...] = (
    GetComputedBlocks,
    AllocateSlots,
    Commit,
    FreeRequest,
    Withdraw,
    EvictBlock,
    ResetPrefixCache,
)

OPERATIONS: tuple[type[Operation], ...] = (*POOL_OPERATIONS, TakeEvents)
