"""The vocabulary of the mirror: what frontends, network, receiver and fate may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.mirror.configuration import Key, SenderName

FRONTEND, CHANNEL, RECEIVER = "P0", "channel", "P1"


@dataclass(frozen=True, slots=True)
class Render(Operation):
    """A frontend renders a request: looks its items up and processes what it must. The eras update P0 here."""

    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    sender: SenderName
    items: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Send(Operation):
    """One of the rendered requests leaves the frontend; several render at the same time and finish in any order."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class Submit(Operation):
    """`Render` and `Send` in one step, for scopes in which nothing comes between them."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName
    items: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Deliver(Operation):
    """P1 takes the sender's oldest message and answers; returns the contents that it uses, or those that it misses."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (CHANNEL, RECEIVER)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Receive(Operation):
    """P0 takes the oldest answer."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (RECEIVER, FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Transmit(Operation):
    """P0 sends the next message of its log again."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Expire(Operation):
    """P0 has waited long enough for an answer, and asks."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Join(Operation):
    """P1 grants the sender a partition and a new epoch, outside the request path."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, RECEIVER)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Retry(Operation):
    """The client sends again the request that was refused for a miss."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Reject(Operation):
    """A rendered request is refused by a later check of the frontend and never sent."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, "client")
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class SubmitRejected(Operation):
    """`Render` and `Reject` in one step."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, "client")
    sender: SenderName
    items: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    """The client goes away while its request is in flight."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class Reorder(Operation):
    """A message overtakes the one before it."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class ReorderAnswers(Operation):
    """An answer overtakes the one before it."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class Drop(Operation):
    """A message is lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class DropAnswer(Operation):
    """An answer is lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    sender: SenderName
    which: int


@dataclass(frozen=True, slots=True)
class ResetSender(Operation):
    """P0 clears its cache on its own."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class ResetReceiver(Operation):
    """P1 clears its cache on its own (sleep, weight update)."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (RECEIVER, RECEIVER)


@dataclass(frozen=True, slots=True)
class RestartReceiver(Operation):
    """P1 dies and starts again: its memory and everything in flight are lost."""

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
