"""What is offered names only what is live: Hypothesis' bundles would draw from the same names."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cacheproof.model.naming import names_in, wrong_operation
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cachespec.kernel import NORMATIVE, Operation
from cachespec.kv_blocks import AllocateSlots, GetComputedBlocks
from cachespec.kv_blocks.configuration import prompt_of
from cachespec.ring.operations import Allocate, Read, Revoke

SCOPED = [component for component in components().values() if scope_file(component).is_file()]
CALLS = 60


def dead(component: AnyComponent, variant: AnyVariant) -> list[str]:
    """The operations that name what is not there, in a random run of each scope."""
    found: list[str] = []
    for scope in scopes_of(component):
        if NORMATIVE not in scope.variants:
            continue
        names, source = names_in(component, scope.config), random.Random(1)
        state, issued = variant.start(scope.config), set[tuple[int, ...]]()
        for _ in range(CALLS):
            offered = list(variant.alphabet(scope.config, state))
            found += [wrong for each in offered if (wrong := wrong_operation(component, scope.config, each, names))]
            found += _never_given_out(component, variant, scope.config, state, offered, issued)
            if not offered:
                break
            made = source.choice(offered)
            state, outcome = variant.call(scope.config, state, made)
            if isinstance(made, Allocate):
                issued.add(outcome.values[1:])
    return found


def _never_given_out(
    component: AnyComponent,
    variant: AnyVariant,
    config: Any,
    state: Any,
    offered: Iterable[Operation],
    issued: set[tuple[int, ...]],
) -> list[str]:
    """Handles of a ring that no allocation returned, and hits that no look-up returns now."""
    found = [str(each) for each in offered if isinstance(each, Read | Revoke) and (each.identity,) not in issued]
    for each in offered:
        if isinstance(each, AllocateSlots) and component.config_of(config, AllocateSlots).disciplined:
            prompt = prompt_of(component.config_of(config, AllocateSlots), each.request)
            question = GetComputedBlocks(each.request, prompt)
            cached = variant.call(config, state, question)[1].values
            found += [str(each)] if set(each.hits) - set(cached) else []
    return found


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_offered_operations_name_what_is_live(component: AnyComponent) -> None:
    assert dead(component, component.normative) == []


def test_a_handle_that_was_never_given_out_is_found() -> None:
    ring = component_named("ring")
    right = ring.normative

    def forging(config: Any, state: Any) -> Iterable[Operation]:
        return (*right.alphabet(config, state), Read(0, 0, config.modulus - 1, 0, 0))

    assert dead(ring, replace(right, alphabet=forging))


def test_hits_that_were_never_found_are_found() -> None:
    kv_blocks = component_named("kv_blocks")
    right = kv_blocks.normative

    def inventing(config: Any, state: Any) -> Iterable[Operation]:
        return (*right.alphabet(config, state), AllocateSlots(0, 0, 1, (config.blocks - 1,)))

    assert dead(kv_blocks, replace(right, alphabet=inventing))
