"""`configuration`: the functions that choose which process keeps processed items."""

from __future__ import annotations

from cacheproof.model.target import Target
from cacheproof.targets.tensor.processor_caches import SelectorsTarget
from cachespec.kernel import NORMATIVE

ERAS = ("M1", "M3")
"""What can be asked for beside the normative variant, which M3 is equal to."""


def open_face(era: str = NORMATIVE) -> Target:
    """They, with the arguments of releases from 0.20 on; of the era M1, with those of 0.11."""
    return SelectorsTarget(with_registry=era == "M1", balanced_outside=era == "M1")
