"""The slots that a request asks for, and what they take in one group of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Link


@dataclass(frozen=True)
class Demand:
    """Slots that a request is to have."""

    computed: int
    """Its tokens that are said to be computed, without hits. Steps in flight may still compute the last of them."""
    tokens: int
    """Tokens more: to be computed, or loaded from outside."""
    executed: int = 0
    """Those of them whose step was executed."""
    loads: bool = False
    """They are counted as computed while they are loaded, and are written when the caller says so."""
    goes_back: bool = False
    """Fewer computed tokens than before are no mistake: the later ones are computed again."""
    lookahead: int = 0
    """Slots for drafts beyond those, as far as the longest request has them."""
    preallocated: int = 0
    """Blocks that are taken in advance wherever one is taken at all, as far as there are any."""
    reserved: int = 0
    """Blocks that must be left for others behind what is taken now."""
    watermark: int = 0
    """Blocks that must be left in any case."""
    whole: bool = False
    """There must be room for all tokens that the request has, now or later: the reserved blocks are part of it."""


class Plan(NamedTuple):
    """What that takes in one group of layers."""

    hits: Sequence[KVCacheBlock]
    links: list[Link]
    """What the request's full blocks hold, up to the end of its slots."""
    end: int
    """Its tokens before this one have slots then."""
    needed: int
    """Blocks to be taken."""
    whole: int
    """Blocks for which there must be room, now or later."""
    spare: int
    """How many blocks more the table could have in advance."""
