"""How known violations look in a run: the answers that eras of the catalogue give in place of the normative one.

An era that parts from the normative variant at some call of a run does so for the reason that its differences give for
that operation, or for the operation closest before it that has one; where they name no entry of the catalogue, for the
one that the scope file expects of the era in this scope, if it is the only one. The era's answer is then what an
implementation with that violation answers; what it does after that call is not said.

An era that parts in what it shows before any call does so for the reason that it gives for its start, and nothing is
said of its calls. Observables that an era does not have are not compared: it does not part by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from cacheproof.model.declaration import NUMBER
from cacheproof.model.registry import UNDEFINED, AnyComponent, AnyVariant
from cacheproof.model.scope import Scope
from cacheproof.vectors.vector import Reply, Shown, all_shown
from cachespec.kernel import Code, Operation

Found = TypeVar("Found")

Deviations = dict[int, dict[str, tuple[Reply, ...]]]
"""By the place of the call in the run, then by the number of the catalogue."""


def deviations(
    component: AnyComponent,
    scope: Scope,
    operations: Sequence[Operation],
    initial: Mapping[str, Shown],
    right: Sequence[Reply],
) -> Deviations:
    """What eras answer in place of the given answers, each at the first call where it parts from them.

    An era that does not have the operation of that call shows nothing, and neither does one that the configuration is
    not for: transitions are total only in configurations that their era is explored in.
    """
    found: Deviations = {}
    for era in component.variants.values():
        parted = _tried(era, scope, partial(_parting, component, era, scope, operations, initial, right))
        if parted is None:
            continue
        place, reply = parted
        for number in _reasons(era, scope, operations[: place + 1]):
            others = found.setdefault(place, {}).get(number, ())
            if reply not in others:
                found[place][number] = (*others, reply)
    return found


def initial_deviations(
    component: AnyComponent, scope: Scope, right: Mapping[str, Shown]
) -> dict[str, tuple[Mapping[str, Shown], ...]]:
    """What eras show before any call in place of what is right, by the number of the catalogue that they give."""
    found: dict[str, tuple[Mapping[str, Shown], ...]] = {}
    for era in component.variants.values():
        numbers = sorted({number[0] for number in NUMBER.finditer(era.start_differs)})
        shown = _tried(era, scope, partial(_at_first, component, era, scope)) if numbers else None
        if shown is None or not _differs(right, shown):
            continue
        whole = {**right, **shown}
        for number in numbers:
            others = found.get(number, ())
            if whole not in others:
                found[number] = (*others, whole)
    return found


def _tried(era: AnyVariant, scope: Scope, work: Callable[[], Found]) -> Found | None:
    """None where the configuration is not for the era."""
    try:
        return work()
    except UNDEFINED:
        if era.tag in scope.variants:
            raise
        return None


def _at_first(component: AnyComponent, era: AnyVariant, scope: Scope) -> dict[str, Shown]:
    config = scope.config
    return all_shown(component.observe(config, era.view(config, era.start(config))))


def _differs(right: Mapping[str, Shown], shown: Mapping[str, Shown]) -> bool:
    """In an observable that both have."""
    return any(name in right and right[name] != value for name, value in shown.items())


def _parting(
    component: AnyComponent,
    era: AnyVariant,
    scope: Scope,
    operations: Iterable[Operation],
    initial: Mapping[str, Shown],
    right: Sequence[Reply],
) -> tuple[int, Reply] | None:
    config = scope.config
    if _differs(initial, _at_first(component, era, scope)):
        return None
    state = era.start(config)
    for place, operation in enumerate(operations):
        state, outcome = era.call(config, state, operation)
        shown = all_shown(component.observe(config, era.view(config, state)))
        expected = right[place]
        if outcome != expected.outcome or _differs(expected.observations, shown):
            whole = {**expected.observations, **shown}
            return None if outcome.code is Code.UNSUPPORTED else (place, Reply(outcome, whole))
    return None


def _reasons(era: AnyVariant, scope: Scope, operations: Sequence[Operation]) -> list[str]:
    """The numbers that the differences name for the last of these operations that has any, or the scope file's."""
    for operation in reversed(operations):
        numbers = NUMBER.finditer(era.differences.get(type(operation), ""))
        if found := sorted({number[0] for number in numbers}):
            return found
    expected = {violation.catalogue for violation in scope.expectation(era.tag).violations if violation.catalogue}
    return sorted(expected) if len(expected) == 1 else []
