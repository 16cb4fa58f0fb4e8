"""The calls of a KV cache manager whose hits may end within a block, and what a step does on the worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Operation
from cachespec.partial_hits.configuration import Request


@dataclass(frozen=True, slots=True)
class _Call(Operation):
    """The scheduler asks the KV cache manager."""

    lane: ClassVar[tuple[str, str]] = ("scheduler", "kv cache manager")


@dataclass(frozen=True, slots=True)
class GetComputedBlocks(_Call):
    """`get_computed_blocks(request)`: looks up the longest prefix that both groups have.

    HIT with its tokens, then the blocks of each group in turn, the null block for those that the group does not need;
    or MISS. The last block may have more tokens than the hit.
    """

    returns: ClassVar[tuple[str, ...]] = ("tokens", "block")

    request: Request


@dataclass(frozen=True, slots=True)
class AllocateSlots(_Call):
    """`allocate_slots(request, tokens)`: slots for the next tokens, in both groups or in none.

    A request without tables is looked up first, and its hit is adopted. If the hit ends within a block, the request
    gets a block of its own for it, into which the worker copies the shared one. A running request goes on behind what
    is scheduled. DONE with the tokens of the hit; REFUSED if there is no room.
    """

    returns: ClassVar[tuple[str, ...]] = ("tokens",)

    request: Request
    tokens: int
    """Tokens to compute."""


@dataclass(frozen=True, slots=True)
class Dispatch(_Call):
    """The end of `schedule()`: `take_kv_cache_block_copies()`, and the step goes to the worker.

    DONE with the blocks to copy from and to, in pairs, those of the first group first. The manager no longer keeps
    them: the worker does what it has in order. `new_step_starts()` is called before the next step is planned.
    """

    returns: ClassVar[tuple[str, ...]] = ("block",)


@dataclass(frozen=True, slots=True)
class Execute(Operation):
    """The worker runs the oldest step that it has: first all copies at once, then the tokens of the requests.

    The normative manager registers what was computed now. Releases have no such call: they register when they schedule.
    """

    lane: ClassVar[tuple[str, str]] = ("worker", "kv cache manager")


@dataclass(frozen=True, slots=True)
class FreeRequest(_Call):
    """`free(request)`: frees a finished, aborted or preempted request. Its steps in flight are still executed."""

    request: Request


@dataclass(frozen=True, slots=True)
class ResetPrefixCache(_Call):
    """`reset_prefix_cache()`: empties the prefix map. REFUSED while blocks are in use."""

    setting: ClassVar[str] = "resets"


OPERATIONS: tuple[type[Operation], ...] = (
    GetComputedBlocks,
    AllocateSlots,
    Dispatch,
    Execute,
    FreeRequest,
    ResetPrefixCache,
)
