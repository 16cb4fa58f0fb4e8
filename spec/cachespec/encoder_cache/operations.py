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
    """`check_and_update_cache(request, input)`: is it resident? If so, the request refers to it from now on.

    Before inputs were shared: `has_cache`, which only asks.
    """

    request: Request
    input: Input


@dataclass(frozen=True, slots=True)
class CanAllocate(_Call):
    """`can_allocate(request, input, compute budget, pending)`: is there room, evicting what nobody refers to?

    `budget` and `pending` are in embeddings; `pending` is what was promised earlier in the same pass and not allocated
    yet.
    """

    request: Request
    input: Input
    budget: int
    pending: int


@dataclass(frozen=True, slots=True)
class Allocate(_Call):
    """`allocate(request, input)`: the entry is created, and the request refers to it."""

    request: Request
    input: Input


@dataclass(frozen=True, slots=True)
class FreeInput(_Call):
    """`free_encoder_input(request, input)`: the request has no more use for this input."""

    request: Request
    input: Input


@dataclass(frozen=True, slots=True)
class FreeRequest(_Call):
    """`free(request)`: the request is finished, aborted or preempted."""

    request: Request


@dataclass(frozen=True, slots=True)
class CachedInputs(_Call):
    """`get_cached_input_ids(request)`: which inputs count as the request's; returns their positions."""

    request: Request


@dataclass(frozen=True, slots=True)
class Abandon(_Call):
    """The scheduler gives up an admission: what the attempt has pinned in this pass is to be undone.

    No call of its own in the engine: a release is driven by the calls that its scheduler makes here.
    """

    request: Request
    cause: int


@dataclass(frozen=True, slots=True)
class Report(_Call):
    """`get_freed_mm_hashes()`: a pass ends, and the workers are told what to drop; returns the contents.

    Before inputs were shared: `get_freed_ids`, which returns request, input, request, input, and so on.
    """


@dataclass(frozen=True, slots=True)
class Reset(_Call):
    """`reset()`: the weights have changed; everything is as at the start."""
