"""LRU-8: a key that is in the cache is put again, larger than the cache. It is refused, and the old entry stays."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.finding import Difference
from cacheproof.model.registry import component_named
from cacheproof.model.scope import DEFAULT, scopes_of
from cacheproof.targets.process import InProcessTarget

LRU = component_named("lru")
SCOPES = [scope for scope in scopes_of(LRU) if scope.set == DEFAULT]


class Cache:
    """Right but for what a bug changes."""

    drops_the_old = False

    def __init__(self, config: Any) -> None:
        self._capacity = config.capacity
        self._sizes: OrderedDict[int, int] = OrderedDict()

    def put(self, key: int, size: int) -> str:
        if size > self._capacity:
            if self.drops_the_old:
                self._sizes.pop(key, None)
            return "too_large"
        self._sizes.pop(key, None)
        while sum(self._sizes.values()) + size > self._capacity:
            self._sizes.popitem(last=False)
        self._sizes[key] = size
        return "done"

    def contains(self, key: int) -> bool:
        return key in self._sizes

    def pop(self, key: int) -> str:
        return "absent" if self._sizes.pop(key, None) is None else "done"

    def order(self) -> list[int]:
        return list(self._sizes)


class Dropping(Cache):
    drops_the_old = True


def found_in(kind: type[Cache], seed: int) -> dict[str, int]:
    """The scopes in which it differs, and the length of the shortest calls."""
    target = InProcessTarget(kind, LRU)
    left_out = target.declaration().missing(LRU)
    found = {}
    for scope in SCOPES:
        run = lockstep(LRU, LRU.normative, scope.config, target, steps=300, seed=seed, left_out=left_out)
        if run.finding is not None:
            assert isinstance(run.finding, Difference)
            found[scope.name] = len(run.finding.trace.steps)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_old_value_that_is_dropped_is_found_by_default(seed: int) -> None:
    found = found_in(Dropping, seed)
    assert found["outgrown"] == 2
    assert found_in(Cache, seed) == {}
