"""Tables of the bugs that were planted in a release, of our own and historic ones, from the runs that are kept."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.model.wording import count
from cacheproof.present.book.tables import markdown_table
from cacheproof.releases.engine import kept as running
from cacheproof.releases.planted import kept
from cacheproof.releases.planted.historic import NEEDS, Judged
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.release import Release

SUMMARY, HISTORIC, ENGINE, CLEAN = "summary", "historic", "engine", "clean"


def planted_part(words: Sequence[str]) -> str:
    """`vllm==0.33.0`: every bug; `summary`: how many in each release; `historic vllm==0.33.0`: the historic ones.

    `historic vllm==0.33.0 summary`: how many of these with each seed. `engine vllm==0.33.0`: those in a whole engine,
    and `engine vllm==0.33.0 clean`: its steps without a bug.
    """
    match words:
        case [word, name] if word == ENGINE:
            return _engine(name)
        case [word, name, last] if (word, last) == (ENGINE, CLEAN):
            return _clean(name)
        case [word] if word != HISTORIC:
            return _summary() if word == SUMMARY else _table(Release.parsed(word))
        case [word, name] if word == HISTORIC:
            return _historic(Release.parsed(name))
        case [word, name, last] if (word, last) == (HISTORIC, SUMMARY):
            return _historic_summary(Release.parsed(name))
    raise InputError("say of which release, or 'summary', or 'historic' and of which release")


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


def _historic(release: Release) -> str:
    run = kept.read_historic(release)
    rows = []
    for name in run.names:
        of_one = [row for row in run.rows if row.name == name]
        first = of_one[0]
        public = first.fixed if not first.reported else f"{first.fixed}, {first.reported}"
        rows.append((public, f"`{name.partition('_')[2]}`", first.says, *(_fate(row) for row in of_one)))
    return markdown_table(("public", "bug", "what happens", *(f"seed {seed}" for seed in run.seeds)), rows)


def _fate(row: Judged) -> str:
    if not row.found:
        return f"**not found**: {row.missed}".removesuffix(": ")
    return f"{row.component}, {row.how} in {count(row.calls or 0, 'call')}: {row.seen_in}"


def _historic_summary(release: Release) -> str:
    run = kept.read_historic(release)
    rows = []
    for seed in run.seeds:
        of_one = [row for row in run.rows if row.seed == seed]
        found = [row for row in of_one if row.found]
        beyond = sum(row.missed.startswith(NEEDS) for row in of_one)
        rows.append(
            (
                str(seed),
                f"{len(found)} of {len(of_one)}",
                str(beyond),
                ", ".join(f"{sum(row.how == how for row in found)} by {how}" for how in _ways(found)),
                f"{max((row.seconds for row in found), default=0.0):.0f}",
                f"{max((row.seconds for row in of_one if not row.found), default=0.0):.0f}",
            )
        )
    names = ("seed", "found", "out of the drivers' reach", "how", "most seconds, found", "most seconds, not found")
    return markdown_table(names, rows)


def _engine(name: str) -> str:
    rows = [
        (
            f"`{row.name}`",
            row.setting,
            f"{row.says} {row.fixed}".rstrip(),
            row.outcome if row.right else f"**not right**: {row.outcome}",
            f"{row.judge}, {row.rule}",
            f"{row.decided}; {row.later}" if row.later else row.decided,
        )
        for row in running.read(name).planted
    ]
    return markdown_table(("bug", "setting", "what happens", "blamed in", "by", "what decided it"), rows)


def _clean(name: str) -> str:
    every = running.read(name).clean
    rows = []
    for setting in dict.fromkeys(row.setting for row in every):
        of_one = [row for row in every if row.setting == setting]
        counts = ("steps", "written", "read", "computed", "preemptions")
        sums = [f"{sum(getattr(row, count) for row in of_one):,}" for count in counts]
        rows.append(
            (
                setting,
                str(len(of_one)),
                *sums,
                *(str(sum(bool(getattr(row, one)) for row in of_one)) for one in ("known", "alarm")),
            )
        )
    names = (
        "setting",
        "loads",
        "steps",
        "slots written",
        "slots read",
        "images encoded",
        "preempted",
        "known faults",
        "alarms",
    )
    return markdown_table(names, rows)


def _ways(found: Sequence[Judged]) -> list[str]:
    return sorted({row.how for row in found})
