"""`cacheproof list`: what there is."""

from __future__ import annotations

from cacheproof.command.console import Report
from cacheproof.registry import components


def command() -> Report:
    """Show the components, their variants, and their properties."""
    rows = [{"name": component.name, "summary": component.summary} for component in components().values()]
    return Report({"components": rows}, [f"{row['name']}: {row['summary']}" for row in rows])
