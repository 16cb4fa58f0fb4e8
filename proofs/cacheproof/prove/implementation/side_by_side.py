"""A target and a variant of the specification, call by call: the same answers and the same observables.

It is no `lockstep.pair`: a symbolic run asks whether both agree, and each further look at a state costs it a branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproof.model.target import Target
from cachespec.kernel import FROZEN, Component, Observation, Operation, Variant

AnyVariant = Variant[Any, Any, Any]
AnyComponent = Component[Any, Any, Any]


def agree(
    target: Target, component: AnyComponent, variant: AnyVariant, config: Any, operations: tuple[Operation, ...]
) -> bool:
    """From the initial state, every call ends in the same way; afterwards both show the same."""
    state = variant.start(config, FROZEN)
    target.reset(config)
    for operation in operations:
        state, outcome = variant.call(config, state, operation)
        if target.apply(operation) != outcome:
            return False
    return same(target.observe(), component.observe(config, variant.view(config, state)))


def same(shown: Mapping[str, Observation], wanted: Mapping[str, Observation]) -> bool:
    """Whether a target shows what it should, of the observables that it has."""
    return all(shown[name] == value for name, value in wanted.items() if name in shown)


def era(component: AnyComponent, tag: str) -> AnyVariant:
    """The era of this tag."""
    return component.variants[tag]
