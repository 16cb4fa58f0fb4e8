"""What an operation of the mirror declares of itself. Properties, switches and alphabets are derived from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from cachespec.kernel import Operation
from cachespec.mirror.configuration import Config
from cachespec.mirror.drafts import Draft

FRONTEND, CHANNEL, RECEIVER = "P0", "channel", "P1"
MESSAGES, ANSWERS = "messages", "answers"


class Around(NamedTuple):
    """The situation of one sender, by which an operation says in which forms it can happen now."""

    stages: tuple[int, ...]
    """The stage of each draft."""
    may_begin: bool
    """Whether the frontend takes one more request."""
    may_send: bool
    """Whether one more message of the frontend may leave."""
    more: int
    """How many requests more may be unanswered, beside those that are sent in part."""
    unanswered: int
    """Requests that are sent and not answered, as far as their client can abort them."""
    messages: int
    answers: int
    room: bool
    """Whether one more message fits into the channel."""
    hung: bool = False
    """Whether the frontend hangs."""

    def drafts_in(self, stage: int) -> tuple[int, ...]:
        """The positions of the drafts in this stage."""
        return tuple(which for which, its in enumerate(self.stages) if its == stage)


class Requests(NamedTuple):
    """The requests of one sender that no answer has confirmed."""

    drafts: tuple[Draft, ...]
    kept: tuple[tuple[int, ...], ...]
    """The contents of each message that was sent, oldest first."""

    def without(self, which: int) -> tuple[Draft, ...]:
        """The drafts but one. Transitions have their own function for it: a bug there is not hidden here."""
        return tuple(draft for place, draft in enumerate(self.drafts) if place != which)

    def replacing(self, which: int, draft: Draft) -> tuple[Draft, ...]:
        """The drafts with one replaced; likewise."""
        return tuple(draft if place == which else other for place, other in enumerate(self.drafts))


@dataclass(frozen=True, slots=True)
class MirrorOperation(Operation):
    """Base of the mirror's operations. The defaults are those of a step of the protocol itself."""

    frontend: ClassVar[bool] = False
    """The frontend serves a request with it: it must not fail, and it may change P0."""
    takes: ClassVar[tuple[int, ...]] = ()
    """For an operation on the draft at `which`: the stages in which it can be."""
    withdraws: ClassVar[bool] = False
    """It ends the draft at `which`, so P0 must not have been updated for it."""
    clears: ClassVar[str] = ""
    """The side whose cache it empties, or none."""
    flow: ClassVar[str] = ""
    """For a fault of the channel: what it befalls, messages or answers."""
    loses: ClassVar[bool] = False
    """Everything in flight is lost with it."""
    harms: ClassVar[bool] = False
    """A fault on the request path: messages of its sender, or of all if it names none, may have to go out again."""

    @classmethod
    def choices(cls, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
        """For a call or a fault of one sender: all forms in which it can happen now."""
        return ()

    def sends(self, config: Config) -> bool:
        """Whether one more request is unanswered once it is done."""
        return False

    def moved(self, config: Config, requests: Requests) -> Requests:
        """What has become of its sender's requests once it is done."""
        return requests

    def befalls(self, abortable: int, messages: int, answers: int) -> bool:
        """For a fault that names no draft: whether what it names is there."""
        return True

    def places(self, length: int) -> tuple[int, ...]:
        """For a fault of the channel: of each message or answer that is in flight afterwards, its place before."""
        return tuple(range(length))
