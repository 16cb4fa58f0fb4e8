"""The encoder cache: what it does in known cases, normatively and in the released managers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cachespec.encoder_cache import COMPONENT, Config, View
from cachespec.encoder_cache.operations import (
    BLOCKS,
    ENCODER,
    Abandon,
    Allocate,
    CachedInputs,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Report,
    Reset,
)
from cachespec.encoder_cache.service import admit, configure, finish
from cachespec.kernel import (
    ABSENT,
    DONE,
    FAILED,
    HIT,
    MISS,
    NORMATIVE,
    PRESENT,
    REFUSED,
    UNSUPPORTED,
    Code,
    Demand,
    Operation,
    Outcome,
    Request,
    Served,
)

NO_LIMIT = 1_000
SHARED_ERAS = ("E1", "E1b", "E2")


def ran(tag: str, config: Config, operations: Sequence[Operation]) -> tuple[View, tuple[Outcome, ...]]:
    """The view after the calls, and what came of each."""
    assert COMPONENT.invalid(config) is None
    variant = COMPONENT.variants[tag]
    state, outcomes = variant.start(config), []
    for operation in operations:
        state, outcome = variant.call(config, state, operation)
        outcomes.append(outcome)
    return variant.view(config, state), tuple(outcomes)


def ask(request: int, position: int = 0, pending: int = 0) -> CanAllocate:
    """Room is asked for, with a compute budget that covers everything."""
    return CanAllocate(request, position, NO_LIMIT, pending)


# A1: what was never cached is freed ---------------------------------------------------------------------------------

THIRTIES = Config(100, (30, 30), ((0, 1),))
FREED_UNCACHED = [Allocate(0, 0), FreeInput(0, 1), FreeInput(0, 1)]


def test_freeing_what_was_never_cached_adds_slots_before_inputs_were_shared() -> None:
    view, outcomes = ran("E0", THIRTIES, FREED_UNCACHED)
    assert (view.free, view.held, outcomes) == (130, ((0, 0),), (DONE, DONE, DONE))
    view, outcomes = ran("E0", THIRTIES, [*FREED_UNCACHED, Report()])
    assert outcomes[-1] == Outcome(Code.DONE, (0, 1, 0, 1))


@pytest.mark.parametrize("tag", SHARED_ERAS)
def test_freeing_what_was_never_cached_does_nothing_since(tag: str) -> None:
    assert ran(tag, THIRTIES, FREED_UNCACHED)[0].free == 70


def test_freeing_what_was_never_cached_is_absent() -> None:
    view, outcomes = ran(NORMATIVE, THIRTIES, FREED_UNCACHED)
    assert (view.free, outcomes) == (70, (DONE, ABSENT, ABSENT))


# A2: one content is allocated twice ---------------------------------------------------------------------------------

TWINS = Config(60, (30,), ((0,), (0,)))
ALLOCATED_TWICE = [ask(0), ask(1, pending=30), Allocate(0, 0), Allocate(1, 0), FreeRequest(0), FreeRequest(1)]


@pytest.mark.parametrize("tag", SHARED_ERAS)
def test_two_allocations_of_one_content_lose_its_slots_for_good(tag: str) -> None:
    view, outcomes = ran(tag, TWINS, ALLOCATED_TWICE)
    assert (view.free, view.freeable, view.entries) == (0, 30, (((0,), 30),))
    assert set(outcomes) == {DONE}


def test_the_second_allocation_of_one_content_is_refused() -> None:
    view, outcomes = ran(NORMATIVE, TWINS, ALLOCATED_TWICE)
    assert (view.free, view.freeable) == (30, 60)
    assert outcomes[3] == PRESENT


def test_an_input_allocated_twice_leaks_before_inputs_were_shared() -> None:
    config = Config(100, (40,), ((0,),))
    view, _ = ran("E0", config, [Allocate(0, 0), Allocate(0, 0), FreeInput(0, 0)])
    assert (view.free, view.entries) == (60, ())


# A3: there is no room -----------------------------------------------------------------------------------------------

FORTIES = Config(100, (50, 40, 40), ((0,), (1, 2)))
OVERCOMMITTED = [ask(0), Allocate(0, 0), ask(1, 0), ask(1, 1, pending=40), Allocate(1, 0), Allocate(1, 1)]


@pytest.mark.parametrize(
    ("tag", "answer", "allocation", "free"),
    [
        ("E0", DONE, DONE, -30),
        ("E1", REFUSED, FAILED, 10),
        ("E2", REFUSED, FAILED, 10),
        (NORMATIVE, REFUSED, REFUSED, 10),
    ],
)
def test_two_checks_before_an_allocation(tag: str, answer: Outcome, allocation: Outcome, free: int) -> None:
    view, outcomes = ran(tag, FORTIES, OVERCOMMITTED)
    assert (outcomes[3], outcomes[5], view.free) == (answer, allocation, free)


@pytest.mark.parametrize("tag", SHARED_ERAS)
def test_a_failed_assertion_leaves_an_entry_that_no_check_survives(tag: str) -> None:
    view, outcomes = ran(tag, FORTIES, [*OVERCOMMITTED, CheckAndUpdate(1, 1), FreeInput(1, 1)])
    assert outcomes[6:] == (FAILED, DONE)
    assert [key for key, _ in view.entries] == [(0,), (1,), (2,)]
    assert (view.references, view.idle) == (((0, 1), (1, 1)), ())
    view, outcomes = ran(
        tag, FORTIES, [*OVERCOMMITTED, FreeRequest(0), ask(1, 1), Allocate(1, 1), CheckAndUpdate(1, 1)]
    )
    assert outcomes[-1] == HIT, "an allocation with room makes an entry of it"


def test_a_refused_allocation_leaves_nothing() -> None:
    view, outcomes = ran(NORMATIVE, FORTIES, [*OVERCOMMITTED, CheckAndUpdate(1, 1)])
    assert (outcomes[-1], view.entries) == (MISS, (((0,), 50), ((1,), 40)))


@pytest.mark.parametrize("tag", SHARED_ERAS)
def test_an_order_that_ends_too_soon_fails_in_the_middle_of_the_loop(tag: str) -> None:
    config = Config(2, (1, 2), ((0,), (1,)))
    calls = [Allocate(0, 0), FreeInput(0, 0), Allocate(0, 0), FreeInput(0, 0), ask(1)]
    view, outcomes = ran(tag, config, calls)
    assert (outcomes[-1], view.free, view.entries, view.freed) == (FAILED, 1, (), ((0,),))


# A4: an item twice in one request -----------------------------------------------------------------------------------

REPEATED = Config(60, (30, 60), ((0, 0), (1,)))
FIRST_RELEASED = [ask(0), Allocate(0, 0), CheckAndUpdate(0, 1), FreeInput(0, 0), ask(1)]


@pytest.mark.parametrize(
    ("tag", "answer", "resident"), [("E1", DONE, 0), ("E1b", DONE, 0), ("E2", REFUSED, 1), (NORMATIVE, REFUSED, 1)]
)
def test_an_item_that_a_request_needs_twice(tag: str, answer: Outcome, resident: int) -> None:
    view, outcomes = ran(tag, REPEATED, FIRST_RELEASED)
    assert (outcomes[-1], len(view.entries), view.held) == (answer, resident, ((0, 1),))


# A5: evicted and created again in one pass --------------------------------------------------------------------------

CREATED_AGAIN = [
    *(ask(0), Allocate(0, 0), FreeRequest(0)),
    *(ask(1), Abandon(1, BLOCKS)),
    *(ask(0), Allocate(0, 0)),
]


@pytest.mark.parametrize(("tag", "reported"), [("E1", (0,)), ("E1b", (0,)), ("E2", ()), (NORMATIVE, ())])
def test_what_is_resident_again_is_not_reported(tag: str, reported: tuple[int, ...]) -> None:
    view, outcomes = ran(tag, REPEATED, [*CREATED_AGAIN, Report(), Report()])
    assert [outcome.values for outcome in outcomes[-2:]] == [reported, ()]
    assert view.entries == (((0,), 30),)


@pytest.mark.parametrize(("tag", "reported"), [("E1", (0, 0)), ("E1b", (0, 0)), ("E2", (0, 0)), (NORMATIVE, (0,))])
def test_what_is_evicted_twice_is_reported_once(tag: str, reported: tuple[int, ...]) -> None:
    _, outcomes = ran(tag, REPEATED, [*CREATED_AGAIN, FreeRequest(0), ask(1), Report()])
    assert outcomes[-1].values == reported


# A7: an admission is abandoned --------------------------------------------------------------------------------------

PINNED = Config(60, (50, 50), ((0,), (0,), (1,)), failures=1)


@pytest.mark.parametrize(
    ("tag", "cause", "answer"),
    [
        *(("E1", cause, REFUSED) for cause in (ENCODER, BLOCKS)),
        *((tag, ENCODER, REFUSED) for tag in ("E1b", "E2")),
        *((tag, BLOCKS, DONE) for tag in ("E1b", "E2")),
        *((NORMATIVE, cause, DONE) for cause in (ENCODER, BLOCKS)),
    ],
)
def test_pins_of_an_abandoned_admission(tag: str, cause: int, answer: Outcome) -> None:
    calls = [Allocate(0, 0), Report(), CheckAndUpdate(1, 0), Abandon(1, cause), Report(), FreeRequest(0), ask(2)]
    assert ran(tag, PINNED, calls)[1][-1] == answer


def test_an_abandoned_admission_keeps_what_was_held_before() -> None:
    config = Config(10, (2, 3), ((0, 1), (1,)), failures=1)
    calls = [Allocate(0, 0), Allocate(1, 0), Report(), CheckAndUpdate(0, 1), Abandon(0, ENCODER)]
    view, _ = ran(NORMATIVE, config, calls)
    assert view.held == ((0, 0), (1, 0))


def test_an_attempt_that_allocates_is_over() -> None:
    config = Config(10, (2, 3), ((0, 1), (0,)), failures=1)
    calls = [Allocate(1, 0), Report(), CheckAndUpdate(0, 0), ask(0, 1), Allocate(0, 1), Abandon(0, BLOCKS)]
    view, _ = ran(NORMATIVE, config, calls)
    assert view.held == ((0, 0), (0, 1), (1, 0))


# Sizes --------------------------------------------------------------------------------------------------------------

CONFUSED = Config(100, (10, 100), ((0,), (0,), (1,)), claims=((10,), (30,), (100,)))
GIVEN_BACK = [Allocate(0, 0), CheckAndUpdate(1, 0), FreeRequest(0), FreeRequest(1)]


@pytest.mark.parametrize("tag", ["E1", "E1b"])
def test_an_entry_gives_back_what_its_last_releaser_claims(tag: str) -> None:
    assert ran(tag, CONFUSED, GIVEN_BACK)[0].freeable == 120
    assert ran(tag, CONFUSED, [*GIVEN_BACK, ask(2)])[0].free == 120


def test_an_entry_gives_back_what_was_stored_with_it() -> None:
    view, outcomes = ran("E2", CONFUSED, GIVEN_BACK)
    assert (outcomes[1], view.freeable) == (HIT, 100)


def test_an_input_of_another_size_is_refused() -> None:
    view, outcomes = ran(NORMATIVE, CONFUSED, GIVEN_BACK)
    assert (outcomes[1], view.freeable, view.holders) == (REFUSED, 100, ())


@pytest.mark.parametrize("tag", [NORMATIVE, *SHARED_ERAS])
def test_an_item_of_no_size(tag: str) -> None:
    config = Config(2, (0, 2, 2), ((0,), (1,), (2,)))
    calls = [CanAllocate(0, 0, 0, 0), Allocate(0, 0), FreeRequest(0), Allocate(1, 0), FreeRequest(1), ask(2), Report()]
    view, outcomes = ran(tag, config, calls)
    assert outcomes[0] == DONE, "no budget is needed"
    assert outcomes[-1].values == (0, 1), "it is evicted although that gains nothing"
    assert (view.free, view.entries) == (2, ())


# Order, budget, pending ---------------------------------------------------------------------------------------------

ORDERED = Config(3, (1, 1, 1, 2), ((0,), (1,), (2,), (3,)))


@pytest.mark.parametrize("tag", [NORMATIVE, *SHARED_ERAS])
def test_eviction_is_by_the_time_of_release(tag: str) -> None:
    filled = [Allocate(request, 0) for request in (0, 1, 2)]
    released = [FreeRequest(request) for request in (1, 0, 2)]
    view, outcomes = ran(tag, ORDERED, [*filled, *released, CheckAndUpdate(1, 0), FreeRequest(1), ask(3), Report()])
    assert outcomes[-1].values == (0, 2)
    assert [key for key, _ in view.idle] == [(1,)]


@pytest.mark.parametrize("tag", [NORMATIVE, *SHARED_ERAS])
def test_the_compute_budget_comes_first(tag: str) -> None:
    filled = [Allocate(request, 0) for request in (0, 1, 2)]
    view, outcomes = ran(tag, ORDERED, [*filled, FreeRequest(0), FreeRequest(1), CanAllocate(3, 0, 1, 0)])
    assert (outcomes[-1], view.freed) == (REFUSED, ())


@pytest.mark.parametrize("tag", [NORMATIVE, *SHARED_ERAS])
def test_what_is_pending_counts(tag: str) -> None:
    _, outcomes = ran(tag, ORDERED, [ask(3), ask(0, pending=2), ask(1, pending=3)])
    assert outcomes == (DONE, DONE, REFUSED)


def test_a_grant_outlives_a_later_pin() -> None:
    """The room is made when it is granted: what is pinned afterwards cannot take it back."""
    config = Config(2, (1, 2), ((0,), (1, 0)))
    calls = [Allocate(0, 0), FreeRequest(0), ask(1, 0), CheckAndUpdate(1, 1), Allocate(1, 0)]
    _, outcomes = ran(NORMATIVE, config, calls)
    assert outcomes[2:] == (DONE, MISS, DONE)


# The rest -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tag", "found"), [("E0", ()), ("E1", (0, 1)), ("E1b", (0, 1)), ("E2", ()), (NORMATIVE, ())])
def test_which_inputs_count_as_cached(tag: str, found: tuple[int, ...]) -> None:
    config = Config(4, (1,), ((0, 0), (0,)))
    _, outcomes = ran(tag, config, [Allocate(1, 0), CachedInputs(0), CachedInputs(1)])
    assert [outcome.values for outcome in outcomes[1:]] == [found, (0,)]


@pytest.mark.parametrize("tag", [NORMATIVE, "E1b", "E2"])
def test_reset(tag: str) -> None:
    config = Config(2, (1, 2), ((0, 0), (1,)), resets=1)
    variant = COMPONENT.variants[tag]
    state = variant.start(config)
    for operation in (Allocate(0, 0), FreeInput(0, 0), ask(1), Allocate(1, 0), Reset()):
        state, _ = variant.call(config, state, operation)
    assert state == variant.start(config)


@pytest.mark.parametrize("tag", ["E0", "E1"])
def test_there_was_no_reset(tag: str) -> None:
    view, outcomes = ran(tag, TWINS, [Allocate(0, 0), Reset()])
    assert (outcomes[-1], view.free) == (UNSUPPORTED, 30)


def test_nothing_is_shared_between_requests_before_inputs_were_shared() -> None:
    view, outcomes = ran("E0", TWINS, [Allocate(0, 0), CheckAndUpdate(1, 0), Allocate(1, 0), FreeRequest(0), Report()])
    assert (outcomes[1], view.free, view.entries) == (MISS, 30, (((1, 0), 30),))
    assert outcomes[-1].values == (0, 0)


def test_what_each_release_shows() -> None:
    shown = {tag: set(COMPONENT.observe(TWINS, ran(tag, TWINS, ())[0])) for tag in COMPONENT.variants}
    everything = {"free", "freeable", "cached", "sizes", "holders", "idle", "idle_sizes", "freed"}
    assert shown[NORMATIVE] == shown["E2"] == everything
    assert shown["E1"] == shown["E1b"] == everything - {"sizes"}
    assert shown["E0"] == {"free", "cached", "freed"}


@pytest.mark.parametrize("tag", [tag for tag in COMPONENT.variants if tag != NORMATIVE])
def test_an_era_documents_every_transition_that_it_replaces(tag: str) -> None:
    era, normative = COMPONENT.variants[tag], COMPONENT.normative
    replaced = {kind for kind in COMPONENT.operations if era.transitions[kind] is not normative.transitions[kind]}
    assert set(era.differences) == replaced
    assert set(era.exempt) <= {rule.name for rule in COMPONENT.properties()}


def test_requests_that_show_the_same_are_interchangeable() -> None:
    config = Config(9, (1, 1), ((0, 1), (1, 0), (0, 1), (0, 1)), claims=((1, 1), (1, 1), (1, 1), (2, 1)))
    assert COMPONENT.interchangeable(config) == {"request": ((0, 2), (1,), (3,))}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"capacity": 0}, "capacity"),
        ({"sizes": ()}, "sizes"),
        ({"sizes": (1, -1)}, "sizes"),
        ({"requests": ()}, "request"),
        ({"requests": ((0, 2),)}, "contents"),
        ({"requests": ((-1,),)}, "contents"),
        ({"claims": ((1,),)}, "claims"),
        ({"claims": ((1, -1),)}, "claims"),
        ({"budgets": (-1,)}, "budgets"),
        ({"disciplined": 2}, "disciplined"),
    ],
)
def test_a_wrong_configuration_is_refused(changes: dict[str, Any], said: str) -> None:
    right = Config(2, (1, 1), ((0, 1),))
    assert COMPONENT.invalid(right) is None
    assert said in str(COMPONENT.invalid(right._replace(**changes)))


# A workload ---------------------------------------------------------------------------------------------------------


def served(tag: str, config: Config, contents: Sequence[tuple[int, ...]], *, finished: bool) -> list[Served]:
    """Each request in turn; `finished`: it is over before the next one comes."""
    variant = COMPONENT.variants[tag]
    state, results = variant.start(config), []
    for name, wanted in enumerate(contents):
        script, answer = admit(config, Request(name, wanted)), None
        while True:
            try:
                operation = script.send(answer) if answer is not None else next(script)
            except StopIteration as end:
                results.append(end.value)
                break
            state, answer = variant.call(config, state, operation)
        for operation in finish(config, Request(name, wanted)) if finished else ():
            state, _ = variant.call(config, state, operation)
    return results


@pytest.mark.parametrize("tag", [NORMATIVE, "E1", "E2"])
def test_requests_that_finish_are_served_as_by_recency(tag: str) -> None:
    contents = ((0,), (1,), (0,), (2,), (1,), (2, 2, 1))
    config = configure(Demand(2, (1, 1, 1), contents))
    hits = [result.hits for result in served(tag, config, contents, finished=True)]
    assert hits == [(False,), (False,), (True,), (False,), (False,), (True, True, True)]


def test_a_request_waits_where_others_hold_the_room() -> None:
    contents = ((0, 0), (1, 0), (0,))
    config = configure(Demand(3, (2, 2), contents))
    first, second, third = served(NORMATIVE, config, contents, finished=False)
    assert (first.admitted, first.hits) == (True, (False, True))
    assert (second.admitted, second.hits) == (False, (False, True))
    assert (third.admitted, third.hits) == (True, (True,))
