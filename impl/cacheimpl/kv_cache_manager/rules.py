"""The rules in which managers of several eras differ. The default is the normative set."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Register(Enum):
    """When a full block is registered, so that look-ups find it."""

    COMMITTED = "committed"
    """When `commit` (or `cache_blocks`) says that a step was executed."""
    PASSED = "passed"
    """Also when a later call shows a request whose `num_computed_tokens` has passed it: the request's own word."""
    SCHEDULED = "scheduled"
    """When it gets its slots, before anything is written (C-KV-6)."""


class CommonPrefix(Enum):
    """How the blocks that all running requests share are counted."""

    TABLES = "tables"
    """Those that stand in their tables."""
    REFERENCES = "references"
    """Those with as many references as there are running requests, whosesoever they are (C-KV-13)."""
    NONE = "none"
    """None, ever."""


class Rules(NamedTuple):
    """One choice for each difference between eras. Misuse is refused under all of them."""

    register: Register = Register.PASSED
    verified: bool = True
    """A hit has the very content that is looked for; without it, a hash is trusted (C-KV-10)."""
    leaves_a_token: bool = True
    """Not all tokens are found, so that one is left to compute (C-KV-4)."""
    unhashed_first: bool = True
    """What is freed and cannot be found is taken first (C-KV-15)."""
    whole_prefixes: bool = True
    """What can be found is found behind all that comes before it: with a block that is evicted by number go those
    behind it, and what is filled behind it later stays out (C-KV-19)."""
    common_prefix: CommonPrefix = CommonPrefix.TABLES


NORMATIVE = Rules()

KV_2025_02 = Rules(
    register=Register.SCHEDULED,
    verified=False,
    leaves_a_token=False,
    unhashed_first=False,
    whole_prefixes=False,
    common_prefix=CommonPrefix.REFERENCES,
)
"""As released with 0.7.3 (K0b)."""

KV_2025_10 = KV_2025_02._replace(leaves_a_token=True)
"""As released with 0.11.0 (K1)."""

KV_2026_11 = KV_2025_10._replace(unhashed_first=True, common_prefix=CommonPrefix.NONE)
"""As released with 0.33.0 (K2)."""
