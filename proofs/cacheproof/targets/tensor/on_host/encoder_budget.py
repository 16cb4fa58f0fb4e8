"""`encoder_budget`: the functions that an engine calls when it starts."""

from __future__ import annotations

from cacheimpl.encoder_budget import BudgetEra
from cacheproof.model.target import Target
from cacheproof.targets.tensor.encoder_budget_functions import BudgetTarget, EraTarget, FunctionTarget
from cachespec.kernel import NORMATIVE

ERAS = (*(era.value for era in BudgetEra), "B4", "B5")
"""What can be asked for beside the normative variant."""


def open_face(era: str = NORMATIVE) -> Target:
    """`MultiModalBudget`, with the normative rules or as 0.20.2 had it; the function of 0.11; or an earlier rule."""
    if era == "B4":
        return FunctionTarget()
    if era in ("B5", NORMATIVE):
        return BudgetTarget(as_released=era == "B5")
    return EraTarget(BudgetEra(era))
