"""A trace as a table: one row for each step, and what it changed."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from cacheproof.model.finding import Finding
from cacheproof.model.wire import config_to_message
from cacheproof.model.wording import answer_text, changes, hints, observation_texts, operation_text, remarks, title
from cachespec.kernel import Kind

STYLES = {Kind.CALL: "", Kind.INTERNAL: "dim", Kind.FAULT: "yellow"}


def to_table(finding: Finding) -> Any:
    """The finding as a rich renderable."""
    trace = finding.trace
    table = Table(title=Text(title(finding)), title_justify="left", show_edge=False, pad_edge=False)
    for heading in ("step", "operation", "from", "to", "outcome", "what it changed"):
        table.add_column(heading, justify="right" if heading == "step" else "left", overflow="fold")
    table.add_row("", Text("at first", "dim"), "", "", "", Text("  ".join(observation_texts(trace.initial))))
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
    config = ", ".join(f"{name} {value}" for name, value in config_to_message(trace.config).items())
    lines = [Text(f"configuration: {config}", "dim"), *(Text(line, "bold red") for line in remarks(finding))]
    lines += [Text(line) for line in hints(finding)]
    if trace.cycle is not None:
        lines.append(Text(f"↻ steps {trace.cycle + 1} to {len(trace.steps)} come again and again", "bold red"))
    return Group(table, *lines)
