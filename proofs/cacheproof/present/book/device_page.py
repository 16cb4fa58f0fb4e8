"""Tables of what `cacheproof device` checks and measures, from the same list that it runs."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.device.listing import CHECKS, FIGURES, Figure
from cacheproof.device.records import (
    CHECK_COLUMNS,
    FIGURE_COLUMNS,
    KERNEL_COLUMNS,
    KERNELS,
    MEASURED,
    check_rows,
    figure_rows,
    kernel_rows,
    machine_line,
    record,
)
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.tables import markdown_table


def device_part(words: Sequence[str]) -> str:
    """`checks`, `figures`, `kernels`, `passed` or `measured`."""
    if list(words) == ["checks"]:
        rows = [(f"`{check.name}`", check.about, check.without_a_device) for check in CHECKS]
        return markdown_table(("check", "on a device", "on a CPU"), rows)
    if list(words) == ["figures"]:
        shown = [(f"`{one.name}`", one.about, one.unit, goal(one), where(one)) for one in FIGURES]
        return markdown_table(("figure", "meaning", "unit", "goal", "machine"), shown)
    if list(words) == ["kernels"]:
        return markdown_table(KERNEL_COLUMNS, kernel_rows(record(KERNELS)))
    if list(words) == ["passed"]:
        return markdown_table(CHECK_COLUMNS, check_rows(record(MEASURED)))
    if list(words) == ["measured"]:
        measured = record(MEASURED)
        table = markdown_table(FIGURE_COLUMNS, figure_rows(measured))
        return f"{machine_line(measured['machine'])}\n\n{table}"
    parts = "checks, figures, kernels, passed and measured"
    raise InputError(f"nothing of a device is called '{' '.join(words)}': there are {parts}")


def goal(figure: Figure) -> str:
    """The commands, and the machine for each."""
    if figure.goal is None:
        return ""
    return f"{'at most' if figure.goal_is_most else 'at least'} {figure.goal:,g} on an {figure.goal_on}"


def where(figure: Figure) -> str:
    """Whether it means anything on a CPU."""
    return "CUDA only" if figure.needs_cuda else "CUDA; on a CPU its own time"
