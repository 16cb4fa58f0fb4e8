"""Which request a message of the mirror belongs to: the normative mirror numbers its messages, the eras do not.

For each frontend the engine keeps the requests that are on their way through its mirror, in the order of the mirror's
own lists. A ledger says where in that order a request is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cachespec.mirror.era_state import State, with_link

Link = Any
"""A frontend and its channel, of any variant of the mirror."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """How the requests of a link are ordered."""

    sent_at: Callable[[Link], int]
    """The place of a request that is sent now."""
    delivered: Callable[[Link], int]
    """The place of the request whose message is delivered next."""
    unanswered: Callable[[Link], int]
    """How many requests no answer has confirmed."""
    repeated: Callable[[Link], int]
    """How many requests their clients will send again; they are the last."""
    is_deaf: Callable[[Any], bool]
    """Whether P1 takes no more messages, from the state of the whole mirror."""
    given_up: Callable[[Any, int], Any]
    """The mirror without the last request that a client of this frontend will send again."""


def without_newest_retry(mirror: State, sender: int) -> State:
    """The client has gone away."""
    link = mirror.links[sender]
    return with_link(mirror, sender, link._replace(retries=link.retries[:-1]))


NUMBERED = Ledger(
    sent_at=lambda link: len(link.sender.log),
    delivered=lambda link: int(link.messages[0].sequence - link.sender.log[0].sequence),
    unanswered=lambda link: len(link.sender.log),
    repeated=lambda link: 0,
    is_deaf=lambda mirror: False,
    given_up=lambda mirror, sender: mirror,
)
"""As in the log of the normative mirror."""

IN_TURN = Ledger(
    sent_at=lambda link: len(link.answers) + len(link.messages),
    delivered=lambda link: len(link.answers),
    unanswered=lambda link: len(link.answers) + len(link.messages),
    repeated=lambda link: len(link.retries),
    is_deaf=lambda mirror: bool(mirror.dead),
    given_up=without_newest_retry,
)
"""The eras: requests with an answer in flight, then those with a message in flight, then those to be sent again."""


def inserted(requests: tuple[int, ...], place: int, request: int) -> tuple[int, ...]:
    """The request comes to this place."""
    return (*requests[:place], request, *requests[place:])


def removed(requests: tuple[int, ...], place: int) -> tuple[int, ...]:
    """Without the request at this place."""
    return (*requests[:place], *requests[place + 1 :])
