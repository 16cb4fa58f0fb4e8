"""S3, as 0.33.0, frees blocks behind the steps in flight if KV comes from outside. S2b frees them at once."""

from __future__ import annotations

import pytest
from tests.spec.scheduler_calls import called

from cachespec.kernel import Operation
from cachespec.scheduler import Abort, Add, Config, Schedule, Update
from cachespec.scheduler.operations import FinishSend

CONFIG = Config(
    block_size=2,
    kv_blocks=5,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=2,
    max_model_len=8,
    prompts=(3, 3),
    outputs=(4, 4),
    items=(),
    external=(2, 0),
    ahead=2,
    aborts=1,
)


def free(era: str, config: Config, *calls: Operation) -> list[int]:
    """How many blocks are free behind each call."""
    return [len(view.kv.free) for view in called(era, config, *calls).views]


@pytest.mark.parametrize(("era", "behind"), [("S2b", [2, 4, 4]), ("S3", [2, 2, 4])])
def test_blocks_of_an_aborted_request_are_free_behind_its_step(era: str, behind: list[int]) -> None:
    assert free(era, CONFIG, Add(0), Schedule(), Abort(0), Update(0))[1:] == behind


@pytest.mark.parametrize("config", [CONFIG._replace(external=()), CONFIG._replace(ahead=1)])
def test_without_loads_or_steps_ahead_they_are_free_at_once(config: Config) -> None:
    assert free("S3", config, Add(0), Schedule(), Abort(0), Update(0))[1:] == [2, 4, 4]


def test_all_steps_that_were_planned_before_are_waited_for() -> None:
    """The first step of request 1 was planned before the abort, and is done after that of request 0."""
    calls = (Add(0), Schedule(), Add(1), Schedule(), Abort(0), Update(0), Update(0))
    assert free("S3", CONFIG, *calls)[3:] == [0, 0, 0, 2]


@pytest.mark.parametrize(("first", "second", "free"), [(0, 1, (4, 2, 1, 3)), (1, 0, (2, 4, 3, 1))])
def test_blocks_are_freed_in_the_order_in_which_requests_end(first: int, second: int, free: tuple[int, ...]) -> None:
    """Blocks 2 and 4 have no hash, so each of them is put in front. Blocks 1 and 3 are put at the end."""
    done = called("S3", CONFIG, Add(0), Add(1), Schedule(), Abort(first), Abort(second), Update(0))
    assert done.view.kv.free == free


def test_blocks_that_are_sent_are_free_behind_steps_beyond_the_last_output() -> None:
    """A stop token ends the request while its next step is in flight."""
    config = CONFIG._replace(stops=(1, 0), sends=(1, 0))
    calls = (Add(0), Schedule(), Schedule(), Update(0), FinishSend(0), Update(0))
    assert free("S3", config, *calls)[2:] == [2, 2, 2, 4]


@pytest.mark.parametrize(("era", "waiting"), [("S2b", (1,)), ("S3", ())])
def test_a_running_request_in_flight_is_not_preempted(era: str, waiting: tuple[int, ...]) -> None:
    """Request 0 needs a third block. S2b takes one from request 1. S3 does not, because request 1 is in a step."""
    config = CONFIG._replace(prompts=(4, 3), admit_by_chunk=1, token_budget=8)
    assert called(era, config, Add(0), Add(1), Schedule(), Schedule()).view.waiting == waiting
