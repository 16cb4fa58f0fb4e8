"""The native engine finds what the reference engine finds: counts, digests, verdicts, traces, lassos and coverage."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named, components
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.releases.exploring import configurations, is_explored
from cacheproof.search import native, reference
from cacheproof.search.native import library
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.native.library import translated
from cacheproof.search.result import Ending, Exploration
from cacheproof.targets.vllm.eras import table
from cachespec.kernel import DONE, NORMATIVE, Outcome
from cachespec.lru.configuration import Config
from cachespec.lru.operations import Touch
from cachespec.lru.state import Cache

pytestmark = pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")

CONFIGS = (
    Config(capacity=3, sizes=(1, 1, 2), pins=1),
    Config(capacity=4, sizes=(1, 1, 1), grown=(2, 2, 1), lookups=2),
    Config(capacity=1, sizes=(3, 1)),
    Config(capacity=10**12, sizes=(6 * 10**11, 6 * 10**11, 1)),
)


def seen(found: Exploration) -> tuple[Any, ...]:
    """All but the name of the engine, the time and the memory."""
    counts = (found.states, found.transitions, found.depth, found.digest, found.ending)
    return (*counts, found.witnessed, found.coverage, found.violations)


def explored(tag: str, config: Any, plan: Plan, threads: int = 1) -> tuple[Any, ...]:
    component = component_named("lru")
    variant = component.variants[tag]
    ours = native.explore(component, variant, config, plan, threads=threads)
    assert ours.engine == "native"
    assert seen(ours) == seen(reference.explore(component, variant, config, plan))
    return seen(ours)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("symmetry", [True, False])
def test_a_variant_in_several_configurations(config: Config, symmetry: bool) -> None:
    explored("normative", config, Plan(symmetry=symmetry))


@pytest.mark.parametrize("threads", [2, 5])
def test_several_threads_find_the_same(threads: int) -> None:
    explored("normative", CONFIGS[1], Plan(), threads)
    scope = scope_named(component_named("lru"), "turns")
    explored("M2", scope.config, replace(scope.plan, until=frozenset()), threads)


def beyond(limit: int, used: int) -> bool:
    return used > limit


LIMITS = (partial(beyond, 1), partial(beyond, 2), partial(beyond, 4))
"""A loop over functions stands in the compiled code once for each."""


def of_several_ways(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    """Names that are known when the code is compiled on one way, and on another one only when it runs."""
    place, last, kind = 0, 0, 0
    for number, is_beyond in enumerate(LIMITS):
        place = place + 1
        if is_beyond(cache.used):
            last = number
            if number > 1:
                break
        elif op.key == 1:
            continue
        kind = 7
    if op.key == 0:
        place = 10 if cache.used == 2 else place
    elif op.key == 1:
        last = 5
    else:
        kind = place
    return cache._replace(hits=cache.hits + 100 * place + 10 * last + kind if cache.hits < 200 else 0), DONE


@pytest.mark.parametrize("tag", ["normative", "M2"])
def test_names_where_ways_meet(tag: str) -> None:
    lru = component_named("lru")
    variant = lru.variants[tag]
    changed = replace(variant, transitions={**variant.transitions, Touch: of_several_ways})
    plan = Plan(depth=4)
    found = seen(native.explore(lru, changed, CONFIGS[1], plan))
    assert found == seen(reference.explore(lru, changed, CONFIGS[1], plan))
    assert found[0] > 100


FEWEST_OF_LARGEST = 600_000

ERAS = sorted({(era.component, era.variant) for era in table().eras if is_explored(era.component)})


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("name", "tag"), ERAS)
def test_both_engines_agree_in_the_configurations_of_releases(name: str, tag: str) -> None:
    """Other configurations than those of the scopes. A function that a branch replaces was wrong in one of them."""
    component = component_named(name)
    variant, plan = component.variants[tag], Plan(liveness=True, depth=9)
    era = next(one for one in table().eras if (one.component, one.variant) == (name, tag))
    for config in configurations(era, at_once=1):
        ours = seen(native.explore(component, variant, config, plan))
        assert ours == seen(reference.explore(component, variant, config, plan)), config


LARGEST = [
    (component.name, scope.name)
    for component in map(component_named, components())
    for scope in scopes_of(component)
    if (scope.expectation(NORMATIVE).states or 0) > FEWEST_OF_LARGEST and NORMATIVE in scope.variants
]
"""Scopes that only compiled code has explored to their end."""


def test_scopes_are_known_that_only_compiled_code_explores() -> None:
    assert {("mirror", "crowd"), ("publication", "three-sizes"), ("scheduler", "four-of-two-priorities")} <= {*LARGEST}


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("name", "scope"), LARGEST)
def test_both_engines_agree_on_the_first_levels(name: str, scope: str) -> None:
    """They agree on all levels before the one in which there are 20,000 states."""
    component = component_named(name)
    chosen = scope_named(component, scope)
    few = native.explore(component, component.normative, chosen.config, replace(chosen.plan, limit_states=20_000))
    assert few.ending is Ending.STATES
    plan = replace(chosen.plan, depth=few.depth - 1)
    ours = seen(native.explore(component, component.normative, chosen.config, plan, threads=2))
    assert ours == seen(reference.explore(component, component.normative, chosen.config, plan))
    assert ours[0] > 1_000


def test_a_number_that_does_not_fit_is_an_error() -> None:
    lru = component_named("lru")
    config = Config(capacity=2**63 - 1, sizes=(2**62, 2**62))
    with pytest.raises(InputError, match="does not fit into 64 bits"):
        native.explore(lru, lru.normative, config)


def of_pairs(config: Config, cache: Cache, op: Touch) -> tuple[Cache, Outcome]:
    """One sequence is longer than the other if two entries are there; a search that ends before does not see it."""
    keys = tuple(key for key, _ in cache.entries.items())
    others = keys if len(keys) < 2 else (*keys, op.key)
    alike = all(one == other for one, other in zip(keys, others, strict=True))
    early = keys != () and any(one == other for one, other in zip(keys, (*keys, op.key), strict=True))
    return cache._replace(entries=cache.entries.set(op.key, 1), hits=(alike + early) % 4), DONE


def test_sequences_of_different_lengths_are_an_error_where_python_raises_one() -> None:
    lru = component_named("lru")
    changed = replace(lru.normative, transitions={**lru.normative.transitions, Touch: of_pairs})
    small = Plan(depth=2)
    assert seen(native.explore(lru, changed, CONFIGS[1], small)) == seen(
        reference.explore(lru, changed, CONFIGS[1], small)
    )
    for explore, error in ((native.explore, InputError), (reference.explore, ValueError)):
        with pytest.raises(error, match=r"different lengths|shorter|longer"):
            explore(lru, changed, CONFIGS[1], Plan(depth=3))


def test_a_failure_in_a_thread_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    lru = component_named("lru")
    glue = translated(lru, lru.normative)
    sound, last = "static MovedT step_of(", '}\n#include "levels.hpp"'
    failing = (
        "static MovedT step_of(const ConfigT& c, const StateT& s, const Op& o)"
        ' { if (s.used == 4) fail("planted"); return sound(c, s, o); }\n'
    )
    assert glue.text.count(sound) == glue.text.count(last) == 1
    text = glue.text.replace(sound, "static MovedT sound(").replace(last, failing + last)
    monkeypatch.setattr(glue, "text", text)
    monkeypatch.setattr(library, "_LOADED", {})
    with pytest.raises(InputError, match="planted"):
        native.explore(lru, lru.normative, CONFIGS[1], Plan(), threads=3)


def test_a_lasso_and_shortest_counterexamples() -> None:
    scope = scope_named(component_named("lru"), "turns")
    found = explored("M2", scope.config, replace(scope.plan, until=frozenset()))
    violated = {violation.property for violation in found[-1]}
    assert {"LRU-5", "LRU-6"} <= violated


def test_it_ends_where_the_plan_says() -> None:
    config = CONFIGS[1]
    assert explored("normative", config, Plan(depth=2))[4] is Ending.DEPTH
    assert explored("M2", config, Plan(until=frozenset({"LRU-5"})))[4] is Ending.FOUND
    component = component_named("lru")
    limited = native.explore(component, component.normative, config, Plan(limit_states=10))
    assert limited.ending is Ending.STATES


@pytest.mark.parametrize("name", ["lru", "mirror", "scheduler", "engine"])
def test_every_variant_is_translated(name: str) -> None:
    component = component_named(name)
    for variant in component.variants.values():
        assert native.cannot(component, variant, Plan()) is None
