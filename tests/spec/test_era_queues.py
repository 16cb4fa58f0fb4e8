"""S3, call by call, where lockstep once saw it part from 0.33.0: what 0.33.0 does at the last call."""

from __future__ import annotations

from tests.spec.scheduler_calls import called

from cachespec.kernel import Operation
from cachespec.scheduler import Add, Config, Schedule, Update
from cachespec.scheduler.operations import FinishLoad, FinishSend
from cachespec.scheduler.state import LOADING

SIZES = Config(
    block_size=2,
    kv_blocks=8,
    token_budget=16,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=4,
    max_model_len=16,
    prompts=(1,),
    outputs=(1,),
    items=(),
)


def rounds(*accepted: int) -> tuple[Operation, ...]:
    """Steps, each with its output. The numbers say how many drafts of each were right."""
    return tuple(call for number in accepted for call in (Schedule(), Update(number)))


def test_a_draft_that_was_right_behind_a_stop_token_is_not_registered() -> None:
    """Its block has no hash, so it is taken before the blocks of the preempted request, which finds three of them."""
    config = SIZES._replace(
        block_size=1,
        kv_blocks=11,
        max_model_len=10,
        prompts=(2, 2, 2),
        outputs=(6, 7, 8),
        external=(2, 0, 0),
        loads_later=(1, 0, 0),
        drafts=1,
        stops=(0, 3, 0),
    )
    arrivals = (Add(0), Add(1), Add(2), Schedule(), FinishLoad(0), Update(0))
    assert called("S3", config, *arrivals, *rounds(0, 1), Schedule()).outcome.values == (0, 1, 2, 2, 3, 2)


def test_a_preempted_request_does_not_count_as_one_in_a_prompt() -> None:
    """Request 2 has left a chunk behind when it is preempted. When it is back, the load of request 1 may begin."""
    config = SIZES._replace(
        block_size=4,
        kv_blocks=4,
        token_budget=5,
        max_model_len=14,
        prompts=(2, 3, 3),
        outputs=(8, 5, 5),
        external=(2, 1, 0),
        loads_later=(0, 1, 0),
        drafts=3,
        prefix_caching=0,
        admit_by_chunk=1,
    )
    behind = called("S3", config, Add(0), Add(2), Add(1), *rounds(2, 1, 2), Schedule())
    assert behind.outcome.values == (2, 0, 3)
    assert dict(behind.view.transfers)[1] == (LOADING, 1)


def test_a_request_that_no_round_comes_to_stays_among_the_holders_of_blocks() -> None:
    """The load of request 1 is over. A round has no tokens left when it comes to it, so it stays before request 2."""
    config = SIZES._replace(
        kv_blocks=6,
        token_budget=2,
        max_running=2,
        max_model_len=11,
        prompts=(1, 1, 7),
        outputs=(4, 2, 3),
        priorities=(1, 1, 1),
        external=(1, 1, 1),
        loads_later=(0, 1, 1),
        sends=(1, 0, 1),
        prefix_caching=0,
        admit_by_chunk=1,
        policy=1,
    )
    first = (Add(0), Add(2), Add(1), Schedule(), FinishLoad(2), Update(0), *rounds(0, 0, 0))
    second = (Schedule(), FinishSend(0), Update(0), *rounds(0, 0, 0))
    loads = (Schedule(), FinishLoad(1), Schedule(), FinishLoad(2))
    assert called("S3", config, *first, *second, *loads, *rounds(0, 0, 0), Schedule()).view.waiting == (1, 2)


SESSION = SIZES._replace(prefix_caching=0, policy=1, ahead=3)


def test_the_turn_of_a_preempted_session_waits_by_its_rank() -> None:
    """The first turn ends by output in flight, while the session waits. Its next turn is before the less important."""
    config = SESSION._replace(
        kv_blocks=6,
        max_model_len=12,
        prompts=(1, 6, 2),
        outputs=(4, 4, 5),
        priorities=(1, 1, 2),
        turns=(0, 1, 0),
        drafts=3,
    )
    begin = (Add(2), Add(0), Add(1), Schedule(), Schedule(), Update(0), Schedule(), Schedule())
    assert called("S3", config, *begin, Update(2)).view.waiting == (1, 2)


def test_output_of_the_turn_before_makes_that_of_the_next_void() -> None:
    """A step of the first turn is in flight when the second is preempted: the second goes on at once."""
    config = SESSION._replace(
        kv_blocks=7,
        token_budget=20,
        max_running=2,
        max_model_len=19,
        prompts=(2, 11),
        outputs=(7, 7),
        priorities=(2, 2),
        turns=(0, 1),
        drafts=1,
        admit_by_chunk=1,
    )
    first = (Add(0), Schedule(), Schedule(), Add(1), Schedule(), Update(0), Schedule(), Update(1), Update(0))
    ended = (*first, Schedule(), Schedule(), Update(1), Update(0))
    assert called("S3", config, *ended).outcome.values == (0,)
    assert called("S3", config, *ended, Schedule(), Schedule(), Update(0), Schedule()).outcome.values == (1, 0, 11)
