"""The functions for encoder budgets, as tests of an engine call them; and the same tests with released packages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from tests.impl.interfaces.cases import encoder_budget as cases
from tests.impl.interfaces.cases.encoder_budget import scheduler_config
from tests.impl.interfaces.lockstep import differs, findings
from tests.impl.interfaces.releases import VERSIONS, Case, Difference, check_release, each

from cacheimpl.encoder_budget import (
    EncoderBudgetError,
    InvalidSettingError,
    ItemTooLargeError,
    ItemTooLongError,
    MultiModalBudget,
    compute_encoder_budget,
    compute_mm_encoder_budget,
    encoder_budget,
)
from cacheproof.foundation.errors import InputError
from cacheproof.targets.tensor.encoder_budget_functions import open_budget, open_released_budget, open_released_function

Plant = Callable[[str, str, str], None]

DIFFERENCES = {
    "items_in_one_piece_fit_a_step": Difference(("0.7.3",), "items could always be split"),
    "without_chunked_prefill_items_fit_a_step": Difference(VERSIONS, "C-ENC-11"),
    "items_in_one_piece_fit_the_threshold": Difference(VERSIONS, "C-ENC-16"),
    "a_size_that_is_none": Difference(VERSIONS, "no release looks"),
}


def of_model(multimodal: bool, config: Any, sizes: Mapping[str, int]) -> tuple[int, int]:
    registry = SimpleNamespace(
        get_max_tokens_per_item_by_nonzero_modality=lambda model_config: sizes,
        supports_multimodal_inputs=lambda model_config: multimodal,
    )
    return compute_encoder_budget(SimpleNamespace(), config, registry)


def of_early_model(multimodal: bool, config: Any, sizes: Mapping[str, int]) -> tuple[int, int]:
    registry = SimpleNamespace(get_max_tokens_per_item_by_nonzero_modality=lambda model_config: sizes)
    return compute_encoder_budget(SimpleNamespace(is_multimodal_model=multimodal), config, registry)


OURS = {
    "0.8.5": SimpleNamespace(of_model=of_early_model, of_sizes=lambda c, s: of_early_model(True, c, s)),
    "0.11.0": SimpleNamespace(of_model=of_model, of_sizes=compute_mm_encoder_budget),
    "0.20.2": SimpleNamespace(
        of_model=of_model, of_sizes=lambda c, s: compute_mm_encoder_budget(c, mm_max_toks_per_item=s)
    ),
}


@pytest.mark.parametrize("shape", OURS)
@pytest.mark.parametrize("case", each(cases))
def test_ours(case: Case, shape: str) -> None:
    case(OURS[shape])


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_released(version: str) -> None:
    check_release(version, cases, DIFFERENCES)


# Held to the specification ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "opened"),
    [("normative", open_budget), ("B5", open_released_budget), ("B4", open_released_function)],
)
def test_lockstep_in_every_scope(variant: str, opened: Callable[[str], Any]) -> None:
    found = dict(findings("encoder_budget", variant, opened, steps=400))
    assert len(found) >= 7
    assert set(found.values()) == {None}


RULES = "cacheimpl.encoder_budget.rules"


@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        ("budget_of", "max($settings.compute, $largest)", "$settings.compute"),
        ("budget_of", "$settings.space", "$settings.compute"),
        ("budget_of", "$most_tokens > $longest", "largest > $longest"),
        ("budget_of", "$most_tokens > $longest", "$most_tokens >= $longest"),
        ("budget_of", "$largest == 0", "$largest < 0"),
        ("largest_of", "max($x, default=0)", "min($x, default=0)"),
        (
            "settings_of",
            "counted($scheduler_config, 'long_prefill_token_threshold', 0)",
            "counted($scheduler_config, 'no_such_setting', 0)",
        ),
        (
            "settings_of",
            "counted($scheduler_config, 'encoder_cache_size', 0) or $batch_tokens",
            "counted($scheduler_config, 'encoder_cache_size', 0)",
        ),
    ],
)
def test_planted_bugs_are_found(plant: Plant, function: str, right: str, wrong: str) -> None:
    plant(f"{RULES}.{function}", right, wrong)
    assert differs("encoder_budget", "normative", open_budget, steps=300)


def test_a_target_of_another_component() -> None:
    for opened in (open_budget, open_released_budget, open_released_function):
        with pytest.raises(InputError, match="not of lru"):
            opened("lru")


# Beyond what releases can be asked ----------------------------------------------------------------------------------


def test_separators_count_in_a_step_and_not_in_the_cache() -> None:
    config = scheduler_config(8, disable_chunked_mm_input=True)
    assert compute_mm_encoder_budget(config, {"image": 4}, prompt_tokens_by_modality={"image": 8}) == (8, 8)
    with pytest.raises(ItemTooLongError, match=r"9 tokens.*item of 8 tokens.*increase max_num_batched_tokens"):
        compute_mm_encoder_budget(config, {"image": 4}, prompt_tokens_by_modality={"image": 9})
    assert compute_mm_encoder_budget(
        config, {"image": 4}, prompt_tokens_by_modality={"image": 9}, as_released=True
    ) == (8, 8)


def test_an_alignment_cuts_on_both_sides() -> None:
    config = scheduler_config(8, disable_chunked_mm_input=True)
    assert compute_mm_encoder_budget(config, {"image": 5}, alignment=4) == (8, 8)
    with pytest.raises(ItemTooLongError, match="item of 5 tokens"):
        compute_mm_encoder_budget(config, {"image": 6}, alignment=4)


def test_what_arrives_is_held_against_both_budgets() -> None:
    budget = encoder_budget(scheduler_config(8, encoder_cache_size=6), {"image": 4})
    budget.check_item(embeds=6, tokens=100)
    with pytest.raises(ItemTooLargeError, match="7 embeddings"):
        budget.check_item(embeds=7, tokens=7)
    whole = encoder_budget(scheduler_config(8, disable_chunked_mm_input=True), {"image": 4})
    with pytest.raises(ItemTooLongError, match="9 tokens"):
        whole.check_item(embeds=4, tokens=9)


def test_every_modality_off_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert compute_mm_encoder_budget(scheduler_config(8), {}) == (0, 0)
    assert "turned off" in caplog.text


@pytest.mark.parametrize(
    ("config", "sizes", "more"),
    [
        (SimpleNamespace(), {"image": 1}, {}),
        (scheduler_config(8, encoder_cache_size=-1), {"image": 1}, {}),
        (scheduler_config(8, long_prefill_token_threshold=1.5), {"image": 1}, {}),
        (scheduler_config(8), {"image": "4"}, {}),
        (scheduler_config(8), {"image": -1}, {}),
        (scheduler_config(8), {"image": 1}, {"alignment": 0}),
        (scheduler_config(8), {"image": 1}, {"prompt_tokens_by_modality": {"image": -1}}),
    ],
)
def test_what_is_no_count(config: Any, sizes: Any, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettingError) as raised:
        compute_mm_encoder_budget(config, sizes, **more)
    assert isinstance(raised.value, EncoderBudgetError)
    assert isinstance(raised.value, ValueError)


def test_what_is_missing() -> None:
    with pytest.raises(TypeError, match="largest item"):
        compute_mm_encoder_budget(scheduler_config(8))
    with pytest.raises(TypeError, match="mm_registry"):
        compute_encoder_budget(SimpleNamespace(is_multimodal_model=True), scheduler_config(8))
    assert compute_encoder_budget(SimpleNamespace(is_multimodal_model=False), scheduler_config(8)) == (0, 0)


class Placeholder:
    """What a processor's dummy inputs show: nine tokens, four of them embeddings."""

    length = 9

    def get_num_embeds(self) -> int:
        return 4


def test_a_processor_that_has_to_be_tried() -> None:
    info = SimpleNamespace(
        supported_mm_limits={"image": None, "video": None, "shared": None},
        allowed_mm_limits={"image": 3, "video": 0, "shared": 1},
        get_mm_max_tokens_per_item=lambda seq_len, mm_counts: None,
    )
    processor = SimpleNamespace(
        info=info,
        get_dummy_mm_inputs=lambda counts, cache: {"mm_placeholders": {"image": [Placeholder()]}},
    )
    registry = SimpleNamespace(create_processor=lambda model_config: processor)
    model_config = SimpleNamespace(max_model_len=64, get_multimodal_config=lambda: None)
    settings = SimpleNamespace(model_config=model_config, scheduler_config=scheduler_config(12))
    made = MultiModalBudget(settings, registry)
    assert (made.encoder_compute_budget, made.encoder_cache_size, made.get_encoder_budget()) == (12, 12, 12)
    assert made.mm_max_items_per_prompt == {"image": 3}
    assert made.mm_max_items_per_batch == {"image": 3}
    assert made.get_modality_with_max_tokens() == "image"
    settings.scheduler_config = scheduler_config(8, disable_chunked_mm_input=True)
    with pytest.raises(ItemTooLongError, match="9 tokens"):
        MultiModalBudget(settings, registry)
