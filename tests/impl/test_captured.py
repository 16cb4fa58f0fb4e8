"""Recorded steps: what is refused, what making one leaves as it was, and where results are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from cacheimpl.captured import Capture, CapturedDecode
from cacheimpl.captured.rounds import _keep, _leaves
from cacheimpl.kv_blocks import BurstError, Serving, configuration, empty
from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.settings import Settings

torch.set_num_threads(1)

ROWS = torch.arange(3)


def serving(*, checked: bool = False) -> Serving:
    """Four requests of eight blocks of four tokens, of which three have computed three tokens."""
    config = configuration(torch.arange(32).reshape(4, 8), torch.full((4,), 32), block_size=4, limit=32, count=32)
    engine = Serving(config, 32, checked=checked)
    engine.allocate_slots(ROWS, 0 * ROWS, 0 * ROWS + 3, width=1)
    return engine


def test_making_one_changes_nothing_and_steps_are_those_of_the_engine() -> None:
    engine, other = serving(), serving()
    before = [values.clone() for values in engine.pool]
    wide, narrow = CapturedDecode(engine, 4), CapturedDecode(engine, 2, most=1)
    assert all(torch.equal(values, was) for values, was in zip(engine.pool, before, strict=True))
    assert not wide.is_graph
    addresses = [values.data_ptr() for values in (*engine.pool, *wide.results, *narrow.results, wide.requests)]
    for _ in range(3):
        wide.load(ROWS)
        step, wanted = wide.step(), other.decode(ROWS)
        assert int(step.remaining) == 0
        assert step.done.tolist() == [*wanted.done.tolist(), False]
    narrow.load(ROWS[1:2])
    assert (narrow.requests.tolist(), int(narrow.step().remaining)) == ([1, 4], 0)
    other.decode(ROWS[1:2])
    assert narrow.results.lengths.tolist() == [7, 0]
    assert narrow.results.slots.tolist() == [4 * int(engine.pool.tables[1, 1]) + 2, -1]
    assert torch.equal(engine.pool.tables, other.pool.tables)
    assert [one.data_ptr() for one in (*engine.pool, *wide.results, *narrow.results, wide.requests)] == addresses
    assert wide.tables is engine.pool.tables


def test_who_remains_is_counted_and_has_no_slot() -> None:
    config = configuration(torch.arange(4).reshape(2, 2), torch.full((2,), 8), block_size=4, limit=8, count=4)
    engine = Serving(config, 3, checked=False)
    both = torch.arange(2)
    engine.allocate_slots(both, 0 * both, 0 * both + 4, width=1)
    decode = CapturedDecode(engine, 2)
    decode.load(both)
    step = decode.step()  # one block is left, and both need one
    assert (int(step.remaining), step.done.tolist(), step.slots.tolist()) == (1, [True, False], [8, -1])
    assert (step.executed.tolist(), step.lengths.tolist(), step.positions.tolist()) == ([True, True], [5, 0], [4, 0])


@pytest.mark.parametrize("inside", [True, False])
def test_an_engine_made_in_inference_mode_or_outside_is_served_in_both(*, inside: bool) -> None:
    with torch.inference_mode(inside):
        decode = CapturedDecode(serving(), 4)
    for mode in (True, False, True):
        with torch.inference_mode(mode):
            decode.load(ROWS)
            assert int(decode.step().remaining) == 0


REFUSED: dict[str, Callable[[], object]] = {
    "an engine that looks": lambda: CapturedDecode(serving(checked=True), 4),
    "no turns": lambda: CapturedDecode(serving(), 0),
    "no blocks": lambda: CapturedDecode(serving(), 4, most=0),
    "too many rows": lambda: CapturedDecode(serving(), 2).load(ROWS),
    "another type": lambda: CapturedDecode(serving(), 4).load(ROWS.int()),
    "no row of rows": lambda: CapturedDecode(serving(), 4).load(ROWS[None]),
    "another device": lambda: CapturedDecode(serving(), 4).load(ROWS.to("meta")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    with pytest.raises(BurstError):
        REFUSED[what]()


class One(NamedTuple):
    value: Tensor


def test_a_function_that_raises_leaves_everything_as_it_was() -> None:
    total = torch.zeros(2)

    def function() -> One:
        total.add_(1)
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        Capture(function, (total,))
    assert total.tolist() == [0.0, 0.0]


def test_fields_that_change_places_are_both_kept() -> None:
    """What is in the memory of another field is read before that is written."""
    scheduler = Scheduler(
        Settings(
            block_size=4, num_gpu_blocks=4, max_num_batched_tokens=4, max_num_seqs=2, max_model_len=8, max_requests=2
        )
    )
    known: Any = scheduler.state
    state = type(known)(
        *(one.clone() if isinstance(one, Tensor) else type(one)(*map(torch.clone, one)) for one in known)
    )
    state.running.fill_(3)
    state.waiting.fill_(5)
    addresses = [values.data_ptr() for values in _leaves(state)]
    _keep(state, state._replace(running=state.waiting, waiting=state.running[:], produced=state.running + 1))
    assert (state.running.tolist(), state.waiting.tolist(), state.produced.tolist()) == ([5, 5], [3, 3], [4, 4])
    assert [values.data_ptr() for values in _leaves(state)] == addresses
    assert len(empty(scheduler.config.kv, 4)) < len(addresses)
