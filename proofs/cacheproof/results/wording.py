"""What is said of a violation wherever one is told of."""

from __future__ import annotations

from cacheproof.results.record import Violation, is_new
from cacheproof.show.reach import REACHES

FAULTS = "with faults of the environment between the processes: {}"


def reach_with_faults(violation: Violation) -> str:
    """The sentence, with the faults that are needed."""
    said = REACHES[violation.reach]
    return f"{said}; {FAULTS.format(', '.join(violation.faults))}" if violation.faults else said


def known_as(violation: Violation) -> str:
    """Entries of the catalogue and public threads, or that there are none."""
    if is_new(violation):
        return "new"
    fits = "" if violation.certainty in ("", "shown") else "possibly "
    return fits + ", ".join((*violation.catalogue, *violation.issues))
