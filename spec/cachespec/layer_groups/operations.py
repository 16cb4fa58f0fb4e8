"""The calls of a KV cache manager over groups of layers, named as in the engine, and what execution does to blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Operation
from cachespec.layer_groups.configuration import CROSS, STATE, Config, Request


@dataclass(frozen=True, slots=True)
class _Call(Operation):
    """The scheduler asks the KV cache manager."""

    lane: ClassVar[tuple[str, str]] = ("scheduler", "kv cache manager")


@dataclass(frozen=True, slots=True)
class NewStep(_Call):
    """`new_step_starts()`: the calls from here on belong to the next step."""

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        if STATE in config.kinds and CROSS not in config.kinds:
            return ""
        return "there is no state that could be found, so no call depends on the step"


@dataclass(frozen=True, slots=True)
class GetComputedBlocks(_Call):
    """`get_computed_blocks(request)`: looks up the longest prefix that all groups have.

    HIT with its tokens, then the blocks of each group in turn, the null block for those that the group does not need;
    or MISS.
    """

    returns: ClassVar[tuple[str, ...]] = ("tokens", "block")

    request: Request


@dataclass(frozen=True, slots=True)
class AllocateSlots(_Call):
    """`allocate_slots(request, tokens)`: slots for the next tokens, in all groups or in none.

    A request without tables is looked up first, and its hit is adopted. A running request goes on behind what is
    scheduled. DONE with the tokens of the hit; REFUSED if there is no room.
    """

    returns: ClassVar[tuple[str, ...]] = ("tokens",)

    request: Request
    external: int
    """Tokens whose KV is loaded from outside, behind the hit of a new request."""
    tokens: int
    """Tokens to compute."""


@dataclass(frozen=True, slots=True)
class Commit(Operation):
    """The oldest step in flight of the request was executed: its KV and its states are written.

    The normative manager registers full blocks now. Releases have no such call: they register when they schedule.
    """

    lane: ClassVar[tuple[str, str]] = ("worker", "kv cache manager")

    request: Request


@dataclass(frozen=True, slots=True)
class FreeRequest(_Call):
    """`free(request)`: frees a finished, aborted or preempted request. Its steps in flight are still executed."""

    request: Request


@dataclass(frozen=True, slots=True)
class ResetPrefixCache(_Call):
    """`reset_prefix_cache()`: empties the prefix map. REFUSED while blocks are in use."""

    setting: ClassVar[str] = "resets"


OPERATIONS: tuple[type[Operation], ...] = (
    NewStep,
    GetComputedBlocks,
    AllocateSlots,
    Commit,
    FreeRequest,
    ResetPrefixCache,
)
