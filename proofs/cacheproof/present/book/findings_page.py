"""The releases part of the page of findings: releases that showed a finding, and releases that did not."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.present.book.tables import anchor, markdown_table
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results.findings.finding import Finding, ScriptEnding, findings
from cacheproof.releases.results.running import running_cases
from cacheproof.targets.vllm.eras import table


def findings_part(words: Sequence[str]) -> str:
    """`releases`: a row for each finding, a column for each release. `running`: likewise for running engines."""
    if list(words) == ["running"]:
        return _running()
    if list(words) != ["releases"]:
        raise InputError("say 'releases' or 'running': there is no other part of the findings")
    names = [release.name for release in table().releases()]
    rows = [
        (f"[{one.heading.lower()}](#{anchor(one.heading)})", *(_seen(one, name) for name in names))
        for one in findings()
    ]
    return markdown_table(("finding", *(f"`{name}`" for name in names)), rows)


def _running() -> str:
    """A row for each case, a column for each engine."""
    cases = running_cases()
    engines = sorted({engine for case in cases for engine in case.ends})
    rows = [
        (
            f"[{case.heading.lower()}](#{anchor(case.heading)})",
            ", ".join(f"[{entry}](catalogue.md#{entry.lower()})" for entry in case.catalogue),
            case.effect,
            *(_word(case.ends.get(engine)) for engine in engines),
        )
        for case in cases
    ]
    return markdown_table(("finding", "entry", "effect", *(f"`{engine}`" for engine in engines)), rows)


def _seen(finding: Finding, release: str) -> str:
    return _word(finding.ends.get(release))


def _word(ending: ScriptEnding | None) -> str:
    if ending is None:
        return "not run"
    return "seen" if ending.status == Ending.VIOLATED else "not seen"
