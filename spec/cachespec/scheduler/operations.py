"""The operations of a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation, unset
from cachespec.scheduler.configuration import Config, Request


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """`add_request`: a request arrives, or the input of a session's next turn.

    DONE; TOO_LARGE if it can never be served; PRESENT if it arrived before, or if its session was aborted. ABSENT if
    the turn before it has not arrived.
    """

    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")

    request: Request


@dataclass(frozen=True, slots=True)
class Compile(Operation):
    """The grammar that a request's output has to follow is compiled. ABSENT if the request waits for none."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("grammar", "scheduler")
    setting: ClassVar[str] = "grammars"

    request: Request


@dataclass(frozen=True, slots=True)
class Schedule(Operation):
    """`schedule`: runs one round and puts its plan in flight.

    DONE with request, first token and token count of each scheduled request. REFUSED if no further plan may be in
    flight, MISS if the plan is empty, FAILED if an assertion of a release fails.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("scheduler", "workers")
    returns: ClassVar[tuple[str, ...]] = ("request", "start", "tokens")


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """`update_from_output`: processes the output of the oldest plan in flight.

    DONE with the requests that it finishes; ABSENT if no plan is in flight.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("workers", "scheduler")
    returns: ClassVar[tuple[str, ...]] = ("finished request",)

    accepted: int
    """Drafts of each request that were right, if it had that many."""


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    """`finish_requests`: aborts a request at any time, with all later turns of its session.

    A session is aborted between two turns by the number of the next one. ABSENT if the request does not wait or run,
    and no session waits for its input.
    """

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")
    setting: ClassVar[str] = "aborts"

    request: Request


@dataclass(frozen=True, slots=True)
class FinishLoad(Operation):
    """`finished_recving`: the external KV of a waiting request is loaded.

    DONE; if the request was aborted meanwhile, its blocks are freed. ABSENT if no KV is loaded for the request.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("connector", "scheduler")
    setting: ClassVar[str] = "loads_later"

    request: Request


@dataclass(frozen=True, slots=True)
class FailLoad(Operation):
    """`invalid_block_ids` of a waiting request: its load is over, and has brought only some blocks.

    DONE; the tokens behind these blocks are computed, or the request is ended (`failed_loads_end`). ABSENT if no KV is
    loaded for the request.
    """

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("connector", "scheduler")

    request: Request
    blocks: int
    """The request's blocks that are whole, from its first one on."""

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        return unset(config, "load_failures") or unset(config, "loads_later")


@dataclass(frozen=True, slots=True)
class FailStep(Operation):
    """`update_from_output` with `invalid_block_ids`: in the oldest plan, the load of a request has failed.

    The output of the others is taken, without drafts. DONE with the requests that are finished or ended by it; ABSENT
    if the oldest plan loads nothing for the request.
    """

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("workers", "scheduler")
    returns: ClassVar[tuple[str, ...]] = ("finished request",)
    setting: ClassVar[str] = "load_failures"

    request: Request
    blocks: int
    """The request's blocks that are whole, from its first one on."""


@dataclass(frozen=True, slots=True)
class FinishSend(Operation):
    """`finished_sending`: the blocks of a finished request are sent, and are freed. ABSENT if none are being sent."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("connector", "scheduler")
    setting: ClassVar[str] = "sends"

    request: Request


@dataclass(frozen=True, slots=True)
class ResetPrefixCache(Operation):
    """`reset_prefix_cache`: empties the prefix map. REFUSED while blocks are in use."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")
    setting: ClassVar[str] = "resets"


@dataclass(frozen=True, slots=True)
class ResetRunning(Operation):
    """`reset_prefix_cache(reset_running_requests=True)`: preempts all running requests and empties the prefix map.

    Their output in flight is dropped. DONE.
    """

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")
    setting: ClassVar[str] = "running_resets"


@dataclass(frozen=True, slots=True)
class ResetEncoderCache(Operation):
    """`reset_encoder_cache`: empties the encoder cache; workers first execute the plans in flight."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("frontend", "scheduler")
    setting: ClassVar[str] = "resets"


@dataclass(frozen=True, slots=True)
class BringOutput(Operation):
    """The encoder output of a content arrives at the encoder connector.

    DONE; PRESENT if it is there, and then nothing changes; ABSENT if the connector does not expect it.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("encoder", "scheduler")
    setting: ClassVar[str] = "encoder_connector"
    least: ClassVar[int] = 2

    content: int
    """The content of the output."""


@dataclass(frozen=True, slots=True)
class LoseOutput(Operation):
    """The encoder connector does not have the encoder output of a content any more, or will never get it.

    DONE: the content is encoded here from then on. ABSENT if the connector neither has nor expects it.
    """

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("encoder", "scheduler")
    setting: ClassVar[str] = "encoder_connector"

    content: int
    """The content of the output."""


OPERATIONS: tuple[type[Operation], ...] = (
    Add,
    Compile,
    Schedule,
    Update,
    FinishLoad,
    FailLoad,
    FailStep,
    FinishSend,
    BringOutput,
    LoseOutput,
    Abort,
    ResetPrefixCache,
    ResetRunning,
    ResetEncoderCache,
)
