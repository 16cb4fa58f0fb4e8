"""A declared rule breaks the properties that it gives up, and no others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from cacheproof.lockstep.campaign import Draw
from cacheproof.model.mixture import AnyRule
from cacheproof.model.registry import AnyComponent, component_named, variant_named
from cacheproof.model.scope import DEFAULT, scopes_of

EPISODES, MOST_EPISODES, CALLS = 8, 40, 25
"""In each scope; more than `EPISODES` only until all that the rule gives up was broken."""
DECLARED = [(component_named(name), rule) for name in ("kv_blocks", "lru") for rule in component_named(name).rules]


@pytest.mark.parametrize(("component", "rule"), DECLARED, ids=lambda each: str(each.name))
def test_a_rule_breaks_what_it_gives_up_and_nothing_else(component: AnyComponent, rule: AnyRule) -> None:
    known = [each.name for each in component.properties()]
    assert set(rule.gives_up) <= set(known)
    broken: set[str] = set()
    scopes = [scope for scope in scopes_of(component) if scope.set == DEFAULT and "normative" in scope.variants]
    for episode in range(MOST_EPISODES):
        if episode < EPISODES or not broken.issuperset(rule.gives_up):
            for scope in scopes:
                broken.update(broken_in_episode(component, rule, scope.config, episode))
    assert sorted(broken) == sorted(rule.gives_up)
    assert set(rule.gives_up) <= set(variant_named(component, f"normative+{rule.name}").exempt)


def broken_in_episode(component: AnyComponent, rule: AnyRule, config: Any, episode: int) -> Iterator[str]:
    """The properties that one random run of the mixture breaks."""
    variant = variant_named(component, f"normative+{rule.name}")
    draw = Draw(component.operations, random.Random(f"{episode}"))
    state = variant.start(config)
    for _ in range(CALLS):
        offered = tuple(variant.alphabet(config, state))
        if not offered:
            return
        operation = draw(offered)
        before, (state, outcome) = state, variant.call(config, state, operation)
        seen, now = variant.view(config, before), variant.view(config, state)
        yield from (each.name for each in component.safety if not each.holds(config, now))
        yield from (each.name for each in component.steps if not each.holds(config, seen, operation, outcome, now))
