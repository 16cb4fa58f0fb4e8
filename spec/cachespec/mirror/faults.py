"""The faults of the mirror and its resets: what clients, the channel and operators may do to it at any time.

They are declared as the other operations are (`operations.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind
from cachespec.mirror.configuration import Config, Key, SenderName, requests
from cachespec.mirror.declaration import (
    ANSWERS,
    CHANNEL,
    FRONTEND,
    MESSAGES,
    RECEIVER,
    Around,
    MirrorOperation,
    Requests,
)
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, RENDERED
from cachespec.mirror.operations import Which, bundled

# Faults of clients and frontends ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reject(MirrorOperation):
    """A later check of the frontend rejects a rendered request, which is never sent."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, "client")
    setting: ClassVar[str] = "reject"
    withdraws: ClassVar[bool] = True
    takes: ClassVar[tuple[int, ...]] = (RENDERED,)
    sender: SenderName
    which: Which

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        if config.rendered == 0:
            return "rendered = 0: rendering and sending are one step"
        return "" if config.reject else "reject = 0"

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return (cls(sender, which) for which in around.drafts_in(RENDERED))

    def moved(self, config: Config, requests: Requests) -> Requests:
        return requests._replace(drafts=requests.without(self.which))


@dataclass(frozen=True, slots=True)
class SubmitRejected(MirrorOperation):
    """`Render` and `Reject` in one step."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, "client")
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        return bundled(config) if config.reject else "reject = 0"

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return () if around.hung else (cls(sender, items) for items in requests(config))


@dataclass(frozen=True, slots=True)
class Abort(MirrorOperation):
    """The client disconnects while its request is in flight."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    setting: ClassVar[str] = "abort"
    sender: SenderName
    which: Which

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return (cls(sender, which) for which in range(around.unanswered))

    def befalls(self, abortable: int, messages: int, answers: int) -> bool:
        return self.which < abortable


@dataclass(frozen=True, slots=True)
class Cancel(MirrorOperation):
    """The client disconnects while its request is looked up, rendered or sent in part; the rest of it is not sent."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    setting: ClassVar[str] = "cancel"
    withdraws: ClassVar[bool] = True
    takes: ClassVar[tuple[int, ...]] = (LOOKED_UP, RENDERED, PARTLY_SENT)
    sender: SenderName
    which: Which

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        if config.rendered == 0 and config.processing == 0 and config.fan_out == 1:
            return "every request is rendered and sent in one step"
        return "" if config.cancel else "cancel = 0"

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return (cls(sender, which) for which in range(len(around.stages)))

    def moved(self, config: Config, requests: Requests) -> Requests:
        return requests._replace(drafts=requests.without(self.which))


# Faults of the channel ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChannelFault(MirrorOperation):
    """Base of what may happen to one message or answer that is under way."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (CHANNEL, CHANNEL)
    spans: ClassVar[int] = 1
    """How many neighbours it takes."""
    sender: SenderName
    which: Which

    @classmethod
    @abstractmethod
    def candidates(cls, around: Around) -> int:
        """How many of the sender's messages or answers, oldest first, it can happen to."""

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return (cls(sender, which) for which in range(cls.candidates(around)))

    def befalls(self, abortable: int, messages: int, answers: int) -> bool:
        return self.which + self.spans <= (messages if self.flow == MESSAGES else answers)


@dataclass(frozen=True, slots=True)
class Reorder(ChannelFault):
    """A message overtakes the one before it."""

    setting: ClassVar[str] = "reorder"
    flow: ClassVar[str] = MESSAGES
    spans: ClassVar[int] = 2
    harms: ClassVar[bool] = True

    @classmethod
    def candidates(cls, around: Around) -> int:
        return around.messages - 1

    def places(self, length: int) -> tuple[int, ...]:
        return (*range(self.which), self.which + 1, self.which, *range(self.which + 2, length))


@dataclass(frozen=True, slots=True)
class ReorderAnswers(ChannelFault):
    """An answer overtakes the one before it."""

    setting: ClassVar[str] = "reorder"
    flow: ClassVar[str] = ANSWERS
    spans: ClassVar[int] = 2

    @classmethod
    def candidates(cls, around: Around) -> int:
        return around.answers - 1

    def places(self, length: int) -> tuple[int, ...]:
        return (*range(self.which), self.which + 1, self.which, *range(self.which + 2, length))


@dataclass(frozen=True, slots=True)
class Drop(ChannelFault):
    """A message is lost."""

    setting: ClassVar[str] = "drop"
    flow: ClassVar[str] = MESSAGES
    harms: ClassVar[bool] = True

    @classmethod
    def candidates(cls, around: Around) -> int:
        return around.messages

    def places(self, length: int) -> tuple[int, ...]:
        return (*range(self.which), *range(self.which + 1, length))


@dataclass(frozen=True, slots=True)
class DropAnswer(ChannelFault):
    """An answer is lost."""

    setting: ClassVar[str] = "drop"
    flow: ClassVar[str] = ANSWERS

    @classmethod
    def candidates(cls, around: Around) -> int:
        return around.answers

    def places(self, length: int) -> tuple[int, ...]:
        return (*range(self.which), *range(self.which + 1, length))


@dataclass(frozen=True, slots=True)
class Duplicate(ChannelFault):
    """A message arrives twice."""

    setting: ClassVar[str] = "duplicate"
    flow: ClassVar[str] = MESSAGES

    @classmethod
    def candidates(cls, around: Around) -> int:
        return around.messages if around.room else 0

    def places(self, length: int) -> tuple[int, ...]:
        return (*range(self.which + 1), *range(self.which, length))


@dataclass(frozen=True, slots=True)
class DuplicateAnswer(ChannelFault):
    """An answer arrives twice."""

    setting: ClassVar[str] = "duplicate"
    flow: ClassVar[str] = ANSWERS

    @classmethod
    def candidates(cls, around: Around) -> int:
        return around.answers if around.room else 0

    def places(self, length: int) -> tuple[int, ...]:
        return (*range(self.which + 1), *range(self.which, length))


# Resets -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResetSender(MirrorOperation):
    """P0 clears its cache."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (FRONTEND, FRONTEND)
    setting: ClassVar[str] = "reset"
    clears: ClassVar[str] = FRONTEND
    harms: ClassVar[bool] = True
    sender: SenderName

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return () if around.hung else (cls(sender),)


@dataclass(frozen=True, slots=True)
class ResetReceiver(MirrorOperation):
    """P1 clears its cache (sleep, weight update)."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (RECEIVER, RECEIVER)
    setting: ClassVar[str] = "reset"
    clears: ClassVar[str] = RECEIVER
    harms: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RestartReceiver(MirrorOperation):
    """P1 dies and restarts; its memory and everything in flight are lost."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = (RECEIVER, RECEIVER)
    setting: ClassVar[str] = "restart"
    clears: ClassVar[str] = RECEIVER
    harms: ClassVar[bool] = True
    loses: ClassVar[bool] = True


FAULTS: tuple[type[MirrorOperation], ...] = (
    Reject,
    SubmitRejected,
    Abort,
    Cancel,
    Reorder,
    ReorderAnswers,
    Drop,
    DropAnswer,
    Duplicate,
    DuplicateAnswer,
    ResetSender,
    ResetReceiver,
    RestartReceiver,
)
"""All faults."""
