"""Releases of Transformers: where their modules are, and what they are walked in."""

from __future__ import annotations

from pathlib import Path

from cacheproof.targets.prefixes.configurations import CONFIGURATIONS, SERVED
from cacheproof.targets.prefixes.package import PrefixFamily

SECTORS = {"slots, sectors of 2, scarce": {**CONFIGURATIONS["slots, scarce"], "blocks": 8, "blocks_per_sector": 2}}
"""Its memory is given out in sectors, which have as many blocks as fit; most models have one in each."""

FAMILY = PrefixFamily(
    package="transformers",
    newest="5.24.0",
    child=Path(__file__).parent / "child",
    inside="transformers/generation/continuous_batching/",
    endings=(".py",),
    configurations={**CONFIGURATIONS, **SECTORS},
    served={"fifo": SERVED, "prefill_first": SERVED},
)
