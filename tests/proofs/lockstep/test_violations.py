"""What is planted is found by the properties alone, in as few calls as can be; only what the target does is kept."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, repeat
from typing import Any

import pytest

from cacheproof.catalogue.kept import load
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.tally import Limit
from cacheproof.lockstep.violations import Broken, Hunt, by_property, hunt
from cacheproof.lockstep.violations_nearest import nearest
from cacheproof.lockstep.violations_progress import settled
from cacheproof.lockstep.violations_shrink import plainer
from cacheproof.model.finding import Breakdown, Difference, Subject
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, scope_file
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.model.target import TargetError
from cacheproof.model.wire import operation_from_message
from cacheproof.search.reference import explore
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import NORMATIVE, Observation, Operation, Outcome
from cachespec.lru import Clear, Config, Pin, Pop, Put, Touch

LRU = component_named("lru")
SMALL = Config(capacity=2, sizes=(1, 1, 2), lookups=100, pins=1)
SCOPED = [component for component in components().values() if scope_file(component).is_file()]


def planted(**transitions: Any) -> AnyVariant:
    """The normative lru with some transitions replaced."""
    kinds = {kind.__name__: kind for kind in LRU.operations}
    return LRU.normative.era("planted", "planted", {kinds[name]: new for name, new in transitions.items()}, {})


def searched(variant: AnyVariant, target: Any = None, *, calls: int = 600, seed: int = 1, **options: Any) -> Hunt:
    """A target that does what the variant does, unless another is given."""
    driven = target or SpecificationTarget(LRU, variant)
    return hunt(LRU, variant, repeat(SMALL), driven, limit=Limit(steps=calls), seed=seed, **options)


def touch_counts(config: Any, cache: Any, op: Touch) -> Any:
    """As if a touch stored one byte more."""
    after, outcome = LRU.normative.transitions[Touch](config, cache, op)
    return after._replace(used=after.used + 1), outcome


def pop_forgets(config: Any, cache: Any, op: Pop) -> Any:
    """As if the bytes of what is popped stayed."""
    after, outcome = LRU.normative.transitions[Pop](config, cache, op)
    return after._replace(used=cache.used), outcome


def pop_but_keep_pin(config: Any, cache: Any, op: Pop) -> Any:
    after, outcome = LRU.normative.transitions[Pop](config, cache, op)
    return after._replace(pinned=cache.pinned), outcome


def told(found: list[Broken]) -> set[tuple[str, str, int]]:
    return {(one.rule.name, one.operation, len(one.calls)) for one in found}


def test_a_planted_bug_is_found_and_shrunk_to_one_call() -> None:
    done = searched(planted(Touch=touch_counts))
    assert ("LRU-2", "touch", 1) in told(done.found)
    assert not done.disagreements
    assert all(one.operation == "touch" for one in done.found if len(one.calls) == 1)


def test_two_bugs_behind_one_property_are_told_apart() -> None:
    done = searched(planted(Touch=touch_counts, Pop=pop_forgets))
    assert {("LRU-2", "touch", 1), ("LRU-2", "pop", 2)} <= told(done.found)


def test_a_deep_bug_is_shrunk_to_the_least() -> None:
    """Only after a pinned key was popped does anything go wrong."""
    done = searched(planted(Pop=pop_but_keep_pin), calls=2_000)
    assert done.found
    shortest = min(done.found, key=lambda one: len(one.calls))
    assert [type(call) for call in shortest.calls] == [Put, Pin, Pop]


def test_exploring_comes_to_the_least_at_once() -> None:
    done = searched(planted(Pop=pop_but_keep_pin), calls=1, explored=[SMALL], states=60)
    assert done.states == 60
    assert {(one.steps, one.episode) for one in done.found} == {(0, None)}
    assert [type(call) for call in min((one.calls for one in done.found), key=len)] == [Put, Pin, Pop]


def test_of_states_only_those_are_counted_that_were_gone_through() -> None:
    few = SMALL._replace(sizes=(1,), lookups=1, pins=0)
    target = SpecificationTarget(LRU, LRU.normative)
    done = hunt(LRU, LRU.normative, [], target, limit=Limit(steps=1), seed=1, explored=[few, few], states=500)
    assert done.states == 2 * explore(LRU, LRU.normative, few).states < 500


def test_a_call_that_does_not_return_is_found() -> None:
    done = searched(LRU.variants["M2"], calls=1_500)
    hanging = [one for one in done.found if one.ending == "diverged"]
    assert {one.rule.name for one in hanging} == {"LRU-6"}
    assert {one.operation for one in hanging} <= {"put", "clear"}
    assert all(type(one.calls[-1]) in (Put, Clear) for one in hanging)


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_nothing_is_found_where_every_property_holds(component: AnyComponent) -> None:
    scope = scopes_of(component)[0]
    target = SpecificationTarget(component, component.normative)
    limit = Limit(steps=60)
    done = hunt(
        component,
        component.normative,
        repeat(scope.config),
        target,
        limit=limit,
        seed=1,
        explored=[scope.config],
        states=15,
    )
    assert (done.found, done.disagreements) == ([], [])
    assert done.steps >= 60
    assert done.episodes > 0


def test_only_what_the_target_does_is_kept() -> None:
    """M2 is said to keep ghosts, and this target keeps none: that is a difference, and no violation."""
    done = searched(LRU.variants["M2"], SpecificationTarget(LRU, LRU.normative), explored=[SMALL], states=20)
    assert done.found == []
    assert done.disagreements
    assert all(isinstance(finding, Difference) for finding in done.disagreements)


def test_a_driver_that_fails_is_no_violation() -> None:
    class Failing(SpecificationTarget):
        def apply(self, operation: Operation) -> Outcome:
            raise TargetError("the driver is gone")

    done = searched(LRU.variants["M2"], Failing(LRU, LRU.variants["M2"]))
    assert done.found == []
    assert done.disagreements
    assert all(isinstance(finding, Breakdown) for finding in done.disagreements)


def test_the_same_seed_finds_the_same() -> None:
    bug = planted(Touch=touch_counts, Pop=pop_forgets)
    first, again, other = (searched(bug, calls=300, seed=seed) for seed in (4, 4, 5))
    assert [one.trace for one in first.found] == [one.trace for one in again.found]
    assert (first.steps, first.tally.steps) == (again.steps, again.tally.steps)
    assert first.tally.outcomes != other.tally.outcomes


def test_most_is_foreseen_and_a_part_is_made_on_both_sides() -> None:
    done = searched(LRU.normative, calls=2_000)
    assert 0 < done.tally.steps < done.foreseen.steps
    assert done.steps == done.tally.steps + done.foreseen.steps


def test_interrupted_it_says_what_it_knows() -> None:
    class Impatient(SpecificationTarget):
        calls = 0

        def observe(self) -> Mapping[str, Observation]:
            self.calls += 1
            if self.calls == 150:
                raise KeyboardInterrupt
            return super().observe()

    bug = planted(Touch=touch_counts)
    done = searched(bug, Impatient(LRU, bug), calls=100_000)
    assert done.interrupted
    assert ("LRU-2", "touch", 1) in told(done.found)


def test_faults_are_told_apart() -> None:
    """A message that is lost, and one that is overtaken, break one property at one call."""
    component = component_named("mirror")
    config = scope_named(component, "drop").config._replace(reorder=1)
    target = SpecificationTarget(component, component.variants["M3"])
    done = hunt(
        component,
        component.variants["M3"],
        cycle([config]),
        target,
        limit=Limit(steps=1),
        seed=1,
        explored=[config],
        states=120,
    )
    found = {one.key.faults: len(one.calls) for one in done.found if one.key[:2] == ("MIR-3", "deliver")}
    assert found == {("drop",): 4, ("reorder",): 4}
    assert all(one.calls[-1].wire_name() == one.operation for one in done.found if not one.ending)


def test_what_is_owed_and_never_comes_is_found() -> None:
    """In M1 a request whose data P1 has lost kills the thread that would answer it."""
    component = component_named("mirror")
    config, era = scope_named(component, "drop").config, component.variants["M1"]
    target = SpecificationTarget(component, era)
    done = hunt(component, era, cycle([config]), target, limit=Limit(steps=1), seed=1, explored=[config], states=120)
    stuck = [one for one in done.found if one.ending == "stuck"]
    assert [(one.rule.name, len(one.calls), one.key.faults) for one in stuck] == [("MIR-7/served", 4, ("drop",))]


def test_what_comes_round_for_ever_is_found() -> None:
    """A request that is retried, and retried again (C-MIR-19): the trace that is kept of it is a lasso."""
    component = component_named("mirror")
    kept = next(one for one in load("mirror").values() if one.catalogue == "C-MIR-19" and one.cycle is not None)
    subject = Subject(component, component.variants[kept.variant], scope_named(component, kept.scope).config)
    state = subject.variant.start(subject.config)
    for message in kept.operations[: kept.cycle]:
        state, _ = subject.variant.call(subject.config, state, operation_from_message(component.operations, message))
    end = settled(subject, state)
    assert end is not None
    assert end.cycle
    assert kept.rule in {rule.name for rule in end.rules}
    assert settled(subject, subject.variant.start(subject.config)) is None


def test_a_configuration_becomes_plain_as_far_as_the_calls_allow() -> None:
    component = component_named("encoder_cache")
    config = scope_named(component, "repeated-item").config._replace(budgets=(2, 9), repeats=1)
    era = component.variants["E1"]
    subject = Subject(component, era, config)
    seen = next(
        seen
        for seen in nearest(Pair(subject, SpecificationTarget(component, era), "target"), 200)
        if seen.rule.name == "ENC-5" and seen.kind is not None and seen.kind.wire_name() == "free_input"
    )
    plain = plainer(subject, seen.rule, seen.kind, seen.calls, frozenset({"unreported"})).config
    assert (plain.disciplined, plain.unreported) == (1, config.unreported)
    assert (plain.failures, plain.resets, plain.halting) == (0, 0, 0)
    assert plain.requests == config.requests


def test_findings_are_in_the_order_of_the_properties() -> None:
    found = searched(planted(Touch=touch_counts, Pop=pop_forgets)).found
    names = [one.rule.name for one in by_property(found)]
    declared = [rule.name for rule in LRU.properties()]
    assert names == sorted(names, key=declared.index)
    assert len(names) == len(found)
    assert all(one.subject.variant.tag != NORMATIVE for one in found)
    assert list(by_property([])) == []
