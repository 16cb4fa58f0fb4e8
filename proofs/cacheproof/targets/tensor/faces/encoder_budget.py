"""`encoder_budget`: the functions that an engine calls when it starts."""

from __future__ import annotations

from cacheproof.targets.target import Target
from cacheproof.targets.tensor.encoder_budget_functions import BudgetTarget


def open_face() -> Target:
    """`MultiModalBudget`, with the normative rules."""
    return BudgetTarget(as_released=False)
