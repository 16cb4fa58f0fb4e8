"""What happens to a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.scheduler.configuration import Request


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """`add_request`: a request arrives. DONE, TOO_LARGE if it can never be served, or PRESENT: each lives once."""

    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")

    request: Request


@dataclass(frozen=True, slots=True)
class Schedule(Operation):
    """`schedule`: one whole round; its plan is in flight afterwards.

    DONE with request, first token, number of tokens for each request that is scheduled. REFUSED where no more plans may
    be in flight, MISS where the round has nothing to say to the workers, FAILED where an assertion of a release fails.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("scheduler", "workers")


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """`update_from_output`: the oldest plan in flight was executed.

    `accepted`: how many of the drafts of each request were right, where there were so many. DONE with the requests that
    are finished by it; ABSENT where no plan is in flight.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("workers", "scheduler")

    accepted: int


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    """`finish_requests`: the client is gone; at any time. ABSENT where there is no such request any more."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")

    request: Request


@dataclass(frozen=True, slots=True)
class ResetPrefixCache(Operation):
    """`reset_prefix_cache`: no KV of the past is to be found any more. REFUSED while blocks are in use."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")


@dataclass(frozen=True, slots=True)
class ResetEncoderCache(Operation):
    """`reset_encoder_cache`: no encoder output of the past is used any more; plans in flight are executed first."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")
