"""The features of an engine that a user of vLLM would name, and where the specification has each.

A feature is a condition on the configuration of one component, as data. All that the book says of it is computed from
this: see `features_page`. Features that the specification lacks name the refusal of the implementation, if it has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cachespec.scheduler.configuration import EXPECTED


@dataclass(frozen=True, slots=True)
class Condition:
    """One setting of a configuration. `holds` of `CONDITIONS` says when; `value` is what it compares with."""

    setting: str
    holds: str = "on"
    value: int | str = 0


@dataclass(frozen=True, slots=True)
class Feature:
    """One row: `component` is empty if the specification does not have the feature."""

    item: str
    name: str
    component: str = ""
    conditions: tuple[Condition, ...] = ()
    operations: tuple[str, ...] = ()
    """Wire names of the operations that exist for it."""
    interface: str = ""
    """`Class.method(parameter)` or `Class.method` of `cacheimpl`, if the implementation is another class than that of
    the component (`CLASSES`)."""
    refused: str = ""
    """By which name the implementation refuses it."""

    def is_on(self, config: Any) -> bool:
        """Whether a configuration of the component has it."""
        return all(_holds(condition, config) for condition in self.conditions)

    def check(self) -> None:
        """Raises `InputError` for a component, a setting, an operation or a condition that does not exist."""
        if not self.component:
            return
        component = component_named(self.component)
        for condition in self.conditions:
            named = [condition.setting, *([condition.value] if isinstance(condition.value, str) else [])]
            for setting in named:
                if setting not in component.config._fields:
                    raise InputError(f"feature '{self.name}': {self.component} has no setting '{setting}'")
            if condition.holds not in CONDITIONS:
                raise InputError(f"feature '{self.name}': there is no condition '{condition.holds}'")
        known = {operation.wire_name() for operation in component.operations}
        for operation in self.operations:
            if operation not in known:
                raise InputError(f"feature '{self.name}': {self.component} has no operation '{operation}'")


def _holds(condition: Condition, config: Any) -> bool:
    given, value, holds = getattr(config, condition.setting), condition.value, condition.holds
    if holds == "on":
        return bool(given != config._field_defaults.get(condition.setting)) and _some(given)
    if holds == "off":
        return bool(given == 0)
    if holds == "has":
        return bool(value in given)
    if holds == "differ":
        return len(set(given)) > 1
    if holds == "several":
        return len(given) > 1
    return any(own >= other for own, other in zip(given, getattr(config, str(value)), strict=False))


def _some(given: Any) -> bool:
    return any(given) if isinstance(given, tuple) else bool(given)


CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "on": "is on",
        "off": "is 0",
        "has": "has",
        "differ": "has different numbers",
        "several": "has several",
        "reaches": "reaches",
    }
)
"""The conditions, in words."""

CLASSES: Mapping[str, str] = MappingProxyType(
    {"layer_groups": "KVCacheManager", "kv_blocks": "KVCacheManager", "scheduler": "scheduler.engine.Scheduler"}
)
"""The class of `cacheimpl` that implements a component."""

GROUPS, DRAFTS, LOADS = "1 groups of layers", "2 drafts", "3 KV from elsewhere"
SESSIONS, BOUNDS, ENCODER, BLOCKS = "4 sessions", "5 bounds of a step", "6 encoder outputs", "7 blocks"


def _kind(name: str, number: int) -> Feature:
    return Feature(GROUPS, name, "layer_groups", (Condition("kinds", "has", number),))


def _step(item: str, name: str, *settings: str, operations: Sequence[str] = (), interface: str = "") -> Feature:
    return Feature(item, name, "scheduler", tuple(map(Condition, settings)), tuple(operations), interface)


FEATURES: tuple[Feature, ...] = (
    _kind("full attention", 0),
    _kind("sliding window", 1),
    _kind("chunked local attention", 2),
    _kind("state-space layers", 3),
    _kind("cross attention", 4),
    Feature(GROUPS, "groups with blocks of different sizes", "layer_groups", (Condition("sizes", "differ"),)),
    Feature(
        GROUPS,
        "common prefix of all groups",
        "layer_groups",
        (Condition("kinds", "several"),),
        ("get_computed_blocks",),
    ),
    Feature(
        GROUPS,
        "windows and states that only the end of a prompt keeps",
        "layer_groups",
        (Condition("retention", "off"),),
    ),
    Feature(GROUPS, "retention interval of the prefix cache", "layer_groups", (Condition("retention"),)),
    Feature(GROUPS, "shared prefixes that a scheduler names", "layer_groups", (Condition("shared_prefixes"),)),
    Feature(
        DRAFTS,
        "look-ahead slots",
        "kv_blocks",
        (Condition("drafts"),),
        interface="LaterKVCacheManager.allocate_slots(num_lookahead_tokens)",
    ),
    _step(DRAFTS, "rejected drafts", "drafts"),
    _step(DRAFTS, "drafts with steps ahead", "drafts", "ahead"),
    Feature(
        DRAFTS,
        "last block of a hit dropped for draft models",
        "layer_groups",
        (Condition("drafting"),),
        ("get_computed_blocks",),
        "LaterKVCacheManager.__init__(use_eagle)",
    ),
    _step(LOADS, "loads in the first step", "external"),
    _step(LOADS, "loads that take time", "loads_later", operations=("finish_load",)),
    _step(LOADS, "failed loads", "load_failures", operations=("fail_load", "fail_step")),
    _step(LOADS, "failed loads that end the request", "failed_loads_end", operations=("fail_load",)),
    _step(LOADS, "aborts during a load", "loads_later", "aborts", operations=("abort",)),
    _step(LOADS, "blocks kept while they are sent", "sends", operations=("finish_send",)),
    Feature(
        LOADS,
        "whole prompts transferred",
        "scheduler",
        (Condition("external", "reaches", "prompts"), Condition("loads_later")),
        ("finish_load",),
    ),
    Feature(
        LOADS,
        "computed tokens that go back",
        "kv_blocks",
        (Condition("rollbacks"),),
        ("roll_back",),
        "LaterKVCacheManager.roll_back",
    ),
    _step(SESSIONS, "sessions", "turns"),
    _step(SESSIONS, "sessions aborted between turns", "turns", "aborts", operations=("abort",)),
    Feature(SESSIONS, "items in later turns", "scheduler", (Condition("turns"), Condition("items"))),
    _step(BOUNDS, "adapters", "adapters"),
    _step(BOUNDS, "grammars", "grammars", operations=("compile",)),
    _step(BOUNDS, "pooling models", "pooling"),
    _step(BOUNDS, "pooling models with aborts", "pooling", "aborts", operations=("abort",)),
    Feature(BOUNDS, "prompts that are not cut", "scheduler", (Condition("chunked_prefill", "off"),)),
    _step(BOUNDS, "min_tokens", "min_tokens"),
    _step(BOUNDS, "stop tokens", "stops"),
    _step(BOUNDS, "pipeline stages", "pipelined"),
    _step(BOUNDS, "chunks of a prompt that end at multiples, as with layers that keep states", "alignment"),
    _step(BOUNDS, "watermark", "watermark", interface="LaterKVCacheManager.__init__(watermark)"),
    Feature(
        BOUNDS,
        "blocks reserved for whole sequences",
        "scheduler",
        (Condition("admit_by_chunk", "off"),),
        interface="LaterKVCacheManager.allocate_slots(full_sequence_must_fit)",
    ),
    _step(BOUNDS, "reset with running requests", "running_resets", operations=("reset_running",)),
    _step(BOUNDS, "priorities", "policy"),
    _step(ENCODER, "encoder-decoder models", "encoder_decoder"),
    _step(ENCODER, "encoder-decoder models with steps ahead", "encoder_decoder", "ahead"),
    _step(ENCODER, "encoder connector", "encoder_connector", operations=("lose_output",)),
    Feature(
        ENCODER,
        "encoder outputs that come later, twice or never",
        "scheduler",
        (Condition("encoder_connector", "has", EXPECTED),),
        ("bring_output", "lose_output"),
    ),
    _step(ENCODER, "encoder connector with aborts", "encoder_connector", "aborts", operations=("abort",)),
    _step(ENCODER, "encoder connector with steps ahead", "encoder_connector", "ahead"),
    Feature(
        BLOCKS,
        "partly filled blocks that are shared",
        "partial_hits",
        operations=("get_computed_blocks", "dispatch"),
        interface="LaterKVCacheManager.take_kv_cache_block_copies",
    ),
    Feature(
        BLOCKS, "KV cache events", "kv_events", operations=("take_events",), interface="LaterKVCacheManager.take_events"
    ),
    Feature(BLOCKS, "pages in the host's memory (HiSparse)", interface="HiSparseCoordinator.advance_scheduled"),
    Feature(BLOCKS, "blocks evicted by number", "kv_blocks", (Condition("evictions"),), ("evict_block",)),
)
"""All rows of the table, in the order of their items."""
