"""How known violations look in a run: the answers that eras of the catalogue give in place of the normative one.

An era that parts from the normative variant at some call of a run does so for the reason that its differences give for
that operation, or for the operation closest before it that has one; where they name no entry of the catalogue, for the
one that the scope file expects of the era in this scope, if it is the only one. The era's answer is then what an
implementation with that violation answers; what it does after that call is not said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cacheproof.catalogue.register import NUMBER
from cacheproof.registry import AnyComponent, AnyVariant
from cacheproof.scope import Scope
from cacheproof.vectors.vector import Reply, all_shown
from cachespec.kernel import Code, Operation

NOT_FOR_THIS_CONFIGURATION = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError)

Deviations = dict[int, dict[str, tuple[Reply, ...]]]
"""By the place of the call in the run, then by the number of the catalogue."""


def deviations(
    component: AnyComponent, scope: Scope, operations: Sequence[Operation], right: Sequence[Reply]
) -> Deviations:
    """What eras answer in place of the given answers, each at the first call where it parts from them.

    An era that does not have the operation of that call shows nothing, and neither does one that the configuration is
    not for: transitions are total only in configurations that their era is explored in.
    """
    found: Deviations = {}
    for era in component.variants.values():
        try:
            parted = _parting(component, era, scope, operations, right)
        except NOT_FOR_THIS_CONFIGURATION:
            if era.tag in scope.variants:
                raise
            continue
        if parted is None:
            continue
        place, reply = parted
        for number in _reasons(era, scope, operations[: place + 1]):
            others = found.setdefault(place, {}).get(number, ())
            if reply not in others:
                found[place][number] = (*others, reply)
    return found


def _parting(
    component: AnyComponent, era: AnyVariant, scope: Scope, operations: Iterable[Operation], right: Sequence[Reply]
) -> tuple[int, Reply] | None:
    config = scope.config
    state = era.start(config)
    for place, operation in enumerate(operations):
        state, outcome = era.call(config, state, operation)
        reply = Reply(outcome, all_shown(component.observe(config, era.view(config, state))))
        if reply != right[place]:
            return None if outcome.code is Code.UNSUPPORTED else (place, reply)
    return None


def _reasons(era: AnyVariant, scope: Scope, operations: Sequence[Operation]) -> list[str]:
    """The numbers that the differences name for the last of these operations that has any, or the scope file's."""
    for operation in reversed(operations):
        numbers = NUMBER.finditer(era.differences.get(type(operation), ""))
        if found := sorted({number[0] for number in numbers}):
            return found
    expected = {violation.catalogue for violation in scope.expectation(era.tag).violations if violation.catalogue}
    return sorted(expected) if len(expected) == 1 else []
