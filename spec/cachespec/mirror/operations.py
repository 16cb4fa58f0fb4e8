"""The vocabulary of the mirror: what frontends, network, receiver and fate may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.mirror.configuration import Key, SenderName

FRONTEND, CHANNEL, RECEIVER = "P0", "channel", "P1"

Which = int
"""The position among the requests, messages or answers that the operation is about: 0 is the oldest."""


@dataclass(frozen=True, slots=True)
class Render(Operation):
    """A frontend renders a request: looks up its items and processes the missing ones. Eras update P0 here."""

    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""


@dataclass(frozen=True, slots=True)
class Send(Operation):
    """A rendered request leaves the frontend; requests render concurrently and finish in any order."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class Submit(Operation):
    """`Render` and `Send` in one step, for scopes in which no other operation comes between them."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""


@dataclass(frozen=True, slots=True)
class Deliver(Operation):
    """P1 takes the sender's oldest message and answers; returns the contents used, or those missing."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (CHANNEL, RECEIVER)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Receive(Operation):
    """P0 processes the oldest answer."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (RECEIVER, FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Transmit(Operation):
    """P0 retransmits the next message of its log."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Expire(Operation):
    """P0 times out waiting for an answer and sends a probe."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Join(Operation):
    """P1 grants the sender a partition and starts a new epoch, outside the request path."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, RECEIVER)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Retry(Operation):
    """The client resends a request that was refused for a miss."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Reject(Operation):
    """A later check of the frontend rejects a rendered request, which is never sent."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, "client")
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class SubmitRejected(Operation):
    """`Render` and `Reject` in one step."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, "client")
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    """The client disconnects while its request is in flight."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class Reorder(Operation):
    """A message overtakes the one before it."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class ReorderAnswers(Operation):
    """An answer overtakes the one before it."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class Drop(Operation):
    """A message is lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class DropAnswer(Operation):
    """An answer is lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: Which


@dataclass(frozen=True, slots=True)
class ResetSender(Operation):
    """P0 clears its cache."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class ResetReceiver(Operation):
    """P1 clears its cache (sleep, weight update)."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (RECEIVER, RECEIVER)


@dataclass(frozen=True, slots=True)
class RestartReceiver(Operation):
    """P1 dies and restarts; its memory and everything in flight are lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (RECEIVER, RECEIVER)


OPERATIONS: tuple[type[Operation], ...] = (
    Render,
    Send,
    Submit,
    Deliver,
    Receive,
    Transmit,
    Expire,
    Join,
    Retry,
    Reject,
    SubmitRejected,
    Abort,
    Reorder,
    ReorderAnswers,
    Drop,
    DropAnswer,
    ResetSender,
    ResetReceiver,
    RestartReceiver,
)
