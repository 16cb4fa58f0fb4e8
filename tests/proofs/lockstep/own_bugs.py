"""Bugs in our own implementation that its tests find: some of each component, evenly from the lists of the tests.

Left out are those that single calls of a target cannot show: they need bursts of requests, or sizes of many bits.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from typing import Any

from tests.impl import (
    function_bugs,
    kv_blocks_bugs,
    test_mirror_tensors,
    test_mutants,
    test_object_store_lockstep,
    test_ring,
    test_scheduler_mutants,
)
from tests.planting import Change

from cachespec.lru.configuration import Config as LruConfig

OF_EACH = 5
NEEDS_SIZE = ("eight bits", "runs off the end")


def bugs() -> Iterator[tuple[str, str, Change]]:
    """Component, name and change of each."""
    for component, every in _lists().items():
        chosen = {name: change for name, change in every.items() if not any(text in name for text in NEEDS_SIZE)}
        step = max(1, len(chosen) // OF_EACH)
        for name in list(chosen)[::step][:OF_EACH]:
            yield component, name, chosen[name]


def _lists() -> dict[str, dict[str, Change]]:
    tensors = test_mutants.MUTANTS.items()
    blocks = kv_blocks_bugs
    loads = test_scheduler_mutants
    return {
        "lru": {name: _named(*rest) for name, (config, *rest) in tensors if isinstance(config, LruConfig)},
        "encoder_cache": {
            name: _named(*rest) for name, (config, *rest) in tensors if not isinstance(config, LruConfig)
        },
        "kv_blocks": {name: _named(*rest) for name, (by, *rest) in blocks.MUTANTS.items() if by in blocks.SCOPES},
        "mirror": {name: change for name, (_, change) in test_mirror_tensors.BUGS.items()},
        "object_store": {name: Change(*rest) for name, rest in test_object_store_lockstep.MUTANTS.items()},
        "ring": {
            name: _named(f"{test_ring.CODE}.{function}", right, wrong)
            for name, (_, function, right, wrong) in test_ring.MUTANTS.items()
        },
        "scheduler": {name: _named(*rest) for name, (by, *rest) in loads.MUTANTS.items() if by not in loads.RUNS},
        **{component: function_bugs.changes(component) for component in function_bugs.BUGS},
    }


def _named(function: str, right: str, wrong: str) -> Change:
    found: Any = pkgutil.resolve_name(function)
    return Change(found, right, wrong)
