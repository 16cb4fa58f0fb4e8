"""What is said of a violation wherever one is told of."""

from __future__ import annotations

from collections.abc import Callable

from cacheproof.catalogue.attribution import Certainty
from cacheproof.releases.reach import REACHES
from cacheproof.releases.results.record import Violation, is_new
from cacheproof.releases.results.running import reach_shown

FAULTS = "with faults of the environment between the processes: {}"
NOT_KNOWN = "in no entry of the catalogue"
NOT_SHOWN = "attributed to no entry of the catalogue"
"""Entries break the property, and none was shown to be the cause."""
BROKEN = "this does not hold"
BROKEN_IN_THE_ERA = (
    "this does not hold in the era, with which the release agreed in these calls; a look at the release did not show it"
)


def reach_with_faults(violation: Violation) -> str:
    """The sentence, with the faults that are needed."""
    said = REACHES[reach_shown(violation)]
    return f"{said}; {FAULTS.format(', '.join(violation.faults))}" if violation.faults else said


def known_as(violation: Violation, linked: Callable[[str], str] = str) -> str:
    """Entries of the catalogue and their public threads, or that there are none."""
    if is_new(violation):
        return NOT_SHOWN if violation.certainty == Certainty.UNATTRIBUTED.value else NOT_KNOWN
    return ", ".join((*map(linked, violation.catalogue), *violation.issues))


def what_is_broken(violation: Violation) -> str:
    """How far that was seen, after the property's statement."""
    return BROKEN_IN_THE_ERA if violation.unshown else BROKEN
