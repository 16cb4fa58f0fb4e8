"""Tables of what `cacheproof device` checks and measures, from the same list that it runs."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproof.device.estimate import KERNEL_COLUMNS, MODEL_COLUMNS, kernel_rows, model_rows, recorded
from cacheproof.device.listing import CHECKS, FIGURES, Figure
from cacheproof.foundation.errors import InputError
from cacheproof.present.book.tables import markdown_table


def device_part(words: Sequence[str]) -> str:
    """`checks`, `figures`, `kernels` or `model`."""
    if list(words) == ["checks"]:
        rows = [(f"`{check.name}`", check.about, check.without_a_device) for check in CHECKS]
        return markdown_table(("check", "on a device", "on a CPU"), rows)
    if list(words) == ["figures"]:
        shown = [(f"`{one.name}`", one.about, one.unit, goal(one), where(one)) for one in FIGURES]
        return markdown_table(("figure", "meaning", "unit", "goal", "machine"), shown)
    if list(words) == ["kernels"]:
        return markdown_table(KERNEL_COLUMNS, kernel_rows(recorded()))
    if list(words) == ["model"]:
        return markdown_table(MODEL_COLUMNS, model_rows(recorded()))
    parts = "checks, figures, kernels and model"
    raise InputError(f"nothing of a device is called '{' '.join(words)}': there are {parts}")


def goal(figure: Figure) -> str:
    """The commands, and the machine for each."""
    if figure.goal is None:
        return ""
    return f"{'at most' if figure.goal_is_most else 'at least'} {figure.goal:,g} on an {figure.goal_on}"


def where(figure: Figure) -> str:
    """Whether it means anything on a CPU."""
    return "CUDA only" if figure.needs_cuda else "CUDA; on a CPU its own time"
