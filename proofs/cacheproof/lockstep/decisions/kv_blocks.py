"""Which blocks a call gives to requests, and what was in them."""

from __future__ import annotations

from collections.abc import Hashable

from cachespec.kernel import Operation
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.state import View

EMPTY, EVICTED, KEPT, SHARED = range(4)
"""A block that a request gets: without content, with content that is lost, found and free, found and held."""


def decide(config: Config, before: View, operation: Operation, after: View) -> Hashable:
    """For each request whose table the call changes, what its new blocks were; and whether content is left free."""
    tables, free = dict(before.tables), set(before.free)
    given = tuple(
        (
            bool(tables.get(request)),
            tuple(gained(before, after, block) for block in table[len(tables.get(request, ())) :]),
        )
        for request, table in after.tables
        if table != tables.get(request)
    )
    return given, len(tables) - len(after.tables), any(block in free for block, _ in after.registered)


def gained(before: View, after: View, block: int) -> int:
    """One block that a request has gained."""
    content = dict(before.registered).get(block)
    if content is None:
        return EMPTY
    if dict(after.registered).get(block) != content:
        return EVICTED
    return SHARED if block not in before.free else KEPT
