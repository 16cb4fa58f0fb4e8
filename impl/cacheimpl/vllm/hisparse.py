"""The release's connector of HiSparse with our coordinator."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from cacheimpl.hisparse import get_hisparse_coordinator
from cacheimpl.kv_cache_manager import KVCacheManager

CONNECTOR = "HiSparseConnector"
"""The release's class. It reads of a manager what `get_hisparse_coordinator` returns, and nothing else."""
FUNCTION = "get_hisparse_coordinator"
PLACES = ("vllm.v1.hisparse.coordinator", "vllm.distributed.kv_transfer.kv_connector.v1.hisparse.connector")
"""Modules of the release that have the function under this name."""
CHOSEN = "_chosen_by_cacheimpl"
"""Marks a function that `choose` has put in the place of the release's."""


def is_wanted(vllm_config: Any) -> bool:
    """Whether the engine's connector is that of HiSparse."""
    return getattr(getattr(vllm_config, "kv_transfer_config", None), "kv_connector", None) == CONNECTOR


def choose() -> None:
    """Connectors that are made from now on get our coordinator for our managers, and the release's for its own."""
    for place in PLACES:
        module: Any = importlib.import_module(place)
        theirs = getattr(module, FUNCTION)
        if not getattr(theirs, CHOSEN, False):
            setattr(module, FUNCTION, _choosing(theirs))


def _choosing(theirs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The release's function, but for our managers."""

    @wraps(theirs)
    def coordinator_of(kv_cache_manager: Any) -> Any:
        ours = isinstance(kv_cache_manager, KVCacheManager)
        return get_hisparse_coordinator(kv_cache_manager) if ours else theirs(kv_cache_manager)

    setattr(coordinator_of, CHOSEN, True)
    return coordinator_of
