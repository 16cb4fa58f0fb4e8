"""Consecutive releases: the eras that each agrees with, and where each parts from the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named, components
from cacheproof.model.wire import operation_from_message
from cacheproof.model.wording import count, operation_text, settings
from cacheproof.present.book.tables import anchor, markdown_table
from cacheproof.releases.results.consecutive import FOLDER, failure_of, failure_of_row, failures
from cacheproof.releases.results.record import Beside, Record, load_all

FAILED = "**driver failed**"
NOT_DRIVEN = "not driven"
NONE = "none"
SAME = "no difference"
UNCHANGED = "same files"

LONGEST = 200
"""Characters of a value or an answer on the page; the record has the whole."""


def consecutive_part(words: Sequence[str]) -> str:
    """`eras`, `neighbours`, `failures`, `runs` or `differences`."""
    parts = {
        "eras": eras,
        "neighbours": neighbours,
        "failures": failed,
        "runs": runs,
        "differences": differences,
    }
    if len(words) != 1 or words[0] not in parts:
        raise InputError(f"say which part of the consecutive releases: {', '.join(parts)}")
    return parts[words[0]](load_all(FOLDER))


def eras(records: Sequence[Record]) -> str:
    """A row for each release, with the eras of each component that it agrees with."""
    names = _names(row.component for record in records for row in record.rows)
    rows = [[_version(record.target), *(_eras(record, name) for name in names)] for record in records]
    return markdown_table(["release", *names], rows)


def _eras(record: Record, component: str) -> str:
    rows = [row for row in record.rows if row.component == component]
    if any(map(failure_of_row, rows)):
        return FAILED
    agreeing = dict.fromkeys(row.label.partition(" ")[0] for row in rows if row.agrees)
    return ", ".join(agreeing) or (NONE if rows else NOT_DRIVEN)


def neighbours(records: Sequence[Record]) -> str:
    """A row for each release and the release before it, with the differences in each component."""
    pairs = [record for record in records if record.base]
    names = _names(one.component for record in pairs for one in record.beside)
    rows = [
        [
            f"{_version(record.base)}, {_version(record.target)}",
            str(len(record.changed)),
            *(_beside(record, name) for name in names),
        ]
        for record in pairs
    ]
    return markdown_table(["releases", "changed files", *names], rows)


def _beside(record: Record, component: str) -> str:
    lines = [one for one in record.beside if one.component == component]
    found = [f"[{_short(one, lines)}](#{anchor(_heading(record, one))})" for one in lines if one.where]
    found += [FAILED] if any(map(failure_of, lines)) else []
    seen = SAME if any(one.calls for one in lines) else UNCHANGED if lines else NOT_DRIVEN
    return ", ".join(found) or seen


def _short(one: Beside, lines: Sequence[Beside]) -> str:
    """With the variant, if there are several."""
    return "differs" if len(lines) == 1 else f"differs ({one.label})"


def failed(records: Sequence[Record]) -> str:
    """Each driver that failed, with the reason; or that none did."""
    every = [f"- {record.target}: {one}" for record in records for one in failures(record)]
    return "\n".join(every) or f"No driver failed in these {count(len(records), 'release')}."


def runs(records: Sequence[Record]) -> str:
    """How much was run for each release."""
    rows = [
        (
            record.target,
            record.date,
            str(record.seed),
            f"{record.steps:,}",
            f"{sum(row.calls for row in record.rows):,}",
            f"{sum(one.calls for one in record.beside):,}" if record.base else "first",
            f"`{record.specification}`",
        )
        for record in records
    ]
    headings = (
        "release",
        "day",
        "seed",
        "calls asked for",
        "beside eras",
        "beside the release before",
        "specification",
    )
    return markdown_table(headings, rows)


def differences(records: Sequence[Record]) -> str:
    """Each difference: the calls with both answers, what differs then, and the properties that one side breaks."""
    parts = [part for record in records for one in record.beside if one.where for part in _difference(record, one)]
    return "\n\n".join(parts) or "No difference was found."


def _difference(record: Record, one: Beside) -> Iterator[str]:
    kind = component_named(one.component)
    base, target = _version(record.base), _version(record.target)
    again = "" if one.came_again else " The same calls did not show it a second time."
    yield f"### {_heading(record, one)}"
    told = f"{target} {one.where}. The run made {count(one.calls, 'call')} until then.{again}"
    alike = next(other for other in record.beside if _calls_of(other) == _calls_of(one))
    if alike is not one:
        yield f"{told} The calls are [those of {alike.label}](#{anchor(_heading(record, alike))})."
        return
    yield f"{told} Configuration: `{settings(kind.config, one.config)}`."
    calls = [operation_text(operation_from_message(kind.operations, each)) for each in one.operations]
    lines = [f"{call} -> {_answers(*both)}" for call, both in zip(calls, one.answers, strict=True)]
    yield "```text\n" + "\n".join(lines or ["(in the initial state)"]) + "\n```"
    rows = [(f"`{name}`", f"`{_cut(ours)}`", f"`{_cut(theirs)}`") for name, ours, theirs in one.differing]
    yield markdown_table(("what differs", base, target), rows)
    broken = [f"- {target} breaks {rule}, and {base} does not: {statement}." for rule, statement in one.breaks]
    broken += [f"- {base} breaks {rule}, and {target} does not: {statement}." for rule, statement in one.base_breaks]
    yield "\n".join(broken) or "No property is known that one of them breaks and the other does not."


def _calls_of(one: Beside) -> tuple[object, ...]:
    return one.component, one.config, one.operations, one.answers


def _answers(base: str, target: str) -> str:
    return _cut(base) if base == target else f"{_cut(base)} | {_cut(target)}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def _heading(record: Record, one: Beside) -> str:
    return f"{_version(record.target)}: {one.component} {one.label}"


def _version(target: str) -> str:
    return target.partition("==")[2]


def _names(of: Iterator[str]) -> list[str]:
    there = set(of)
    return [name for name in components() if name in there]
