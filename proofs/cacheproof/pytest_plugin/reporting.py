"""What a failing test says: the shortest calls that were found, as a table and a diagram, and how to have it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cacheproof.lockstep.campaign import Campaign
from cacheproof.model.finding import Breakdown, Difference, Finding
from cacheproof.model.trace import Violation
from cacheproof.present.show.plain import finding_as_text

HEADLINES = {
    Difference: "the implementation and the specification differ",
    Violation: "a property does not hold",
    Breakdown: "the implementation failed without an answer",
}


class FoundError(Exception):
    """A test found something; `text` is the whole report."""

    def __init__(self, finding: Finding, text: str) -> None:
        super().__init__(headline(finding))
        self.text = text


def headline(finding: Finding) -> str:
    """In one line: what was found, after how many calls."""
    calls = len(finding.trace.steps)
    crashed = isinstance(finding, Breakdown) and finding.crash
    what = "the implementation crashed" if crashed else HEADLINES[type(finding)]
    return f"{what} after {calls} call{'s' * (calls != 1)}"


def rendered(campaign: Campaign, finding: Finding, about: str, again: str, files: Sequence[Path]) -> str:
    """The report of a finding."""
    came_again = "" if campaign.came_again else "; it did NOT come again when the same calls were made anew"
    parts = [
        f"{headline(finding)} (seed {campaign.seed}{came_again})",
        *([about] if about else []),
        "",
        finding_as_text(finding),
        *(f"written: {path}" for path in files),
        f"the same again: {again}",
    ]
    return "\n".join(parts)
