"""The encoder cache manager: resident encoder outputs, the requests that refer to them, and the room that is left.

Encoder outputs are shared by content. An entry to which no request refers stays until its room is needed; the one that
has been so for the longest time goes first. The workers are told what to drop at the end of each pass. Everything here
is accounting on the scheduler's side; the tensors are the workers'.

Read `operations`, `state` and `transitions` in this order, then `properties`; `environment` says which calls a scope
makes. Source: semantics of the released `EncoderCacheManager`.
"""

from __future__ import annotations

from cachespec.encoder_cache.configuration import Config, interchangeable, malformed
from cachespec.encoder_cache.environment import calls, unknown
from cachespec.encoder_cache.era_by_model import CacheByModel, by_model
from cachespec.encoder_cache.era_encoder_decoder import ENCODER_DECODER
from cachespec.encoder_cache.era_per_request import PER_REQUEST, PER_REQUEST_UNTIL_ABORTED
from cachespec.encoder_cache.era_shared import SHARED, SHARED_BY_COUNT, SHARED_WITH_RESET
from cachespec.encoder_cache.operations import (
    OPERATIONS,
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
    Reset,
)
from cachespec.encoder_cache.properties import SAFETY, STEPS
from cachespec.encoder_cache.service import SERVICE
from cachespec.encoder_cache.state import GROUPING, OBSERVABLES, Cache, View, initial, observe, view
from cachespec.encoder_cache.transitions import TRANSITIONS
from cachespec.kernel import NORMATIVE, Component, Variant, variants

NORMATIVE_ENCODER_CACHE: Variant[Config, Cache, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Cache,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=lambda config, cache: calls(config, view(config, cache)),
)

COMPONENT: Component[Config, Cache, View] = Component(
    name="encoder_cache",
    summary="encoder outputs shared by content, evicted for room",
    config=Config,
    malformed=malformed,
    operations=OPERATIONS,
    variants=variants(
        NORMATIVE_ENCODER_CACHE,
        PER_REQUEST_UNTIL_ABORTED,
        PER_REQUEST,
        SHARED,
        SHARED_WITH_RESET,
        SHARED_BY_COUNT,
        ENCODER_DECODER,
    ),
    observe=observe,
    observables=OBSERVABLES,
    grouping=GROUPING,
    interchangeable=interchangeable,
    unknown=unknown,
    safety=SAFETY,
    steps=STEPS,
    service=SERVICE,
)

__all__ = [
    "COMPONENT",
    "ENCODER_DECODER",
    "NORMATIVE_ENCODER_CACHE",
    "PER_REQUEST",
    "PER_REQUEST_UNTIL_ABORTED",
    "SHARED",
    "SHARED_BY_COUNT",
    "SHARED_WITH_RESET",
    "Abandon",
    "Allocate",
    "Cache",
    "CacheByModel",
    "CachedInputs",
    "CanAllocate",
    "CheckAndUpdate",
    "Config",
    "FreeInput",
    "FreeRequest",
    "Report",
    "Reset",
    "View",
    "by_model",
]
