"""What a reach is called: fair to whoever wrote the release."""

from __future__ import annotations

from cacheproof.results.record import Reach, Violation, is_new

REACHES: dict[Reach, str] = {
    "misuse": "a caller breaks what the class expects of it; the engine's own callers were not seen to do this",
    "class": "calls in an order in which the engine's own callers make them; its whole engine was not run",
    "engine": "the release's own scheduler, driven by requests that arrive and are aborted, did this by itself",
}
"""In a sentence."""

SHORT: dict[Reach, str] = {"misuse": "misuse", "class": "its callers can", "engine": "its scheduler did"}
"""In a table."""

FAULTS = "with faults of the environment between the processes: {}"


def reach_of(violation: Violation) -> str:
    """The sentence, with the faults that are needed."""
    said = REACHES[violation.reach]
    return f"{said}; {FAULTS.format(', '.join(violation.faults))}" if violation.faults else said


def known_as(violation: Violation) -> str:
    """Entries of the catalogue and public threads, or that there are none."""
    if is_new(violation):
        return "new"
    fits = "" if violation.certainty in ("", "shown") else "possibly "
    return fits + ", ".join((*violation.catalogue, *violation.issues))
