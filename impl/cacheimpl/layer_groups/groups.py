"""The groups of layers that a configuration is made of, looked at before any tensor is made."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.layer_groups.errors import LayerGroupsError

EVERYTHING = 1 << 40
"""More tokens than any request has."""


class Layers(NamedTuple):
    """The layers of one group."""

    reach: Reach
    """Their kind; the window or the chunk in tokens"""
    size: int
    """Tokens of a block"""
    encoder: int = 0
    """Tokens of the encoder that each request has, for cross attention"""
    drafting: bool = False
    """Whether they belong to a draft model: then a hit needs one findable block more behind it"""

    @property
    def proofs(self) -> int:
        """How many blocks behind a hit the group must have."""
        return 1 if self.drafting and self.reach.kind is not Kind.STATE else 0

    @property
    def chunk(self) -> int:
        """The first token that is read is in the current piece of so many tokens; 1 if pieces do not matter."""
        kinds = {Kind.CHUNK: self.reach.span, Kind.FULL: EVERYTHING, Kind.CROSS: EVERYTHING}
        return kinds.get(self.reach.kind, 1)

    @property
    def back(self) -> int:
        """How many tokens before the start of that piece are read."""
        return {Kind.WINDOW: self.reach.span - 1, Kind.STATE: 1}.get(self.reach.kind, 0)

    def slots(self, tokens: int) -> int:
        """The length of a table with slots for so many tokens."""
        return -(-(self.encoder if self.reach.kind is Kind.CROSS else tokens) // self.size)


def caches(groups: Sequence[Layers]) -> bool:
    """With cross attention nothing is found by prefix: what the decoder computes depends on the encoder's input."""
    return all(one.reach.kind is not Kind.CROSS for one in groups)


def alignment(groups: Sequence[Layers]) -> int:
    """Tokens: hits end where a block ends in every group."""
    return lcm(*(one.size for one in groups))


def check(groups: Sequence[Layers], hash_size: int) -> None:
    """Raises `LayerGroupsError` for groups that the tensor code does not have; it names the group and the number."""
    if not groups or hash_size < 1:
        raise LayerGroupsError(f"there must be a group, and hash_size must be positive, not {hash_size}")
    kinds = {one.reach.kind for one in groups}
    for number, one in enumerate(groups):
        _check_numbers(f"group {number}", one, hash_size)
        if one.reach.kind is Kind.CHUNK and len({other.size for other in groups}) > 1:
            raise LayerGroupsError(f"group {number}: chunked local attention needs blocks of one size in all groups")
        if one.drafting and kinds & {Kind.CHUNK, Kind.CROSS}:
            raise LayerGroupsError(f"group {number}: no draft layers beside chunked local attention or cross attention")
        if one.drafting and one.reach.kind is Kind.FULL and one.size != hash_size:
            raise LayerGroupsError(f"group {number}: size must be hash_size for draft layers of full attention")


def _check_numbers(where: str, one: Layers, hash_size: int) -> None:
    kind, span, size = one.reach.kind, one.reach.span, one.size
    if size < 1 or size % hash_size:
        raise LayerGroupsError(f"{where}: size must be a multiple of hash_size, not {size}")
    if kind is Kind.WINDOW and span < 2:
        raise LayerGroupsError(f"{where}: a sliding window must have 2 tokens at least, not {span}")
    if kind is Kind.CHUNK and (span < 1 or span % size):
        raise LayerGroupsError(f"{where}: a chunk must be a multiple of size, not {span}")
    if kind is Kind.STATE and size != hash_size:
        raise LayerGroupsError(f"{where}: hits within a state's block are not there: size must be hash_size")
    if (kind is Kind.CROSS) != (one.encoder > 0):
        raise LayerGroupsError(f"{where}: encoder tokens are for cross attention, and it needs some: {one.encoder}")
