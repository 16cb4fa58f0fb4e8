"""What the KV blocks do, call by call: the normative pool, the released managers, and a recorded workload."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cachespec.kernel import FROZEN, REROOTING, Code, Demand, Operation, Outcome, Request
from cachespec.kv_blocks import (
    COMPONENT,
    K0B,
    K1,
    K2,
    NORMATIVE_KV_BLOCKS,
    AllocateGroups,
    AllocateSlots,
    AppendSlots,
    Commit,
    Config,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    Withdraw,
)
from cachespec.kv_blocks.service import SERVICE
from cachespec.kv_blocks.state import NO_TABLE

TWO = Config(2, 4, ((0, 1), (0, 2)), (4, 5))


def after(variant: Any, config: Config, *operations: Operation) -> Any:
    """The state after these calls."""
    state = variant.start(config)
    for operation in operations:
        state, _ = variant.call(config, state, operation)
    return state


def answer(variant: Any, config: Config, *operations: Operation) -> Outcome:
    """What the last of these calls returns."""
    outcome: Outcome = variant.call(config, after(variant, config, *operations[:-1]), operations[-1])[1]
    return outcome


ALLOCATED = AllocateSlots(0, 0, 4, ())
WRITTEN = Commit(0, 4)


def test_blocks_are_found_when_they_are_written_and_not_before() -> None:
    question = GetComputedBlocks(1, 5)
    assert answer(NORMATIVE_KV_BLOCKS, TWO, ALLOCATED, question) == Outcome(Code.MISS)
    assert answer(NORMATIVE_KV_BLOCKS, TWO, ALLOCATED, WRITTEN, question) == Outcome(Code.HIT, (0,))
    assert answer(K1, TWO, ALLOCATED, question) == Outcome(Code.HIT, (1,))


def test_what_is_withdrawn_leaves_nothing_behind() -> None:
    calls = (ALLOCATED, Withdraw(0), GetComputedBlocks(1, 5))
    assert answer(NORMATIVE_KV_BLOCKS, TWO, *calls) == Outcome(Code.MISS)
    assert answer(K2, TWO, *calls).code is Code.HIT


def test_a_full_hit_leaves_a_block_to_compute() -> None:
    calls = (ALLOCATED, WRITTEN, FreeRequest(0), GetComputedBlocks(0, 4))
    assert answer(NORMATIVE_KV_BLOCKS, TWO, *calls) == Outcome(Code.HIT, (0,))
    assert answer(K0B, TWO, *calls) == Outcome(Code.HIT, (0, 1))


REFUSALS: list[tuple[AllocateSlots, Code]] = [
    (AllocateSlots(1, 0, 3, (1,)), Code.STALE),
    (AllocateSlots(1, 2, 3, ()), Code.STALE),
    (AllocateSlots(1, 0, 6, ()), Code.TOO_LARGE),
    (AllocateSlots(1, 0, 0, ()), Code.REFUSED),
    (AllocateSlots(1, 0, 5, ()), Code.REFUSED),
    (AllocateSlots(0, 0, 2, (0,)), Code.PRESENT),
]


@pytest.mark.parametrize(("operation", "code"), REFUSALS)
def test_a_refusal_says_why_and_changes_nothing(operation: AllocateSlots, code: Code) -> None:
    state = after(NORMATIVE_KV_BLOCKS, TWO, ALLOCATED, WRITTEN)
    assert NORMATIVE_KV_BLOCKS.call(TWO, state, operation) == (state, Outcome(code))


def test_a_reset_waits_for_every_block() -> None:
    assert answer(NORMATIVE_KV_BLOCKS, TWO, ALLOCATED, WRITTEN, ResetPrefixCache()).code is Code.REFUSED
    freed = (ALLOCATED, WRITTEN, FreeRequest(0), ResetPrefixCache())
    assert answer(NORMATIVE_KV_BLOCKS, TWO, *freed).code is Code.DONE
    assert after(NORMATIVE_KV_BLOCKS, TWO, *freed).registered.length == 0


def test_the_null_block_is_never_given_out() -> None:
    state = after(K1, TWO, ALLOCATED, AllocateSlots(1, 0, 2, (1,)))
    assert state.null == 0
    assert 0 not in state.free_order()
    assert not state.references.has(0)


def test_only_the_first_count_of_registered_blocks_goes_back() -> None:
    """0.11.0: a call for fewer tokens than the one before has blocks registered anew, which fails each time."""
    fewer, again = AllocateSlots(0, 0, 1, ()), AllocateSlots(0, 0, 4, ())
    assert answer(K1, TWO, ALLOCATED, fewer) == Outcome(Code.DONE)
    assert answer(K1, TWO, ALLOCATED, fewer, again) == Outcome(Code.FAILED)
    assert answer(K1, TWO, ALLOCATED, fewer, again, again) == Outcome(Code.FAILED)
    assert answer(K2, TWO, ALLOCATED, fewer, again) == Outcome(Code.DONE)


def test_a_call_that_fails_puts_nothing_in_flight() -> None:
    state = after(K1, TWO, ALLOCATED, WRITTEN, AllocateSlots(0, 0, 1, ()), ALLOCATED)
    assert state.holdings.get(0, NO_TABLE).scheduled == 1


def test_one_request_in_two_groups() -> None:
    config = Config(1, 4, ((0, 1), (2, 3)), (2, 2), groups=1)
    both = AllocateGroups(0, 1, 1, 1, (), ())
    assert answer(NORMATIVE_KV_BLOCKS, config, both) == Outcome(Code.DONE, (0, 1, 2, 3))
    assert answer(NORMATIVE_KV_BLOCKS, config, both, both).code is Code.PRESENT


INVALID: list[tuple[Config, str]] = [
    (TWO._replace(block_size=0), "positive"),
    (TWO._replace(lengths=(4,)), "one chain and one length"),
    (TWO._replace(lengths=(6, 5)), "more full blocks than contents"),
    (TWO._replace(chains=((0, 1), (2, 1))), "two different contents"),
    (TWO._replace(hashes=(0, 0)), "one value for each content"),
    (TWO._replace(hashes=(1, 1, 2)), "least content"),
    (TWO._replace(limit=3), "longer than the limit"),
    (TWO._replace(steps=(0,)), "steps must be positive"),
    (TWO._replace(prompts=(5, 5)), "no longer than its request"),
    (TWO._replace(prompts=(-1, 1)), "a prompt must not be negative"),
    (TWO._replace(lengths=(4, 4, 4), chains=((0, 1), (0, 2), (0, 1)), groups=1), "two tables"),
    (TWO._replace(lengths=(4, 2), chains=((0, 1), (2,)), groups=1), "equally many tokens"),
    (TWO._replace(lengths=(4, 4), chains=((0, 1), (0, 1)), groups=1), "one content of its own"),
    (Config(1, 7, ((0,), (1,), (2, 3), (1, 4)), (1, 1, 2, 2), groups=1), "one content of its own"),
    (TWO._replace(lengths=(4, 4), chains=((0, 1), (2, 3)), hashes=(0, 1, 0, 3), groups=1), "of the same group"),
    (TWO._replace(resets=2), "resets must be 0 or 1"),
]


@pytest.mark.parametrize(("config", "why"), INVALID)
def test_an_invalid_configuration_is_told(config: Config, why: str) -> None:
    assert why in (COMPONENT.invalid(config) or "")


UNKNOWN: list[Operation] = [
    AllocateSlots(0, 0, 2, (4,)),
    AllocateGroups(0, 1, 0, 1, (4,), (0,)),
    GetComputedBlocks(0, 5),
    Commit(0, 5),
]


@pytest.mark.parametrize("operation", UNKNOWN)
def test_what_there_is_not_is_refused_before_it_reaches_a_transition(operation: Operation) -> None:
    assert COMPONENT.unknown(TWO, operation) is not None
    assert COMPONENT.unknown(TWO, ALLOCATED) is None


def test_a_table_of_the_first_manager_grows_by_what_it_takes_in_advance() -> None:
    config = TWO._replace(preallocated=1, prompts=(2, 2))
    state = after(COMPONENT.variants["K0"], config, AllocateSlots(0, 0, 2, ()), Commit(0, 2), AppendSlots(0, 2, 2))
    assert state.holdings.get(0, NO_TABLE).blocks == 2
    assert state.free.length == 2


def served(containers: Any) -> list[Any]:
    """A small workload with shared beginnings, three requests at a time: hits, and the pool at the end."""
    choose = random.Random(5)
    chains = tuple((*range(choose.randrange(1, 6)), 100 + number) for number in range(40))
    config = SERVICE.configure(Demand(24, (), chains))
    assert COMPONENT.invalid(config) is None
    state, shown, running = NORMATIVE_KV_BLOCKS.start(config, containers), [], []
    for name, contents in enumerate(chains):
        script, outcome = SERVICE.admit(config, Request(name, contents)), None
        while True:
            try:
                operation = script.send(outcome) if outcome is not None else next(script)
            except StopIteration as end:
                shown.append(end.value)
                break
            state, outcome = NORMATIVE_KV_BLOCKS.step(config, state, operation)
        for operation in SERVICE.compute(config, Request(name, contents)):
            state, _ = NORMATIVE_KV_BLOCKS.step(config, state, operation)
        assert all(check.holds(config, state) for check in SERVICE.checks)
        running.append(Request(name, contents))
        if len(running) == 3:
            for operation in SERVICE.finish(config, running.pop(0)):
                state, _ = NORMATIVE_KV_BLOCKS.step(config, state, operation)
    return [*shown, list(state.free.items()), list(state.registered.items())]


def test_a_workload_is_served_alike_by_both_realisations() -> None:
    frozen = served(FROZEN)
    assert frozen == served(REROOTING)
    assert all(one.admitted for one in frozen[:-2])
    assert sum(sum(one.hits) for one in frozen[:-2]) > 40


def test_a_check_of_the_service_fails_on_a_lost_block() -> None:
    state = after(NORMATIVE_KV_BLOCKS, TWO, ALLOCATED, WRITTEN)
    broken = [
        state._replace(references=state.references.set(0, 2)),
        state._replace(free=state.free.remove(3)),
        state._replace(bytes=state.bytes.remove(0)),
    ]
    for check, one in zip(SERVICE.checks, broken, strict=True):
        assert check.holds(TWO, state)
        assert not check.holds(TWO, one)
