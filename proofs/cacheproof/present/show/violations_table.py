"""The table of what releases break: the worst first, and for each line the commands that lead on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from cacheproof.catalogue.severity import SAYS, Severity
from cacheproof.model.wording import count, explaining
from cacheproof.present.show.formats import FORMATS
from cacheproof.present.show.violations import (
    Message,
    broken_by,
    era_of,
    in_full,
    is_new,
    messages,
    package_of,
    reproducing,
)
from cacheproof.releases.reach import REACHES, STRENGTH
from cacheproof.releases.searching import EraSearch

COLUMNS = ("number", "severity", "reach", "component", "released package", "property", "broken by", "calls", "cause")
LINES = 20
"""Of the table, unless all are asked for."""
MOST_IN_A_CELL = 4

Numbered = tuple[int, Message]


def ranked(found: Iterable[Message]) -> list[Message]:
    """The findings in the order of the table: by reach, by severity, by length; those of one line together."""
    lines = sorted(_by_line(found), key=_rank)
    return [message for line in lines for message in sorted(line, key=lambda one: (_rank([one]), one["length"]))]


def _by_line(found: Iterable[Message]) -> list[list[Message]]:
    """The findings of one property of one release together, those beside several hints too."""
    groups: dict[tuple[str, ...], list[Message]] = {}
    for one in found:
        beside = "" if one.get("hint") else one["variant"]
        key = (beside, *(str(one[name]) for name in ("component", "target", "first", "property")))
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _rank(line: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
    """How early a line comes: what says most of an engine, of this the worst, of this the shortest."""
    return min((-STRENGTH.index(one["reach"]), Severity(one["severity"]).rank, one["length"]) for one in line)


def folded(found: Sequence[Message]) -> list[list[Numbered]]:
    """The lines, each with its findings and their numbers, from 1, which `--show` takes."""
    numbers = {id(one): number for number, one in enumerate(found, 1)}
    return [[(numbers[id(one)], one) for one in line] for line in _by_line(found)]


def as_table(lines: Iterable[Sequence[Numbered]]) -> Table:
    """One line for each property that a release breaks, about the finding that ranks first."""
    shown = Table(box=None)
    for name in COLUMNS:
        shown.add_column(name, justify="right" if name in ("number", "calls") else "left", overflow="fold")
    for numbered in lines:
        (_, first), several = numbered[0], [one for _, one in numbered]
        shown.add_row(
            _numbers([number for number, _ in numbered]),
            first["severity"],
            ", ".join(reach for reach, _ in _reached(several)),
            era_of(first),
            package_of(first),
            first["property"],
            ", ".join(_some(dict.fromkeys(broken_by(one) for one in several))),
            ", ".join(str(shortest) for _, shortest in _reached(several)),
            _causes_of(several),
        )
    return shown


def leading_on(line: Sequence[Numbered]) -> str:
    """The commands that make the calls of a line's first finding again, and that explain its property."""
    number, first = line[0]
    script = f"{reproducing(first)}; " if first.get("id") else ""
    return f"{number}: {script}{explaining(first['property'])}"


def _reached(several: Sequence[Message]) -> list[tuple[str, int]]:
    """Each reach with the length of the shortest that has it: what misuse does sooner says nothing of an engine."""
    reaches = ((reach, [one["length"] for one in several if one["reach"] == reach]) for reach in REACHES)
    return [(reach, min(lengths)) for reach, lengths in reaches if lengths]


def _numbers(numbers: Sequence[int]) -> str:
    """`4`, or `4-9`: the findings of a line follow one another."""
    return str(numbers[0]) if len(numbers) == 1 else f"{min(numbers)}-{max(numbers)}"


def _some(texts: Iterable[str]) -> list[str]:
    """The first texts, at most as many as fit into a cell of the table."""
    every = list(texts)
    return every if len(every) <= MOST_IN_A_CELL else [*every[:MOST_IN_A_CELL], "..."]


def _causes_of(several: Sequence[Message]) -> str:
    """Entries that are causes with their public threads, then whether something is unattributed or new."""
    causes = dict.fromkeys(number for one in several for number in one["catalogue"])
    issues = dict.fromkeys(issue for one in several for issue in one["issues"])
    without = dict.fromkeys(one["certainty"] for one in several if is_new(one))
    public = f" ({', '.join(_some(issues))})" if issues else ""
    return "; ".join(part for part in (f"{', '.join(_some(causes))}{public}".strip(), *without) if part)


def found_in(searches: Iterable[EraSearch]) -> list[Message]:
    """Of all searches, ranked."""
    return ranked(message for done in searches for message in messages(done))


def rendered_searches(
    searches: Sequence[EraSearch], found: Sequence[Message], wanted: Sequence[int], *, every: bool = False
) -> Iterator[Any]:
    """The table of violations, what was done for it, where it was hindered, and the findings that are asked for."""
    if not searches:
        return
    calls = sum(done.hunt.steps + done.alone for done in searches)
    beside = sum(done.hunt.tally.steps + done.alone for done in searches)
    lines = folded(found)
    yield ""
    yield f"{len(lines)} properties broken in {len(found)} ways, each seen on the release (seed {searches[0].seed})"
    states = sum(done.hunt.states for done in searches)
    yield f"looked for in {states:,} states and {calls:,} random calls, {beside:,} of these made on the release at once"
    if found:
        yield from _table_with_legend(lines, every=every)
    for done in searches:
        if done.failure:
            yield f"{done.era.component} of {done.era.release.name}: the driver failed: {done.failure}"
        if done.hint:
            yield _hinting(done)
        for finding in () if done.hint else done.hunt.disagreements[:1]:
            yield ""
            yield from (f"{done.era.component} of {done.era.release.name}: not as the era:", FORMATS["table"](finding))
    for number, message in enumerate(found, 1):
        if number in wanted or 0 in wanted:
            yield ""
            yield from in_full(number, message)
    for number in wanted:
        if number > len(found):
            yield f"--show {number}: there is no violation of this number, but {len(found)} in all"


def _hinting(done: EraSearch) -> str:
    """What a search beside an era says that the release is not."""
    era, parted = done.era, len(done.hunt.disagreements)
    like = f"{era.variant} of {era.like.name}" if era.like is not None else era.variant
    return (
        f"{era.component} of {era.release.name} is as no era: searched beside {like} as a hint, from which it parted "
        f"{count(parted, 'time')}; each finding was made by both"
    )


def _table_with_legend(lines: Sequence[Sequence[Numbered]], *, every: bool) -> Iterator[Any]:
    shown = lines if every else lines[:LINES]
    yield as_table(shown)
    yield from ("", *(leading_on(line) for line in shown), "")
    if len(shown) < len(lines):
        yield f"{count(len(lines) - len(shown), 'more line')}: --all"
    yield "severity: " + "; ".join(f"{severity.value}: {says}" for severity, says in SAYS.items())
    yield "reach: " + "; ".join(f"{name}: {says}" for name, says in REACHES.items())
    yield "the calls of one: --show NUMBER, with the same seed; of all: --show 0, or --json"
