"""The calls of the encoder cache manager, named as in the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.encoder_cache.configuration import Input, Request
from cachespec.kernel import Operation

ENCODER, BLOCKS = 0, 1
"""Why an admission is abandoned: nothing is left to schedule before an encoder input; no KV blocks."""


@dataclass(frozen=True, slots=True)
class _Call(Operation):
    """The scheduler asks the encoder cache manager."""

    lane: ClassVar[tuple[str, str]] = ("scheduler", "encoder cache")


@dataclass(frozen=True, slots=True)
class CheckAndUpdate(_Call):
    """`check_and_update_cache(request, input)`: if the input is resident, the request holds it from now on.

    Before inputs were shared: `has_cache`, which does not hold the input.
    """

    request: Request
    input: Input


@dataclass(frozen=True, slots=True)
class CanAllocate(_Call):
    """`can_allocate(request, input, compute budget, pending)`: is there room, after evicting idle entries?"""

    request: Request
    input: Input
    budget: int
    """Embeddings that may still be computed in this step."""
    pending: int
    """Embeddings that were promised earlier in the same pass and are not allocated yet."""


@dataclass(frozen=True, slots=True)
class Allocate(_Call):
    """`allocate(request, input)`: creates the entry, held by the request."""

    request: Request
    input: Input


@dataclass(frozen=True, slots=True)
class FreeInput(_Call):
    """`free_encoder_input(request, input)`: the request releases this input."""

    request: Request
    input: Input


@dataclass(frozen=True, slots=True)
class FreeRequest(_Call):
    """`free(request)`: a finished, aborted or preempted request releases all its inputs."""

    request: Request


@dataclass(frozen=True, slots=True)
class CachedInputs(_Call):
    """`get_cached_input_ids(request)`: returns the positions of the request's cached inputs."""

    returns: ClassVar[tuple[str, ...]] = ("input",)

    request: Request


@dataclass(frozen=True, slots=True)
class Abandon(_Call):
    """The scheduler abandons an admission: references taken by the attempt in this pass are undone.

    The engine has no such call; a release is driven by the calls that its scheduler makes at this point.
    """

    request: Request
    cause: int
    """Why: 0, nothing is left to schedule before an encoder input; 1, there are no KV blocks."""


@dataclass(frozen=True, slots=True)
class Report(_Call):
    """`get_freed_mm_hashes()`: ends a pass and returns the contents that the workers must drop.

    Before inputs were shared: `get_freed_ids`, which returns request, input, request, input, and so on.
    """


@dataclass(frozen=True, slots=True)
class Reset(_Call):
    """`reset()`: empties the cache, because the weights have changed."""


OPERATIONS: tuple[type[Operation], ...] = (
    CheckAndUpdate,
    CanAllocate,
    Allocate,
    FreeInput,
    FreeRequest,
    CachedInputs,
    Abandon,
    Report,
    Reset,
)
