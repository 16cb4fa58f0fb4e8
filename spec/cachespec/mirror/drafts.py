"""Requests that a frontend is at work on: looked up, rendered, or sent in part."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from cachespec.mirror.configuration import Key

LOOKED_UP, RENDERED, PARTLY_SENT = 0, 1, 2
"""The stages of a draft. Only from `RENDERED` on may a message of it leave."""

Item = TypeVar("Item")


class Draft(NamedTuple):
    """One request of a frontend that has messages to send."""

    items: tuple[Key, ...]
    """Its contents, in prompt order."""
    stage: int = RENDERED
    left: int = 1
    """Messages that have still to leave."""


def without(items: tuple[Item, ...], which: int) -> tuple[Item, ...]:
    """All but one."""
    return (*items[:which], *items[which + 1 :])


def replaced(items: tuple[Item, ...], which: int, item: Item) -> tuple[Item, ...]:
    """One of them replaced, in its place."""
    return (*items[:which], item, *items[which + 1 :])
