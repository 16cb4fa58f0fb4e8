"""Blocks of many requests at once: the requested blocks, and the state of the search for them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from cacheimpl.block_content.hashing import Prefixes
from cacheimpl.block_content.state import ABOVE


class Burst(NamedTuple):
    """Blocks of requests, each request's in order."""

    words: Tensor
    """[requests, blocks, words of a block] int64"""
    extras: Tensor | None
    """[requests, blocks] int64: the number of what the block depends on beside tokens; 0, or no tensor, is nothing"""
    parents: Tensor | None
    """[requests] int64: the content before the first of these blocks, or NONE; no tensor where all have none"""
    counts: Tensor
    """[requests] int64: how many blocks there really are"""
    stands: Tensor | None
    """[requests, blocks] int64: where the search goes on; no tensor the first time"""
    claiming: Tensor | None
    """[requests, blocks] bool: whose search may take a slot; no tensor where all may"""


class Looked(NamedTuple):
    """What was found, by item, requests one after the other. Claims are in the slots, and have to be settled."""

    prefixes: Prefixes
    sought: Tensor
    """[items] int64: the part of the hash that is in a slot"""
    stands: Tensor
    """[items] int64: the slot before which each item stands, before it is wrapped"""
    wanted: Tensor
    """[items] bool: there is a block"""
    going_on: Tensor
    """[items] bool: the slot is another's, by its hash"""
    found: Tensor
    """[items] int64: what the slot holds, without the number of the round: a row or, from rows + 1 on, an item of the
    burst, above a part of its hash"""
    owned: Tensor
    """[items] bool: the slot is the item's own"""
    among_rows: Tensor
    """[items] bool: it is to be compared with a row"""
    among_items: Tensor
    """[items] bool: it is to be compared with an earlier item"""
    counts: Tensor
    """[3] int64: how many are to be compared with rows, and with items, and how many have claims (see `Lanes`)"""

    @property
    def holder(self) -> Tensor:
        """[items] int64: a row, or, from rows + 1 on, an item."""
        return self.found >> ABOVE
