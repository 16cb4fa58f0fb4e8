"""Drafts in steps that are ahead of their output: 0.20.2 and 0.33.0 plan with placeholders, the normative one waits."""

from __future__ import annotations

import pytest

from cachespec.kernel import Operation
from cachespec.scheduler import COMPONENT, Add, Config, Schedule, State, Update
from cachespec.scheduler.counts import length_in_sight, promised

ALONE = Config(2, 12, 8, 1, 1, 2, 12, (2,), (6,), drafts=2, ahead=3)
IN_FLIGHT = (Add(0), Schedule(), Update(0), Schedule(), Schedule())
"""One token is known, and two steps verify two drafts each."""


def after(tag: str, config: Config, *calls: Operation) -> State:
    """The state after these calls."""
    variant = COMPONENT.variants[tag]
    state: State = variant.start(config)
    for call in calls:
        state, _ = variant.step(config, state, call)
    return state


def planned(state: State) -> list[tuple[int, int, int]]:
    """First token, tokens and drafts of each part in flight."""
    return [(part.start, part.tokens, part.drafts) for plan in state.plans for part in plan.scheduled]


def test_the_normative_scheduler_waits_for_drafts_in_flight() -> None:
    assert planned(after("normative", ALONE, *IN_FLIGHT)) == [(2, 3, 2)]


@pytest.mark.parametrize("tag", ["S2b", "S3"])
def test_a_step_is_planned_behind_drafts_in_flight(tag: str) -> None:
    state = after(tag, ALONE, *IN_FLIGHT)
    assert planned(state) == [(2, 3, 2), (5, 3, 2)]
    assert (promised(ALONE, state, 0), length_in_sight(ALONE, state, 0)) == (6, 9)
    assert state.computed.get(0, 0) == 8


@pytest.mark.parametrize("tag", ["S2b", "S3"])
@pytest.mark.parametrize(("accepted", "start"), [(0, 3), (1, 4), (2, 5)])
def test_steps_behind_rejected_drafts_begin_earlier(tag: str, accepted: int, start: int) -> None:
    state = after(tag, ALONE, *IN_FLIGHT, Update(accepted))
    assert planned(state) == [(start, 3, 2)]
    assert state.computed.get(0, 0) == start + 3
    assert state.produced.get(0, 0) == 2 + accepted


@pytest.mark.parametrize("tag", ["S2b", "S3"])
def test_placeholders_are_not_cut_to_the_output(tag: str) -> None:
    """C-SCH-30: two tokens of output are left, the last of which is never computed."""
    config = ALONE._replace(outputs=(2,))
    assert planned(after(tag, config, Add(0), Schedule(), Schedule())) == [(0, 2, 0), (2, 3, 2)]
    assert planned(after("normative", config, Add(0), Schedule(), Schedule())) == [(0, 2, 0), (2, 1, 0)]


@pytest.mark.parametrize("tag", ["S2b", "S3"])
def test_nothing_is_planned_once_steps_in_flight_are_sure_to_end_the_request(tag: str) -> None:
    """#29542: a step counts for one token of output; its drafts may be wrong."""
    assert len(after(tag, ALONE._replace(outputs=(2,)), *IN_FLIGHT).plans) == 1
    assert len(after(tag, ALONE._replace(outputs=(3,)), *IN_FLIGHT).plans) == 2


@pytest.mark.parametrize("tag", ["S2b", "S3"])
def test_drafts_are_cut_at_the_length_of_the_model(tag: str) -> None:
    state = after(tag, ALONE._replace(max_model_len=8), *IN_FLIGHT)
    assert planned(state) == [(2, 3, 2), (5, 2, 1)]


RESUMED = Config(1, 6, 4, 2, 2, 2, 8, (1, 2), (3, 3), drafts=1, ahead=3)
LATE = (Add(1), Schedule(), Schedule(), Schedule(), Update(0), Schedule())
"""Request 1 preempts itself while a step with a draft of it is in flight."""


def test_a_late_rejection_counts_in_the_next_run() -> None:
    """C-SCH-32, 0.20.2: the request is admitted before the output of its first run arrives."""
    late = after("S2b", RESUMED, *LATE)
    assert late.running == (1,)
    done = after("S2b", RESUMED, *LATE, Update(0))
    assert done.computed.get(1, 0) == late.computed.get(1, 0) - 1
    assert after("S3", RESUMED, *LATE).waiting == (1,)


def test_a_late_rejection_takes_nothing_from_the_workers_of_the_next_run() -> None:
    """The KV of the rejected drafts was in the blocks of the first run."""
    late, done = after("S2b", RESUMED, *LATE), after("S2b", RESUMED, *LATE, Update(0))
    assert dict(late.worker.memory.items()) == dict(done.worker.memory.items())
