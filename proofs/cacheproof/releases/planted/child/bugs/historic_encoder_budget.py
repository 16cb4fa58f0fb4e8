"""Historic bugs in the encoder's budgets, and in the check of an item at intake."""

from __future__ import annotations

from typing import Any

from .declaring import PUT_BACK, Place

FORMULA = Place("vllm.v1.core.encoder_cache_manager")
INTAKE = Place("vllm.v1.engine.input_processor:InputProcessor")


@FORMULA.broken("compute_mm_encoder_budget", since=PUT_BACK, fixed="#11895")
def model_plays_no_part_in_the_budgets(released: Any, config: Any, sizes: Any) -> Any:
    """The budgets are constants of the engine, and the largest item of the model can exceed them."""
    compute, space = released(config, sizes)
    return min(compute, config.max_num_encoder_input_tokens), min(space, config.encoder_cache_size)


@INTAKE.broken("_validate_model_input", since=PUT_BACK, fixed="#33110", reported="#26223")
def item_larger_than_the_cache_is_admitted(released: Any, processor: Any, *given: Any, **named: Any) -> Any:
    """An item that is larger than the encoder cache is admitted, and its request waits for ever."""


@INTAKE.changed(
    "_validate_model_input",
    "$place.get_num_embeds()",
    "$place.length",
    fixed="#30475",
    reported="#27992",
)
def separators_count_as_embeddings() -> None:
    """An item is measured by its tokens, separators included, not by its embeddings."""
