"""The operations of the mirror: what frontends, the channel and the receiver do. Faults have a module of their own.

Each operation declares here what properties, switches and alphabets need to know about it (`declaration.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind
from cachespec.mirror.configuration import Config, Key, SenderName, requests
from cachespec.mirror.declaration import CHANNEL, FRONTEND, RECEIVER, Around, MirrorOperation, Requests
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, RENDERED, Draft

Which = int
"""The position among the drafts, requests, messages or answers that the operation is about: 0 is the oldest."""


def bundled(config: Config) -> str:
    """Why look-up, update and sending are no single step, or nothing."""
    if config.rendered > 0:
        return "rendered > 0: rendering and sending are two steps"
    return "processing > 0: look-up and update are two steps" if config.processing > 0 else ""


# Frontend -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Render(MirrorOperation):
    """A frontend renders a request: looks up its items and processes the missing ones. Eras update P0 here."""

    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    frontend: ClassVar[bool] = True
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        if config.rendered == 0:
            return "rendered = 0: rendering and sending are one step"
        return "processing > 0: look-up and update are two steps" if config.processing > 0 else ""

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        room = around.may_begin and len(around.drafts_in(RENDERED)) < config.rendered
        return (cls(sender, items) for items in requests(config) if room)

    def moved(self, config: Config, requests: Requests) -> Requests:
        return requests._replace(drafts=(*requests.drafts, Draft(self.items)))


@dataclass(frozen=True, slots=True)
class LookUp(MirrorOperation):
    """A frontend looks up a request and begins to process its missing items; returns a 1 for each of these."""

    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    setting: ClassVar[str] = "processing"
    frontend: ClassVar[bool] = True
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        room = around.may_begin and len(around.drafts_in(LOOKED_UP)) < config.processing
        return (cls(sender, items) for items in requests(config) if room)

    def moved(self, config: Config, requests: Requests) -> Requests:
        return requests._replace(drafts=(*requests.drafts, Draft(self.items, LOOKED_UP)))


@dataclass(frozen=True, slots=True)
class Process(MirrorOperation):
    """A looked-up request has its missing items processed; eras update P0 here. If `rendered` is 0 it is sent, too."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, FRONTEND)
    setting: ClassVar[str] = "processing"
    frontend: ClassVar[bool] = True
    takes: ClassVar[tuple[int, ...]] = (LOOKED_UP,)
    sender: SenderName
    which: Which

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        may_send = around.may_send and around.more > 0
        room = len(around.drafts_in(RENDERED)) < config.rendered if config.rendered > 0 else may_send
        return (cls(sender, which) for which in around.drafts_in(LOOKED_UP) if room)

    def sends(self, config: Config) -> bool:
        return config.rendered == 0

    def moved(self, config: Config, requests: Requests) -> Requests:
        draft = requests.drafts[self.which]
        if config.rendered > 0:
            return requests._replace(drafts=requests.replacing(self.which, Draft(draft.items, RENDERED)))
        return Requests(requests.without(self.which), (*requests.kept, draft.items))


@dataclass(frozen=True, slots=True)
class Send(MirrorOperation):
    """The next message of a rendered request leaves; requests render concurrently and finish in any order."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    frontend: ClassVar[bool] = True
    takes: ClassVar[tuple[int, ...]] = (RENDERED, PARTLY_SENT)
    sender: SenderName
    which: Which

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        if config.rendered > 0 or config.fan_out > 1:
            return ""
        return "rendered = 0: rendering and sending are one step"

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        if not around.may_send:
            return
        yield from (cls(sender, which) for which in around.drafts_in(PARTLY_SENT))
        yield from (cls(sender, which) for which in around.drafts_in(RENDERED) if around.more > 0)

    def sends(self, config: Config) -> bool:
        return True

    def moved(self, config: Config, requests: Requests) -> Requests:
        drafts, draft = requests.without(self.which), requests.drafts[self.which]
        if draft.left > 1:
            drafts = requests.replacing(self.which, Draft(draft.items, PARTLY_SENT, draft.left - 1))
        return Requests(drafts, (*requests.kept, draft.items))


@dataclass(frozen=True, slots=True)
class Submit(MirrorOperation):
    """`Render` and `Send` in one step, for scopes in which no other operation comes between them."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    frontend: ClassVar[bool] = True
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        return bundled(config)

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return (cls(sender, items) for items in requests(config) if around.may_send and around.more > 0)

    def sends(self, config: Config) -> bool:
        return True

    def moved(self, config: Config, requests: Requests) -> Requests:
        return requests._replace(kept=(*requests.kept, self.items))


@dataclass(frozen=True, slots=True)
class FanOut(MirrorOperation):
    """A frontend renders a request with several outputs and sends the first of its `fan_out` messages."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    setting: ClassVar[str] = "fan_out"
    least: ClassVar[int] = 2
    frontend: ClassVar[bool] = True
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        room = around.may_send and around.more >= config.fan_out
        return (cls(sender, items) for items in requests(config) if room)

    def sends(self, config: Config) -> bool:
        return True

    def moved(self, config: Config, requests: Requests) -> Requests:
        rest = Draft(self.items, PARTLY_SENT, config.fan_out - 1)
        return Requests((*requests.drafts, rest), (*requests.kept, self.items))


@dataclass(frozen=True, slots=True)
class SubmitEmbeddings(MirrorOperation):
    """A frontend sends a request that came with the embeddings of its items; eras do not ask P0's cache."""

    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    setting: ClassVar[str] = "embeddings"
    frontend: ClassVar[bool] = True
    sender: SenderName
    items: tuple[Key, ...]
    """Its contents, in prompt order."""

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        return (cls(sender, items) for items in requests(config) if around.may_send and around.more > 0)

    def sends(self, config: Config) -> bool:
        return True

    def moved(self, config: Config, requests: Requests) -> Requests:
        return requests._replace(kept=(*requests.kept, self.items))


# Protocol -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deliver(MirrorOperation):
    """P1 takes the sender's oldest message and answers; returns the contents used, or those missing."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (CHANNEL, RECEIVER)
    returns: ClassVar[tuple[str, ...]] = ("content",)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Receive(MirrorOperation):
    """P0 processes the oldest answer."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (RECEIVER, FRONTEND)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Transmit(MirrorOperation):
    """P0 retransmits the next message of its log."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        lost = config.drop or config.restart or config.reorder or config.reset
        return "" if lost else "every message arrives in its turn"


@dataclass(frozen=True, slots=True)
class Expire(MirrorOperation):
    """P0 times out waiting for an answer and sends a probe."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, CHANNEL)
    sender: SenderName

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        late = config.drop or config.restart or config.reorder or config.impatient
        return "" if late else "every answer arrives, in its turn"


@dataclass(frozen=True, slots=True)
class Join(MirrorOperation):
    """P1 grants the sender a partition and starts a new epoch, outside the request path."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = (FRONTEND, RECEIVER)
    sender: SenderName


@dataclass(frozen=True, slots=True)
class Retry(MirrorOperation):
    """The client resends a request that was refused for a miss."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("client", FRONTEND)
    frontend: ClassVar[bool] = True
    sender: SenderName


REGULAR: tuple[type[MirrorOperation], ...] = (
    Render,
    LookUp,
    Process,
    Send,
    Submit,
    FanOut,
    SubmitEmbeddings,
    Deliver,
    Receive,
    Transmit,
    Expire,
    Join,
    Retry,
)
"""The operations that are no faults."""
