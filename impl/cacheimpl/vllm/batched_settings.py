"""What `BatchedScheduler` serves: its settings, and what it refuses, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cacheimpl.kv_cache_manager.kinds import FULL, specs_of
from cacheimpl.scheduler.settings import Settings
from cacheimpl.vllm.unsupported import UnsupportedSettingError

MORE_ROWS = 64
"""Requests that wait beside those that may run, at least; later ones wait outside of the tables."""

MOST_ITEMS = 32
"""Items of a request at most, if the engine's options set no limit."""

POLICIES = ("fcfs", "priority")


def _is_given(config: Any, name: str) -> bool:
    return getattr(config, name, None) is not None


def _names(caches: Any) -> list[str]:
    """The classes of the layers' specs."""
    return [type(spec).__name__ for group in caches.kv_cache_groups for spec in specs_of(group.kv_cache_spec)]


def _policy(config: Any) -> str:
    policy = getattr(config.scheduler_config, "policy", "fcfs")
    return str(getattr(policy, "value", policy))


REFUSED: Mapping[str, Callable[[Any], bool]] = {
    "--async-scheduling with --speculative-config": lambda config: (
        bool(config.scheduler_config.async_scheduling) and _is_given(config, "speculative_config")
    ),
    "--speculative-config with another method than ngram": lambda config: (
        _is_given(config, "speculative_config") and config.speculative_config.method != "ngram"
    ),
    "num_speculative_tokens_per_batch_size of --speculative-config": lambda config: bool(
        getattr(getattr(config, "speculative_config", None), "num_speculative_tokens_per_batch_size", None)
    ),
    "--kv-transfer-config": lambda config: _is_given(config, "kv_transfer_config"),
    "--kv-events-config": lambda config: bool(
        getattr(getattr(config, "kv_events_config", None), "enable_kv_cache_events", False)
    ),
    "a --scheduling-policy beside fcfs and priority": lambda config: _policy(config) not in POLICIES,
    "a pooling model": lambda config: config.model_config.runner_type != "generate",
    "--pipeline-parallel-size above 1": lambda config: (
        int(getattr(config.parallel_config, "pipeline_parallel_size", 1)) > 1
    ),
    "--data-parallel-size above 1": lambda config: int(getattr(config.parallel_config, "data_parallel_size", 1)) > 1,
}
"""What is refused beside `unsupported.REFUSED`, and how an engine's configuration shows it."""


REFUSED_LAYOUTS: Mapping[str, Callable[[Any], bool]] = {
    "layers other than one group of full attention": lambda caches: (
        len(caches.kv_cache_groups) != 1 or any(name not in FULL for name in _names(caches))
    ),
    "blocks that are zeroed": lambda caches: bool(getattr(caches, "needs_kv_cache_zeroing", False)),
}
"""What is refused of a model's layers, and how the configuration of its KV cache shows it."""

REFUSED_CALLS = ("a pause of new requests only", "a reset of running requests")


def check_batched(vllm_config: Any, kv_cache_config: Any) -> None:
    """Raises `UnsupportedSettingError` for an engine that the scheduler would serve wrongly."""
    for what, present in REFUSED.items():
        if present(vllm_config):
            raise UnsupportedSettingError(f"{what} is not supported by cacheimpl.vllm.BatchedScheduler")
    for what, laid_out in REFUSED_LAYOUTS.items():
        if laid_out(kv_cache_config):
            raise UnsupportedSettingError(
                f"{what} are not supported by cacheimpl.vllm.BatchedScheduler: it has"
                f" {len(kv_cache_config.kv_cache_groups)} groups of {', '.join(sorted(set(_names(kv_cache_config))))}"
            )


class Budgets(NamedTuple):
    """What the release derives from an engine's configuration: counts of tokens, or of embeddings."""

    tokens: int
    encoder_compute: int = 0
    encoder_cache: int = 0
    """0 for a text model"""


def settings_of(vllm_config: Any, kv_cache_config: Any, budgets: Budgets) -> Settings:
    """The settings of our scheduler. Block 0 of the workers is the null block, which no table has."""
    scheduler = vllm_config.scheduler_config
    (group,) = kv_cache_config.kv_cache_groups
    running = int(scheduler.max_num_seqs)
    adapters = getattr(vllm_config, "lora_config", None)
    drafter = getattr(vllm_config, "speculative_config", None)
    return Settings(
        block_size=int(group.kv_cache_spec.block_size),
        num_gpu_blocks=int(kv_cache_config.num_blocks) - 1,
        max_num_batched_tokens=int(budgets.tokens),
        max_num_seqs=running,
        max_model_len=int(vllm_config.model_config.max_model_len),
        max_requests=running + max(MORE_ROWS, running // 4),
        max_items=items_of(vllm_config) if budgets.encoder_cache else 0,
        encoder_compute_budget=max(1, int(budgets.encoder_compute)),
        encoder_cache_size=max(1, int(budgets.encoder_cache)),
        num_spec_tokens=0 if drafter is None else int(drafter.num_speculative_tokens),
        plans_in_flight=2 if scheduler.async_scheduling else 1,
        disable_chunked_mm_input=bool(getattr(scheduler, "disable_chunked_mm_input", False)),
        long_prefill_token_threshold=int(scheduler.long_prefill_token_threshold),
        enable_chunked_prefill=bool(scheduler.enable_chunked_prefill),
        by_priority=_policy(vllm_config) == "priority",
        enable_prefix_caching=bool(vllm_config.cache_config.enable_prefix_caching),
        watermark=int(float(getattr(scheduler, "watermark", 0.0)) * int(kv_cache_config.num_blocks)),
        max_loras=0 if adapters is None else int(adapters.max_loras),
    )


def items_of(vllm_config: Any) -> int:
    """The most items of a request: what `--limit-mm-per-prompt` says, or `MOST_ITEMS` if it says nothing."""
    multimodal = getattr(vllm_config.model_config, "multimodal_config", None)
    limits: Mapping[str, Any] = getattr(multimodal, "limit_per_prompt", None) or {}
    return sum(int(getattr(limit, "count", limit)) for limit in limits.values()) or MOST_ITEMS


REFUSED_REQUESTS: Mapping[str, Callable[[Any], bool]] = {
    "no sampling parameters": lambda request: request.sampling_params is None,
    "a grammar": lambda request: _is_given(request, "structured_output_request"),
    "prompt embeddings": lambda request: _is_given(request, "prompt_embeds"),
    "a session": lambda request: bool(getattr(request, "resumable", False)),
    "an item with tokens that have no embedding": lambda request: any(
        getattr(feature.mm_position, "is_embed", None) is not None
        for feature in getattr(request, "mm_features", None) or ()
    ),
    "a transfer of KV": lambda request: _is_given(request, "kv_transfer_params"),
    "repetition detection": lambda request: _is_given(request.sampling_params, "repetition_detection"),
}
"""What is refused of a request, and how the request shows it."""

NO_LOOK_UP = "no look-up in the prefix cache, as prompt_logprobs does"
"""Refused of a request if prefixes are looked up."""


def check_served(request: Any, *, caching: bool = True) -> str | None:
    """Why the request cannot be served; None if it can be. `caching`: prefixes are looked up."""
    asked = [what for what, present in REFUSED_REQUESTS.items() if present(request)]
    if caching and getattr(request, "skip_reading_prefix_cache", False):
        asked.append(NO_LOOK_UP)
    return f"it has {', '.join(asked)}, and BatchedScheduler does not serve that" if asked else None


def stops_of(request: Any) -> frozenset[int]:
    """Tokens that end the request."""
    parameters = request.sampling_params
    ends = {*(parameters.stop_token_ids or ())}
    if parameters.eos_token_id is not None:
        ends.add(parameters.eos_token_id)
    return frozenset(ends)
