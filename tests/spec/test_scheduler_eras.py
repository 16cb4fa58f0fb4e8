"""What released schedulers did that is more than one trace of the catalogue tells."""

from __future__ import annotations

import pytest

from cachespec.kernel import FAILED, Code
from cachespec.scheduler import COMPONENT, Add, Config, Schedule, Update

PERIODS = 30

EQUALS = Config(
    block_size=2,
    kv_blocks=8,
    token_budget=3,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=3,
    max_model_len=3,
    prompts=(2,) * (3 + PERIODS),
    outputs=(1,) * (3 + PERIODS),
    chunked_prefill=0,
)
"""Equal requests, of which a step has room for one; each is finished by the step that serves it."""


def served_in_turn(tag: str) -> tuple[list[int], list[tuple[int, ...]]]:
    """Three arrive, then one in each period, in which one is served: who is, and who waits afterwards."""
    variant = COMPONENT.variants[tag]
    state = variant.start(EQUALS)
    served, lines = list[int](), list[tuple[int, ...]]()
    for request in range(3):
        state, _ = variant.step(EQUALS, state, Add(request))
    for period in range(PERIODS):
        state, outcome = variant.step(EQUALS, state, Schedule())
        served.append(outcome.values[0])
        state, _ = variant.step(EQUALS, state, Update(0))
        lines.append(state.waiting)
        state, _ = variant.step(EQUALS, state, Add(3 + period))
    return served, lines


def test_who_came_second_is_never_served_while_one_arrives_for_each_that_is() -> None:
    """C-SCH-13, a lasso: but for the name of the newest, the line is the same after every period."""
    served, lines = served_in_turn("S2")
    assert served == [0, *range(2, PERIODS + 1)]
    assert lines == [(period + 2, 1) for period in range(PERIODS)]


@pytest.mark.parametrize("tag", ["normative", "S3"])
def test_where_the_line_stays_everybody_is_served_in_turn(tag: str) -> None:
    served, _ = served_in_turn(tag)
    assert served == list(range(PERIODS))


def test_nothing_happens_in_an_engine_that_an_assertion_has_ended() -> None:
    """C-SCH-14."""
    variant = COMPONENT.variants["S2"]
    config = Config(2, 5, 4, 2, 2, 2, 8, (2, 2), (4, 4), priorities=(1, 0), policy=1, ahead=2)
    state, outcome = variant.start(config), None
    calls = [Add(0), Schedule(), Schedule(), Add(1), Update(0)]
    calls += [Schedule(), Update(0), Schedule(), Update(0), Update(0)]
    for call in calls:
        assert outcome is None or outcome.code is Code.DONE
        state, outcome = variant.step(config, state, call)
    assert outcome == FAILED
    assert tuple(variant.alphabet(config, state)) == ()
    for call in (Add(0), Schedule(), Update(0)):
        assert variant.step(config, state, call) == (state, FAILED)


def made(tag: str, config: Config, calls: list[Add | Schedule | Update]) -> tuple[int, ...]:
    """What the last of these calls answers."""
    variant = COMPONENT.variants[tag]
    state, outcome = variant.start(config), None
    for call in calls:
        state, outcome = variant.step(config, state, call)
    assert outcome is not None
    return outcome.values


@pytest.mark.parametrize(("tag", "blocks", "answered"), [("S3", 4, (0, 6, 1)), ("normative", 3, (0, 6, 1, 1, 0, 3))])
def test_a_preempted_request_waits_for_its_output_in_flight(tag: str, blocks: int, answered: tuple[int, ...]) -> None:
    """#48245, three steps ahead: 0.33.0 delivers that output; the normative scheduler drops it, and goes on at once."""
    config = Config(4, blocks, 8, 1, 1, 2, 10, (3, 2), (6, 4), priorities=(0, 1), policy=1, ahead=3)
    calls: list[Add | Schedule | Update] = [Add(1), Add(0), Schedule(), Schedule(), Update(0), Schedule(), Schedule()]
    assert made(tag, config, [*calls, Update(0), Schedule()]) == answered


@pytest.mark.parametrize(
    ("model", "beside", "budget", "answered"),
    [
        (9, False, 8, (0, 0, 1)),
        (9, True, 8, (1, 2, 2, 0, 0, 3)),
        (9, True, 3, (1, 2, 2)),
        (3, True, 8, (0, 0, 1)),
    ],
)
def test_a_decode_is_padded_with_drafts(model: int, beside: bool, budget: int, answered: tuple[int, ...]) -> None:
    """0.33.0: beside others, if no prompt is computed; not beyond the model's length, and not with fewer drafts."""
    config = Config(2, 12, budget, 1, 1, 2, model, (1, 2), (2, 3), drafts=2)
    before: list[Add | Schedule | Update] = [Add(1), Schedule(), Update(0)] if beside else []
    assert made("S3", config, [*before, Add(0), Schedule()]) == answered


def test_rejected_drafts_do_not_count_for_a_request_preempted_in_their_round() -> None:
    """0.11.0: the request stays in the plan, and its count is not that of a waiting one."""
    config = Config(2, 6, 14, 1, 1, 4, 10, (1, 1), (7, 8), priorities=(0, 1), drafts=3, chunked_prefill=0, policy=1)
    variant = COMPONENT.variants["S2"]
    state = variant.start(config)
    calls = [Add(1), Schedule(), Add(0), Update(0), Schedule(), Update(0), Schedule()]
    for call in calls:
        state, _ = variant.step(config, state, call)
    assert (state.waiting, tuple(state.computed.items())) == ((1,), ((0, 5), (1, 4)))
    state, _ = variant.step(config, state, Update(0))
    assert tuple(state.computed.items()) == ((0, 2), (1, 1))


@pytest.mark.parametrize("tag", ["normative", "S2", "S2b", "S3"])
@pytest.mark.parametrize(("caching", "second"), [(1, (1, 4, 1)), (0, (1, 0, 5))])
def test_without_prefix_caching_nothing_is_found(tag: str, caching: int, second: tuple[int, ...]) -> None:
    config = Config(2, 12, 8, 1, 1, 2, 9, (5, 5), (1, 2), groups=(0, 0), shared=(5, 5), prefix_caching=caching)
    assert made(tag, config, [Add(0), Schedule(), Update(0), Add(1), Schedule()]) == second


@pytest.mark.parametrize("tag", ["normative", "S3"])
@pytest.mark.parametrize(("free", "both"), [(1, (0, 0, 2, 1, 0, 2)), (2, (0, 0, 2))])
def test_an_admission_beside_others_leaves_the_watermark_free(tag: str, free: int, both: tuple[int, ...]) -> None:
    """Alone a request is admitted all the same."""
    blocks = 3 if tag == "normative" else 4
    config = Config(2, blocks, 8, 1, 1, 2, 6, (2, 2), (1, 1), watermark=free)
    assert made(tag, config, [Add(0), Add(1), Schedule()]) == both


@pytest.mark.parametrize(
    ("tag", "chunk", "answered"),
    [
        ("normative", 0, (0, 0, 4, 1, 0, 2)),
        *((tag, 0, (0, 0, 4)) for tag in ("S2b", "S3")),
        *((tag, 1, (0, 0, 4, 1, 0, 2)) for tag in ("S2b", "S3")),
    ],
)
def test_a_request_is_admitted_by_its_first_chunk_or_as_a_whole(
    tag: str, chunk: int, answered: tuple[int, ...]
) -> None:
    blocks = 3 if tag == "normative" else 4
    config = Config(2, blocks, 6, 1, 1, 2, 9, (4, 6), (1, 1), admit_by_chunk=chunk)
    assert made(tag, config, [Add(0), Add(1), Schedule()]) == answered


def test_output_from_before_a_preemption_counts_and_ends_the_engine() -> None:
    """C-SCH-21: request 2 is admitted again while its old step is in flight. These calls were made on 0.7.3."""
    config = Config(1, 6, 2, 1, 1, 3, 9, (1, 4, 1), (4, 1, 1), ahead=3)
    variant = COMPONENT.variants["S1"]
    state = variant.start(config)
    calls: list[Add | Schedule | Update] = [Add(1), Add(0), Schedule(), Schedule(), Add(2), Update(0), Schedule()]
    for call in (*calls, Schedule(), Update(0), Schedule(), Update(0), Schedule()):
        state, outcome = variant.step(config, state, call)
    assert (outcome.values, state.running, tuple(state.computed.items())) == ((2, 0, 1), (0, 2), ((0, 2), (2, 2)))
