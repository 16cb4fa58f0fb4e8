"""The view that the mirror's properties read: each variant maps its own state to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.kernel import Grouping, Observation
from cachespec.mirror.configuration import Config
from cachespec.mirror.drafts import Draft

Order = tuple[tuple[int, int], ...]
"""Keys and their bytes, oldest first."""


class InFlight(NamedTuple):
    """A message between P0 and P1."""

    items: tuple[int, ...]
    """Contents in prompt order."""
    payloads: tuple[int, ...]
    walked: tuple[int, ...]
    """Contents in the order in which P0 updated its cache for this request."""
    current: bool
    """Whether it belongs to the epoch that P1 is in."""
    following: bool
    """Whether it is P0's next update of this epoch that P1 has not applied."""
    stamp: tuple[int, ...]
    """Its generation and number; in the eras the epoch and number of its update."""


class LinkView(NamedTuple):
    """One sender and its part of P1."""

    sent_order: Order
    """P0's cache."""
    held_order: Order
    """P1's cache, as far as it serves this sender."""
    capacity: int
    granted: bool
    """Whether P1 has given this sender a part of its cache."""
    settled: bool
    """Whether P1 has applied every message of the current epoch, and both know that epoch."""
    rendered: tuple[bool, ...]
    """For each draft, whether P0 was updated for it and no message of it has left."""
    messages: tuple[InFlight, ...]
    answers: int
    """Answers in flight."""
    unanswered: int
    """Requests that were sent, or have to be sent again, and have no answer."""
    updates: int
    """Updates of P0 in this epoch."""
    quiet: bool
    """Nothing in flight, nothing unanswered, and a request sent after the last fault has been answered."""
    mended: bool = True
    """Whether P1 has reported a miss since the last fault, as far as a variant tells."""
    drafts: tuple[Draft, ...] = ()
    """The requests that the frontend is at work on; the eras show none."""
    kept: tuple[tuple[int, ...], ...] = ()
    """The contents of each request that P0 keeps until an answer confirms it, oldest first; the eras keep none."""
    backlog: int = 0
    """Messages that P0 keeps and has still to send in this generation; the eras keep none."""
    answering: tuple[tuple[int, ...], ...] = ()
    """Each answer in flight, oldest first: generation, expected number, verdict; in the eras number, failed."""
    abortable: int = 0
    """Requests in flight that their client can abort."""
    joined: bool = True
    """Whether P0 has a partition, as far as it knows."""
    generation: int = 0
    """P0's generation; the eras have none."""
    allowance: int = 0
    """How many repeated sends are accounted for; the eras do not account for them."""
    marked: int = -1
    """The number that was next at the last fault on the request path, or -1; the eras show none."""


class View(NamedTuple):
    """All links. `overspent`: a message went out again and no fault accounts for it."""

    links: tuple[LinkView, ...]
    overspent: bool
    held_bytes: int
    """Bytes of P1's cache, of all partitions together."""
    receiver_capacity: int
    """Bytes that P1 has for them."""
    hung: bool
    """A process of the engine is dead or spins."""
    faults_left: int
    """How many faults may still happen; -1: any number."""


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "p0_order_{sender}": "contents that P0 has on record for this sender, the oldest first",
        "p1_order_{sender}": "contents that P1 holds for this sender, the oldest first",
        "messages_{sender}": "messages on their way to P1",
        "answers_{sender}": "answers on their way to P0",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "p0_order_{sender}": Grouping(row=("content",), lane="P0"),
        "p1_order_{sender}": Grouping(row=("content",), lane="P1"),
        "messages_{sender}": Grouping(lane="channel"),
        "answers_{sender}": Grouping(lane="channel"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    shown: dict[str, Observation] = {}
    for sender, link in enumerate(view.links):
        shown[f"p0_order_{sender}"] = tuple(key for key, _ in link.sent_order)
        shown[f"p1_order_{sender}"] = tuple(key for key, _ in link.held_order)
        shown[f"messages_{sender}"] = len(link.messages)
        shown[f"answers_{sender}"] = link.answers
    return shown
