"""Caches of the package index and an allocator of another design follow declared rules; planted bugs are found."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cacheproof.lockstep.campaign import Campaign, lockstep
from cacheproof.lockstep.fitting import Search
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.scope import DEFAULT, scopes_of
from cacheproof.targets.process import InProcessTarget

ADAPTERS = Path(__file__).parent / "design_choices"
LONGEST_ADAPTER = 40
STEPS = 100


class Choice(NamedTuple):
    """An adapter, the package that it needs, the rules that the package follows, and a bug planted into it."""

    module: str
    package: str
    component: str
    rules: str
    planted: Callable[[Any], type]


def never_refreshed(module: Any) -> type:
    """A hit does not become the most recent."""

    class Planted(module.Adapter):  # type: ignore[misc]  # the class is known at run time only
        def lookup(self, key: int) -> str:
            before = self.observe()["order"]
            answer = str(super().lookup(key))
            for other in before[before.index(key) + 1 :] if answer == "hit" else ():
                super().lookup(other)
            return answer

    return Planted


def kept_by_clear(module: Any) -> type:
    """Clearing leaves the newest entry."""

    class Planted(module.Adapter):  # type: ignore[misc]  # likewise
        def clear(self) -> None:
            shown = self.observe()
            super().clear()
            for key, size in list(zip(shown["order"], shown["sizes"], strict=True))[-1:]:
                self.put(key, size)

    return Planted


def one_entry_too_few(module: Any) -> type:
    """A full cache evicts one entry more than it has to."""

    class Planted(module.Adapter):  # type: ignore[misc]  # likewise
        def put(self, key: int, size: int) -> None:
            shown = self.observe()
            super().put(key, size)
            if key not in shown["order"] and len(shown["order"]) == self.config.capacity > 1:
                super().pop(shown["order"][1])

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.config = config

    return Planted


def found_after_reuse(module: Any) -> type:
    """A page that was handed out again can still be found by its old content."""

    class Pages(module.PageAllocator):  # type: ignore[misc]  # likewise
        def forget(self, page: int) -> None:
            pass

    class Planted(module.Adapter):  # type: ignore[misc]  # likewise
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.pages = Pages(config.blocks, config.block_size)

    return Planted


GUARDS = "unguarded:present+unguarded:too_large+unguarded:stale+unguarded:absent"
CHOICES = [
    Choice("cachetools_lru", "cachetools", "lru", "", never_refreshed),
    Choice("cachebox_lru", "cachebox", "lru", "contains-refreshes", kept_by_clear),
    Choice("lru_dict_lru", "lru", "lru", "entries+lookups-all-counted+pops-counted", one_entry_too_few),
    Choice("boltons_lru", "boltons", "lru", "entries+lookups-all-counted+clear-keeps-counters", one_entry_too_few),
    Choice("page_kv_blocks", "", "kv_blocks", f"freed-first+last-copy-only+{GUARDS}", found_after_reuse),
]
of_each = pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: str(choice.module))


@pytest.fixture
def adapter(choice: Choice, monkeypatch: pytest.MonkeyPatch) -> Any:
    if choice.package:
        pytest.importorskip(choice.package, reason=f"the package {choice.package} is not installed")
    monkeypatch.syspath_prepend(str(ADAPTERS))
    return importlib.import_module(choice.module)


def compared(choice: Choice, factory: type) -> list[Campaign]:
    """One run in each default scope, up to the first difference."""
    component = component_named(choice.component)
    variant = variant_named(component, "+".join(part for part in ("normative", choice.rules) if part))
    done = []
    for scope in scopes_of(component):
        if scope.set == DEFAULT and "normative" in scope.variants:
            target = InProcessTarget(factory, component)
            left_out = target.declaration().missing(component)
            done.append(lockstep(component, variant, scope.config, target, steps=STEPS, seed=3, left_out=left_out))
            if done[-1].finding is not None:
                break
    return done


@of_each
def test_the_implementation_agrees_with_its_mixture_and_each_rule_shows(choice: Choice, adapter: Any) -> None:
    done = compared(choice, adapter.Adapter)
    assert [campaign.finding for campaign in done if campaign.finding is not None] == []
    assert set().union(*(campaign.tally.rules for campaign in done)) == set(filter(None, choice.rules.split("+")))


@of_each
def test_a_planted_bug_is_found(choice: Choice, adapter: Any) -> None:
    assert compared(choice, choice.planted(adapter))[-1].finding is not None


@of_each
def test_the_adapter_is_short(choice: Choice) -> None:
    lines = (ADAPTERS / f"{choice.module}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < LONGEST_ADAPTER


@pytest.mark.nightly
@of_each
def test_the_rules_of_each_are_found(choice: Choice, adapter: Any) -> None:
    component = component_named(choice.component)
    target = InProcessTarget(adapter.Adapter, component)
    scopes = [scope for scope in scopes_of(component) if scope.set == DEFAULT and "normative" in scope.variants]
    left_out = target.declaration().missing(component)
    search = Search(component, component.normative, scopes, target, choice.module, 2000, 1, left_out)
    found = search.run()
    assert found.fits
    assert {rule.name for rule in found.variant.mixed} == set(filter(None, choice.rules.split("+")))
