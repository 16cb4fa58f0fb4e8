"""The release's encoder budgets and the check of an item at intake."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from .adapters import has_trait
from .calls import DONE, UNSUPPORTED, Calls, DriverError, Reply, integer, operations_of
from .configured import released
from .kv_managers import parameters
from .modules import module_if_there

FORMULA = "vllm.v1.core.encoder_cache_manager"
BUDGET = "vllm.multimodal.encoder_budget"
INTAKE = "vllm.v1.engine.input_processor"
INPUTS = "vllm.multimodal.inputs"
SMALLEST = {
    "embeds": [1],
    "tokens": [1],
    "limits": [1],
    "embeddings": 0,
    "model_tokens": 4,
    "batch_tokens": 4,
    "sequences": 1,
    "chunked_prefill": 1,
    "whole_items": 0,
}
"""A model with one modality, and an engine for it."""


class TooLargeError(ValueError):
    """What intake says to the client; its own class is in a module that is not there."""


class EncoderBudgetDriver:
    """Until 0.12 the function that computes both budgets; from 0.20 the class around it, and intake."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._formula: Any = importlib.import_module(FORMULA)
        self._budget_module = module_if_there(BUDGET)
        self._intake: Any = module_if_there(INTAKE) if self._budget_module is not None else None
        if self._budget_module is None and not hasattr(self._formula, "compute_encoder_budget"):
            raise DriverError("nothing in the release computes encoder budgets")
        if self._budget_module is not None:
            self._budget_module.set_default_torch_num_threads = nullcontext
        if self._intake is not None and hasattr(self._intake, "VLLMValidationError"):
            self._intake.VLLMValidationError = TooLargeError
        self._model: Mapping[str, Any] = SMALLEST
        self._limits: tuple[int, ...] = ()
        self._embeddings = False
        self._compute = self._space = 0
        self._budget: Any = None
        self._start(SMALLEST)  # what is read once is not read in a call whose time is taken
        self.reset(SMALLEST)
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """No engine yet."""
        self._model = config
        self._limits, self._embeddings = (), False
        self._compute = self._space = 0
        self._budget = None

    def observe(self) -> dict[str, Any]:
        """Both budgets; what the encoder is profiled with, where the release's class can be made."""
        shown: dict[str, Any] = {"compute": self._compute, "space": self._space}
        if self._budget_module is None:
            return shown
        names = [_modality(place) for place in range(len(self._model["embeds"]))]
        for name, attribute in (("per_prompt", "mm_max_items_per_prompt"), ("per_batch", "mm_max_items_per_batch")):
            counts = {} if self._budget is None else getattr(self._budget, attribute)
            shown[name] = [counts.get(modality, 0) for modality in names]
        return shown

    def do_configure(self, message: Mapping[str, Any]) -> Reply:
        if integer(message, "compute") or integer(message, "space"):
            return UNSUPPORTED
        if self._budget_module is None and integer(message, "embeddings"):
            return UNSUPPORTED
        if integer(message, "whole_items") and not has_trait("whole_items", self._calls.version):
            return UNSUPPORTED
        return self._calls.done(lambda: self._start(message), {ValueError: "refused"})

    def _start(self, message: Mapping[str, Any]) -> None:
        budget = None
        if self._budget_module is None:
            compute, space = self._computed(message)
        else:
            budget = self._made(message)
            compute, space = budget.encoder_compute_budget, budget.encoder_cache_size
        self._budget, self._compute, self._space = budget, compute, space
        self._limits = tuple(message["limits"])
        self._embeddings = integer(message, "embeddings") > 0

    def _computed(self, message: Mapping[str, Any]) -> tuple[int, int]:
        """Until 0.12: sizes are tokens, of the modalities that are on."""
        sizes = {
            _modality(place): size
            for place, (size, limit) in enumerate(zip(self._model["tokens"], message["limits"], strict=True))
            if limit > 0
        }
        registry = SimpleNamespace(
            get_max_tokens_per_item_by_nonzero_modality=lambda model_config: sizes,
            get_max_tokens_per_item_by_modality=lambda model_config: sizes,  # its name in 0.12
            supports_multimodal_inputs=lambda model_config: True,
        )
        self._formula.MULTIMODAL_REGISTRY = registry
        named = "mm_registry" in self._formula.compute_encoder_budget.__annotations__
        compute, space = self._formula.compute_encoder_budget(
            released()("ModelConfig", is_multimodal_model=True),
            _scheduler_config(message),
            *((registry,) if named else ()),
        )
        return compute, space

    def _made(self, message: Mapping[str, Any]) -> Any:
        """From 0.20: sizes are embeddings."""
        limits = {_modality(place): limit for place, limit in enumerate(message["limits"])}
        sizes = {_modality(place): size for place, size in enumerate(self._model["embeds"])}
        info = SimpleNamespace(
            supported_mm_limits=dict.fromkeys(limits),
            allowed_mm_limits=limits,
            get_mm_max_tokens_per_item=lambda seq_len, mm_counts: {name: sizes[name] for name in mm_counts},
        )
        mm_config = released()("MultiModalConfig", enable_mm_embeds=integer(message, "embeddings") > 0)
        model_config = released()(
            "ModelConfig",
            max_model_len=integer(self._model, "model_tokens"),
            multimodal_config=mm_config,
            get_multimodal_config=lambda: mm_config,
        )
        info.ctx = SimpleNamespace(model_config=model_config)
        registry = SimpleNamespace(
            create_processor=lambda model_config, **named: SimpleNamespace(info=info),
            processor_only_cache_from_config=lambda vllm_config: None,
        )
        configs = {"model_config": model_config, "scheduler_config": _scheduler_config(message)}
        vllm_config = released()("VllmConfig", **configs)
        named = parameters(self._budget_module.MultiModalBudget)
        without_cache = {"enable_cache": False} if "enable_cache" in named else {}
        return self._budget_module.MultiModalBudget(vllm_config, registry, **without_cache)

    def do_admit(self, item: int) -> Reply:
        """Whether the modality is on is asked by the processor, which is not driven."""
        if not 0 <= item < len(self._model["items"]):
            raise DriverError(f"there is no item {item}")
        modality, embeds, tokens = self._model["items"][item]
        if not self._limits or not (self._limits[modality] > 0 or self._embeddings):
            return Reply("refused")
        if self._intake is None:
            return DONE
        return self._calls.done(lambda: self._checked(modality, embeds, tokens), {ValueError: "too_large"})

    def _checked(self, modality: int, embeds: int, tokens: int) -> None:
        """The release's own check of a prompt with this item; the length of the prompt is another check."""
        torch = importlib.import_module("torch")
        inputs = importlib.import_module(INPUTS)
        mask = None if embeds == tokens else torch.arange(tokens) < embeds
        where = inputs.PlaceholderRange(offset=0, length=tokens, is_embed=mask)
        processor = SimpleNamespace(
            mm_encoder_cache_size=self._space,
            model_config=None,
            tokenizer=None,
            _validate_prompt_len=lambda *_: None,
        )
        prompt = {"type": "multimodal", "prompt_token_ids": [], "mm_placeholders": {_modality(modality): [where]}}
        self._intake.InputProcessor._validate_model_input(processor, prompt, prompt_type="decoder")


def _modality(place: int) -> str:
    return f"modality {place}"


def _scheduler_config(message: Mapping[str, Any]) -> Any:
    """What the budgets read of it. That two of them are the tokens of a step is the release's own default."""
    batch_tokens = integer(message, "batch_tokens")
    return released()(
        "SchedulerConfig",
        max_num_batched_tokens=batch_tokens,
        max_num_encoder_input_tokens=batch_tokens,
        encoder_cache_size=batch_tokens,
        max_num_seqs=integer(message, "sequences"),
        enable_chunked_prefill=integer(message, "chunked_prefill") > 0,
        disable_chunked_mm_input=integer(message, "whole_items") > 0,
    )
