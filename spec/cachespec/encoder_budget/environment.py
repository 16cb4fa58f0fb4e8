"""Which settings a scope tries, and which items arrive."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.encoder_budget.state import Budget
from cachespec.kernel import Operation


def calls(config: Config, budget: Budget) -> Iterable[Operation]:
    """Every setting at any time; every item once an engine has started."""
    for choice in product(
        config.batches,
        config.sequences,
        config.limits or (tuple(1 for _ in config.embeds),),
        config.embeddings,
        config.chunked,
        config.whole,
        config.thresholds,
        config.alignments,
        config.computes,
        config.spaces,
    ):
        yield Configure(*choice)
    if budget.configured:
        for item in range(len(config.items)):
            yield Admit(item)


def unknown(config: Config, operation: Operation) -> str | None:
    """An item that is never sent, or settings that no engine accepts."""
    if isinstance(operation, Admit):
        known = operation.item < len(config.items)
        return None if known else f"there is no item {operation.item}: there are {len(config.items)}"
    if isinstance(operation, Configure):
        return _unknown_setting(config, operation)
    return None


def _unknown_setting(config: Config, op: Configure) -> str | None:
    if len(op.limits) != len(config.embeds):
        return f"limits must have one number for each of {len(config.embeds)} modalities"
    if min(op.batch_tokens, op.sequences, op.alignment) <= 0:
        return "batch_tokens, sequences and alignment must be positive"
    if max(op.embeddings, op.chunked_prefill, op.whole_items) > 1:
        return "embeddings, chunked_prefill and whole_items must be 0 or 1"
    return None
