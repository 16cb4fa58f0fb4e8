"""Loads in the eras: what a failed block does to other requests, and to steps ahead of their output."""

from __future__ import annotations

import pytest
from tests.spec.scheduler_calls import called

from cachespec.scheduler import Add, Config, Schedule, Update
from cachespec.scheduler.operations import FailLoad, FailStep, FinishLoad
from cachespec.scheduler.state import LOADED

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
    done = called(era, SHARING, Add(0), Add(1), Schedule(), FinishLoad(1), FailStep(0, whole))
    assert done.views[-2].transfers[-1] == (1, (LOADED, 5))
    assert done.view.transfers == ((1, (LOADED, left)),)


AHEAD = Config(
    block_size=2,
    kv_blocks=5,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=1,
    max_model_len=6,
    prompts=(3,),
    outputs=(3,),
    items=(),
    external=(2,),
    ahead=2,
    load_failures=1,
)
"""Steps run ahead of their output, and the load of the only request can fail in its step."""


@pytest.mark.parametrize(("era", "tokens"), [("normative", 3), ("S2b", 4), ("S3", 4)])
def test_a_place_is_kept_for_output_that_a_failed_load_has_dropped(era: str, tokens: int) -> None:
    """C-SCH-36: the prompt has three tokens, and releases schedule four."""
    assert called(era, AHEAD, Add(0), Schedule(), FailStep(0, 0), Schedule()).outcome.values == (0, 0, tokens)


@pytest.mark.parametrize(("era", "produced"), [("normative", ()), ("S2b", ((0, 1),)), ("S3", ((0, 1),))])
def test_output_behind_a_failed_load_counts(era: str, produced: tuple[tuple[int, int], ...]) -> None:
    """C-SCH-37: the second step has read blocks of the failed load."""
    done = called(era, AHEAD, Add(0), Schedule(), Schedule(), FailStep(0, 0), Update(0))
    assert done.view.produced == produced


AGAIN = Config(
    block_size=1,
    kv_blocks=3,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=1,
    max_model_len=5,
    prompts=(1, 1),
    outputs=(1, 2),
    items=(),
    groups=(1, 1),
    shared=(1, 1),
    external=(1, 0),
    loads_later=(1, 0),
    load_failures=1,
)
"""Both requests have the same prompt. The first one loads it, and does so again while the other runs with its block."""


def test_a_load_that_fails_again_sets_back_who_runs_with_its_blocks() -> None:
    """0.33.0 does not ask whose load has failed: it sets back every running request that has the block."""
    shared = (Add(0), Schedule(), Add(1), FinishLoad(0), Schedule(), Update(0), Schedule(), Update(0), Schedule())
    done = called("S3", AGAIN, *shared, FailLoad(0, 0))
    assert dict(done.views[-2].computed)[1] > 0
    assert dict(done.view.computed)[1] == 0
