"""A comparison of two implementations: a table, each difference in two columns, and a summary in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cacheproof.foundation.errors import ExitStatus
from cacheproof.foundation.junit import STATUSES, Case, CaseStatus
from cacheproof.model.finding import Answer, said
from cacheproof.model.registry import component_named
from cacheproof.model.wire import Message, observations_to_message, operation_from_message, outcome_to_message
from cacheproof.model.wording import count, operation_text, settings
from cacheproof.present.show.plain import as_text
from cacheproof.releases.against.judging import Broken
from cacheproof.releases.against.parted import Parted, answered
from cacheproof.releases.against.running import Compared

Names = tuple[str, str]
"""Of the target and of the base."""
MOST_FILES = 5
"""Changed files that are named one by one."""


def status_of(every: Iterable[Compared]) -> ExitStatus:
    """A difference falls short. If a driver failed, or nothing was run, there is no answer."""
    lines = list(every)
    if any(one.parted is not None for one in lines):
        return ExitStatus.FELL_SHORT
    run = [one for one in lines if not one.spared]
    return ExitStatus.AS_EXPECTED if run and all(one.agrees for one in run) else ExitStatus.INCONCLUSIVE


def verdict(one: Compared) -> str:
    """In words, and no stronger than what was seen."""
    if one.parted is not None:
        return one.parted.where
    if one.ran.failure:
        return f"no answer: {one.ran.failure}"
    if one.spared:
        return "not run: it reads no changed file"
    return "no difference" if one.ran.steps else "not run"


def calls_of(parted: Parted) -> list[str]:
    """Each call as people write it."""
    operations = component_named(parted.component).operations
    return [operation_text(operation_from_message(operations, call)) for call in parted.calls]


def notes(changed: Mapping[str, Sequence[str]] | None, left_out: Sequence[str]) -> list[str]:
    """The notes under the table: the changed files, each with the components that read it, and the files left out.

    `changed` is None if the sides are no releases.
    """
    said_of = [f"changed: {file}, read by {', '.join(readers)}" for file, readers in (changed or {}).items()]
    if len(said_of) > MOST_FILES:
        said_of = [f"changed: {len(said_of)} files that drivers read"]
    same = ["no file differs that a driver reads: one short round is all"] if changed == {} else []
    return [*said_of, *same, *(f"left out: {one}" for one in left_out)]


def rendered(every: Sequence[Compared], names: Names, said_below: Sequence[str]) -> list[Any]:
    """The table of components with these notes, then each difference."""
    table = Table(box=None)
    for name in ("component", "calls", "states", "seconds", "verdict"):
        table.add_column(name, justify="left" if name in ("component", "verdict") else "right")
    for one in every:
        seconds = f"{one.ran.seconds:.1f}"
        table.add_row(one.line.name, f"{one.ran.steps:,}", f"{one.ran.states:,}", seconds, Text(verdict(one)))
    parts: list[Any] = [table, *map(Text, said_below)]
    for one in every:
        if one.parted is not None:
            parts += ["", difference(one.parted, names)]
    return parts


def difference(parted: Parted, names: Names) -> Any:
    """The calls with both answers, what differs after the last, and the properties that one side breaks."""
    table = Table(title=Text(f"{parted.component}: {names[0]} against {names[1]}"), title_justify="left", box=None)
    table.add_column("", justify="right")
    for name in ("call", names[1], names[0]):
        table.add_column(name, overflow="fold")
    for number, (call, (base, target)) in enumerate(zip(calls_of(parted), parted.answers[1:], strict=True), 1):
        same = base.outcome == target.outcome
        table.add_row(str(number), Text(call), Text(said(base.outcome)), Text("the same" if same else answered(target)))
    for name, ours, theirs in parted.differing:
        if name != "answer":
            table.add_row("", Text(f"then {name}", "bold red"), Text(ours), Text(theirs, "bold red"))
    lines = [f"configuration: {configuration(parted)}", *_breaking(parted, names)]
    if not parted.came_again:
        lines.append("the same calls did not show it again: one side does not always answer the same")
    return Group(table, *map(Text, lines))


def configuration(parted: Parted) -> str:
    """The settings that are not as by default."""
    return settings(component_named(parted.component).config, parted.config)


def _breaking(parted: Parted, names: Names) -> Iterator[str]:
    both = ((names[0], parted.target_breaks, names[1]), (names[1], parted.base_breaks, names[0]))
    for side, broken, other in both:
        for one in broken:
            yield f"{side} breaks {one.rule}, and {other} does not: {one.statement}"
    if not parted.target_breaks and not parted.base_breaks:
        yield "no property is known that one side breaks and the other does not"


def markdown(every: Sequence[Compared], names: Names, said_below: Sequence[str], *, interrupted: bool) -> str:
    """A summary for a page of a CI service."""
    different = [one for one in every if one.parted is not None]
    unknown = [one for one in every if one.parted is None and not one.agrees and not one.spared]
    head = f"{count(len(different), 'component')} {'differ' if len(different) != 1 else 'differs'}"
    otherwise = "no answer" if unknown or interrupted else "no difference"
    lines = [f"### {names[0]} against {names[1]}: {head if different else otherwise}", ""]
    if interrupted:
        lines += ["The run was interrupted: the table has what was known by then.", ""]
    if unknown:
        lines += [f"There is no answer for {', '.join(one.line.name for one in unknown)}.", ""]
    lines += ["| component | calls | verdict |", "| --- | ---: | --- |"]
    lines += [f"| {one.line.name} | {one.ran.steps:,} | {_cell(verdict(one))} |" for one in every]
    lines += ["", *(f"- {one}" for one in said_below)]
    for one in different:
        assert one.parted is not None
        lines += ["", f"#### {one.line.name}", ""]
        lines += [f"- {line}" for line in _breaking(one.parted, names)]
        text = as_text(difference(one.parted, names), 160).rstrip()
        lines += [
            "",
            "<details><summary>The calls, with both answers</summary>",
            "",
            "```text",
            text,
            "```",
            "",
            "</details>",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def case(one: Compared, names: Names) -> Case:
    """A component for a CI service."""
    return Case(
        "conform.against",
        f"{one.line.name}: {names[0]} against {names[1]}",
        CaseStatus.SKIPPED if one.spared else STATUSES[status_of([one])],
        "" if one.agrees else verdict(one),
        "" if one.parted is None else as_text(difference(one.parted, names)),
        one.ran.seconds,
        {"steps": one.ran.steps},
    )


def message(one: Compared) -> Message:
    """A component for a machine."""
    return {
        "component": one.line.component,
        "variant": one.line.alphabet,
        "window": one.line.window,
        "steps": one.ran.steps,
        "episodes": one.ran.episodes,
        "states": one.ran.states,
        "seconds": round(one.ran.seconds, 3),
        "operations": one.ran.operations,
        "observables": sorted(one.ran.observables),
        "failure": one.ran.failure or None,
        "difference": None if one.parted is None else _message_of(one.parted),
    }


def _message_of(parted: Parted) -> Message:
    return {
        "where": parted.where,
        "config": parted.config,
        "calls": list(parted.calls),
        "base": [_answer_message(base) for base, _ in parted.answers],
        "target": [_answer_message(target) for _, target in parted.answers],
        "differing": [{"what": name, "base": ours, "target": theirs} for name, ours, theirs in parted.differing],
        "target_breaks": [_broken_message(one) for one in parted.target_breaks],
        "base_breaks": [_broken_message(one) for one in parted.base_breaks],
        "came_again": parted.came_again,
    }


def _answer_message(answer: Answer) -> Message:
    outcome = None if answer.outcome is None else outcome_to_message(answer.outcome)
    return {"outcome": outcome, "observations": observations_to_message(answer.observations), "remark": answer.remark}


def _broken_message(one: Broken) -> Message:
    return {"property": one.rule, "statement": one.statement, "by": one.by}
