"""Sets of vectors of a component: which scopes, and what of each."""

from __future__ import annotations

from collections.abc import Iterator

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Granularity
from cacheproof.model.registry import AnyComponent, AnyVariant, scope_file
from cacheproof.model.scope import DEFAULT, Scope, scope_named, scopes_of
from cacheproof.vectors.deviating import deviations, initial_deviations
from cacheproof.vectors.graph import Walker, graph
from cacheproof.vectors.novelty import endings_of, novel
from cacheproof.vectors.paths import covering
from cacheproof.vectors.refusals import refusals
from cacheproof.vectors.vector import CallStep, Case, Reply, Step, VectorSet, all_shown
from cachespec import SPECIFICATION_VERSION
from cachespec.kernel import Operation

EDGES_OF_A_SCOPE, EDGES_OF_A_COMPONENT = 1_200, 1_600
"""Scopes with more edges than that are left to random runs; so are those for which there is no room any more."""
EDGES_WITHOUT_ROOM = 60
"""A scope with no more edges than that is always covered. It shows one situation, and takes no room from the others."""
CALLS_OF_A_SET = 2_200
"""A scope that takes more to be covered is left out, unless it is asked for by name: its edges lie too deep."""
MOST_EDGES = 20_000
"""Of a scope that is asked for by name."""
RANDOM_SCOPES = 2
SEED = 1
CALLS_BEFORE_REFUSALS = 3


def filled(
    component: AnyComponent,
    variant: AnyVariant,
    scope: str | None = None,
    seed: int = SEED,
    progress: Show | None = None,
) -> Iterator[VectorSet]:
    """The sets of a component, or of one scope of it; the same for the same seed and specification.

    Small scopes are covered whole, the largest ones by random runs. Raises InputError for a component without scopes.
    """
    tell = progress or (lambda line: None)
    if not scope_file(component).is_file():
        raise InputError(f"{component.name} has no scope file: vectors are made in the configurations of its scopes")
    if scope is not None:
        small = large = [scope_named(component, scope)]
    else:
        small, large = chosen(component, variant)
    for one in small:
        tell(f"{component.name} {one.name}: every edge")
        walker = Walker(component, variant, one.config)
        runs = covering(walker, graph(walker, MOST_EDGES))
        if scope is not None or sum(map(len, runs)) <= CALLS_OF_A_SET:
            yield _of_runs(component, variant, one, "exploration", runs)
    for one in large:
        tell(f"{component.name} {one.name}: random runs")
        yield _of_runs(component, variant, one, "fuzzing", novel(component, variant, one.config, seed))
    tell(f"{component.name}: what is refused")
    most = max([*small, *large], key=lambda one: len(operations_of(component, variant, one)))
    yield _of_refusals(component, variant, most)


def chosen(component: AnyComponent, variant: AnyVariant) -> tuple[list[Scope], list[Scope]]:
    """The scopes that are covered whole, and those for random runs."""
    small = covered_whole(component, variant)
    return small, _random_ones(component, variant, small)


def covered_whole(component: AnyComponent, variant: AnyVariant) -> list[Scope]:
    """The scopes of which every edge is in a set.

    First come the smallest ones, then those that have most operations and eras that no other one had, and of these the
    smallest. Scopes with a bounded depth are not among them: they have more edges than were counted.
    """
    left = [scope for scope in fitting(component, variant) if scope.set == DEFAULT and scope.plan.depth is None]
    small = [scope for scope in left if _edges(scope, variant) <= EDGES_WITHOUT_ROOM]
    known = set[str]().union(*(shown_by(component, variant, scope) for scope in small))
    room, left = EDGES_OF_A_COMPONENT, [scope for scope in left if scope not in small]
    while left := [scope for scope in left if _edges(scope, variant) <= min(room, EDGES_OF_A_SCOPE)]:
        best = min(left, key=lambda one: (-len(shown_by(component, variant, one) - known), _edges(one, variant)))
        small.append(best)
        left.remove(best)
        room -= _edges(best, variant)
        known |= shown_by(component, variant, best)
    return small


def fitting(component: AnyComponent, variant: AnyVariant) -> list[Scope]:
    """The scopes of a variant that are explored call by call."""
    return [
        scope
        for scope in scopes_of(component)
        if variant.tag in scope.variants and scope.plan.granularity is Granularity.CALL
    ]


def _random_ones(component: AnyComponent, variant: AnyVariant, small: list[Scope]) -> list[Scope]:
    """The largest scopes, and those that show an ending of an operation, or a setting, that none before them shows.

    Of these the ones that show most come first. What a small scope shows counts only for settings: it is covered whole,
    and still random runs of a larger one get to states in which the same call changes more.
    """
    left = sorted(
        [scope for scope in fitting(component, variant) if scope not in small],
        key=lambda one: -_edges(one, variant),
    )
    shown = {scope.name: endings_of(component, variant, scope.config) | settings_of(scope) for scope in left}
    found = left[:RANDOM_SCOPES]
    known = set[object]().union(*map(settings_of, small), *(shown[scope.name] for scope in found))
    while left := [scope for scope in left if shown[scope.name] - known]:
        found.append(max(left, key=lambda one: len(shown[one.name] - known)))
        known |= shown[found[-1].name]
    return found


def settings_of(scope: Scope) -> set[str]:
    """The fields of the configuration that are not as by default."""
    config = scope.config
    return {name for name, default in config._field_defaults.items() if getattr(config, name) != default}


def shown_by(component: AnyComponent, variant: AnyVariant, scope: Scope) -> set[str]:
    """The operations that happen in a scope, and the eras that it is explored for: their deviations can be shown."""
    return operations_of(component, variant, scope) | set(scope.variants)


def operations_of(component: AnyComponent, variant: AnyVariant, scope: Scope) -> set[str]:
    """The operations that happen in a scope, as its file says."""
    return {kind.wire_name() for kind in variant.transitions} - set(scope.reasons(variant.tag))


def _edges(scope: Scope, variant: AnyVariant) -> int:
    """As they were counted; one that was not counted is large."""
    return scope.expectation(variant.tag).transitions or EDGES_OF_A_SCOPE + 1


def _of_runs(
    component: AnyComponent, variant: AnyVariant, scope: Scope, origin: str, runs: list[tuple[Operation, ...]]
) -> VectorSet:
    cases = tuple(_case(component, variant, scope, run) for run in runs)
    return _set(component, variant, scope, origin, cases)


def _case(component: AnyComponent, variant: AnyVariant, scope: Scope, operations: tuple[Operation, ...]) -> Case:
    config = scope.config
    state, replies = variant.start(config), []
    initial = all_shown(component.observe(config, variant.view(config, state)))
    for operation in operations:
        state, outcome = variant.call(config, state, operation)
        replies.append(Reply(outcome, all_shown(component.observe(config, variant.view(config, state)))))
    known = deviations(component, scope, operations, initial, replies)
    return tuple(
        CallStep(operation, reply, known.get(place, {}))
        for place, (operation, reply) in enumerate(zip(operations, replies, strict=True))
    )


def _of_refusals(component: AnyComponent, variant: AnyVariant, scope: Scope) -> VectorSet:
    """Each case makes a few calls, is refused, and makes a call again."""
    runs = novel(component, variant, scope.config, SEED)
    run = next((run for run in runs if len(run) > CALLS_BEFORE_REFUSALS), runs[0])
    way, further = run[:CALLS_BEFORE_REFUSALS], run[CALLS_BEFORE_REFUSALS : CALLS_BEFORE_REFUSALS + 1]
    steps = _case(component, variant, scope, (*way, *further))
    cases: list[tuple[Step, ...]] = [
        (*steps[: len(way)], *group, *steps[len(way) :]) for group in refusals(component, variant, scope.config, way)
    ]
    return _set(component, variant, scope, "refusals", tuple(cases))


def _set(component: AnyComponent, variant: AnyVariant, scope: Scope, origin: str, cases: tuple[Case, ...]) -> VectorSet:
    initial = all_shown(component.observe(scope.config, variant.view(scope.config, variant.start(scope.config))))
    return VectorSet(
        spec=SPECIFICATION_VERSION,
        component=component,
        variant=variant.tag,
        origin=origin,
        scope=scope.name,
        about=scope.about,
        config=scope.config,
        initial=initial,
        cases=cases,
        deviations=initial_deviations(component, scope, initial),
    )
