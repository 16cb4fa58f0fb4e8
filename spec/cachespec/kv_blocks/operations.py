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
    """`get_computed_blocks(request)`: the blocks of its longest cached prefix.

    `tokens`: how many the request has now, of its prompt and of the output so far. HIT with the blocks, or MISS.
    """

    request: Request
    tokens: int


@dataclass(frozen=True, slots=True)
class AllocateSlots(_Call):
    """`allocate_slots(request, tokens, hits)`: slots for so many tokens more.

    `computed`: tokens that the request's table covers as computed, without the hits. `hits`: what was just found for a
    request without a table; none for a running one. DONE with the new blocks; REFUSED where there is no room.
    """

    request: Request
    computed: int
    tokens: int
    hits: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class AllocateGroups(_Call):
    """`allocate_slots` for a new request whose layers are in two groups, each with a table of its own.

    `request` and `other` name the two tables. `external`: tokens whose KV is loaded from outside, behind the hits;
    `tokens`: those to compute. DONE with the new blocks of both tables; REFUSED where there is no room.
    """

    request: Request
    other: Request
    external: int
    tokens: int
    hits: tuple[Block, ...]
    other_hits: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class AppendSlots(_Call):
    """`append_slots(request, tokens)`: the call of the first managers for a running request.

    Later it is part of `allocate_slots`. DONE with the new blocks; REFUSED where there is no room.
    """

    request: Request
    computed: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Commit(Operation):
    """A step was executed: the KV of the request's tokens before `computed` is written.

    Normatively full blocks can be found from now on. No call in a release, which registers when it schedules.
    """

    lane: ClassVar[tuple[str, str]] = ("worker", "kv cache manager")

    request: Request
    computed: int


@dataclass(frozen=True, slots=True)
class FreeRequest(_Call):
    """`free(request)`: it is finished, aborted or preempted. What is in flight for it is still executed."""

    request: Request


@dataclass(frozen=True, slots=True)
class Withdraw(_Call):
    """`free(request)` within the step that has scheduled it: what was scheduled is never executed."""

    request: Request


@dataclass(frozen=True, slots=True)
class EvictBlock(_Call):
    """`evict_blocks({block})`: the block is not to be found any more; who holds it keeps it."""

    block: Block


@dataclass(frozen=True, slots=True)
class ResetPrefixCache(_Call):
    """`reset_prefix_cache()`: nothing is to be found any more. REFUSED while blocks are in use."""


@dataclass(frozen=True, slots=True)
class CommonPrefix(_Call):
    """`get_num_common_prefix_blocks(request, ...)`: the leading blocks that every running request has.

    `running`: which requests run, in ascending order. DONE with the number of blocks.
    """

    request: Request
    running: tuple[Request, ...]
