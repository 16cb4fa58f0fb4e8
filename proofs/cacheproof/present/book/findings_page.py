"""What the page of the findings says of releases: where each was seen, and where not."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.present.book.tables import anchor, markdown_table
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results.findings.finding import Finding, findings
from cacheproof.targets.vllm.eras import table


def findings_part(words: Sequence[str]) -> str:
    """`releases`: a row for each finding, a column for each release."""
    if list(words) != ["releases"]:
        raise InputError("say 'releases': there is no other part of the findings")
    names = [release.name for release in table().releases()]
    rows = [
        (f"[{one.heading.lower()}](#{anchor(one.heading)})", *(_seen(one, name) for name in names))
        for one in findings()
    ]
    return markdown_table(("finding", *(f"`{name}`" for name in names)), rows)


def _seen(finding: Finding, release: str) -> str:
    ending = finding.ends.get(release)
    if ending is None:
        return "not run"
    return "seen" if ending.status == Ending.VIOLATED else "not seen"
