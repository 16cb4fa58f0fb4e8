"""Our functions for encoder budgets by their public face, as targets of `encoder_budget`.

`python:cacheproof.targets.tensor.encoder_budget_functions:open_budget`, held to the normative variant;
`open_released_budget`, to what was released with 0.20.2 and 0.33.0 (B5); `open_released_function`, to 0.11.0 (B4);
`open_constants`, `open_one_more`, `open_one_more_as_reviewed`, `open_merged`, `open_as_set`, to B0 to B3 and B6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from cacheimpl.encoder_budget import (
    BudgetEra,
    EncoderBudgetError,
    EraBudget,
    ItemTooLargeError,
    ItemTooLongError,
    MultiModalBudget,
    budget_of_era,
    compute_encoder_budget,
)
from cacheproof.model.target import ByOperation, factory_of
from cachespec.encoder_budget.configuration import Config
from cachespec.encoder_budget.operations import Admit, Configure
from cachespec.kernel import DONE, REFUSED, TOO_LARGE, UNSUPPORTED, Observation, Outcome


def modality_named(place: int) -> str:
    """The modality at this position of the configuration."""
    return f"modality {place}"


def scheduler_config_of(op: Configure) -> SimpleNamespace:
    """The settings by the names of an engine's configuration; a budget that nobody asks for is None there."""
    return SimpleNamespace(
        max_num_batched_tokens=op.batch_tokens,
        max_num_encoder_input_tokens=op.compute or None,
        encoder_cache_size=op.space or None,
        max_num_seqs=op.sequences,
        enable_chunked_prefill=op.chunked_prefill > 0,
        disable_chunked_mm_input=op.whole_items > 0,
        long_prefill_token_threshold=op.threshold,
    )


def sizes_of(sizes: tuple[int, ...], limits: tuple[int, ...], embeddings: int = 0) -> dict[str, int]:
    """Of the modalities that are on."""
    return {
        modality_named(place): size
        for place, (size, limit) in enumerate(zip(sizes, limits, strict=True))
        if limit > 0 or embeddings > 0
    }


def registry_of(config: Config, op: Configure) -> SimpleNamespace:
    """A registry that makes a processor of the configured model."""
    sizes = {modality_named(place): size for place, size in enumerate(config.embeds)}
    info = SimpleNamespace(
        supported_mm_limits=dict.fromkeys(sizes),
        allowed_mm_limits={modality_named(place): limit for place, limit in enumerate(op.limits)},
        get_mm_max_tokens_per_item=lambda seq_len, mm_counts: {modality: sizes[modality] for modality in mm_counts},
    )
    return SimpleNamespace(create_processor=lambda model_config: SimpleNamespace(info=info))


NO_MODEL = Config((), (), (), ())


class Functions(ByOperation, ABC):
    """Functions in one configuration, which are called when an engine starts and when an item comes in."""

    def __init__(self) -> None:
        self._config = NO_MODEL

    @abstractmethod
    def configure(self, op: Configure) -> Outcome:
        """An engine starts."""

    @abstractmethod
    def admit(self, modality: int, embeds: int, tokens: int) -> Outcome:
        """An item comes in."""

    def reset(self, config: Config) -> None:
        self._config = config

    def _configure(self, op: Configure) -> Outcome:
        return self.configure(op)

    def _admit(self, op: Admit) -> Outcome:
        return self.admit(*self._config.items[op.item])

    def close(self) -> None:
        self._config = NO_MODEL


class BudgetTarget(Functions):
    """`MultiModalBudget` and its check of items. An exception is the outcome that it stands for."""

    def __init__(self, *, as_released: bool) -> None:
        super().__init__()
        self._as_released = as_released
        self._settings: Configure | None = None
        self._made: MultiModalBudget | None = None

    def reset(self, config: Config) -> None:
        super().reset(config)
        self._settings = self._made = None

    def observe(self) -> Mapping[str, Observation]:
        names = [modality_named(place) for place in range(len(self._config.embeds))]
        made = self._made
        if made is None:
            return {"compute": 0, "space": 0, "per_prompt": (0,) * len(names), "per_batch": (0,) * len(names)}
        return {
            "compute": made.encoder_compute_budget,
            "space": made.encoder_cache_size,
            "per_prompt": tuple(made.mm_max_items_per_prompt.get(name, 0) for name in names),
            "per_batch": tuple(made.mm_max_items_per_batch.get(name, 0) for name in names),
        }

    def configure(self, op: Configure) -> Outcome:
        if self._as_released and (op.compute or op.space):
            return UNSUPPORTED
        mm_config = SimpleNamespace(enable_mm_embeds=op.embeddings > 0)
        model_config = SimpleNamespace(max_model_len=self._config.model_tokens, get_multimodal_config=lambda: mm_config)
        try:
            made = MultiModalBudget(
                SimpleNamespace(model_config=model_config, scheduler_config=scheduler_config_of(op)),
                registry_of(self._config, op),
                prompt_tokens_by_modality=sizes_of(self._config.tokens, op.limits, op.embeddings),
                alignment=op.alignment,
                as_released=self._as_released,
            )
        except ItemTooLongError:
            return REFUSED
        self._settings, self._made = op, made
        return DONE

    def admit(self, modality: int, embeds: int, tokens: int) -> Outcome:
        """Whether the modality is on is the processor's question."""
        if self._settings is None or self._made is None:
            return REFUSED
        if self._settings.limits[modality] == 0 and not self._settings.embeddings:
            return REFUSED
        try:
            self._made.budget.check_item(embeds, tokens)
        except (ItemTooLargeError, ItemTooLongError):
            return TOO_LARGE
        return DONE


class FunctionTarget(Functions):
    """`compute_encoder_budget` as released, with the registry's sizes in tokens; intake looks at nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._limits: tuple[int, ...] = ()
        self._budgets = 0, 0

    def reset(self, config: Config) -> None:
        super().reset(config)
        self._limits, self._budgets = (), (0, 0)

    def observe(self) -> Mapping[str, Observation]:
        return dict(zip(("compute", "space"), self._budgets, strict=True))

    def configure(self, op: Configure) -> Outcome:
        if op.compute or op.space or op.embeddings:
            return UNSUPPORTED
        registry: Any = SimpleNamespace(
            supports_multimodal_inputs=lambda model_config: True,
            get_max_tokens_per_item_by_nonzero_modality=lambda model_config: sizes_of(self._config.tokens, op.limits),
        )
        try:
            budgets = compute_encoder_budget(SimpleNamespace(), scheduler_config_of(op), registry, as_released=True)
        except EncoderBudgetError:
            return REFUSED
        self._limits, self._budgets = op.limits, budgets
        return DONE

    def admit(self, modality: int, embeds: int, tokens: int) -> Outcome:  # noqa: ARG002  # nobody looks at sizes
        return DONE if self._limits and self._limits[modality] > 0 else REFUSED


class EraTarget(Functions):
    """`budget_of_era`, by one engine after the other of the same settings object."""

    def __init__(self, era: BudgetEra) -> None:
        super().__init__()
        self._era = era
        self._kept = SimpleNamespace()
        self._settings: Configure | None = None
        self._made: EraBudget | None = None

    def reset(self, config: Config) -> None:
        super().reset(config)
        self._kept, self._settings, self._made = SimpleNamespace(), None, None

    def observe(self) -> Mapping[str, Observation]:
        made, op = self._made, self._settings
        budgets: dict[str, Observation] = dict.fromkeys(("compute", "space"), 0)
        if made is not None:
            budgets = {"compute": made.compute, "space": made.space}
        if self._era is not BudgetEra.AS_SET:
            return budgets
        pairs = [(0, 0)] * len(self._config.embeds)
        if made is not None and op is not None:
            sizes = zip(self._config.embeds, op.limits, strict=True)
            pairs = [made.profiled(size, limit, self._config.model_tokens) for size, limit in sizes]
        return {**budgets, "per_prompt": tuple(one for one, _ in pairs), "per_batch": tuple(one for _, one in pairs)}

    def configure(self, op: Configure) -> Outcome:
        as_set = self._era is BudgetEra.AS_SET
        if not as_set and (op.compute or op.space or op.whole_items or op.embeddings):
            return UNSUPPORTED
        asked = scheduler_config_of(op)
        for name in (
            "max_num_encoder_input_tokens",
            "encoder_cache_size",
        ):  # else as it was left
            setattr(asked, name, getattr(asked, name) or getattr(self._kept, name, None))
        sizes = self._config.embeds if as_set else self._config.tokens
        limits = {modality_named(place): limit for place, limit in enumerate(op.limits)}
        on = sizes_of(sizes, op.limits, op.embeddings)
        constant = max(1, self._config.constant)
        try:
            made = budget_of_era(self._era, asked, on, limits=limits, constant=constant)
        except EncoderBudgetError:
            return REFUSED
        raised = made.compute > 0  # without an item nothing is raised, and what was asked for now is kept
        self._kept, self._settings, self._made = asked if raised else scheduler_config_of(op), op, made
        return DONE

    def admit(self, modality: int, embeds: int, tokens: int) -> Outcome:  # noqa: ARG002  # nobody looked at tokens
        op = self._settings
        if op is None or self._made is None or (op.limits[modality] == 0 and not op.embeddings):
            return REFUSED
        try:
            self._made.check_item(embeds)
        except ItemTooLargeError:
            return TOO_LARGE
        return DONE


def _of_era(era: BudgetEra) -> Callable[[object], EraTarget]:
    return factory_of("encoder_budget", partial(EraTarget, era))


open_constants = _of_era(BudgetEra.CONSTANTS)
"""B0."""
open_one_more = _of_era(BudgetEra.ONE_MORE)
"""B1."""
open_one_more_as_reviewed = _of_era(BudgetEra.ONE_MORE_AS_REVIEWED)
"""B2."""
open_merged = _of_era(BudgetEra.MERGED)
"""B3."""
open_as_set = _of_era(BudgetEra.AS_SET)
"""B6."""
open_budget = factory_of("encoder_budget", partial(BudgetTarget, as_released=False))
"""The normative budgets."""
open_released_budget = factory_of("encoder_budget", partial(BudgetTarget, as_released=True))
"""Those of 0.20.2 and 0.33.0."""
open_released_function = factory_of("encoder_budget", FunctionTarget)
"""Those of 0.11.0."""
