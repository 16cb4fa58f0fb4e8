"""The rules in which managers of several eras differ. The default is the normative set."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Register(Enum):
    """When a full block is registered, so that look-ups find it."""

    COMMITTED = "committed"
    """When `commit` (or `cache_blocks`) says that a step was executed. vLLM does not say it of every step."""
    PASSED = "passed"
    """Also when a later call brings the request with `num_computed_tokens` behind the block.

    Engines advance that count when they schedule, so tokens in flight do not count: `num_in_flight_tokens` of the
    request (0.33), or else its `num_output_placeholders`. Before 0.33 a part of a prompt in flight counts as soon as
    the next one is scheduled: its step was issued, and workers execute steps in order."""
    SCHEDULED = "scheduled"
    """When its slots are allocated, before keys and values are written (C-KV-6); later with `cache_blocks`, if the
    allocation had `delay_cache_blocks`."""


class CommonPrefix(Enum):
    """How the blocks that all running requests share are counted."""

    TABLES = "tables"
    """Blocks at the same position of all their tables."""
    REFERENCES = "references"
    """Blocks with as many references as requests run; references of other requests count too (C-KV-13)."""
    NONE = "none"
    """Always 0."""


class Rules(NamedTuple):
    """One choice for each difference between eras. Misuse is refused under all of them."""

    register: Register = Register.PASSED
    verified: bool = True
    """Contents are compared before a block is used as a hit; otherwise hashes only (C-KV-10)."""
    leaves_a_token: bool = True
    """A hit never covers all tokens: one is left to compute (C-KV-4)."""
    whole_prompts: bool = True
    """The block that draft layers drop may be the last one of the prompt. Otherwise, in one group of layers, the hit
    leaves a token beside it (C-KV-27)."""
    unhashed_first: bool = True
    """Unregistered blocks are freed to the front of the queue (C-KV-15)."""
    reversed_uncached: bool = True
    """Also without prefix caching a table is freed from its end. Otherwise from its beginning."""
    whole_prefixes: bool = True
    """A registered block has all blocks before it registered. Evicting a block by number also unregisters the blocks
    behind it, and later blocks behind it are not registered (C-KV-19)."""
    common_prefix: CommonPrefix = CommonPrefix.TABLES
    window_in_flight: bool = False
    """Blocks go back that are behind the windows of scheduled tokens; otherwise of executed ones only (C-KV-22)."""
    told_by_copy: bool = False
    """Events tell of each copy of a content for itself. Otherwise a hash is told with its first block, and its removal
    with its last one: a subscriber need not count (C-KV-28)."""
    aligned: bool = False
    """Registers only the blocks with which a hit can end and, in a window, the blocks that a hit can need."""


NORMATIVE = Rules()

KV_2025_02 = Rules(
    register=Register.SCHEDULED,
    verified=False,
    leaves_a_token=False,
    whole_prompts=False,
    unhashed_first=False,
    reversed_uncached=False,
    whole_prefixes=False,
    common_prefix=CommonPrefix.REFERENCES,
    told_by_copy=True,
)
"""As released with 0.7.3 (K0b)."""

KV_2025_10 = KV_2025_02._replace(leaves_a_token=True, reversed_uncached=True, window_in_flight=True)
"""As released with 0.11.0 (K1)."""

KV_2026_11 = KV_2025_10._replace(
    unhashed_first=True, common_prefix=CommonPrefix.NONE, window_in_flight=False, aligned=True
)
"""As released with 0.33.0 (K2)."""
