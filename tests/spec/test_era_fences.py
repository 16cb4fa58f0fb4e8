"""S3, as 0.33.0, frees blocks behind the steps in flight if KV comes from outside. S2b frees them at once."""

from __future__ import annotations

import pytest

from cacheproof.model.registry import component_named
from cachespec.kernel import Operation
from cachespec.scheduler import Abort, Add, Config, Schedule, Update
from cachespec.scheduler.operations import FinishSend

SCHEDULER = component_named("scheduler")
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
    variant = SCHEDULER.variants[era]
    state, counts = variant.start(config), []
    for call in calls:
        state, _ = variant.call(config, state, call)
        counts.append(variant.view(config, state).kv.free)
    return [len(blocks) for blocks in counts]


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


def test_blocks_that_are_sent_are_free_behind_steps_beyond_the_last_output() -> None:
    """A stop token ends the request while its next step is in flight."""
    config = CONFIG._replace(stops=(1, 0), sends=(1, 0))
    calls = (Add(0), Schedule(), Schedule(), Update(0), FinishSend(0), Update(0))
    assert free("S3", config, *calls)[2:] == [2, 2, 2, 4]


def test_a_running_request_in_flight_is_not_preempted() -> None:
    """Request 0 needs a third block. Its last rival is in a step, so nobody is preempted, and nothing is planned."""
    config = CONFIG._replace(prompts=(4, 3), admit_by_chunk=1, token_budget=8)
    begin = (Add(0), Add(1), Schedule())
    plans = {}
    for era in ("S2b", "S3"):
        variant = SCHEDULER.variants[era]
        state = variant.start(config)
        for call in begin:
            state, _ = variant.call(config, state, call)
        state, _ = variant.call(config, state, Schedule())
        plans[era] = variant.view(config, state).waiting
    assert plans == {"S2b": (1,), "S3": ()}
