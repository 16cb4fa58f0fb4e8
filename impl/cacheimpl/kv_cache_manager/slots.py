"""The slots that a request asks for, and what they take in one group of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Links, Piece


@dataclass(slots=True)
class Demand:
    """Slots that a request is to have."""

    computed: int
    """Its tokens that are said to be computed, without hits. Steps in flight may still compute the last of them."""
    tokens: int
    """Tokens more: to be computed, or loaded from outside."""
    found: int = 0
    """Tokens of the hits. A hit may end within a block only where it is said so."""
    executed: int = 0
    """Those of them whose step was executed."""
    external: int = 0
    """Those of them that are loaded from outside."""
    encoder: int = 0
    """Tokens of the encoder, which cross attention reads."""
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

    beginning: Sequence[KVCacheBlock]
    """What a new table begins with: hits, and null blocks for what its kind of layers does not need of them."""
    found: int
    """Tokens of the hits."""
    links: Links
    """What the hits hold."""
    kept: int
    """How many of the table's full blocks stay known."""
    more: list[Piece]
    """The tokens of those behind them, up to the end of its slots."""
    end: int
    """Its tokens before this one have slots then."""
    loaded: int
    """The table's length with slots for what is loaded; 0 if nothing is."""
    length: int
    """The table's length with all slots."""
    needed: int
    """Blocks to be taken."""
    whole: int
    """Blocks for which there must be room, now or later."""
    spare: int
    """How many blocks more the table could have in advance."""
