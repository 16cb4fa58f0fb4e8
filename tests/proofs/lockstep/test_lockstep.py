"""Lockstep finds what is planted, shrinks it to the least, says the same for the same seed, and never says too much."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import Campaign, lockstep
from cacheproof.lockstep.pair import PATIENCE, Pair
from cacheproof.model.finding import Breakdown, Difference, Subject
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import Target, TargetError
from cacheproof.model.trace import Violation
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import FAILED, Code, Observation, Operation, Outcome
from cachespec.lru import Clear, Config, Get, Pin, Pop, Put, Touch

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
LRU = component_named("lru")
GHOST = LRU.variants["M2"]
CONFIG = Config(capacity=2, sizes=(1, 1, 2), lookups=100, pins=1)
ENOUGH = 7
"""Operations of each component in which a failure is planted."""
named = pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)


def campaign(target: Target, steps: int = 2_000, seed: int = 1, **options: Any) -> Campaign:
    return lockstep(LRU, LRU.normative, CONFIG, target, steps=steps, seed=seed, **options)


def planted(**transitions: Any) -> SpecificationTarget:
    """The normative lru with some transitions replaced."""
    kinds = {kind.__name__: kind for kind in LRU.operations}
    changed = {kinds[name]: transition for name, transition in transitions.items()}
    return SpecificationTarget(LRU, LRU.normative.era("planted", "planted", changed, {}))


class Shell:
    """A target around another one, for tests to change one method of."""

    def __init__(self, inner: Target) -> None:
        self.inner = inner
        self.calls = 0

    def reset(self, config: Any) -> None:
        self.inner.reset(config)

    def apply(self, operation: Operation) -> Outcome:
        self.calls += 1
        return self.inner.apply(operation)

    def observe(self) -> Mapping[str, Observation]:
        return self.inner.observe()

    def close(self) -> None:
        self.inner.close()


def shortest(component: AnyComponent, mutant: AnyVariant, config: Any, limit: int = 1_500) -> int | None:
    """How many calls the shortest difference has, breadth first on both sides; None where the limit comes first."""
    right = component.normative
    level, depth = [(right.start(config), mutant.start(config))], 0
    seen: set[tuple[Any, Any]] = set()
    while level and len(seen) < limit:
        depth += 1
        following = []
        for ours, theirs in level:
            for operation in right.alphabet(config, ours):
                one, expected = right.call(config, ours, operation)
                other, actual = mutant.call(config, theirs, operation)
                same = shown(component, right, config, one) == shown(component, mutant, config, other)
                if expected != actual or not same:
                    return depth
                if (one, other) not in seen:
                    seen.add((one, other))
                    following.append((one, other))
        level = following
    return None


def shown(component: AnyComponent, variant: AnyVariant, config: Any, state: Any) -> Mapping[str, Observation]:
    return component.observe(config, variant.view(config, state))


def failing(transition: Callable[..., Any]) -> Callable[..., Any]:
    """The transition as an implementation has it whose assertion fails where all is well."""

    def fails(config: Any, state: Any, operation: Operation) -> tuple[Any, Outcome]:
        after, outcome = transition(config, state, operation)
        return after, FAILED if outcome.code in (Code.DONE, Code.HIT) else outcome

    return fails


def each_once(component: AnyComponent) -> Iterator[tuple[AnyVariant, Any]]:
    """Every scope with one of its variants in turn, and every variant with one scope."""
    seen = set[str]()
    for number, scope in enumerate(scopes_of(component)):
        for place, tag in enumerate(scope.variants):
            if tag not in seen or place == number % len(scope.variants):
                seen.add(tag)
                yield component.variants[tag], scope.config


@named
def test_the_specification_agrees_with_itself(component: AnyComponent) -> None:
    for variant, config in each_once(component):
        target = SpecificationTarget(component, variant)
        found = lockstep(component, variant, config, target, steps=75, seed=5)
        assert found.finding is None
        assert found.tally.steps == 75
        assert found.tally.observables == set(shown(component, variant, config, variant.start(config)))


@named
def test_planted_in_every_operation_and_shrunk_to_the_least(component: AnyComponent) -> None:
    config, right, tried = scopes_of(component)[0].config, component.normative, 0
    for kind in component.operations:
        if kind not in right.transitions:
            continue
        mutant = right.era("planted", "planted", {kind: failing(right.transitions[kind])}, {})
        least = shortest(component, mutant, config)
        if least is None:
            continue
        target = SpecificationTarget(component, mutant)
        found = lockstep(component, right, config, target, steps=20_000, seed=3)
        assert isinstance(found.finding, Difference), kind
        assert found.came_again
        assert len(found.finding.trace.steps) == least, (kind, found.finding.trace.operations)
        tried += 1
        if tried == ENOUGH:
            break
    assert tried >= 3 or tried == len(component.operations)


def test_the_trace_of_a_difference_is_what_the_specification_does() -> None:
    finding = campaign(SpecificationTarget(LRU, GHOST)).finding
    assert isinstance(finding, Difference)
    assert finding.trace.operations == (Touch(0),)
    assert finding.index == 0
    assert finding.operation == Touch(0)
    assert finding.expected.outcome == finding.actual.outcome
    assert finding.expected.observations["order"] == ()
    assert finding.actual.observations["order"] == (0,)
    assert finding.statements == (
        "order: the specification has [], the target [0]",
        "sizes: the specification has [], the target [0]",
    )


def test_a_deep_bug_is_shrunk_to_the_least() -> None:
    """Only after a pinned key was popped does anything go wrong: put, pin, pop, and a put that sees the stale pin."""
    bug = planted(Pop=pop_but_keep_pin)
    least = shortest(LRU, bug._variant, CONFIG)
    finding = campaign(bug, steps=20_000).finding
    assert isinstance(finding, Difference)
    assert least == 4
    assert len(finding.trace.steps) == least
    assert [type(operation) for operation in finding.trace.operations] == [Put, Pin, Pop, Put]


def pop_but_keep_pin(config: Config, cache: Any, op: Pop) -> Any:
    after, outcome = LRU.normative.transitions[Pop](config, cache, op)
    return after._replace(pinned=cache.pinned), outcome


def test_an_observable_that_is_left_out_is_not_compared() -> None:
    class Silent(Shell):
        def observe(self) -> Mapping[str, Observation]:
            return {}

    found = campaign(Silent(SpecificationTarget(LRU, GHOST)), left_out=frozenset({"put", "clear"}))
    assert found.finding is None
    assert found.tally.observables == set()


def test_the_initial_state_is_compared() -> None:
    class Full(Shell):
        def observe(self) -> Mapping[str, Observation]:
            return {"used": 1}

    finding = campaign(Full(SpecificationTarget(LRU, LRU.normative))).finding
    assert isinstance(finding, Difference)
    assert (finding.index, finding.operation, finding.trace.steps) == (-1, None, ())
    assert finding.statements == ("used: the specification has 0, the target 1",)


def test_an_observable_that_does_not_exist_is_the_drivers_fault() -> None:
    class Talkative(Shell):
        def observe(self) -> Mapping[str, Observation]:
            return {"colour": 3}

    finding = campaign(Talkative(SpecificationTarget(LRU, LRU.normative))).finding
    assert isinstance(finding, Breakdown)
    assert finding.reason.startswith("the target shows colour: lru has hits")


def test_a_driver_that_fails_is_no_difference_and_the_calls_that_led_there_are_shrunk() -> None:
    class Fragile(Shell):
        def apply(self, operation: Operation) -> Outcome:
            if operation == Get(1) and 0 in self.observe()["order"]:  # type: ignore[operator]  # it is a tuple
                raise TargetError(f"it fell over; call {self.calls}")
            return super().apply(operation)

    finding = campaign(Fragile(SpecificationTarget(LRU, LRU.normative))).finding
    assert isinstance(finding, Breakdown)
    assert finding.trace.operations == (Put(0, 1), Get(1))
    assert finding.sort == "it fell over"


def test_what_does_not_come_again_is_said_so() -> None:
    class Moody(Shell):
        def apply(self, operation: Operation) -> Outcome:
            outcome = super().apply(operation)
            return FAILED if self.calls == 60 else outcome

    found = campaign(Moody(SpecificationTarget(LRU, LRU.normative)))
    assert isinstance(found.finding, Difference)
    assert not found.came_again
    assert found.tally.steps == 60


def test_same_seed_same_run() -> None:
    def trial(seed: int) -> tuple[Any, ...]:
        calls: list[Operation] = []

        class Noting(Shell):
            def apply(self, operation: Operation) -> Outcome:
                calls.append(operation)
                return super().apply(operation)

        found = campaign(Noting(SpecificationTarget(LRU, LRU.normative)), steps=500, seed=seed)
        return tuple(calls), found.tally.by_operation()

    assert trial(1) == trial(1)
    assert trial(1) != trial(2)


def test_another_configuration_gets_other_calls() -> None:
    """A campaign in many configurations has an episode or two in each: they must not all leave out the same calls."""

    def sorts(config: Config) -> frozenset[str]:
        target = SpecificationTarget(LRU, LRU.normative)
        return frozenset(lockstep(LRU, LRU.normative, config, target, steps=40, seed=1).tally.by_operation())

    made = [sorts(CONFIG._replace(lookups=lookups)) for lookups in range(100, 120)]
    assert len(set(made)) > 1


def test_an_episode_ends_where_a_call_never_returns() -> None:
    """The era's `put` may go on for ever; both sides say so and begin again."""
    found = lockstep(LRU, GHOST, CONFIG, SpecificationTarget(LRU, GHOST), steps=2_000, seed=1)
    assert found.finding is None
    assert found.tally.by_operation()["put"]["diverged"] > 0
    assert found.tally.episodes > 20


def test_properties_are_checked_on_the_normative_side() -> None:
    """A bug that both sides share is no difference, and yet it is found."""
    wrong = replace(LRU.normative, transitions={**LRU.normative.transitions, Touch: GHOST.transitions[Touch]})
    component = replace(LRU, variants={"normative": wrong})
    found = lockstep(component, wrong, CONFIG, SpecificationTarget(component, wrong), steps=500, seed=1)
    assert isinstance(found.finding, Violation)
    assert found.finding.property == "LRU-5"
    assert found.finding.trace.operations == (Touch(0),)


def test_a_normative_call_that_never_returns_is_a_violation() -> None:
    wrong = replace(LRU.normative, transitions=GHOST.transitions)
    component = replace(LRU, variants={"normative": wrong}, steps=(), safety=())
    found = lockstep(component, wrong, CONFIG, SpecificationTarget(component, wrong), steps=2_000, seed=1)
    assert isinstance(found.finding, Violation)
    assert found.finding.property == "LRU-6"
    assert found.finding.trace.steps[-1].outcome.code is Code.DIVERGED


def test_operations_that_are_left_out_are_never_made() -> None:
    found = campaign(SpecificationTarget(LRU, GHOST), steps=500, left_out=frozenset({"touch", "pin"}))
    assert found.finding is None
    assert "touch" not in found.tally.by_operation()


def test_no_operation_at_all_is_wrong_input() -> None:
    everything = frozenset(kind.wire_name() for kind in LRU.operations)
    with pytest.raises(InputError, match="offers no operation"):
        campaign(SpecificationTarget(LRU, LRU.normative), left_out=everything)


def test_interrupted_with_what_is_known() -> None:
    class Stopped(Shell):
        def apply(self, operation: Operation) -> Outcome:
            if self.calls == 50:
                raise KeyboardInterrupt
            return super().apply(operation)

    found = campaign(Stopped(SpecificationTarget(LRU, LRU.normative)))
    assert found.interrupted
    assert found.finding is None
    assert found.tally.steps == 51


def test_interrupted_while_shrinking_keeps_the_finding() -> None:
    class Stopped(Shell):
        def apply(self, operation: Operation) -> Outcome:
            if self.calls == 400:
                raise KeyboardInterrupt
            return super().apply(operation)

    found = campaign(Stopped(planted(Pop=pop_but_keep_pin)), steps=20_000, seed=7)
    assert isinstance(found.finding, Difference)
    assert not found.interrupted


def test_a_limit_in_seconds_ends_the_run() -> None:
    found = lockstep(
        LRU, LRU.normative, CONFIG, SpecificationTarget(LRU, LRU.normative), steps=None, seconds=0.05, seed=1
    )
    assert found.finding is None
    assert found.tally.steps > 0


def test_replay_says_what_comes_first() -> None:
    pair = Pair(Subject(LRU, LRU.normative, CONFIG), SpecificationTarget(LRU, GHOST), "spec:M2")
    assert pair.replay([Put(0, 1), Clear()], only_offered=False) is None
    finding = pair.replay([Put(0, 1), Touch(1), Touch(2)], only_offered=False)
    assert isinstance(finding, Difference)
    assert finding.index == 1


def test_an_episode_in_which_nothing_new_is_seen_is_over() -> None:
    """Without it, a run of requests that arrive once would mostly be calls after all of them are gone."""
    target = SpecificationTarget(LRU, LRU.normative)
    found = lockstep(LRU, LRU.normative, CONFIG, target, steps=600, seed=1, restart_every=10**9)
    assert 1 < found.tally.episodes <= 600 // PATIENCE
