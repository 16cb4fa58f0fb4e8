"""Canonical forms are exact: equal if and only if an allowed permutation turns one state into the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, permutations, product
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.proofs.search.soundness import disagreements

from cacheproof.model.plan import Plan
from cacheproof.model.registry import components
from cacheproof.model.scope import scopes_of
from cacheproof.search.canonical import canonical
from cacheproof.search.reference import explore
from cachespec.kernel import DONE, FrozenMap, FrozenQueue, IndexedBy, Map, Name, Queue
from cachespec.kernel.names import renaming
from cachespec.lru import COMPONENT as LRU
from cachespec.lru import NORMATIVE_LRU, Config, Evict
from cachespec.lru.transitions import finished, stored, without

Key = Annotated[int, Name("key")]
Owner = Annotated[int, Name("owner")]


class Box(NamedTuple):
    holds: tuple[Key, ...]
    number: int


class Nested(NamedTuple):
    """Every place in which a name can stand."""

    sizes: Map[Key, int]
    order: Queue[Key]
    owners: Map[Key, Owner]
    boxes: Annotated[tuple[Box, ...], IndexedBy("owner")]
    pairs: tuple[tuple[Owner, Key], ...]
    last: Key | None
    held: Map[tuple[Key, Owner], int]


KEYS, OWNERS = 3, 2
CLASSES = {"key": ((0, 1, 2), (3,)), "owner": ((0, 1),)}
keys, owners = st.integers(0, KEYS), st.integers(0, OWNERS - 1)
key_or_none = st.one_of(keys, st.just(-1))
nested = st.builds(
    Nested,
    st.dictionaries(keys, st.integers(0, 1)).map(lambda found: FrozenMap.of(found.items())),
    st.lists(keys, unique=True).map(lambda found: FrozenQueue((key, 1) for key in found)),
    st.dictionaries(keys, owners).map(lambda found: FrozenMap.of(found.items())),
    st.tuples(*[st.builds(Box, st.lists(key_or_none, max_size=2).map(tuple), st.integers(0, 1))] * OWNERS),
    st.lists(st.tuples(owners, keys), max_size=3).map(tuple),
    st.one_of(st.none(), keys),
    st.dictionaries(st.tuples(keys, owners), st.integers(0, 1), max_size=3).map(
        lambda found: FrozenMap.of(found.items())
    ),
)


def allowed(classes: Any) -> Any:
    """Every permutation within the classes."""
    choices = []
    for sort, groups in classes.items():
        size = 1 + max(name for group in groups for name in group)
        several = []
        for orders in product(*(permutations(group) for group in groups)):
            to = list(range(size))
            for group, order in zip(groups, orders, strict=True):
                for old, new in zip(group, order, strict=True):
                    to[old] = new
            several.append((sort, tuple(to)))
        choices.append(several)
    return [dict(choice) for choice in product(*choices)]


def canonical_of(state: type, classes: Any) -> Any:
    component: Any = SimpleNamespace(interchangeable=lambda config: classes)
    variant: Any = SimpleNamespace(state=state, normal=None)
    return canonical(component, variant, None)


PERMUTATIONS = allowed(CLASSES)
FORM = canonical_of(Nested, CLASSES)
RENAME: Any = renaming(Nested)


@settings(max_examples=150, deadline=None)
@given(nested)
def test_all_permutations_of_a_state_have_one_form_which_is_one_of_them(state: Nested) -> None:
    orbit = [RENAME(state, to) for to in PERMUTATIONS]
    assert {FORM(other) for other in orbit} == {FORM(state)}
    assert FORM(state) in orbit


@settings(max_examples=100, deadline=None)
@given(nested, nested)
def test_states_of_one_form_are_permutations_of_each_other(one: Nested, other: Nested) -> None:
    assert (FORM(one) == FORM(other)) == (other in [RENAME(one, to) for to in PERMUTATIONS])


def test_many_names_that_only_their_neighbours_tell_apart() -> None:
    """Two rings of three and one of six: the signatures of single names are all equal."""

    class Ring(NamedTuple):
        after: Map[Key, Key]

    form = canonical_of(Ring, {"key": (tuple(range(6)),)})
    six = Ring(FrozenMap.of((key, (key + 1) % 6) for key in range(6)))
    threes = Ring(FrozenMap.of((key, (key + 1) % 3 + key // 3 * 3) for key in range(6)))
    mixed = Ring(FrozenMap.of([(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1)]))
    assert form(threes) == form(mixed)
    assert form(six) != form(threes)


# On the components --------------------------------------------------------------------------------------------------

CASES = [
    pytest.param(component, variant, id=f"{component.name}-{variant.tag}")
    for component in components().values()
    for variant in component.variants.values()
]
LIMIT = 150


def scope_of(component: Any, variant: Any) -> Any:
    """The first scope of this variant in which names are interchanged."""
    scopes = [scope for scope in scopes_of(component) if variant.tag in scope.variants]
    symmetric = [scope for scope in scopes if scope.plan.symmetry and _several(component, scope.config)]
    return next(iter([*symmetric, *scopes]), None)


def _several(component: Any, config: Any) -> bool:
    return any(len(group) > 1 for groups in component.interchangeable(config).values() for group in groups)


@pytest.mark.parametrize(("component", "variant"), CASES)
def test_canonical_states_stand_for_the_states_themselves(component: Any, variant: Any) -> None:
    scope = scope_of(component, variant)
    assert scope is not None, "every variant has a scope"
    plan = Plan(scope.plan.granularity)
    assert not list(islice(disagreements(component, variant, scope.config, plan, limit_states=LIMIT), 1))


NORMATIVE_SCOPES = [
    pytest.param(component, scope, id=f"{component.name}-{scope.name}")
    for component in components().values()
    for scope in scopes_of(component)
    if "normative" in scope.variants
]


@pytest.mark.parametrize(("component", "scope"), NORMATIVE_SCOPES)
def test_they_do_in_every_scope_of_the_normative_variant(component: Any, scope: Any) -> None:
    """Also where the scope itself does without symmetry."""
    plan = Plan(scope.plan.granularity)
    assert not list(islice(disagreements(component, component.normative, scope.config, plan, limit_states=LIMIT), 1))


@pytest.mark.nightly
@pytest.mark.parametrize(("component", "scope"), NORMATIVE_SCOPES)
def test_they_do_in_thousands_of_states(component: Any, scope: Any) -> None:
    plan = Plan(scope.plan.granularity)
    assert not list(islice(disagreements(component, component.normative, scope.config, plan, limit_states=5000), 1))


def lowest_key_goes(config: Any, cache: Any, op: Any) -> Any:
    """Planted: among the entries the key of the lowest number is evicted."""
    return finished(stored(without(cache, cache.entries[0][0]), cache.putting, cache.putting_size)), DONE


def test_the_lowest_number_wins_is_noticed() -> None:
    mutant = NORMATIVE_LRU.era("planted", "planted", {Evict: lowest_key_goes}, {Evict: "planted"})
    config = Config(2, (1, 1, 1), lookups=0)
    assert list(islice(disagreements(LRU, mutant, config, limit_states=100), 1))
    assert not list(disagreements(LRU, NORMATIVE_LRU, config, limit_states=100))


def test_symmetry_changes_no_verdict() -> None:
    config = Config(3, (1, 1, 1), lookups=1, pins=1)
    for variant in LRU.variants.values():
        reduced, plain = (explore(LRU, variant, config, Plan(symmetry=symmetry)) for symmetry in (True, False))
        assert 0 < reduced.states < plain.states
        assert lengths(reduced) == lengths(plain)
        assert reduced.witnessed == plain.witnessed
        assert reduced.depth == plain.depth


def lengths(found: Any) -> dict[str, int]:
    return {violation.property: len(violation.trace.steps) for violation in found.violations}


def test_a_property_from_which_a_variant_is_exempt_is_not_asked_of_it() -> None:
    """It may read what the variant's state does not have."""

    def unreadable(*_: object) -> bool:
        raise IndexError

    config = Config(2, (1, 1))
    rule = replace(LRU.steps[0], name="LRU-0", holds=unreadable)
    asked = replace(LRU, steps=(*LRU.steps, rule))
    with pytest.raises(IndexError):
        list(disagreements(asked, NORMATIVE_LRU, config, limit_states=20))
    exempt = replace(NORMATIVE_LRU, exempt={"LRU-0": "it has no such thing"})
    assert not list(disagreements(asked, exempt, config, limit_states=20))
