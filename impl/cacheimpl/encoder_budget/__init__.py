"""The encoder's budgets: how much it computes in a step, how much its cache holds, and which items are let in."""

from cacheimpl.encoder_budget.eras import BudgetEra, EraBudget, budget_of_era
from cacheimpl.encoder_budget.errors import (
    EncoderBudgetError,
    InvalidSettingError,
    ItemTooLargeError,
    ItemTooLongError,
)
from cacheimpl.encoder_budget.functions import (
    MultiModalBudget,
    compute_encoder_budget,
    compute_mm_encoder_budget,
    encoder_budget,
)
from cacheimpl.encoder_budget.rules import EncoderBudget, Settings

__all__ = [
    "BudgetEra",
    "EncoderBudget",
    "EncoderBudgetError",
    "EraBudget",
    "InvalidSettingError",
    "ItemTooLargeError",
    "ItemTooLongError",
    "MultiModalBudget",
    "Settings",
    "budget_of_era",
    "compute_encoder_budget",
    "compute_mm_encoder_budget",
    "encoder_budget",
]
