"""`cacheproof status`: what the last runs say of each component."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from cacheproof.foundation.console import Report
from cacheproof.model.registry import component_named, components
from cacheproof.model.store import home, load_all
from cacheproof.present.evidence import METHODS, Evidence, evidence

PANEL = "Check and prove"


def command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="COMPONENT", help="Components to show.", show_default="all")
    ] = None,
) -> Report:
    """Summarise the stored results of each component by method."""
    chosen = [component_named(name) for name in dict.fromkeys(names)] if names else list(components().values())
    cells = evidence(chosen, load_all())
    rows = [{**asdict(cell), "text": cell.text} for cell in cells]
    tables = [
        table_of(component.name, [cell for cell in cells if cell.component == component.name]) for component in chosen
    ]
    return Report({"rows": rows, "home": str(home())}, [*tables, f"from the runs in {home()}"])


def table_of(name: str, cells: list[Evidence]) -> Table:
    """One component, a line for each method."""
    table = Table(title=name, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(min_width=max(len(method.name) for method in METHODS))
    table.add_column(overflow="fold")
    for cell in cells:
        table.add_row(cell.method, cell.text)
    return table
