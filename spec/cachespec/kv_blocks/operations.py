"""The calls of the KV cache manager, named as in the engine, and what execution does to the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Operation
from cachespec.kv_blocks.configuration import Block, Request


@dataclass(frozen=True, slots=True)
class _Call(Operation):
    """The scheduler asks the KV cache manager."""

    lane: ClassVar[tuple[str, str]] = ("scheduler", "kv cache manager")


@dataclass(frozen=True, slots=True)
class GetComputedBlocks(_Call):
    """`get_computed_blocks(request)`: returns the longest cached prefix. HIT with its blocks, or MISS."""

    returns: ClassVar[tuple[str, ...]] = ("block",)

    request: Request
    tokens: int
    """Tokens that the request has now, of its prompt and of its output so far."""


@dataclass(frozen=True, slots=True)
class AllocateSlots(_Call):
    """`allocate_slots(request, tokens, hits)`: allocates slots for `tokens` more tokens.

    DONE with the new blocks; REFUSED if there is no room.
    """

    returns: ClassVar[tuple[str, ...]] = ("block",)

    request: Request
    computed: int
    """Tokens that the request's table covers as computed, without the hits."""
    tokens: int
    """Tokens to compute."""
    hits: tuple[Block, ...]
    """Blocks that were just found for a request without a table; none for a running request."""


@dataclass(frozen=True, slots=True)
class AllocateGroups(_Call):
    """`allocate_slots` for a new request whose layers form two groups, each with its own table.

    DONE with the new blocks of both tables; REFUSED if there is no room.
    """

    returns: ClassVar[tuple[str, ...]] = ("block",)

    request: Request
    """The first table."""
    other: Request
    """The second table."""
    external: int
    """Tokens whose KV is loaded from outside, behind the hits."""
    tokens: int
    """Tokens to compute."""
    hits: tuple[Block, ...]
    """Blocks that were found for `request`, in the order of its prompt."""
    other_hits: tuple[Block, ...]
    """Blocks that were found for `other`."""


@dataclass(frozen=True, slots=True)
class AppendSlots(_Call):
    """`append_slots(request, tokens)`: the early managers' call for a running request.

    Later releases merge it into `allocate_slots`. DONE with the new blocks; REFUSED if there is no room.
    """

    returns: ClassVar[tuple[str, ...]] = ("block",)

    request: Request
    computed: int
    """Tokens that the request's table covers as computed."""
    tokens: int
    """Tokens to compute."""


@dataclass(frozen=True, slots=True)
class Commit(Operation):
    """A step was executed: the KV of the request's first `computed` tokens is written.

    The normative manager registers full blocks now. Releases have no such call: they register when they schedule.
    """

    lane: ClassVar[tuple[str, str]] = ("worker", "kv cache manager")

    request: Request
    computed: int
    """Tokens that are computed now, the hits included."""


@dataclass(frozen=True, slots=True)
class RollBack(_Call):
    """The request's tokens from `computed` on are computed again: a load from outside has failed, for example.

    DONE; REFUSED if another request holds a block of these tokens. Releases have no such call: their scheduler sets its
    count back, and the blocks stay registered.
    """

    setting: ClassVar[str] = "rollbacks"

    request: Request
    computed: int
    """Tokens that stay computed."""


@dataclass(frozen=True, slots=True)
class FreeRequest(_Call):
    """`free(request)`: frees a finished, aborted or preempted request. Its steps in flight are still executed."""

    request: Request


@dataclass(frozen=True, slots=True)
class Withdraw(_Call):
    """`free(request)` in the round that scheduled it: the scheduled tokens are never executed."""

    request: Request


@dataclass(frozen=True, slots=True)
class EvictBlock(_Call):
    """`evict_blocks({block})`: removes the block from the prefix map; its holders keep it."""

    block: Block


@dataclass(frozen=True, slots=True)
class ResetPrefixCache(_Call):
    """`reset_prefix_cache()`: empties the prefix map. REFUSED while blocks are in use."""


@dataclass(frozen=True, slots=True)
class CommonPrefix(_Call):
    """`get_num_common_prefix_blocks(request, ...)`: counts the leading blocks shared by all running requests.

    DONE with the number of blocks.
    """

    returns: ClassVar[tuple[str, ...]] = ("common blocks",)

    request: Request
    running: tuple[Request, ...]
    """The requests that run, in ascending order."""


OPERATIONS: tuple[type[Operation], ...] = (
    GetComputedBlocks,
    AllocateSlots,
    AllocateGroups,
    AppendSlots,
    Commit,
    RollBack,
    FreeRequest,
    Withdraw,
    EvictBlock,
    ResetPrefixCache,
    CommonPrefix,
)
