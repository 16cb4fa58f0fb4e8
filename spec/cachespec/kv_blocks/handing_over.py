"""A request's table passes to another request, as a session's does to its next turn. For eras."""

from __future__ import annotations

from cachespec.kv_blocks.configuration import NOTHING, Request
from cachespec.kv_blocks.state import NO_TABLE, Pool


def taken_over(pool: Pool, request: Request, by: Request) -> Pool:
    """The blocks, their order and all counts are those of the other request now, which had none."""
    holding = pool.holdings.get(request, NO_TABLE)
    tables = pool.tables
    for position in range(holding.blocks):
        block = tables.get((request, position), NOTHING)
        tables = tables.remove((request, position)).set((by, position), block)
    return pool._replace(tables=tables, holdings=pool.holdings.remove(request).set(by, holding))
