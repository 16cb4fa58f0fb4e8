"""Requests that wait for a grammar or an adapter, or that end early: the normative scheduler and the released ones."""

from __future__ import annotations

import pytest

from cachespec.kernel import ABSENT, DONE, FAILED, Operation
from cachespec.scheduler import COMPONENT, Abort, Add, Compile, Config, ResetRunning, Schedule, Update
from cachespec.scheduler.configuration import chains, ended_length, final_length

ADAPTERS = Config(2, 10, 8, 2, 6, 3, 9, (6, 4, 2), (1, 1, 2), (((0, 0, 2), (1, 4, 2)), ((2, 2, 2),), ()))
ONE_EACH = ADAPTERS._replace(adapters=(0, 1, 2))
TEXT = Config(2, 8, 8, 1, 1, 2, 9, (2, 2, 2), (3, 3, 3))

LINES = {"normative": (0, 1, 2), "S2": (1, 0, 2), "S2b": (0, 1, 2), "S3": (0, 1, 2)}


def after(tag: str, config: Config, *calls: Operation) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
    """The codes, and who waits and who runs at the end."""
    variant = COMPONENT.variants[tag]
    state, codes = variant.start(config), list[str]()
    for call in calls:
        state, outcome = variant.step(config, state, call)
        codes.append(outcome.code.value)
    return codes, state.waiting, state.running


@pytest.mark.parametrize("tag", ["S1", "S2", "S2b"])
def test_an_adapter_too_many_ends_the_engine(tag: str) -> None:
    """C-SCH-18: request 1 lacks room for its item in the second step, so request 2 joins with another adapter."""
    calls = (Add(0), Add(1), Add(2), Schedule(), Update(0), Schedule(), Update(0), Schedule(), Update(0))
    codes, _, _ = after(tag, ONE_EACH, *calls)
    assert codes[-4:] == [DONE.code.value, DONE.code.value, FAILED.code.value, FAILED.code.value]


@pytest.mark.parametrize("tag", ["normative", "S3"])
def test_a_running_adapter_counts_while_it_waits_for_an_item(tag: str) -> None:
    calls = (Add(0), Add(1), Add(2), Schedule(), Update(0), Schedule(), Update(0), Schedule())
    assert after(tag, ONE_EACH, *calls)[1:] == ((2,), (1,))


@pytest.mark.parametrize(("adapters", "running"), [((1, 2, 1), (0, 2)), ((1, 0, 2), (0, 1)), ((1, 1, 2), (0, 1))])
def test_who_has_no_other_adapter_overtakes(adapters: tuple[int, ...], running: tuple[int, ...]) -> None:
    config = TEXT._replace(adapters=adapters, max_running=3)
    assert after("normative", config, Add(0), Add(1), Add(2), Schedule())[2] == running


def test_requests_with_different_adapters_share_no_prefix() -> None:
    config = TEXT._replace(groups=(0, 0, 0), shared=(2, 2, 2), adapters=(1, 2, 2), max_adapters=2, prompts=(4, 4, 4))
    first = [blocks[0] for blocks in chains(config)]
    assert first[0] != first[1] == first[2]


@pytest.mark.parametrize("tag", LINES)
def test_requests_whose_grammar_is_not_compiled_are_passed_over(tag: str) -> None:
    """C-SCH-13: in 0.11.0 those that were passed over change places."""
    config = TEXT._replace(grammars=(1, 1, 1))
    codes, waiting, running = after(tag, config, Add(0), Add(1), Add(2), Compile(2), Schedule())
    assert (codes[-1], waiting, running) == ("done", tuple(r for r in LINES[tag] if r != 2), (2,))


def test_a_grammar_is_compiled_once_and_not_for_who_is_gone() -> None:
    config = TEXT._replace(grammars=(1, 1, 0))
    codes, _, _ = after("normative", config, Add(0), Add(1), Compile(0), Compile(0), Abort(1), Compile(1), Compile(2))
    assert codes[3:] == [ABSENT.code.value, DONE.code.value, ABSENT.code.value, ABSENT.code.value]


@pytest.mark.parametrize(("tag", "waiting"), [("normative", (0, 1)), ("S2", (0, 1)), ("S2b", (1, 0)), ("S3", (0, 1))])
def test_an_arrival_with_a_grammar_waits_in_its_turn(tag: str, waiting: tuple[int, ...]) -> None:
    """C-SCH-19."""
    assert after(tag, TEXT._replace(grammars=(0, 1, 0)), Add(0), Add(1))[1] == waiting


@pytest.mark.parametrize(("stop", "least", "length"), [(0, 0, 5), (2, 0, 4), (2, 3, 5), (3, 3, 5), (9, 0, 5)])
def test_a_stop_token_ends_a_request_from_its_least_output_on(stop: int, least: int, length: int) -> None:
    config = TEXT._replace(stops=(stop, 0, 0), min_tokens=(least, 0, 0))
    assert (ended_length(config, 0), final_length(config, 0)) == (length, 5)


@pytest.mark.parametrize(("tag", "ends"), [("normative", True), ("S2", True), ("S2b", False), ("S3", True)])
def test_the_length_of_the_model_ends_a_request(tag: str, ends: bool) -> None:
    """C-SCH-20."""
    config = Config(2, 6, 4, 1, 1, 1, 4, (3,), (3,), min_tokens=(2,))
    assert (after(tag, config, Add(0), Schedule(), Update(0))[2] == ()) is ends


@pytest.mark.parametrize(("pipelined", "code"), [(0, "done"), (1, "miss")])
@pytest.mark.parametrize("tag", ["normative", "S2", "S2b", "S3"])
def test_pipeline_stages_wait_for_the_token_before(tag: str, pipelined: int, code: str) -> None:
    config = Config(2, 6, 4, 1, 1, 1, 9, (3,), (3,), ahead=2, pipelined=pipelined)
    assert after(tag, config, Add(0), Schedule(), Schedule())[0][-1] == code


@pytest.mark.parametrize(("policy", "waiting"), [(0, (0, 1, 2)), (1, (1, 0, 2))])
@pytest.mark.parametrize("tag", ["normative", "S3"])
def test_a_reset_sets_running_requests_back_in_their_order(tag: str, policy: int, waiting: tuple[int, ...]) -> None:
    """Request 2 waits already; with priorities, request 1 is the most important."""
    config = TEXT._replace(priorities=(1, 0, 2), policy=policy, running_resets=1, ahead=2)
    calls = (Add(0), Add(1), Schedule(), Add(2), ResetRunning(), Update(0), Schedule())
    variant = COMPONENT.variants[tag]
    state = variant.start(config)
    for call in calls[:-2]:
        state, outcome = variant.step(config, state, call)
    assert (outcome, state.waiting, state.running) == (DONE, waiting, ())
    state, outcome = variant.step(config, state, calls[-2])
    assert (outcome, tuple(state.produced.items())) == (DONE, ())
    assert variant.step(config, state, calls[-1])[1].values == (waiting[0], 0, 2, waiting[1], 0, 2)
