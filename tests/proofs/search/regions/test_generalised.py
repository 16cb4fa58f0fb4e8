"""The regions cover every configuration, each once. What is said of a region is so in each of its configurations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.regions.covering import Covering
from cacheproof.search.regions.decisions import Decisions, Form
from cacheproof.search.regions.generalised import NO_OTHER, Extent, Generalisation, Generalised, Limits
from cacheproof.search.regions.region import Region, RegionSearch
from cacheproof.search.regions.unknowns import configured, unknowns
from cachespec import lru
from cachespec.kernel import Outcome, Safety, Step
from cachespec.lru.state import Cache

LRU = component_named("lru")
NORMATIVE = LRU.normative
SCOPE = scope_named(LRU, "three-keys")
NUMBERS = unknowns(SCOPE.config, ["capacity", "sizes"])


def generalised(variant: Any = NORMATIVE, limits: Limits = NO_OTHER) -> Generalised:
    """The scope for any capacity and sizes."""
    return Generalisation(LRU, variant, SCOPE.config, SCOPE.plan, NUMBERS, limits=limits).run()


@pytest.fixture(scope="module")
def regions() -> list[tuple[Decisions, Region]]:
    """Each region that was explored, with its decisions."""
    found: list[Region] = []
    kept: list[tuple[Decisions, Region]] = []
    with pytest.MonkeyPatch.context() as patch:
        run, cover = RegionSearch.run, Covering.cover

        def noted(self: RegionSearch, region: Region, *how: Any) -> None:
            run(self, region, *how)
            found.append(region)

        def covered(self: Covering, decisions: Decisions) -> None:
            cover(self, decisions)
            if found:
                kept.append((decisions, found.pop()))

        patch.setattr(RegionSearch, "run", noted)
        patch.setattr(Covering, "cover", covered)
        assert generalised().extent is Extent.COVERED
    return kept


def is_in(decisions: Decisions, values: tuple[int, ...]) -> bool:
    """Whether a configuration with these values answers as the decisions say."""
    inside = all(interval.has(Form(0, weights).at(values)) for weights, interval in decisions.intervals.items())
    return inside and all(Form(0, weights).at(values) not in holes for weights, holes in decisions.holes.items())


def drawn(count: int) -> Iterator[tuple[int, ...]]:
    """Values of the unknowns, some of them far larger than any that was explored."""
    draw = random.Random(7)
    for _ in range(count):
        most = draw.choice((2, 4, 10, 10**12))
        yield (draw.randint(1, most), *(draw.randint(0, most) for _ in range(3)))


def test_every_configuration_is_in_one_region(regions: list[tuple[Decisions, Region]]) -> None:
    counts = {sum(is_in(decisions, values) for decisions, _ in regions) for values in drawn(2_000)}
    assert counts == {1}


def test_a_region_is_explored_as_each_of_its_configurations_is(regions: list[tuple[Decisions, Region]]) -> None:
    plan = replace(SCOPE.plan, symmetry=False)
    for values in drawn(12):
        ((_, region),) = [one for one in regions if is_in(one[0], values)]
        explored = explore(LRU, NORMATIVE, configured(SCOPE.config, NUMBERS, values), plan)
        assert (explored.states, explored.transitions, explored.violations) == (region.states, region.transitions, ())


def test_a_property_that_fails_for_one_number_only_is_found() -> None:
    normative = NORMATIVE.transitions[lru.Put]

    def put(config: Any, cache: Cache, op: lru.Put) -> tuple[Cache, Outcome]:
        after, outcome = normative(config, cache, op)
        return (after._replace(used=after.used + 1), outcome) if op.size == 1_000_003 else (after, outcome)

    wrong = NORMATIVE.era("wrong", "wrong for one size", {lru.Put: put}, {})
    assert explore(LRU, wrong, SCOPE.config, Plan()).violations == ()
    made = generalised(wrong)
    assert made.extent is Extent.COVERED
    assert made.confirmed == ()
    trace = made.broken["LRU-8"].violation.trace
    assert 1_000_003 in trace.config.sizes
    assert trace.operations[-1] == lru.Put(trace.config.sizes.index(1_000_003), 1_000_003)


def test_a_counterexample_is_executed_again_with_the_numbers_of_its_configuration() -> None:
    made = generalised(LRU.variants["M2"])
    assert set(made.broken) == {"LRU-1", "LRU-5", "LRU-7/recency"}
    violation = made.broken["LRU-1"].violation
    assert all(type(size) is int for size in violation.trace.config.sizes)
    assert violation.trace.steps[-1].operation == lru.Touch(0)


@pytest.mark.parametrize(
    ("limits", "extent"),
    [
        (Limits(states=20), Extent.STATES),
        (Limits(regions=3), Extent.REGIONS),
        (Limits(seconds=0.0001), Extent.SECONDS),
    ],
)
def test_a_limit_leaves_everything_open(limits: Limits, extent: Extent) -> None:
    made = generalised(limits=limits)
    assert (made.extent, made.confirmed) == (extent, ())


def test_an_interruption_reports_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cover = Covering.cover

    def interrupted(self: Covering, decisions: Decisions) -> None:
        cover(self, decisions)
        if made.made.regions == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Covering, "cover", interrupted)
    made = Generalisation(LRU, NORMATIVE, SCOPE.config, SCOPE.plan, NUMBERS)
    found = made.run()
    assert (found.extent, found.regions, found.confirmed) == (Extent.INTERRUPTED, 2, ())
    assert found.states > 0


def test_what_a_witness_has_cached_is_not_taken_for_decided() -> None:
    @cache
    def is_large(config: Any) -> bool:
        return bool(config.capacity > 5)

    first: Safety[Any, Any] = Safety(
        "LRU-1", "asks first", lambda config, view: True, lambda config, view: is_large(config)
    )
    second: Step[Any, Any] = Step(
        "LRU-5",
        "does not hold for large capacities",
        lambda config, before, operation, outcome, after: not is_large(config),
        lambda config, before, operation, outcome, after: False,
    )
    component = replace(LRU, safety=(first,), steps=(second,))
    made = Generalisation(component, NORMATIVE, SCOPE.config, SCOPE.plan, NUMBERS).run()
    assert made.broken["LRU-5"].violation.trace.config.capacity > 5
