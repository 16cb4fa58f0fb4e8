"""Planted bugs in the tensor code of the KV blocks: each is caught by the triples of a small scope, or in lockstep.

What only a burst can show, or a queue that has turned round, is caught in lockstep.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.impl.kv_blocks_bugs import MUTANTS, SCOPES
from tests.impl.kv_bursts import Crowd, Sides, crowded

from cacheimpl.layout import OutOfBoundsError, RoundTripError
from cacheimpl.writing import COPYING, IN_PLACE
from cacheproof.model.registry import component_named
from cacheproof.search.tensor import compare
from cacheproof.tensor_models import model_of

torch.set_num_threads(1)

Plant = Callable[[str, str, str], None]


def caught(by: str) -> str:
    """How it ends: nothing, a difference, or the error of the layout or of a comparison."""
    try:
        if by in SCOPES:
            difference = compare(model_of(component_named("kv_blocks"), SCOPES[by]), limit_triples=3000).difference
            return "nothing" if difference is None else difference.operation.wire_name()
        requests, seeds, room = (200, 1, 1.0) if by == "wide crowd" else (6, 120, 0.3)
        for seed in range(seeds):
            sides = Sides(crowded(requests, seed, room=room + 0.1 * (seed % 3)), IN_PLACE if seed % 2 else COPYING)
            Crowd(sides, seed, requests).play(30)
    except (OutOfBoundsError, RoundTripError, AssertionError) as error:
        return type(error).__name__
    return "nothing"


@pytest.mark.parametrize("by", [*SCOPES, "crowd", "wide crowd"])
def test_without_a_bug_nothing_is_caught(by: str) -> None:
    assert caught(by) == "nothing"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(plant: Plant, mutant: str) -> None:
    by, function, right, wrong = MUTANTS[mutant]
    plant(function, right, wrong)
    assert caught(by) != "nothing"
