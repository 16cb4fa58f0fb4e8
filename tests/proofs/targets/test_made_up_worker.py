"""The made-up worker of the releases' drivers: it notices every read of what no plan has computed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cacheproof.targets.vllm.child.driver.encoder_connector import EXPECTED, STORED, EncoderConnector
from cacheproof.targets.vllm.child.driver.engine import Process
from cacheproof.targets.vllm.child.driver.schedulers import Part, Step
from cacheproof.targets.vllm.child.driver.worker import Chunk, Stage, Told, Worker, flat, touched

HUNDRED = 100


def worker() -> Worker:
    """Blocks of two tokens; no two requests share a token or an encoder output."""
    return Worker(2, lambda request, position: request * HUNDRED + position, lambda request, item: (request, item))


def step(of: Worker, request: int, start: int, end: int, *blocks: int, whole: bool = False) -> list[tuple[int, int]]:
    """One plan that has one part; what it misses."""
    of.execute(Stage((Told(request, blocks, whole),), (Chunk(request, start, end, (), ()),), (), ()))
    return of.missing_slots


def test_chunks_that_follow_one_another_miss_nothing() -> None:
    of = worker()
    assert step(of, 0, 0, 3, 5, 7, whole=True) == []
    assert step(of, 0, 3, 4) == []
    assert step(of, 0, 4, 5, 6) == []


def test_tokens_that_are_skipped_are_missed() -> None:
    of = worker()
    assert step(of, 0, 0, 2, 5, 7, whole=True) == []
    assert step(of, 0, 3, 4) == [(0, 2)]


def test_a_block_that_no_plan_named_is_missed() -> None:
    assert step(worker(), 0, 0, 3, 5, whole=True) == [(0, 2)]


def test_a_block_that_another_request_has_overwritten_is_missed() -> None:
    of = worker()
    step(of, 0, 0, 2, 5, whole=True)
    step(of, 1, 0, 2, 5, whole=True)
    assert step(of, 0, 2, 3, 6) == [(0, 0)]


def test_two_requests_of_one_step_in_one_slot_are_missed() -> None:
    of = worker()
    chunks = (Chunk(0, 0, 2, (), ()), Chunk(1, 0, 2, (), ()))
    of.execute(Stage((Told(0, (5,), True), Told(1, (5,), True)), chunks, (), ()))
    assert of.missing_slots == [(0, 0)]


def test_a_resumed_request_has_its_new_blocks_only() -> None:
    of = worker()
    step(of, 0, 0, 4, 5, 6, whole=True)
    assert step(of, 0, 2, 4, 7, 8, whole=True) == [(0, 0)]


def cross(of: Worker, start: int, *, reads: bool, whole: bool = False) -> list[tuple[int, int]]:
    """One token of a request of an encoder-decoder model with one item; what its step misses."""
    items = (0,) if reads else ()
    told = Told(0, (5, 6), True) if whole else Told(0, (), False)
    of.execute(Stage((told,), (Chunk(0, start, start + 1, items, items, (0,)),), ((0, 0),), ()))
    return of.missing_outputs


def test_later_steps_read_the_cross_attention_that_the_first_one_has_written() -> None:
    of = worker()
    assert cross(of, 0, reads=True, whole=True) == []
    assert cross(of, 1, reads=False) == []


def test_a_first_step_that_encodes_nothing_leaves_no_cross_attention() -> None:
    assert cross(worker(), 0, reads=False, whole=True) == [(0, 0)]


def test_a_resumed_request_has_no_cross_attention() -> None:
    of = worker()
    cross(of, 0, reads=True, whole=True)
    assert cross(of, 1, reads=False, whole=True) == [(0, 0)]
    assert cross(of, 0, reads=True, whole=True) == []


def test_rejected_drafts_are_not_there() -> None:
    of = worker()
    step(of, 0, 0, 4, 5, 6, whole=True)
    of.reject(0, 2)
    assert step(of, 0, 3, 4) == [(0, 2)]


def test_rejected_drafts_of_a_lost_block_leave_the_new_owner_alone() -> None:
    of = worker()
    step(of, 0, 0, 4, 5, 6, whole=True)
    step(of, 1, 0, 1, 6, whole=True)
    of.reject(0, 2)
    assert step(of, 1, 1, 2) == []


@pytest.mark.parametrize("taken_away", ["dropped", "reset"])
def test_an_encoder_output_is_there_until_it_is_dropped(taken_away: str) -> None:
    of = worker()
    told, reads = Told(0, (5, 6), True), Chunk(0, 2, 4, (), (0,))
    of.execute(Stage((told,), (Chunk(0, 0, 2, (0,), (0,)),), (), ()))
    assert of.missing_outputs == []
    if taken_away == "reset":
        of.reset_outputs()
    of.execute(Stage((), (reads,), ((0, 0),) if taken_away == "dropped" else (), ()))
    assert of.missing_outputs == [(0, 0)]


def test_an_output_that_is_not_there_cannot_be_dropped() -> None:
    of = worker()
    of.execute(Stage((Told(0, (5,), True),), (Chunk(0, 0, 2, (0,), (0,)),), (), ()))
    assert not of.lacks([(0, 0)])
    assert of.lacks([(0, 0), (0, 0)]), "twice"
    assert of.lacks([(0, 1)])


def test_a_process_executes_in_turn_and_keeps_its_first_finding() -> None:
    """As in the engine: 1 is an encoder output that is missing, 2 is KV, 3 an output that is dropped twice."""
    process = Process(worker())
    process.inbox += [
        Stage((Told(0, (5, 6), True),), (Chunk(0, 0, 2, (0,), (0,)),), (), ()),
        None,
        Stage((), (Chunk(0, 2, 3, (), (0,)),), (), ()),
        Stage((), (), ((0, 7),), ()),
    ]
    seen = []
    while process.inbox:
        process.execute()
        seen.append((process.finding, len(process.memory.outputs)))
    assert seen == [(0, 1), (0, 0), (1, 0), (1, 0)]
    late = Process(worker(), [Stage((), (), ((0, 7),), ())])
    late.execute()
    assert late.finding == 3


def test_the_items_that_are_read_are_those_that_the_tokens_touch() -> None:
    items = ((0, 1, 2), (1, 4, 1))
    assert [touched(items, 0, 1), touched(items, 0, 2), touched(items, 2, 5), touched(items, 5, 9)] == [
        (),
        (0,),
        (0, 1),
        (),
    ]


def test_blocks_of_the_first_group_are_taken() -> None:
    assert [flat(None), flat(()), flat([3, 4]), flat(([3, 4],))] == [(), (), (3, 4), (3, 4)]


def test_a_step_behind_rejected_drafts_begins_earlier() -> None:
    """Only the part of the request whose drafts were rejected moves."""
    step = Step(None, (Part(0, 5, 3, 2, True, ()), Part(1, 4, 1, 0, True, ())))
    assert [(part.request, part.start) for part in step.begun_earlier(0, 2).parts] == [(0, 3), (1, 4)]
    assert [part.start for part in step.parts] == [5, 4]


def test_an_output_that_a_step_loads_is_there_until_it_is_dropped() -> None:
    of = worker()
    chunk = Chunk(0, 0, 1, (), (0,))
    told = (Told(0, (5,), True),)
    of.execute(Stage(told, (chunk,), (), ()))
    assert of.missing_outputs == [(0, 0)]
    of.execute(Stage(told, (chunk,), (), (), brought=((0, 0),)))
    assert of.missing_outputs == []
    of.execute(Stage(told, (chunk,), ((0, 0),), ()))
    assert of.missing_outputs == [(0, 0)]


def test_a_made_up_encoder_connector_names_a_load_once() -> None:
    connector = EncoderConnector([EXPECTED, STORED])
    features = [
        SimpleNamespace(identifier=str(content), mm_position=SimpleNamespace(offset=2 * content, length=2))
        for content in range(2)
    ]
    request = SimpleNamespace(mm_features=features)
    assert not connector.ensure_cache_available(request, 1)
    assert connector.ensure_cache_available(request, 2)
    for index in range(2):
        connector.update_state_after_alloc(request, index)
    assert (connector.build_connector_meta(None), connector.build_connector_meta(None)) == ((1,), ())
