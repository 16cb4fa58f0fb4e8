"""Loads in the eras: what a failed block does to a request that waits with a finished load of its own."""

from __future__ import annotations

import pytest

from cacheproof.model.registry import component_named
from cachespec.scheduler import Add, Config, Schedule
from cachespec.scheduler.operations import FailStep, FinishLoad
from cachespec.scheduler.state import LOADED

SCHEDULER = component_named("scheduler")
SHARING = Config(
    block_size=2,
    kv_blocks=9,
    token_budget=6,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=3,
    max_model_len=12,
    prompts=(6, 5),
    outputs=(3, 4),
    items=(),
    groups=(1, 1),
    shared=(4, 4),
    external=(4, 5),
    loads_later=(0, 1),
    load_failures=1,
)
"""The second request hits blocks that the first one is still loading."""


@pytest.mark.parametrize("era", ["S2b", "S3"])
@pytest.mark.parametrize(("whole", "left"), [(0, 0), (1, 2)])
def test_a_failed_block_sets_back_who_waits_with_a_finished_load(era: str, whole: int, left: int) -> None:
    """0.20.2 and 0.33.0 look at the finished load only in the next round."""
    variant = SCHEDULER.variants[era]
    state = variant.start(SHARING)
    for call in (Add(0), Add(1), Schedule(), FinishLoad(1)):
        state, _ = variant.call(SHARING, state, call)
    assert variant.view(SHARING, state).transfers[-1] == (1, (LOADED, 5))
    state, _ = variant.call(SHARING, state, FailStep(0, whole))
    assert variant.view(SHARING, state).transfers == ((1, (LOADED, left)),)
