"""The encoder's budgets: how much it computes in a step, how much its cache holds, and which items are let in."""

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
    "EncoderBudget",
    "EncoderBudgetError",
    "InvalidSettingError",
    "ItemTooLargeError",
    "ItemTooLongError",
    "MultiModalBudget",
    "Settings",
    "compute_encoder_budget",
    "compute_mm_encoder_budget",
    "encoder_budget",
]
