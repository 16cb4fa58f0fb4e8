"""What an engine's tests ask of the functions for encoder budgets; `api` has those of ours, or of a release.

Standard library only: released packages run these functions in an environment of their own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def scheduler_config(batch_tokens: int, **settings: Any) -> SimpleNamespace:
    """As an engine has it: both budgets are the tokens of a step."""
    return SimpleNamespace(
        **{
            "max_num_batched_tokens": batch_tokens,
            "max_num_encoder_input_tokens": batch_tokens,
            "encoder_cache_size": batch_tokens,
            "max_num_seqs": 4,
            "enable_chunked_prefill": True,
            "disable_chunked_mm_input": False,
            "long_prefill_token_threshold": 0,
            **settings,
        }
    )


def raised(call: Any, *arguments: Any) -> str | None:
    """The message of the ValueError, or None where there was none."""
    try:
        call(*arguments)
    except ValueError as error:
        return str(error)
    return None


def case_a_text_model_has_no_budget(api: Any) -> None:
    assert api.of_model(False, scheduler_config(2048), {"image": 576}) == (0, 0)


def case_a_multimodal_model_has_both_budgets(api: Any) -> None:
    assert api.of_model(True, scheduler_config(2048), {"image": 576, "video": 4096}) == (4096, 4096)


def case_budgets_take_a_step_and_the_largest_item(api: Any) -> None:
    assert api.of_sizes(scheduler_config(2048), {"image": 576}) == (2048, 2048)
    assert api.of_sizes(scheduler_config(2048), {"image": 576, "video": 4096}) == (4096, 4096)


def case_budgets_are_independent(api: Any) -> None:
    config = scheduler_config(2048, max_num_encoder_input_tokens=1000, encoder_cache_size=9000)
    assert api.of_sizes(config, {"image": 576}) == (1000, 9000)


def case_no_modality_no_budget(api: Any) -> None:
    assert api.of_sizes(scheduler_config(2048), {}) == (0, 0)


def case_items_in_one_piece_fit_a_step(api: Any) -> None:
    config = scheduler_config(600, disable_chunked_mm_input=True)
    assert api.of_sizes(config, {"image": 576}) == (600, 600)
    message = raised(api.of_sizes, config, {"image": 601})
    assert message is not None
    assert "601" in message
    assert "600" in message
    assert "max_num_batched_tokens" in message


def case_without_chunked_prefill_items_fit_a_step(api: Any) -> None:
    assert raised(api.of_sizes, scheduler_config(600, enable_chunked_prefill=False), {"image": 601}) is not None


def case_items_in_one_piece_fit_the_threshold(api: Any) -> None:
    config = scheduler_config(600, disable_chunked_mm_input=True, long_prefill_token_threshold=128)
    assert raised(api.of_sizes, config, {"image": 129}) is not None
    assert api.of_sizes(config, {"image": 128}) == (600, 600)


def case_a_size_that_is_none(api: Any) -> None:
    assert raised(api.of_sizes, scheduler_config(600), {"image": -1}) is not None
