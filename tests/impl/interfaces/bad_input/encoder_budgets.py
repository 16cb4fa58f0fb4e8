"""The encoder's budgets: functions, and what they come to."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, lacking, one_of, within

from cacheimpl.encoder_budget import (
    BudgetEra,
    EncoderBudget,
    EncoderBudgetError,
    EraBudget,
    ItemTooLargeError,
    ItemTooLongError,
    MultiModalBudget,
    budget_of_era,
    compute_encoder_budget,
    compute_mm_encoder_budget,
    encoder_budget,
)


def config(**more: Any) -> Any:
    return SimpleNamespace(
        **{
            "max_num_batched_tokens": 64,
            "max_num_encoder_input_tokens": 64,
            "encoder_cache_size": 64,
            "max_num_seqs": 4,
            "long_prefill_token_threshold": 0,
            "enable_chunked_prefill": True,
            "disable_chunked_mm_input": True,
            **more,
        }
    )


def with_setting(name: str, value: Any) -> Any:
    return config(**{name: value})


SETTING = count(0, optional=True)
CONFIG: Sort = {
    "nothing": always(None),
    "something else": always(object()),
    "without max_num_batched_tokens": lambda good: SimpleNamespace(max_num_seqs=4),
    **{
        what: bad
        for name in (
            "max_num_batched_tokens",
            "max_num_encoder_input_tokens",
            "encoder_cache_size",
            "max_num_seqs",
            "long_prefill_token_threshold",
        )
        for what, bad in within(SETTING, partial(with_setting, name), f"{name}: ").items()
    },
}
SIZES: Sort = {
    "a number": always(3),
    "a list": always([3]),
    **within(count(0), lambda size: {"image": size}, "the size of image: "),
}
FINE = {what: bad for what, bad in SIZES.items() if what not in ("a number", "a list")}
TOO_LONG: Sort = {"too long for a step": always({"image": 65})}


def registry(sizes: Any = None) -> Any:
    found = {"image": 8} if sizes is None else sizes
    return SimpleNamespace(
        supports_multimodal_inputs=lambda model_config: True,
        get_max_tokens_per_item_by_nonzero_modality=lambda model_config: found,
        create_processor=lambda model_config: SimpleNamespace(
            info=SimpleNamespace(
                supported_mm_limits={"image": 2},
                allowed_mm_limits={"image": 2},
                get_mm_max_tokens_per_item=lambda seq_len, mm_counts: found,
            )
        ),
    )


def vllm_config(**more: Any) -> Any:
    mm_config = SimpleNamespace(enable_mm_embeds=False)
    model = SimpleNamespace(max_model_len=128, get_multimodal_config=lambda: mm_config)
    return SimpleNamespace(**{"model_config": model, "scheduler_config": config(), **more})


MODEL = SimpleNamespace(is_multimodal_model=True)
SAYS = ("max_num_batched_tokens", "max_num_seqs", "size", "item", "registry")

FACES = {
    "compute_encoder_budget": Face(
        compute_encoder_budget,
        lambda: compute_encoder_budget,
        EncoderBudgetError,
        {
            "__call__": Call(
                lambda made: {"model_config": MODEL, "scheduler_config": config(), "mm_registry": registry()},
                {
                    "scheduler_config": CONFIG,
                    "mm_registry": {
                        "something else": always(object()),
                        **within({**SIZES, **TOO_LONG}, registry),
                        "nothing": always(None),
                    },
                    "model_config": {},
                    "alignment": count(1),
                },
                {"as_released": "a flag"},
                says=SAYS,
            )
        },
    ),
    "compute_mm_encoder_budget": Face(
        compute_mm_encoder_budget,
        lambda: compute_mm_encoder_budget,
        EncoderBudgetError,
        {
            "__call__": Call(
                lambda made: {"scheduler_config": config(), "max_tokens_by_modality": {"image": 8}},
                {
                    "scheduler_config": CONFIG,
                    "max_tokens_by_modality": {**SIZES, **TOO_LONG, "nothing": always(None)},
                    "prompt_tokens_by_modality": {**SIZES, **TOO_LONG},
                    "alignment": count(1),
                },
                {"as_released": "a flag", "mm_max_toks_per_item": "the same as the first by a later name"},
                says=SAYS,
            )
        },
    ),
    "encoder_budget": Face(
        encoder_budget,
        lambda: encoder_budget,
        EncoderBudgetError,
        {
            "__call__": Call(
                lambda made: {"scheduler_config": config(), "embeds": {"image": 8}},
                {
                    "scheduler_config": CONFIG,
                    "embeds": {**SIZES, **TOO_LONG, "nothing": always(None)},
                    "tokens": {**SIZES, **TOO_LONG},
                    "alignment": count(1),
                },
                {"as_released": "a flag"},
                says=SAYS,
            )
        },
    ),
    "budget_of_era": Face(
        budget_of_era,
        lambda: budget_of_era,
        EncoderBudgetError,
        {
            "__call__": Call(
                lambda made: {"era": BudgetEra.AS_SET, "scheduler_config": config(), "sizes": {"image": 8}},
                {
                    "era": one_of(None, "B0", 3),
                    "scheduler_config": CONFIG,
                    "sizes": {**SIZES, **TOO_LONG, "nothing": always(None)},
                    "limits": SIZES,
                },
                {"constant": "asked by one era only: see its tests"},
                says=SAYS,
            )
        },
    ),
    "EraBudget": Face(
        EraBudget,
        lambda: budget_of_era(BudgetEra.AS_SET, config(), {"image": 8}),
        EncoderBudgetError,
        {
            "check_item": Call(lambda made: {"embeds": 8}, {"embeds": count(0, most=64)}, says=("embeddings",)),
            "profiled": Call(
                lambda made: {"size": 8, "limit": 2, "model_tokens": 128},
                {"size": count(0), "limit": count(0), "model_tokens": count(0)},
            ),
        },
    ),
    "EncoderBudget": Face(
        EncoderBudget,
        lambda: encoder_budget(config(), {"image": 8}),
        EncoderBudgetError,
        {
            "check_item": Call(
                lambda made: {"embeds": 8, "tokens": 8},
                {"embeds": count(0, most=64), "tokens": count(0, most=64)},
                misuse={
                    "larger than the budget": (ItemTooLargeError, lambda made: made.check_item(65, 8)),
                    "longer than a step": (ItemTooLongError, lambda made: made.check_item(8, 65)),
                },
                says=("embeddings", "tokens"),
            ),
            "profiled": Call(
                lambda made: {"size": 8, "limit": 2, "model_tokens": 128},
                {"size": count(0), "limit": count(0), "model_tokens": count(0)},
                says=("size", "limit", "longest sequence"),
            ),
        },
    ),
    "MultiModalBudget": Face(
        MultiModalBudget,
        lambda: MultiModalBudget(vllm_config(), registry()),
        EncoderBudgetError,
        {
            "__init__": Call(
                lambda made: {"vllm_config": vllm_config(), "mm_registry": registry()},
                {
                    "vllm_config": {
                        **lacking("model_config", "scheduler_config"),
                        **within(CONFIG, lambda bad: vllm_config(scheduler_config=bad)),
                    },
                    "mm_registry": {
                        "nothing": always(None),
                        "something else": always(object()),
                        **within({**FINE, **TOO_LONG}, registry),
                    },
                    "prompt_tokens_by_modality": {**SIZES, **TOO_LONG},
                    "alignment": count(1),
                },
                {"enable_cache": "nothing is kept", "as_released": "a flag"},
                says=SAYS,
            )
        },
        dict.fromkeys(("get_encoder_budget", "get_modality_with_max_tokens", "reset_cache"), "takes nothing"),
    ),
}
