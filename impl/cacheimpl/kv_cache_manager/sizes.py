"""Counts of tokens and blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cacheimpl import counts
from cacheimpl.kv_cache_manager.errors import InvalidCountError


def leading(flags: Iterable[bool]) -> int:
    """How many are true before the first that is not."""
    count = 0
    for flag in flags:
        if not flag:
            break
        count += 1
    return count


def blocks_for(tokens: int, block_size: int) -> int:
    """The number of blocks that hold these tokens."""
    return -(-tokens // block_size)


def whole(what: str, count: Any) -> int:
    """A count that is an integer. Raises `InvalidCountError`."""
    return counts.whole(what, count, InvalidCountError)


def at_least(what: str, count: Any, least: int) -> int:
    """A count that is an integer and not too small. Raises `InvalidCountError`."""
    if type(count) is int and count >= least:
        return count
    return counts.whole(what, count, InvalidCountError, least=least)
