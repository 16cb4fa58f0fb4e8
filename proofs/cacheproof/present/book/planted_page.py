"""Tables of the bugs that were planted in a release, from the run that is kept."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.present.book.tables import markdown_table
from cacheproof.releases.planted import kept
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release

SUMMARY = "summary"


def planted_part(words: Sequence[str]) -> str:
    """`vllm==0.33.0`: every bug; or `summary`: how many in each release."""
    if len(words) != 1:
        raise InputError("say of which release, or 'summary'")
    return _summary() if words[0] == SUMMARY else _table(Release.parsed(words[0]))


def _table(release: Release) -> str:
    rows = [
        (
            f"`{row.name}`",
            f"`{row.where}`",
            row.says,
            f"{row.steps:,}",
            f"{row.seconds:.1f}",
            str(row.length or ""),
            row.seen_in if row.found else f"**not found**: {row.unseen}".removesuffix(": "),
        )
        for row in kept.read(release).rows
        if row.name
    ]
    return markdown_table(("bug", "in", "how it is broken", "steps", "seconds", "calls", "seen in"), rows)


def _summary() -> str:
    shown = []
    for release in reversed(table().releases()):
        if not kept.path_of(release).is_file():
            continue
        run = kept.read(release)
        bugs = [row for row in run.rows if row.name]
        found = [row for row in bugs if row.found]
        components = {row.name.partition("/")[0] for row in bugs}
        shown.append(
            (
                f"`{release.name}`",
                str(len(components)),
                f"{len(found)} of {len(bugs)}",
                f"{max((row.steps for row in found), default=0):,} of {run.steps:,}",
                f"{max((row.seconds for row in bugs), default=0.0):.1f}",
                str(max((row.length or 0 for row in found), default=0)),
            )
        )
    names = ("release", "components", "found", "most steps", "most seconds", "most calls")
    return markdown_table(names, shown)
