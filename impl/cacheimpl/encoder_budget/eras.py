"""The encoder budgets of earlier eras, on request.

Each is an era of the specification's `encoder_budget`, by its tag, with the faults that the catalogue lists. Use them
to reproduce an engine of that time. For releases from 0.11.0 on pass `as_released=True` (B4, B5).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from cacheimpl.encoder_budget.errors import InvalidSettingError, ItemTooLargeError, ItemTooLongError
from cacheimpl.encoder_budget.rules import EncoderBudget, Settings, largest_of, positive, settings_of, too_long, whole


class BudgetEra(Enum):
    """When, and how."""

    CONSTANTS = "B0"
    """2024-12: two constants, whatever the model (C-ENC-22)."""
    ONE_MORE = "B1"
    """2025-01, as #11895 was proposed: the items that a step can hold, and one more, but no more than requests."""
    ONE_MORE_AS_REVIEWED = "B2"
    """2025-01, as it was reviewed: no more than requests times items in each."""
    MERGED = "B3"
    """2025-02, as merged, and released with 0.7.3: the larger of a step and the largest item, in tokens (C-ENC-17)."""
    AS_SET = "B6"
    """2026-02, on main and in no release (#34051): both can be set, in embeddings (C-ENC-23)."""


class EraBudget(NamedTuple):
    """The budgets of an era."""

    compute: int
    """Embeddings that the encoder computes in one step."""
    space: int
    """Embeddings that its cache holds."""
    settings: Settings
    looks: bool
    """Whether the size of an arriving item is checked (C-ENC-11)."""

    def check_item(self, embeds: int) -> None:
        """Raises `ItemTooLargeError` if the era checks sizes and the item is larger than the cache."""
        whole("embeds, of the item,", embeds)
        if self.looks and embeds > self.space:
            raise ItemTooLargeError(f"the item has {embeds} embeddings, and the cache keeps {self.space}")

    def profiled(self, size: int, limit: int, model_tokens: int) -> tuple[int, int]:
        """Items of one modality in a prompt, and in a batch that the encoder is profiled with; as `EncoderBudget`."""
        return EncoderBudget(self.compute, self.space, None, self.settings).profiled(size, limit, model_tokens)


def budget_of_era(
    era: BudgetEra,
    scheduler_config: Any,
    sizes: Mapping[str, int],
    *,
    limits: Mapping[str, int] | None = None,
    constant: int = 2048,
) -> EraBudget:
    """The budgets of one of these eras.

    `sizes`: the largest item of each modality that is on, in tokens (B6: in embeddings). `limits`: how many items of
    each a prompt may have, for B2. `constant`: B0's. B6 writes the raised settings into `scheduler_config`, as it
    did: a later engine with the same configuration takes them for the user's. Raises `InvalidSettingError`; B6 also
    `ItemTooLongError`.
    """
    if not isinstance(era, BudgetEra):
        raise InvalidSettingError(f"era must be one of {[known.name for known in BudgetEra]}, not {era!r}")
    settings, largest = settings_of(scheduler_config), largest_of(sizes)
    most = max(1, largest_of({} if limits is None else limits))
    if era is BudgetEra.CONSTANTS:
        both = positive("constant", constant)
    elif era is BudgetEra.AS_SET:
        return _as_set(scheduler_config, settings, largest)
    elif largest == 0:
        both = 0
    elif era is BudgetEra.MERGED:
        both = max(settings.batch_tokens, largest)
    else:
        there_can_be = settings.sequences * (most if era is BudgetEra.ONE_MORE_AS_REVIEWED else 1)
        both = min(-(-settings.batch_tokens // largest) + 1, there_can_be) * largest
    return EraBudget(both, both, settings, looks=False)


def _as_set(scheduler_config: Any, settings: Settings, largest: int) -> EraBudget:
    """B6. What is too small is raised, and what it was raised to is kept as if it had been asked for (C-ENC-23)."""
    asked = getattr(scheduler_config, "encoder_cache_size", None) or settings.compute
    if asked < settings.compute:
        raise InvalidSettingError(
            f"encoder_cache_size must be {settings.compute} or more, as the compute budget is, not {asked}"
        )
    if settings.whole_items and largest > settings.batch_tokens:
        raise ItemTooLongError(too_long("the largest item", largest, settings.batch_tokens))
    if largest == 0:
        return EraBudget(0, 0, settings, looks=True)
    raised = EraBudget(max(settings.compute, largest), max(asked, largest), settings, looks=True)
    scheduler_config.max_num_encoder_input_tokens = raised.compute
    scheduler_config.encoder_cache_size = raised.space
    return raised
