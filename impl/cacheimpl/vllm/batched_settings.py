"""What `BatchedScheduler` serves: its settings, and what it refuses, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cacheimpl.kv_cache_manager.kinds import FULL, specs_of
from cacheimpl.scheduler.settings import Settings
from cacheimpl.vllm.unsupported import UnsupportedSettingError

MORE_ROWS = 64
"""Requests that wait beside those that may run, at least; later ones wait outside of the tables."""

POLICIES = ("fcfs", "priority")


def _is_given(config: Any, name: str) -> bool:
    return getattr(config, name, None) is not None


def _policy(config: Any) -> str:
    policy = getattr(config.scheduler_config, "policy", "fcfs")
    return str(getattr(policy, "value", policy))


REFUSED: Mapping[str, Callable[[Any], bool]] = {
    "--async-scheduling (use --no-async-scheduling)": lambda config: bool(config.scheduler_config.async_scheduling),
    "--speculative-config": lambda config: _is_given(config, "speculative_config"),
    "--kv-transfer-config": lambda config: _is_given(config, "kv_transfer_config"),
    "--kv-events-config": lambda config: bool(
        getattr(getattr(config, "kv_events_config", None), "enable_kv_cache_events", False)
    ),
    "a --scheduling-policy beside fcfs and priority": lambda config: _policy(config) not in POLICIES,
    "a multimodal model": lambda config: bool(config.model_config.is_multimodal_model),
    "a pooling model": lambda config: config.model_config.runner_type != "generate",
    "--pipeline-parallel-size above 1": lambda config: (
        int(getattr(config.parallel_config, "pipeline_parallel_size", 1)) > 1
    ),
    "--data-parallel-size above 1": lambda config: int(getattr(config.parallel_config, "data_parallel_size", 1)) > 1,
}
"""What is refused beside `unsupported.REFUSED`, and how an engine's configuration shows it."""


def check_batched(vllm_config: Any, kv_cache_config: Any) -> None:
    """Raises `UnsupportedSettingError` for an engine that the scheduler would serve wrongly."""
    for what, present in REFUSED.items():
        if present(vllm_config):
            raise UnsupportedSettingError(f"{what} is not supported by cacheimpl.vllm.BatchedScheduler")
    groups = kv_cache_config.kv_cache_groups
    names = [type(spec).__name__ for group in groups for spec in specs_of(group.kv_cache_spec)]
    if len(groups) != 1 or any(name not in FULL for name in names):
        raise UnsupportedSettingError(
            f"layers of {', '.join(sorted(set(names)))} in {len(groups)} groups are not supported by"
            " cacheimpl.vllm.BatchedScheduler: it serves one group of full attention"
        )
    if getattr(kv_cache_config, "needs_kv_cache_zeroing", False):
        raise UnsupportedSettingError("blocks that are zeroed are not supported by cacheimpl.vllm.BatchedScheduler")


def settings_of(vllm_config: Any, kv_cache_config: Any, token_budget: int) -> Settings:
    """The settings of our scheduler. Block 0 of the workers is the null block, which no table has."""
    scheduler = vllm_config.scheduler_config
    (group,) = kv_cache_config.kv_cache_groups
    running = int(scheduler.max_num_seqs)
    adapters = getattr(vllm_config, "lora_config", None)
    return Settings(
        block_size=int(group.kv_cache_spec.block_size),
        num_gpu_blocks=int(kv_cache_config.num_blocks) - 1,
        max_num_batched_tokens=int(token_budget),
        max_num_seqs=running,
        max_model_len=int(vllm_config.model_config.max_model_len),
        max_requests=running + max(MORE_ROWS, running // 4),
        long_prefill_token_threshold=int(scheduler.long_prefill_token_threshold),
        enable_chunked_prefill=bool(scheduler.enable_chunked_prefill),
        by_priority=_policy(vllm_config) == "priority",
        enable_prefix_caching=bool(vllm_config.cache_config.enable_prefix_caching),
        watermark=int(float(getattr(scheduler, "watermark", 0.0)) * int(kv_cache_config.num_blocks)),
        max_loras=0 if adapters is None else int(adapters.max_loras),
    )


def check_served(request: Any, *, caching: bool = True) -> str | None:
    """Why the request cannot be served; None if it can be. `caching`: prefixes are looked up."""
    parameters = request.sampling_params
    asks = {
        "no sampling parameters": parameters is None,
        "a grammar": getattr(request, "structured_output_request", None) is not None,
        "prompt embeddings": getattr(request, "prompt_embeds", None) is not None,
        "a session": bool(getattr(request, "resumable", False)),
        "items": bool(getattr(request, "mm_features", None)),
        "a transfer of KV": getattr(request, "kv_transfer_params", None) is not None,
        "no look-up in the prefix cache, as prompt_logprobs does": caching
        and bool(getattr(request, "skip_reading_prefix_cache", False)),
        "repetition detection": getattr(parameters, "repetition_detection", None) is not None,
    }
    asked = [what for what, present in asks.items() if present]
    return f"it has {', '.join(asked)}, and BatchedScheduler does not serve that" if asked else None


def stops_of(request: Any) -> frozenset[int]:
    """Tokens that end the request."""
    parameters = request.sampling_params
    ends = {*(parameters.stop_token_ids or ())}
    if parameters.eos_token_id is not None:
        ends.add(parameters.eos_token_id)
    return frozenset(ends)
