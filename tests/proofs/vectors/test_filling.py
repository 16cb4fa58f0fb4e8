"""Sets of vectors: every edge is in them, they are the same every time, and those that were released are current."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import Scope, scope_named, scopes_of
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.vectors import filling
from cacheproof.vectors.deviating import deviations, initial_deviations
from cacheproof.vectors.files import RELEASED, missing, read, write
from cacheproof.vectors.filling import covered_whole, filled, fitting, settings_of
from cacheproof.vectors.graph import Edge, Walker, graph
from cacheproof.vectors.paths import LONGEST, covering
from cacheproof.vectors.vector import CallStep, RefusedStep, VectorSet, all_shown
from cachespec.kernel import NORMATIVE, Observation, Operation

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
QUICK = ("shared_prefix",)
AT_ONCE = ("lru", "mirror", "shared_prefix", "ring")
MARKED = [
    pytest.param(component, marks=[] if component.name in AT_ONCE else [pytest.mark.nightly], id=component.name)
    for component in SCOPED
]
LARGEST_BYTES = 6_400_000


def edges_in(walker: Walker, cases: tuple[tuple[object, ...], ...]) -> Counter[Edge]:
    """How often each edge is taken by these cases."""
    taken: Counter[Edge] = Counter()
    for case in cases:
        state = walker.start()
        for step in case:
            assert isinstance(step, CallStep)
            move = next(move for move in walker.moves(state) if move.operation == step.operation)
            taken[move.edge] += 1
            state = move.after
    return taken


def small_ones() -> list[tuple[AnyComponent, Scope]]:
    """Of each component the scope that was chosen last among those that are covered whole."""
    whole = [
        [scope for scope in covered_whole(component, component.normative) if of_scope(component, scope)]
        for component in SCOPED
    ]
    return [(component, scopes[-1]) for component, scopes in zip(SCOPED, whole, strict=True)]


def of_scope(component: AnyComponent, scope: Scope) -> list[Path]:
    """The released set that covers the scope, if there is one."""
    return list(RELEASED.glob(f"{component.name}.{scope.name}.exploration.*"))


@pytest.mark.parametrize(("component", "scope"), small_ones(), ids=lambda one: one.name)
def test_every_edge_of_a_small_scope_is_in_some_released_case(component: AnyComponent, scope: Scope) -> None:
    """The edges are counted anew here, without the graph that the runs were made from."""
    walker = Walker(component, component.normative, scope.config)
    edges, seen, pending = set(), set(), [walker.start()]
    while pending:
        state = pending.pop()
        for move in walker.moves(state):
            edges.add(move.edge)
            if move.target not in seen:
                seen.add(move.target)
                pending.append(move.after)
    (path,) = of_scope(component, scope)
    vectors = read(path)
    assert set(edges_in(walker, vectors.cases)) >= edges
    states, transitions = scope.expectation(NORMATIVE).states, scope.expectation(NORMATIVE).transitions
    assert transitions is not None
    assert len(edges) <= transitions, "an edge is a state with a call up to exchange of names"
    if not any(len(members) > 1 for classes in component.interchangeable(scope.config).values() for members in classes):
        assert (len(seen | {walker.canonical(walker.start())}), len(edges)) == (states, transitions)


def offered_in(component: AnyComponent, scope: Scope) -> set[type[Operation]]:
    """The operations that a few random runs of whole calls in a scope meet."""
    variant, kinds = component.normative, set[type[Operation]]()
    for seed in range(3 if NORMATIVE in scope.variants else 0):
        state, source = variant.start(scope.config), random.Random(seed)
        for _ in range(30):
            offered = [one for one in variant.alphabet(scope.config, state) if type(one) in variant.transitions]
            kinds.update(map(type, offered))
            if offered:
                state = variant.call(scope.config, state, source.choice(offered))[0]
    return kinds


def test_runs_that_leave_an_edge_out_are_found() -> None:
    """The check above can fail: without one run, edges are missing; so no run is one too many."""
    component = component_named("shared_prefix")
    walker = Walker(component, component.normative, scope_named(component, "two-items").config)
    nodes = graph(walker, 10_000)
    runs = covering(walker, nodes)
    every = {edge for node in nodes.values() for edge in node.edges}
    assert all(len(run) <= LONGEST for run in runs)
    for left_out in range(len(runs)):
        taken: set[Edge] = set()
        for run in runs[:left_out] + runs[left_out + 1 :]:
            state = walker.start()
            for operation in run:
                move = next(move for move in walker.moves(state) if move.operation == operation)
                taken.add(move.edge)
                state = move.after
        assert every - taken


@pytest.mark.parametrize("name", QUICK)
def test_the_released_sets_are_those_that_would_be_written(name: str) -> None:
    component = component_named(name)
    sets = list(filled(component, component.normative))
    assert missing(RELEASED, sets) == [], "cacheproof fill --output proofs/cacheproof/vectors/released"
    assert {path.name.rpartition(".")[0].rpartition(".")[0] for path in RELEASED.glob(f"{name}.*")} == {
        one.stem for one in sets
    }


TOO_DEEP = {"publication": {"one-chunk"}}
"""Chosen by their edges, and left out because covering them takes too many calls. By night the calls are made."""


def of_edges(component: AnyComponent) -> set[str]:
    """The scopes whose edges were released."""
    return {path.name.split(".")[1] for path in RELEASED.glob(f"{component.name}.*.exploration.*")}


def of_today(component: AnyComponent) -> set[str]:
    """The scopes whose edges would be released today."""
    chosen = {scope.name for scope in covered_whole(component, component.normative)}
    return chosen - TOO_DEEP.get(component.name, set())


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_the_edges_of_the_scopes_of_today_were_released(component: AnyComponent) -> None:
    """By day: what changes a choice is a new scope, or a new count of an old one. By night all sets are made anew."""
    assert of_edges(component) == of_today(component), f"cacheproof fill {component.name} --output {RELEASED}"


def test_another_choice_and_a_new_scope_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail."""
    component = component_named("scheduler")
    monkeypatch.setattr(filling, "EDGES_WITHOUT_ROOM", 0)
    released, today = of_edges(component), of_today(component)
    assert released - today
    assert today - released


@pytest.mark.nightly
@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_all_released_sets_are_those_that_would_be_written(component: AnyComponent) -> None:
    assert missing(RELEASED, filled(component, component.normative)) == []


def test_a_change_of_the_specification_is_found(tmp_path: Path) -> None:
    component = component_named("lru")
    write(tmp_path, filled(component, component.normative, "growth"))
    changed = replace(component.variants["stale-growth"], tag=NORMATIVE)
    gone = missing(tmp_path, filled(component, changed, "growth"))
    assert any("exploration" in name for name in gone)


def test_there_are_sets_for_every_component_and_they_are_small() -> None:
    stems = Counter(path.name.partition(".")[0] for path in RELEASED.iterdir())
    assert set(stems) == {component.name for component in SCOPED}
    assert sum(path.stat().st_size for path in RELEASED.iterdir()) < LARGEST_BYTES
    origins = {path.name.split(".")[-3] for path in RELEASED.iterdir()}
    assert origins == {"exploration", "fuzzing", "refusals"}


@pytest.mark.parametrize("component", MARKED)
def test_every_operation_of_a_component_is_called_and_refused(component: AnyComponent) -> None:
    sets = [read(path) for path in RELEASED.glob(f"{component.name}.*")]
    called = {type(step.operation) for one in sets for case in one.cases for step in case if isinstance(step, CallStep)}
    messages = [step.message for one in sets for case in one.cases for step in case if isinstance(step, RefusedStep)]
    assert called >= {kind for scope in scopes_of(component) for kind in offered_in(component, scope)}
    assert {message.get("op") for message in messages} >= {kind.wire_name() for kind in component.operations}
    assert {step.error for one in sets for case in one.cases for step in case if isinstance(step, RefusedStep)} >= {
        "wrong_field",
        "unknown_request",
    }


def unset(component: AnyComponent, released: list[Path]) -> set[str]:
    """The fields that some scope sets otherwise than by default, and none of these files."""
    everywhere = set[str]().union(*map(settings_of, fitting(component, component.normative)))
    scopes = {path.name.split(".")[1] for path in released}
    return everywhere.difference(*(settings_of(scope_named(component, name)) for name in scopes))


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_every_setting_of_the_scopes_is_in_some_released_set(component: AnyComponent) -> None:
    assert unset(component, list(RELEASED.glob(f"{component.name}.*"))) == set()


def test_a_setting_that_no_set_has_is_found() -> None:
    """The check above can fail."""
    component = component_named("scheduler")
    assert unset(component, [path for path in RELEASED.glob("scheduler.*") if ".fuzzing." not in path.name])


def test_the_answers_of_eras_are_in_the_sets() -> None:
    numbers = {
        number
        for path in RELEASED.glob("lru.*")
        for case in read(path).cases
        for step in case
        if isinstance(step, CallStep)
        for number in step.deviations
    }
    assert numbers >= {"C-MIR-10", "C-LRU-1", "C-LRU-2"}


def initial(component: AnyComponent, tag: str, scope: Scope) -> dict[str, Observation]:
    variant = component.variants[tag]
    return {**component.observe(scope.config, variant.view(scope.config, variant.start(scope.config)))}


def first_set(component: AnyComponent, scope: Scope) -> VectorSet:
    return next(filled(component, component.normative, scope.name))


def test_what_an_era_shows_at_first_is_in_the_header() -> None:
    """M1's ring begins with a chunk that is not one: C-SHM-1. What it answers after that is nothing to compare with."""
    component = component_named("ring")
    scope = scope_named(component, "never-drained")
    assert initial(component, "M1", scope) != initial(component, NORMATIVE, scope)
    found = first_set(component, scope)
    assert found.deviations == {"C-SHM-1": (initial(component, "M1", scope),)}
    unsaid = {**component.variants, "M1": replace(component.variants["M1"], start_differs="")}
    assert first_set(replace(component, variants=unsaid), scope).deviations == {}


def test_an_era_that_begins_otherwise_without_a_number_is_not_listed() -> None:
    """K2 sets a block aside, so that what is free is never what is right: no call of it shows a violation by that."""
    component = component_named("kv_blocks")
    found = read(next(RELEASED.glob("kv_blocks.again.exploration.*")))
    scope = scope_named(component, found.scope)
    alone = replace(component, variants={tag: component.variants[tag] for tag in (NORMATIVE, "K2")})
    assert initial_deviations(alone, scope, found.initial) == {}
    calls = [[step for step in case if isinstance(step, CallStep)] for case in found.cases]
    runs = [([step.operation for step in case], [step.reply for step in case]) for case in calls]
    assert not any(deviations(alone, scope, made, found.initial, right) for made, right in runs)
    theirs = all_shown(initial(component, "K2", scope))
    assert theirs["free"] != found.initial["free"]
    listed = [deviations(alone, scope, made, theirs, right) for made, right in runs]
    assert all(set(one) == {0} for one in listed), (
        "without a look at what is shown at first, it parts at the first call"
    )


def test_an_era_does_not_part_by_what_it_cannot_show() -> None:
    """ED has no sizes and no order of eviction; what it does otherwise is that it makes everything anew (C-ENC-13)."""
    component = component_named("encoder_cache")
    found = read(next(RELEASED.glob("encoder_cache.encoder-decoder.exploration.*")))
    parting = [
        step for case in found.cases for step in case if isinstance(step, CallStep) and "C-ENC-13" in step.deviations
    ]
    assert parting
    shown = set(initial(component, "ED", scope_named(component, found.scope)))
    for step in parting:
        (other,) = step.deviations["C-ENC-13"]
        right = step.reply.observations
        assert (other.outcome, {name: other.observations[name] for name in shown}) != (
            step.reply.outcome,
            {name: right[name] for name in shown},
        )


def test_random_runs_cover_what_one_run_does_not() -> None:
    one = read(next(RELEASED.glob("mirror.two-senders-pipelined.fuzzing.*")))
    codes = [
        {(type(step.operation), step.reply.outcome.code) for step in case if isinstance(step, CallStep)}
        for case in one.cases
    ]
    every = set().union(*codes)
    assert all(len(covered) < len(every) for covered in codes)


def test_a_scope_by_name_is_filled_alone() -> None:
    component = component_named("lru")
    sets: list[VectorSet] = list(filled(component, component.variants["M3"], "growth"))
    assert [one.origin for one in sets] == ["exploration", "fuzzing", "refusals"]
    assert {one.stem.split(".")[1] for one in sets} == {"M3"}
    target = SpecificationTarget(component, component.variants["M3"])
    found = lockstep(component, component.variants["M3"], sets[0].config, target, steps=50, seed=1)
    assert found.finding is None
