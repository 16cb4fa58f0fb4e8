"""The two engines: the same states, transitions, depth, digest and witnesses; and every triple equal to the spec's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import Scope, scopes_of
from cacheproof.search import reference, tensor
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.tensor.frontier import Expansion
from cacheproof.search.tensor.keys import distinct
from cacheproof.search.tensor.symmetry import all_renamings, renamed
from cacheproof.tensor_models import MODELS, model_of
from cacheproof.tensor_models.model import CODES, TensorModel
from cachespec.encoder_cache.configuration import Config as EncoderConfig
from cachespec.kernel.names import renaming
from cachespec.lru.configuration import Config as LruConfig
from cachespec.lru.operations import Evict, Get, Put

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

LRU = LruConfig(capacity=4, sizes=(1, 1, 2), grown=(2, 2, 2), lookups=2, pins=1)
ENCODER = EncoderConfig(capacity=3, sizes=(1, 2), requests=((0, 1, 0), (1,)), failures=1, resets=1)
CONFIGS = {"lru": LRU, "encoder_cache": ENCODER}

SHALLOW = 4
"""How deep the scopes of the scope files are compared here; to their end, the golden counts are the comparison."""


def possible_scopes() -> list[Scope]:
    scopes = [scope for name in sorted(MODELS) for scope in scopes_of(component_named(name))]
    normative = {name: component_named(name).normative for name in MODELS}
    return [
        scope
        for scope in scopes
        if tensor.cannot(component_named(scope.component), normative[scope.component], scope.plan) is None
    ]


def both(name: str, config: Any, plan: Plan) -> tuple[Exploration, Exploration]:
    component = component_named(name)
    return (
        reference.explore(component, component.normative, config, plan),
        tensor.explore(component, component.normative, config, plan),
    )


def seen(found: Exploration) -> tuple[Any, ...]:
    return found.states, found.transitions, found.depth, found.digest, found.ending, found.witnessed, found.violations


@pytest.mark.parametrize("scope", possible_scopes(), ids=lambda scope: f"{scope.component}-{scope.name}")
def test_the_engines_agree_in_every_scope(scope: Scope) -> None:
    plan = replace(scope.plan_for("normative"), depth=min(SHALLOW, scope.plan.depth or SHALLOW))
    ours, theirs = both(scope.component, scope.config, plan)
    assert seen(theirs) == seen(ours)
    assert theirs.states > 1


@pytest.mark.parametrize("symmetry", [False, True])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_engines_agree_to_the_end(name: str, symmetry: bool) -> None:
    ours, theirs = both(name, CONFIGS[name], Plan(symmetry=symmetry))
    assert seen(theirs) == seen(ours)
    assert theirs.ending is Ending.EXHAUSTED
    assert theirs.states > 300
    internal = {"evict"}
    assert theirs.coverage == {name: counts for name, counts in ours.coverage.items() if name not in internal}


def test_symmetry_merges_states() -> None:
    component = component_named("lru")
    plain, merged = (
        tensor.explore(component, component.normative, LRU, Plan(symmetry=symmetry)) for symmetry in (False, True)
    )
    assert merged.states < plain.states
    assert merged.depth == plain.depth


# Refinement ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_triple_is_the_specifications(name: str) -> None:
    component, model = component_named(name), model_of(component_named(name), CONFIGS[name])
    explored = reference.explore(component, component.normative, CONFIGS[name], Plan(symmetry=False))
    refinement = tensor.compare(model)
    assert refinement.difference is None
    assert (refinement.states, refinement.triples) == (explored.states, explored.transitions)
    assert refinement.triples > 5_000


def test_a_limit_ends_the_comparison() -> None:
    refinement = tensor.compare(model_of(component_named("lru"), LRU), limit_triples=100)
    assert 100 <= refinement.triples < 200


def test_a_difference_says_where_it_is(plant: Plant) -> None:
    plant("cacheimpl.lru.operations.get", "choose($found, $hit, $counted)", "choose($found, $hit, cache)")
    difference = tensor.compare(model_of(component_named("lru"), LRU)).difference
    assert difference is not None
    assert isinstance(difference.operation, Get)
    assert difference.tensors is not None
    assert difference.specification is not None
    assert (difference.tensors[1].total, difference.specification[1].total) == (0, 1)


def test_an_operation_that_the_guards_forget_is_a_difference(plant: Plant) -> None:
    config = EncoderConfig(capacity=2, sizes=(1,), requests=((0,),), disciplined=1, failures=1)
    model = model_of(component_named("encoder_cache"), config)
    assert tensor.compare(model).difference is None
    some = {kind: operation for kind, operation in model.operations.items() if kind.__name__ != "Report"}
    difference = tensor.compare(replace(model, operations=some)).difference
    assert difference is not None
    assert difference.operation.wire_name() == "report"
    assert difference.tensors is None


# The mapping --------------------------------------------------------------------------------------------------------


class Recording(dict[str, Any]):
    """A row that notes which of its fields were read."""

    def __init__(self, row: dict[str, Any], read: set[str]) -> None:
        super().__init__(row)
        self.read = read

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def reachable(model: TensorModel, depth: int = 4) -> Any:
    """States ([states, ...]) at the start and up to so many steps away."""
    expansion = Expansion(model)
    keys = expansion.start()
    for _ in range(depth):
        keys = distinct(torch.cat([keys, *(edges.target for edges in expansion.edges(keys))])).words
    return model.layout.unpack(keys)


UNUSED = {"lru": {"doing", "putting", "putting_size"}, "encoder_cache": set()}
"""Fields of a call in progress: tensors know whole calls only."""


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_mapping_is_total(name: str) -> None:
    model = model_of(component_named(name), CONFIGS[name])
    read: set[str] = set()
    states = [model.decode(Recording(row, read)) for row in model.rows(reachable(model))]
    assert read == {field.name for field in model.layout.fields}
    varying = {field for place, field in enumerate(states[0]._fields) if len({state[place] for state in states}) > 1}
    assert varying == set(states[0]._fields) - UNUSED[name]
    assert len(set(states)) == len(states)
    assert set(model.component.operations) - set(model.operations) <= {Evict}


def test_every_code_has_its_own() -> None:
    assert set(CODES) == set(type(next(iter(CODES))))
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("lru", LruConfig(capacity=3, sizes=(1, 1, 1), lookups=1, pins=1)),
        ("encoder_cache", EncoderConfig(capacity=2, sizes=(1, 1), requests=((0, 1), (0, 1), (1,)), failures=1)),
    ],
)
def test_tensors_are_renamed_as_the_specification_is(name: str, config: Any) -> None:
    model = model_of(component_named(name), config)
    states = reachable(model, depth=3)
    before = model.decoded(states)
    state_type: Any = model.variant.state
    rename = renaming(state_type)
    assert rename is not None
    for to in all_renamings(model.component.interchangeable(config)):
        assert model.decoded(renamed(model.layout, states, to)) == [rename(state, to) for state in before]


def test_the_domain_has_what_the_specification_can_do() -> None:
    model = model_of(component_named("lru"), LRU)
    assert set(model.by_kind()[Put]) == {Put(0, 1), Put(0, 2), Put(1, 1), Put(1, 2), Put(2, 2)}
