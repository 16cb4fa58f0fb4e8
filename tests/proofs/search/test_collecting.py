"""While an engine searches, Python does not look for garbage in cycles; afterwards it does as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from cacheproof.foundation.collecting import not_collecting
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search import clock
from cacheproof.search.engines import engine_named
from cacheproof.search.result import Snapshot


@pytest.fixture(params=[True, False], ids=["collecting", "not collecting"])
def before(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether Python collects before the search."""
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


def test_what_was_set_before_is_set_again(before: bool) -> None:
    @not_collecting()
    def fail() -> None:
        raise ZeroDivisionError(gc.isenabled())

    with pytest.raises(ZeroDivisionError, match="False"):
        fail()
    assert gc.isenabled() is before


@pytest.mark.parametrize("engine", ["reference", "tensor"])
def test_both_engines_search_without(engine: str, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "BETWEEN_SNAPSHOTS", -1.0)
    lru = component_named("lru")
    config = scope_named(lru, "turns").config
    seen: list[bool] = []

    def watch(_: Snapshot) -> None:
        seen.append(gc.isenabled())

    engine_named(engine)(lru, lru.normative, config, Plan(), watch, crew=None, share=0.0, checkpoint=None)
    assert seen, "nothing was shown"
    assert not any(seen)
    assert gc.isenabled() is before
