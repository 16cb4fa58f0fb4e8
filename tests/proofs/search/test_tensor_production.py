"""The types of production: what is explored has them, and a scope has sums that narrower ones do not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cacheimpl import EncoderCacheManager, lru
from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named, scopes_of
from cacheproof.search.tensor import compare
from cacheproof.tensor_models import MODELS, model_of

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]

TYPES = {torch.bool, torch.int32, torch.int64}
"""Flags; names and ranks in tables; counts, sizes, sums."""


def model_in(scope: str) -> Any:
    return model_of(component_named("lru"), scope_named(component_named("lru"), scope).config)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_what_is_explored_has_the_types_of_production(name: str) -> None:
    """The explorer raises where a state has others than the layout says."""
    component = component_named(name)
    layout = model_of(component, scopes_of(component)[0].config).layout
    assert {field.dtype for field in layout.fields} <= TYPES
    sums = [field for field in layout.fields if field.high >= 2**31]
    assert {field.dtype for field in sums} <= {torch.int64}


def test_a_large_engine_has_the_same_types() -> None:
    small = {field.name: field.dtype for field in model_in("gigabytes").layout.fields}
    large = lru.empty(4096)._asdict()
    assert {name: values.dtype for name, values in large.items()} == small
    component = component_named("encoder_cache")
    explored = model_of(component, scopes_of(component)[0].config).layout.fields
    manager = EncoderCacheManager(2**40)._tables.cache._asdict()
    assert {name: values.dtype for name, values in manager.items()} == {one.name: one.dtype for one in explored}


def first_caught(scope: str) -> str:
    """How a comparison of the scope ends."""
    try:
        found = compare(model_in(scope))
    except (OutOfBoundsError, RoundTripError) as error:
        return type(error).__name__
    return "nothing" if found.difference is None else found.difference.operation.wire_name()


NARROW = {
    "what the older gain": (
        "cacheimpl.recency.total_of_older",
        "$by_age.cumsum(0)",
        "$by_age.cumsum(0, dtype=torch.int32).long()",
    ),
    "bytes given back": (
        "cacheimpl.lru.operations.removed",
        "torch.where($leaving, $cache.sizes, 0).sum",
        "torch.where($leaving, $cache.sizes, 0).sum(dtype=torch.int32).long",
    ),
    "pinned bytes": (
        "cacheimpl.lru.operations.put",
        "torch.where($others_pinned, $cache.sizes, 0).sum",
        "torch.where($others_pinned, $cache.sizes, 0).sum(dtype=torch.int32).long",
    ),
}


@pytest.mark.parametrize("what", NARROW)
def test_sums_in_32_bits_are_seen_with_large_sizes_only(what: str, plant: Plant) -> None:
    plant(*NARROW[what])
    assert first_caught("growth") == "nothing"
    assert first_caught("gigabytes") != "nothing"


def test_without_a_bug_nothing_is_caught() -> None:
    found = compare(model_in("gigabytes"))
    assert (found.difference, found.triples > 1_000) == (None, True)
