"""Loads and sends of 0.11.0, beside the rule and the release that came next."""

from __future__ import annotations

import pytest
from tests.spec.scheduler_calls import called

from cachespec.kernel import Code, Operation
from cachespec.scheduler import Abort, Add, Config, Schedule, Update
from cachespec.scheduler.operations import FailLoad, FailStep, FinishLoad, FinishSend

WITHIN = Config(
    block_size=2,
    kv_blocks=5,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=2,
    max_model_len=6,
    prompts=(4,),
    outputs=(1,),
    items=(),
    external=(1,),
    loads_later=(1,),
    aborts=1,
)
"""The store has one token, and a block has room for two."""


@pytest.mark.parametrize(("era", "start"), [("normative", 1), ("S2", 2), ("S2b", 1)])
def test_a_load_counts_to_the_end_of_its_last_block(era: str, start: int) -> None:
    """C-SCH-43: the request goes on behind the block, and its second slot was never written."""
    done = called(era, WITHIN, Add(0), Schedule(), FinishLoad(0), Schedule())
    assert done.outcome.values == (0, start, 4 - start)
    assert done.view.worker.missing_slots == (((0, 1),) if start == 2 else ())


def test_what_a_load_brings_counts_when_its_request_is_looked_at() -> None:
    """0.11.0 keeps no count before."""
    done = called("S2", WITHIN, Add(0), Schedule(), FinishLoad(0))
    assert [dict(view.transfers)[0].tokens for view in done.views[1:]] == [0, 0]


@pytest.mark.parametrize(("era", "blocks"), [("normative", 1), ("S2", 0), ("S2b", 1)])
def test_an_abort_frees_blocks_to_which_a_load_writes(era: str, blocks: int) -> None:
    """C-SCH-44: the blocks are free while the load goes on. Its end frees nothing more."""
    done = called(era, WITHIN, Add(0), Schedule(), Abort(0), FinishLoad(0))
    held = [sum(len(table) for _, table in view.kv.tables) for view in done.views]
    assert held == [0, 1, blocks, 0]
    assert len(done.view.kv.free) == len(done.views[0].kv.free)


SENT = WITHIN._replace(prompts=(3,), outputs=(2,), external=(), loads_later=(), sends=(1,), ahead=2)
"""A step ahead of its output, and blocks that are sent."""
TWICE: tuple[Operation, ...] = (Add(0), Schedule(), Schedule(), Update(0), Schedule(), Update(0), Schedule(), Update(0))


@pytest.mark.parametrize(("era", "told"), [("normative", [0]), ("S2", [0, 0])])
def test_a_request_whose_blocks_are_sent_is_finished_twice(era: str, told: list[int]) -> None:
    """C-SCH-45: the output of the step behind its last one finishes it again."""
    done = called(era, SENT, *TWICE, Schedule())
    planned = zip(done.views, done.views[1:], strict=False)
    assert [
        request
        for before, after in planned
        if len(after.plans) > len(before.plans)
        for request in after.plans[-1].finished
    ] == told


def test_blocks_that_are_sent_are_freed_once() -> None:
    """SCH-15/once holds in 0.11.0 too."""
    done = called("S2", SENT, *TWICE, FinishSend(0), FinishSend(0))
    assert [outcome.code for outcome in done.outcomes[-2:]] == [Code.DONE, Code.ABSENT]
    assert len(done.view.kv.free) == len(done.views[0].kv.free)


@pytest.mark.parametrize("call", [FailLoad(0, 0), FailStep(0, 0)])
def test_no_load_fails_in_0_11_0(call: Operation) -> None:
    """The release is told of no failure."""
    assert called("S2", WITHIN, Add(0), Schedule(), call).outcome.code is Code.UNSUPPORTED
