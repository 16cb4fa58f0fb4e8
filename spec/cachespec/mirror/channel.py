"""Channel faults between P0 and P1, the same for every variant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from cachespec.kernel import Operation
from cachespec.mirror.configuration import Config, requests
from cachespec.mirror.operations import (
    Abort,
    Drop,
    DropAnswer,
    Reject,
    Reorder,
    ReorderAnswers,
    ResetSender,
    SubmitRejected,
)

Item = TypeVar("Item")


def without(items: tuple[Item, ...], which: int) -> tuple[Item, ...]:
    """One less."""
    return (*items[:which], *items[which + 1 :])


def overtaken(items: tuple[Item, ...], which: int) -> tuple[Item, ...]:
    """The one after this one comes first."""
    return (*items[:which], items[which + 1], items[which], *items[which + 2 :])


def faults(
    config: Config, sender: int, *, rendered: int, unanswered: int, messages: int, answers: int, hung: int = 0
) -> Iterable[Operation]:
    """The faults that the scope switches on, given how many there are of what a fault can befall."""
    if config.reject:
        yield from (Reject(sender, which) for which in range(rendered))
        if config.rendered == 0 and hung == 0:
            yield from (SubmitRejected(sender, items) for items in requests(config))
    if config.abort:
        yield from (Abort(sender, which) for which in range(unanswered))
    if config.reorder:
        yield from (Reorder(sender, which) for which in range(messages - 1))
        yield from (ReorderAnswers(sender, which) for which in range(answers - 1))
    if config.drop:
        yield from (Drop(sender, which) for which in range(messages))
        yield from (DropAnswer(sender, which) for which in range(answers))
    if config.reset and hung == 0:
        yield ResetSender(sender)
