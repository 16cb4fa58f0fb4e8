"""What rich renders, as plain text: for reports that are no terminal."""

from __future__ import annotations

import io
from typing import Any

from cacheproof.model.finding import Finding
from cacheproof.present.show.table import to_table

COLUMNS = 120


def finding_as_text(finding: Finding) -> str:
    """A finding as text without colours."""
    return as_text(to_table(finding))


def as_text(part: Any, columns: int = COLUMNS) -> str:
    """A string as it is, a rich renderable without colours; every line ends where its text does."""
    if isinstance(part, str):
        return part
    from rich.console import Console  # noqa: PLC0415  # not on the way of what has only strings

    written = io.StringIO()
    Console(file=written, width=columns, markup=False, highlight=False, color_system=None).print(part)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
