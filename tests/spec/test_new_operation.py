"""A new operation is known where it is declared: no property blames it, and its setting rules it out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, component_named, components
from cacheproof.model.scope import DEFAULT, Scope, scopes_of
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.kernel import DONE, NORMATIVE, Kind, Operation, Outcome, unset
from cachespec.scheduler import Config
from cachespec.scheduler.operations import Abort, Compile, FailLoad


@dataclass(frozen=True, slots=True)
class Rest(Operation):
    """Something that leaves the caches as they are."""

    kind: ClassVar[Kind] = Kind.FAULT


def rest(config: Any, state: Any, op: Rest) -> tuple[Any, Outcome]:
    """DONE."""
    return state, DONE


ENOUGH = 100


def smallest(component: AnyComponent) -> Scope:
    """The smallest default scope in which the normative variant has enough states; the largest if none has."""
    scopes = [scope for scope in scopes_of(component) if scope.set == DEFAULT and NORMATIVE in scope.variants]
    scopes.sort(key=lambda scope: scope.expectation(NORMATIVE).states or 0)
    return next((scope for scope in scopes if (scope.expectation(NORMATIVE).states or 0) >= ENOUGH), scopes[-1])


@pytest.mark.parametrize("name", sorted(component_named(each).name for each in components()))
def test_no_property_blames_an_operation_that_it_does_not_know(name: str) -> None:
    component = component_named(name)
    scope, normative = smallest(component), component.normative

    def alphabet(config: Any, state: Any) -> Iterable[Operation]:
        yield from normative.alphabet(config, state)
        yield Rest()

    resting = replace(normative, transitions={**normative.transitions, Rest: rest}, alphabet=alphabet)
    wider = replace(component, operations=(*component.operations, Rest))
    plan: Plan = replace(scope.plan, first=False, depth=None, liveness=False)
    result = explore(wider, resting, scope.config, plan)
    assert result.ending is Ending.EXHAUSTED
    assert result.coverage["rest"] == {"done": result.states}
    assert not result.violations


def test_a_setting_rules_its_operations_out() -> None:
    config = Config(1, 4, 2, 1, 1, 1, 4, (1, 1), (1, 1))
    assert Abort.ruled_out(config) == "aborts = 0"
    assert Abort.ruled_out(config._replace(aborts=1)) == ""
    assert Compile.ruled_out(config) == "grammars = ()"
    assert Compile.ruled_out(config._replace(grammars=(0, 0))) == "grammars = (0, 0)"
    assert Compile.ruled_out(config._replace(grammars=(0, 1))) == ""
    assert FailLoad.ruled_out(config._replace(load_failures=1)) == "loads_later = ()"
    assert unset(config, "ahead", 2) == "ahead = 1"
