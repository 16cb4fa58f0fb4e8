"""Bugs in the encoder's budgets, and in the check of an item at intake."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .declaring import Place, meanwhile

FORMULA = Place("vllm.v1.core.encoder_cache_manager")
BUDGET = Place("vllm.multimodal.encoder_budget:MultiModalBudget")
INTAKE = Place("vllm.v1.engine.input_processor:InputProcessor")
BY_CLASS = "0.20.2"
"""From then on a class computes how many items there may be, and intake checks each item."""


def with_settings(config: Any, **changed: Any) -> Any:
    """The same configuration with some settings changed."""
    return SimpleNamespace(**{**vars(config), **changed})


@FORMULA.broken("compute_mm_encoder_budget", since="0.11.0")
def largest_item_is_ignored(released: Any, config: Any, sizes: Any) -> Any:
    """The budgets are the step's tokens even if an item is larger."""
    compute, space = released(config, sizes)
    return (min(compute, config.max_num_encoder_input_tokens), min(space, config.encoder_cache_size))


@FORMULA.broken("compute_mm_encoder_budget", since="0.11.0")
def smallest_item_counts(released: Any, config: Any, sizes: Any) -> Any:
    """The budgets have room for the smallest item, not for the largest."""
    smallest = min(sizes.items(), key=lambda one: one[1], default=None)
    return released(config, {} if smallest is None else dict([smallest]))


@FORMULA.broken("compute_mm_encoder_budget", since="0.11.0")
def one_item_more(released: Any, config: Any, sizes: Any) -> Any:
    """The cache has room for one token more than it should."""
    compute, space = released(config, sizes)
    return compute, space + 1


@FORMULA.broken("compute_mm_encoder_budget", since="0.11.0")
def whole_items_are_not_checked(released: Any, config: Any, sizes: Any) -> Any:
    """An item that never fits a step is accepted although items are not split."""
    return released(with_settings(config, disable_chunked_mm_input=False), sizes)


@FORMULA.broken("compute_mm_encoder_budget", since="0.11.0")
def nothing_without_chunks(released: Any, config: Any, sizes: Any) -> Any:
    """If items are not split, an item as large as a step is rejected."""
    if config.disable_chunked_mm_input:
        config = with_settings(config, max_num_batched_tokens=config.max_num_batched_tokens - 1)
    return released(config, sizes)


@FORMULA.broken("_compute_encoder_budget_multimodal", until="0.7.3")
def largest_item_plays_no_part(released: Any, model: Any, config: Any) -> Any:
    """The budgets are the step's tokens even if an item is larger."""
    return tuple(min(one, config.max_num_batched_tokens) for one in released(model, config))


@FORMULA.broken("_compute_encoder_budget_multimodal", until="0.7.3")
def one_token_more(released: Any, model: Any, config: Any) -> Any:
    """The cache has room for one token more than it should."""
    compute, space = released(model, config)
    return compute, space + 1


@BUDGET.broken("_get_max_items", since=BY_CLASS)
def limit_is_ignored(released: Any, budget: Any, modality: str, size: int) -> Any:
    """The maximum number of items of a modality per prompt is ignored."""
    with meanwhile(budget, mm_limits=dict.fromkeys(budget.mm_limits, 1 << 30)):
        return released(modality, size)


@BUDGET.broken("_get_max_items", since=BY_CLASS)
def requests_do_not_count(released: Any, budget: Any, modality: str, size: int) -> Any:
    """The maximum number of requests is ignored."""
    with meanwhile(budget, max_num_reqs=1 << 30):
        return released(modality, size)


@BUDGET.broken("_get_max_items", since=BY_CLASS)
def model_length_is_ignored(released: Any, budget: Any, modality: str, size: int) -> Any:
    """The maximum length of a prompt is ignored."""
    with meanwhile(budget, max_model_len=1 << 30):
        return released(modality, size)


@BUDGET.broken("get_encoder_budget", since=BY_CLASS)
def larger_budget_counts(released: Any, budget: Any) -> Any:
    """The items of a batch are counted against twice the budget."""
    return 2 * released()


@INTAKE.broken("_validate_model_input", since=BY_CLASS)
def nothing_is_too_large(released: Any, processor: Any, *given: Any, **named: Any) -> Any:
    """An item larger than the cache is accepted."""


@INTAKE.broken("_validate_model_input", since=BY_CLASS)
def as_large_is_too_large(released: Any, processor: Any, *given: Any, **named: Any) -> Any:
    """An item as large as the cache is rejected."""
    processor.mm_encoder_cache_size -= 1
    released(*given, **named)


@INTAKE.broken("_validate_model_input", since=BY_CLASS)
def tokens_count(released: Any, processor: Any, prompt: Any, **named: Any) -> Any:
    """An item is measured by its tokens, not by its embeddings."""
    for places in prompt["mm_placeholders"].values():
        for place in places:
            place.__dict__["get_num_embeds"] = lambda length=place.length: length
    released(prompt, **named)
