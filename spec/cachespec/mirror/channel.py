"""The queues between P0 and P1, and which calls and faults can happen: the same for every variant."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Protocol, TypeVar

from cachespec.kernel import Kind
from cachespec.mirror.configuration import Config
from cachespec.mirror.declaration import Around, MirrorOperation
from cachespec.mirror.drafts import PARTLY_SENT
from cachespec.mirror.vocabulary import OPERATIONS

Item = TypeVar("Item")


class Unsent(Protocol):
    """A draft of any variant."""

    @property
    def stage(self) -> int:
        """One of the stages of `drafts.py`."""
        ...

    @property
    def left(self) -> int:
        """Messages that have still to leave."""
        ...


def overtaken(items: tuple[Item, ...], which: int) -> tuple[Item, ...]:
    """The one after this one comes first."""
    return (*items[:which], items[which + 1], items[which], *items[which + 2 :])


def doubled(items: tuple[Item, ...], which: int) -> tuple[Item, ...]:
    """The same once more, right behind it."""
    return (*items[: which + 1], *items[which:])


def owed(drafts: Iterable[Unsent]) -> int:
    """How many messages have still to leave of requests that are sent in part: each is another request."""
    return sum(draft.left for draft in drafts if draft.stage == PARTLY_SENT)


@cache
def possible(config: Config, kind: Kind) -> tuple[type[MirrorOperation], ...]:
    """The operations of a kind that the configuration does not rule out."""
    return tuple(operation for operation in OPERATIONS if operation.kind is kind and not operation.ruled_out(config))


def choices(kind: Kind, config: Config, sender: int, around: Around) -> Iterable[MirrorOperation]:
    """What of this kind one sender may do, or may befall it."""
    for operation in possible(config, kind):
        yield from operation.choices(config, sender, around)
