"""An era is documented by what it says of its differences: that is there, and true as far as it can be compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from cacheproof.catalogue.register import entries
from cacheproof.model.registry import components, scope_file
from cacheproof.model.scope import scopes_of
from cachespec.kernel import NORMATIVE, Observation

ERAS = [
    (component, variant)
    for component in components().values()
    for variant in component.variants.values()
    if variant.tag != NORMATIVE
]
ON_THE_SAME_STATE = [(component, era) for component, era in ERAS if era.state is component.normative.state]
"""Where a state is of another class, every transition is another function, and none can be compared."""
NUMBER = re.compile(r"C-[A-Z]+-\d+")


def of(eras: list[tuple[Any, Any]]) -> pytest.MarkDecorator:
    """A test of each of these."""
    names = [f"{component.name}-{era.tag}" for component, era in eras]
    return pytest.mark.parametrize(("component", "era"), eras, ids=names)


@of(ERAS)
def test_an_era_says_in_which_operations_it_differs(component: Any, era: Any) -> None:
    """Unless it is what became the norm."""
    assert era.differences or era.transitions == component.normative.transitions
    assert set(era.differences) <= set(component.operations)
    assert all(era.differences.values())


def is_made(transition: Any) -> bool:
    """A function with some arguments given: another one for each era, whether or not it does something else."""
    return isinstance(transition, partial) or transition.__closure__ is not None


@of(ON_THE_SAME_STATE)
def test_an_era_says_so_of_every_transition_that_it_replaces_or_lacks(component: Any, era: Any) -> None:
    differing = {
        kind
        for kind, transition in component.normative.transitions.items()
        if era.transitions.get(kind) is not transition and not is_made(era.transitions.get(kind, transition))
    }
    assert differing <= set(era.differences)


def shown_at_first(component: Any, variant: Any, config: Any) -> Mapping[str, Observation]:
    shown: Mapping[str, Observation] = component.observe(config, variant.view(config, variant.start(config)))
    return shown


@of([(component, era) for component, era in ERAS if scope_file(component).is_file()])
def test_an_era_says_whether_it_begins_otherwise(component: Any, era: Any) -> None:
    """In some configuration that is explored, in an observable that the normative variant has too."""
    differing = set[str]()
    for scope in scopes_of(component):
        right = shown_at_first(component, component.normative, scope.config)
        shown = shown_at_first(component, era, scope.config)
        differing |= {name for name, value in shown.items() if name in right and right[name] != value}
    assert bool(differing) == bool(era.start_differs), differing


@pytest.mark.parametrize("component", components().values(), ids=lambda component: component.name)
def test_no_two_eras_say_the_same(component: Any) -> None:
    said = [tuple(era.differences.items()) for era in component.variants.values() if era.differences]
    assert len(said) == len(set(said))


@of(ERAS)
def test_what_an_era_names_is_there(component: Any, era: Any) -> None:
    known = {entry.id for entry in entries()}
    reasons = (*era.differences.values(), *era.exempt.values(), era.start_differs)
    numbers = {number for why in reasons for number in NUMBER.findall(why)}
    assert numbers <= known
    assert set(era.exempt) <= {rule.name for rule in component.properties()}
