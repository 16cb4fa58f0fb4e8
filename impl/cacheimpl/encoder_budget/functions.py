"""The functions and the class by which engines ask for their encoder budgets, in the shapes of all releases.

- 0.7.3: `compute_encoder_budget(model_config, scheduler_config)`; the registry is a global, here it is an argument;
- 0.8.5 to 0.11: `compute_encoder_budget(model_config, scheduler_config, mm_registry)`;
- from 0.11: `compute_mm_encoder_budget(scheduler_config, sizes)`, in tokens at first, in embeddings from 0.20.2;
- from 0.20.2: `MultiModalBudget(vllm_config, mm_registry)`.

Arguments are duck-typed. The rule is the normative one; `as_released=True` checks only what the releases check.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from cacheimpl.encoder_budget.errors import MissingArgumentError
from cacheimpl.encoder_budget.rules import EncoderBudget, budget_of, largest_of, released_budget_of, settings_of

logger = logging.getLogger(__name__)

Sizes = Mapping[str, int]
"""The largest item of each modality that is on."""


def compute_encoder_budget(
    model_config: Any,
    scheduler_config: Any,
    mm_registry: Any = None,
    *,
    alignment: int = 1,
    as_released: bool = False,
) -> tuple[int, int]:
    """The embeddings that the encoder computes in one step and that its cache holds; `(0, 0)` for a text model.

    Reads `mm_registry.supports_multimodal_inputs(model_config)`, or `model_config.is_multimodal_model` if the registry
    has no such method; `mm_registry.get_max_tokens_per_item_by_nonzero_modality(model_config)`. Raises
    `MissingArgumentError` (a TypeError) for a multimodal model without a registry; otherwise as
    `compute_mm_encoder_budget`.
    """
    if not is_multimodal(model_config, mm_registry):
        return 0, 0
    if mm_registry is None:
        raise MissingArgumentError(
            "compute_encoder_budget needs mm_registry for a multimodal model: there is no global one here"
        )
    ask = getattr(mm_registry, "get_max_tokens_per_item_by_nonzero_modality", None)
    if ask is None:
        raise MissingArgumentError("mm_registry has no get_max_tokens_per_item_by_nonzero_modality")
    sizes = ask(model_config)
    return compute_mm_encoder_budget(scheduler_config, sizes, alignment=alignment, as_released=as_released)


def is_multimodal(model_config: Any, mm_registry: Any) -> bool:
    """Whether the model takes inputs other than text, from the registry or, in early releases, the model."""
    ask = getattr(mm_registry, "supports_multimodal_inputs", None)
    try:
        return bool(model_config.is_multimodal_model if ask is None else ask(model_config))
    except AttributeError as error:
        raise MissingArgumentError(
            f"neither mm_registry nor model_config says whether the model is multimodal: {error}"
        ) from None


def compute_mm_encoder_budget(
    scheduler_config: Any,
    max_tokens_by_modality: Sizes | None = None,
    *,
    mm_max_toks_per_item: Sizes | None = None,
    prompt_tokens_by_modality: Sizes | None = None,
    alignment: int = 1,
    as_released: bool = False,
) -> tuple[int, int]:
    """The embeddings that the encoder computes in one step and that its cache holds, for a multimodal model.

    `max_tokens_by_modality`, from 0.20.2 `mm_max_toks_per_item`: the largest item of each modality that is on, in
    embeddings. `prompt_tokens_by_modality`: the placeholders of the same items, where separators make them more.
    `alignment`: steps end at multiples of so many tokens. Read of the scheduler: see `rules.Settings`.

    If every modality is off: `(0, 0)`, and a warning. Raises `ItemTooLongError` (a `ValueError`) if items may not be
    split and the longest cannot be scheduled, `InvalidSettingError` (likewise) for a setting that is not a count.
    """
    sizes = max_tokens_by_modality if max_tokens_by_modality is not None else mm_max_toks_per_item
    if sizes is None:
        raise MissingArgumentError(
            "compute_mm_encoder_budget needs max_tokens_by_modality: the size of each modality's largest item"
        )
    budget = encoder_budget(scheduler_config, sizes, prompt_tokens_by_modality, alignment, as_released=as_released)
    return budget.compute, budget.space


def encoder_budget(
    scheduler_config: Any,
    embeds: Sizes,
    tokens: Sizes | None = None,
    alignment: int = 1,
    *,
    as_released: bool = False,
) -> EncoderBudget:
    """Both budgets and their consequences: the admitted items, and the items with which the encoder is profiled."""
    settings = settings_of(scheduler_config, alignment)
    largest_of(embeds)
    if not embeds:
        logger.warning("every modality of the model is turned off: there is no encoder cache")
    if as_released:
        return released_budget_of(settings, embeds)
    return budget_of(settings, embeds, embeds if tokens is None else tokens)


class MultiModalBudget:
    """The budgets of an engine, and how many items of each modality its encoder is profiled with (from 0.20.2).

    Read: `vllm_config.model_config` (`max_model_len`, `get_multimodal_config().enable_mm_embeds`),
    `vllm_config.scheduler_config`, and of `mm_registry.create_processor(model_config)`: `info.supported_mm_limits`,
    `info.allowed_mm_limits`, and `info.get_mm_max_tokens_per_item(seq_len, mm_counts)` or, where that gives None,
    `get_dummy_mm_inputs(mm_counts, cache=None)`, whose placeholders say tokens as well as embeddings.
    """

    def __init__(
        self,
        vllm_config: Any,
        mm_registry: Any,
        *,
        enable_cache: bool = True,  # noqa: ARG002  # part of the released signature; nothing is kept here
        prompt_tokens_by_modality: Sizes | None = None,
        alignment: int = 1,
        as_released: bool = False,
    ) -> None:
        try:
            self.model_config, self.scheduler_config = vllm_config.model_config, vllm_config.scheduler_config
            self.max_model_len = self.model_config.max_model_len
            self.max_num_reqs = getattr(self.scheduler_config, "max_num_seqs", 1)
            self.processor = mm_registry.create_processor(self.model_config)
            self.mm_limits = self.processor.info.allowed_mm_limits
            embeds, tokens = self._sizes(self._modalities())
        except AttributeError as error:
            raise MissingArgumentError(f"vllm_config or mm_registry does not say the size of items: {error}") from None
        self.budget = encoder_budget(
            self.scheduler_config, embeds, prompt_tokens_by_modality or tokens, alignment, as_released=as_released
        )
        self.encoder_compute_budget, self.encoder_cache_size = self.budget.compute, self.budget.space
        encoded = {modality: size for modality, size in embeds.items() if self.mm_limits.get(modality, 0) > 0}
        items = {
            modality: self.budget.profiled(size, self.mm_limits[modality], self.max_model_len)
            for modality, size in encoded.items()
        }
        self.mm_max_toks_per_item = encoded
        self.mm_max_items_per_prompt = {modality: per_prompt for modality, (per_prompt, _) in items.items()}
        self.mm_max_items_per_batch = {modality: per_batch for modality, (_, per_batch) in items.items()}

    def get_encoder_budget(self) -> int:
        """The smaller of both budgets."""
        return self.budget.usable

    def get_modality_with_max_tokens(self) -> str:
        """The modality with the largest item; of equals, the last by name."""
        return max(self.mm_max_toks_per_item, key=lambda modality: (self.mm_max_toks_per_item[modality], modality))

    def reset_cache(self) -> None:
        """Does nothing: nothing is cached between calls."""

    def _modalities(self) -> list[str]:
        """Those that clients may send: to be encoded, or, where embeddings are accepted, encoded already."""
        mm_config = self.model_config.get_multimodal_config()
        embeddings = mm_config is not None and mm_config.enable_mm_embeds
        supported = self.processor.info.supported_mm_limits
        return [modality for modality in supported if embeddings or self.mm_limits.get(modality, 0) > 0]

    def _sizes(self, modalities: list[str]) -> tuple[Sizes, Sizes | None]:
        """The largest item of each, in embeddings and, where that is known, in tokens.

        A modality that shares the placeholders of another has no size of its own.
        """
        counts = dict.fromkeys(modalities, 1)
        most = self.processor.info.get_mm_max_tokens_per_item(seq_len=self.max_model_len, mm_counts=counts)
        if most is not None:
            return {modality: most[modality] for modality in modalities if modality in most}, None
        placeholders = self.processor.get_dummy_mm_inputs(counts, cache=None)["mm_placeholders"]
        there = [modality for modality in modalities if modality in placeholders]
        embeds = {
            modality: sum(placeholder.get_num_embeds() for placeholder in placeholders[modality]) for modality in there
        }
        return embeds, {
            modality: sum(placeholder.length for placeholder in placeholders[modality]) for modality in there
        }
