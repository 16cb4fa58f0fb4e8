"""`cacheproof status`: what the last runs say of each component."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from cacheproof.foundation.console import Report
from cacheproof.model.registry import AnyComponent, component_named, components
from cacheproof.model.store import home, load_all
from cacheproof.present.evidence import METHODS, Evidence, evidence
from cacheproof.present.strength import STRENGTHS, known_of

PANEL = "Check and prove"


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to show.", show_default="all")
    ] = None,
    *,
    properties: Annotated[
        bool,
        typer.Option(
            "--properties",
            help="Show how strongly each property is known by the proofs and scope files (default: stored results).",
        ),
    ] = False,
) -> Report:
    """Summarise the stored results of each component by method, or say how strongly each property is known."""
    chosen = [component_named(name) for name in dict.fromkeys(names)] if names else list(components().values())
    if properties:
        return of_properties(chosen)
    cells = evidence(chosen, load_all())
    rows = [{**asdict(cell), "text": cell.text} for cell in cells]
    tables = [
        table_of(component.name, [cell for cell in cells if cell.component == component.name]) for component in chosen
    ]
    return Report({"rows": rows, "home": str(home())}, [*tables, f"from the runs in {home()}"])


def of_properties(chosen: list[AnyComponent]) -> Report:
    """One line for each property, and how many there are of each strength."""
    known = [one for component in chosen for one in known_of(component)]
    headings = ("component", "property", "strength", "where, or why not more")
    table = Table(*(Column(name, overflow="fold") for name in headings), box=None)
    for one in known:
        table.add_row(*one)
    counts = {strength: sum(one.strength == strength for one in known) for strength in STRENGTHS}
    last = ", ".join(f"{number} {strength}" for strength, number in counts.items())
    return Report({"properties": [one._asdict() for one in known], "counts": counts}, [table, last])


def table_of(name: str, cells: list[Evidence]) -> Table:
    """One component, a line for each method."""
    table = Table(title=name, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(min_width=max(len(method.name) for method in METHODS))
    table.add_column(overflow="fold")
    for cell in cells:
        table.add_row(cell.method, cell.text)
    return table
