"""Encoder outputs from another process: what the scheduler and its eras do with them, call by call."""

from __future__ import annotations

from typing import Any

import pytest

from cacheproof.model.registry import variant_named
from cachespec.kernel import Code
from cachespec.scheduler import COMPONENT, Abort, Add, BringOutput, Config, LoseOutput, Schedule, State, Update

SMALL = Config(
    block_size=1,
    kv_blocks=10,
    token_budget=8,
    encoder_compute=2,
    encoder_capacity=4,
    max_running=2,
    max_model_len=6,
    prompts=(3, 2),
    outputs=(1, 1),
    items=(((0, 1, 2),), ((1, 0, 2),)),
    encoder_connector=(2, 1),
    aborts=1,
)
WITH_CONNECTOR = ("normative", "S2b", "S3")


def after(tag: str, config: Config, *calls: Any) -> tuple[State, list[Code]]:
    """The state behind these calls, and their codes."""
    variant = variant_named(COMPONENT, tag)
    state, codes = variant.start(config), list[Code]()
    for call in calls:
        state, outcome = variant.step(config, state, call)
        codes.append(outcome.code)
    return state, codes


def room(tag: str, config: Config, state: State) -> tuple[int, int | None]:
    """The slots of the encoder cache that are free, and those that are free or can be."""
    view = variant_named(COMPONENT, tag).view(config, state).encoder
    return view.free, view.freeable


def encoded(state: State) -> list[tuple[int, int]]:
    """Requests and items that the newest plan encodes."""
    return [(part.request, index) for part in state.plans[-1].scheduled for index in part.encode]


@pytest.mark.parametrize("tag", ["normative", "S3"])
def test_a_request_waits_for_an_output_and_the_one_behind_it_goes_on(tag: str) -> None:
    state, _ = after(tag, SMALL, Add(0), Add(1), Schedule())
    assert (state.waiting, state.running) == ((0,), (1,))
    assert (state.plans[-1].brought, encoded(state)) == ((1,), [])


def test_0_20_2_encodes_an_output_that_is_on_its_way() -> None:
    state, _ = after("S2b", SMALL, Add(0), Schedule())
    assert (state.plans[-1].brought, encoded(state)) == ((), [(0, 0)])


@pytest.mark.parametrize("tag", WITH_CONNECTOR)
def test_an_output_that_arrives_is_loaded_once(tag: str) -> None:
    state, codes = after(tag, SMALL, Add(0), BringOutput(0), BringOutput(0), Schedule())
    assert codes == [Code.DONE, Code.DONE, Code.PRESENT, Code.DONE]
    assert (state.plans[-1].brought, encoded(state)) == ((0,), [])
    assert room(tag, SMALL, state)[0] == SMALL.encoder_capacity - 2
    assert state.worker.missing_outputs == ()


@pytest.mark.parametrize("tag", WITH_CONNECTOR)
def test_an_output_that_never_comes_is_encoded(tag: str) -> None:
    state, codes = after(tag, SMALL, Add(0), LoseOutput(0), BringOutput(0), Schedule())
    assert codes == [Code.DONE, Code.DONE, Code.ABSENT, Code.DONE]
    assert (state.plans[-1].brought, encoded(state)) == ((), [(0, 0)])


@pytest.mark.parametrize("tag", WITH_CONNECTOR)
def test_an_output_that_is_lost_behind_its_load_stays_in_the_cache(tag: str) -> None:
    state, _ = after(tag, SMALL, Add(1), Schedule(), LoseOutput(1), Update(0))
    assert room(tag, SMALL, state)[0] == SMALL.encoder_capacity - 2


@pytest.mark.parametrize("tag", WITH_CONNECTOR)
def test_an_abort_releases_what_was_loaded(tag: str) -> None:
    state, _ = after(tag, SMALL, Add(1), Schedule(), Abort(1))
    assert room(tag, SMALL, state) == (SMALL.encoder_capacity - 2, SMALL.encoder_capacity)


@pytest.mark.parametrize("tag", WITH_CONNECTOR)
def test_an_evicted_output_is_loaded_again(tag: str) -> None:
    config = SMALL._replace(encoder_capacity=2, prompts=(3, 2, 2), outputs=(1, 1, 1))
    config = config._replace(items=(*SMALL.items, ((1, 0, 2),)), encoder_connector=(1, 1), groups=(0, 1, 2))
    config = config._replace(shared=(0, 0, 0))
    calls = (Add(1), Schedule(), Update(0), Add(0), Schedule(), Update(0), Add(2), Schedule())
    state, _ = after(tag, config, *calls)
    assert (state.plans[-1].dropped, state.plans[-1].brought) == ((0,), (1,))
    assert state.worker.missing_outputs == ()


@pytest.mark.parametrize("tag", ["S2b", "S3"])
def test_what_was_loaded_for_a_request_preempted_in_the_same_step_is_loaded_all_the_same(tag: str) -> None:
    """A third request waits for its grammar, so that the threshold counts in S3."""
    config = Config(
        block_size=1,
        kv_blocks=5,
        token_budget=8,
        encoder_compute=2,
        encoder_capacity=2,
        max_running=2,
        max_model_len=8,
        prompts=(4, 1, 1),
        outputs=(1, 3, 1),
        items=(((0, 2, 2),), (), ()),
        long_prefill_threshold=1,
        policy=1,
        priorities=(1, 0, 2),
        grammars=(0, 0, 1),
        encoder_connector=(1,),
    )
    step = (Schedule(), Update(0))
    state, _ = after(tag, config, Add(2), Add(0), *step, Add(1), *step, Schedule())
    plan = state.plans[-1]
    assert [part.request for part in plan.scheduled] == [1]
    assert (plan.preempted, plan.brought) == ((0,), (0,))
    assert state.worker.outputs.has((0,))


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ({"encoder_connector": (3, 1)}, "must be 0, 1 or 2"),
        ({"encoder_connector": (1,)}, "each of the 2 contents"),
        ({"external": (1, 0)}, "external together with encoder_connector"),
        ({"sends": (1, 0)}, "sends together with encoder_connector"),
    ],
    ids=str,
)
def test_what_goes_with_no_connector_is_refused(setting: dict[str, Any], reason: str) -> None:
    assert reason in str(COMPONENT.invalid(SMALL._replace(**setting)))
