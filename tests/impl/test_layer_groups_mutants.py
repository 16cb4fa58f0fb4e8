"""Planted bugs in the tensor code of groups of layers: each is caught by comparing triples of one scope.

Those that leave the layout are caught earlier, by its bounds or by a derived field that disagrees.
"""

from __future__ import annotations

import pytest
import torch
from tests.impl.layer_groups_bugs import BUGS, SCOPES
from tests.planting import planted

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import DEFAULT, scope_named
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.tensor import TensorSearch
from cacheproof.tensor_models import model_of
from cachespec.layer_groups import Config

torch.set_num_threads(1)

COMPONENT = component_named("layer_groups")


def config_of(scope: str) -> Config:
    """A scope of these tests, or a default one of the scope file."""
    if scope in SCOPES:
        return SCOPES[scope]
    where = scope_named(COMPONENT, scope)
    assert where.set == DEFAULT
    return where.config  # type: ignore[no-any-return]  # of this component


def explored(scope: str) -> Exploration:
    """Every triple of a scope, up to the exchange of names, until the first difference."""
    return TensorSearch(model_of(COMPONENT, config_of(scope)), Plan(), judged=False, share=1.0).run()


@pytest.mark.parametrize("scope", ["a short prompt", pytest.param("states apart", marks=pytest.mark.nightly)])
def test_without_a_bug_nothing_is_caught(scope: str) -> None:
    """The scope file has the counts of the other scopes, and `check --engine tensor` compares them."""
    found = explored(scope)
    assert (found.ending, found.parting) == (Ending.EXHAUSTED, None)
    assert found.triples == found.transitions > 100


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_caught(bug: str) -> None:
    scope, change = BUGS[bug]
    with planted(change):
        assert explored(scope).ending is Ending.DIFFERED
