"""What each kind of layers reads, so which blocks of its table a group needs and which go back.

The rules are those of the specification's groups of layers (`layer_groups`, LG-5 and LG-12).
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """Kinds of layers."""

    FULL = "full attention"
    """Reads all tokens."""
    WINDOW = "sliding window"
    """Reads the last tokens."""
    CHUNK = "chunked local attention"
    """Reads back to the start of the current chunk."""
    STATE = "state space"
    """Reads one state, which stands for all tokens before it."""
    CROSS = "cross attention"
    """Reads the encoder's tokens."""
    RESIDENT = "pages on the device"
    """Copies of pages that the host has, or will have, too."""
    HOT = "hot region"
    """A fixed region, into which pages of the host are read."""

    @property
    def is_by_token(self) -> bool:
        """Whether a table has a position for each block of tokens that are computed."""
        return self in (Kind.FULL, Kind.WINDOW, Kind.CHUNK)


NEVER = sys.maxsize
"""More tokens than any request has."""


class Reach(NamedTuple):
    """A kind of layers, and how far they read."""

    kind: Kind = Kind.FULL
    span: int = 0
    """The window or the chunk in tokens; 0 for other kinds."""

    def first_needed(self, tokens: int, block_size: int) -> int:
        """The first position that the token behind these reads. Blocks before it may go back (LG-5)."""
        skipped = 0
        if self.kind is Kind.WINDOW:
            skipped = tokens - self.span + 1
        elif self.kind is Kind.CHUNK:
            skipped = tokens // self.span * self.span
        elif self.kind is Kind.STATE:
            skipped = tokens - 1
        return max(0, skipped) // block_size

    def unread_from(self, position: int, block_size: int) -> int:
        """The least number of tokens behind which the block at this position is not read; `NEVER` if it always is."""
        end = (position + 1) * block_size
        if self.kind is Kind.WINDOW:
            return end + self.span - 1
        if self.kind is Kind.CHUNK:
            return -(-end // self.span) * self.span
        return end + 1 if self.kind is Kind.STATE else NEVER

    def most_blocks(self, in_flight: int, longest: int, block_size: int) -> int | None:
        """The most blocks that a request holds at once with these tokens in flight. None if it keeps them all."""
        if self.kind is Kind.WINDOW:
            return -(-min(self.span - 1 + in_flight, longest) // block_size) + 1
        if self.kind is Kind.CHUNK:
            return -(-min(self.span + in_flight, longest) // block_size)
        if self.kind is Kind.RESIDENT:
            return -(-min(in_flight, longest) // block_size)
        return 1 if self.kind is Kind.STATE else None

    def is_reachable(self, position: int, per_hit: int, block_size: int, proofs: int) -> bool:
        """Whether a hit can need this block, if hits end at every `per_hit`th block, and need `proofs` more behind."""
        need = -(-(self.span - 1) // block_size) + proofs
        if self.kind is not Kind.WINDOW or need >= per_hit:
            return True
        return position >= proofs and (position - proofs) % per_hit >= per_hit - need


FULL = Reach()
