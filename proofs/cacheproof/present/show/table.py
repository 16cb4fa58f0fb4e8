"""A finding as text: its steps, the two columns, the violated rule, and the next steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cacheproof.model.finding import Difference, Finding
from cacheproof.model.observed import observation_texts
from cacheproof.model.wording import answer_text, changes, operation_text, remarks, title
from cacheproof.present.show.reading import Reading
from cachespec.kernel import Kind

STYLES = {Kind.CALL: "", Kind.INTERNAL: "dim", Kind.FAULT: "yellow"}


def to_table(finding: Finding) -> Any:
    """The finding as a rich renderable."""
    reading = Reading(finding)
    return Group(_steps(reading), *_columns(reading), *(Text(*line) for line in _lines(reading)))


def _steps(reading: Reading) -> Table:
    """The calls, and the specification's answers and observables."""
    trace, model = reading.trace, reading.columns[0]
    table = Table(title=Text(title(reading.finding)), title_justify="left", show_edge=False, pad_edge=False)
    outcome = "outcome" if not isinstance(reading.finding, Difference) else f"{model}: outcome"
    for heading in ("step", "operation", "from", "to", outcome, "what it changed"):
        table.add_column(heading, justify="right" if heading == "step" else "left", overflow="fold")
    first = observation_texts(reading.subject.component, trace.initial)
    table.add_row("", Text("at first", "dim"), "", "", "", Text("  ".join(first)))
    for number, (step, changed) in enumerate(zip(trace.steps, changes(trace), strict=True)):
        source, destination = step.operation.lane
        cells = (
            operation_text(step.operation),
            source,
            destination,
            answer_text(type(step.operation), step.outcome),
            "  ".join(changed),
        )
        mark = "↻ " if trace.cycle is not None and number >= trace.cycle else ""
        style = STYLES[step.operation.kind]
        table.add_row(f"{mark}{number + 1}", *(Text(cell, style) for cell in cells))
    return table


def _columns(reading: Reading) -> Iterator[Any]:
    """The differences, the specification beside the implementation."""
    if reading.rows:
        table = Table(show_edge=False, pad_edge=False)
        for heading in ("", *reading.columns):
            table.add_column(heading, overflow="fold")
        for row in reading.rows:
            table.add_row(row.name, Text(row.specification), Text(row.yours, "bold red"))
        where = f"after {reading.at}" if reading.trace.steps else "in the initial state"
        yield Text(f"\nthey differ {where}:", "bold red")
        yield table


def _lines(reading: Reading) -> Iterator[tuple[str, str]]:
    """The error, its settings, and the next steps: texts with their styles."""
    trace = reading.trace
    if not reading.rows:
        yield from ((line, "bold red") for line in remarks(reading.finding))
    else:
        yield from ((str(rule), "bold") for rule in reading.rules)
    if reading.clause is not None:
        where = f" ({reading.clause.values})" if reading.clause.values else ""
        yield f"false in {reading.clause.function}: {reading.clause.text}{where}", "red"
    if reading.own and (reading.rows or getattr(reading.finding, "details", "")):
        yield "the implementation itself:", ""
        yield from ((f"  {line}", "dim") for line in reading.own.splitlines())
    yield f"configuration: {reading.configuration}", "dim"
    if trace.cycle is not None:
        yield f"↻ steps {trace.cycle + 1} to {len(trace.steps)} come again and again", "bold red"
    yield from ((f"next: {step}", "") for step in reading.next_steps)
