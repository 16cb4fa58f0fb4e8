"""The encoder cache's accounting for one engine: branch-free functions over a few tensors."""

from cacheimpl.encoder_cache.operations import (
    abandon,
    allocate,
    cached_inputs,
    can_allocate,
    check_and_update,
    free_input,
    free_request,
    report,
    reset,
)
from cacheimpl.encoder_cache.state import NO_INPUT, Cache, Config, derive, empty, layout

__all__ = [
    "NO_INPUT",
    "Cache",
    "Config",
    "abandon",
    "allocate",
    "cached_inputs",
    "can_allocate",
    "check_and_update",
    "derive",
    "empty",
    "free_input",
    "free_request",
    "layout",
    "report",
    "reset",
]
