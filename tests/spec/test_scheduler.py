"""What a scheduling step does, step by step, and that what it rejects could not have been served."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest

from cacheproof.model.plan import Plan
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import Code, Operation
from cachespec.scheduler import (
    COMPONENT,
    NORMATIVE_SCHEDULER,
    Abort,
    Add,
    Config,
    ResetEncoderCache,
    ResetPrefixCache,
    Schedule,
    State,
    Update,
)
from cachespec.scheduler.configuration import chains, encoder_config, kv_config
from cachespec.scheduler.counts import aligned, at_least_none
from cachespec.scheduler.feasibility import is_feasible

SMALL = Config(
    block_size=2,
    kv_blocks=6,
    token_budget=4,
    encoder_compute=2,
    encoder_capacity=2,
    max_running=2,
    max_model_len=8,
    prompts=(5, 3),
    outputs=(2, 1),
    items=(((0, 1, 2),), ((1, 0, 2),)),
)


def after(
    config: Config, operations: Iterable[Operation], tag: str = "normative"
) -> tuple[State, list[tuple[int, ...]]]:
    """The state after these operations, and what each has answered."""
    variant = COMPONENT.variants[tag]
    state, answers = variant.start(config), list[tuple[int, ...]]()
    for operation in operations:
        state, outcome = variant.step(config, state, operation)
        answers.append(outcome.values)
    return state, answers


def test_two_requests_from_their_arrival_to_their_end() -> None:
    """The worked round of the chapter."""
    steps = [Add(0), Add(1), Schedule(), Update(0), Schedule(), Update(0), Schedule(), Update(0)]
    state, answers = after(SMALL, steps)
    assert answers[2] == (0, 0, 4)
    assert answers[4] == (0, 4, 1, 1, 0, 3)
    assert answers[5] == (1,)
    assert answers[6] == (0, 5, 1)
    assert answers[7] == (0,)
    assert (state.waiting, state.running, state.kv.free.length) == ((), (), 6)
    assert state.encoder.free + state.encoder.sizes.total == 2


@pytest.mark.parametrize(("tag", "told"), [("normative", (0,)), ("S3", (0,)), ("S1", (0, 0))])
def test_what_the_workers_are_told_to_drop_is_shown(tag: str, told: tuple[int, ...]) -> None:
    """Of the newest plan: item *a*, which is evicted for *b*; by request and item where entries are of requests."""
    variant = COMPONENT.variants[tag]
    steps, shown = [Add(0), Add(1), Schedule(), Update(0), Schedule(), Update(0)], list[object]()
    for count in range(len(steps) + 1):
        state, _ = after(SMALL, steps[:count], tag)
        shown.append(COMPONENT.observe(SMALL, variant.view(SMALL, state))["dropped"])
    assert shown == [(), (), (), (), (), told, ()]


def test_the_worked_example_of_11895() -> None:
    """Its own numbers: a negative count before, and tokens from the cached prefix on normatively."""
    config = scope_named(COMPONENT, "worked-example").config
    steps = [Add(0), Add(1), Schedule(), Update(0), Schedule()]
    assert after(config, steps, "S0")[1][-1] == (0, 8192, 7840, 1, 16016, -8683)
    assert after(config, steps, "S1")[1][-1] == (0, 8192, 7840)
    assert after(config, steps)[1][-1] == (0, 8192, 7840, 1, 8192, 352)


def test_its_shortest_form() -> None:
    config = scope_named(COMPONENT, "full-hit").config
    steps = [Add(0), Add(1), Schedule(), Update(0), Schedule()]
    assert after(config, steps, "S0")[1][-1] == (0, 3, 1, 1, 2, -1)


def test_refusals_change_nothing() -> None:
    state, _ = after(SMALL, [Add(0), Schedule()])
    for operation, code in [
        (Add(0), Code.PRESENT),
        (Schedule(), Code.REFUSED),
        (Abort(1), Code.ABSENT),
        (ResetPrefixCache(), Code.REFUSED),
    ]:
        unchanged, outcome = NORMATIVE_SCHEDULER.step(SMALL, state, operation)
        assert (unchanged, outcome.code) == (state, code)
    idle = NORMATIVE_SCHEDULER.start(SMALL)
    assert NORMATIVE_SCHEDULER.step(SMALL, idle, Update(0))[1].code is Code.ABSENT
    assert NORMATIVE_SCHEDULER.step(SMALL, idle, Schedule()) == (idle, (Code.MISS, ()))


def test_an_abort_voids_what_is_in_flight() -> None:
    state, _ = after(SMALL, [Add(0), Schedule(), Abort(0)])
    assert [one.void for one in state.plans[0].scheduled] == [1]
    executed, outcome = NORMATIVE_SCHEDULER.step(SMALL, state, Update(0))
    assert (executed.produced.length, outcome.values) == (0, ())


def test_after_a_reset_an_item_is_encoded_again() -> None:
    config = SMALL._replace(token_budget=2)
    state, _ = after(config, [Add(0), Schedule(), Update(0), ResetEncoderCache(), Schedule()])
    assert [one.encode for one in state.plans[0].scheduled] == [(0,)]


@pytest.mark.parametrize("count", [-8683, -1, 0, 1, 7])
def test_a_count_is_never_negative(count: int) -> None:
    assert at_least_none(count) == (max(0, count))


def test_an_aligned_chunk_is_never_nothing() -> None:
    """And ends at a boundary where it can; for every small chunk."""
    config = SMALL._replace(alignment=3)
    for prefill, start, tokens in product(range(9), range(9), range(1, 9)):
        cut = aligned(config, prefill, start, tokens)
        end = start + cut
        assert 0 < cut <= tokens
        assert end % 3 == 0 or start + tokens >= prefill or start // 3 == (start + tokens) // 3


def test_requests_of_a_group_share_the_blocks_that_they_share_wholly() -> None:
    config = SMALL._replace(groups=(0, 0), shared=(3, 3), items=())
    (first, other), (alone, apart) = chains(config), chains(config._replace(groups=(0, 1)))
    assert first[0] == other[0]
    assert not set(first[1:]) & set(other[1:])
    assert not set(alone) & set(apart)


def test_the_parts_accept_what_they_are_given() -> None:
    for scope in ("shared-item", "drafts", "worked-example"):
        config = scope_named(COMPONENT, scope).config
        assert kv_blocks.COMPONENT.invalid(kv_config(config)) is None
        assert encoder_cache.COMPONENT.invalid(encoder_config(config)) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kv_blocks": 0}, "must be positive"),
        ({"drafts": -1}, "must not be negative"),
        ({"policy": 2}, "policy must be 0 or 1"),
        ({"outputs": (1,)}, "outputs must be given"),
        ({"prompts": (5, 0)}, "must have a token"),
        ({"items": (((0, 4, 2),), ())}, "must stand in its prompt"),
        ({"items": (((0, 0, 2),), ((0, 0, 1),))}, "two lengths"),
        ({"groups": (0, 0)}, "go together"),
        ({"groups": (0, 0), "shared": (2, 2)}, "show different items"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(change: dict[str, object], said: str) -> None:
    assert said in str(COMPONENT.invalid(SMALL._replace(**change)))  # type: ignore[arg-type]  # wrong on purpose


ALONE = SMALL._replace(prompts=(3,), outputs=(2,), items=(((0, 0, 2),),), max_running=1)

LIMITS = [
    ALONE._replace(kv_blocks=blocks, encoder_compute=compute, encoder_capacity=capacity, max_model_len=longest)
    for blocks, compute, capacity, longest in product((1, 2), (1, 2), (1, 2), (3, 4, 5))
] + [
    ALONE._replace(token_budget=budget, long_prefill_threshold=threshold, chunked_prefill=chunked, whole_items=whole)
    for budget, threshold, chunked, whole in product((1, 2, 3, 4), (0, 1, 2), (0, 1), (0, 1))
]


def is_served(config: Config, tag: str) -> bool:
    """Whether the request, alone, is always finished; and it is queued."""
    plan = Plan(liveness=True, symmetry=False)
    found = explore(COMPONENT, COMPONENT.variants[tag], config, plan)
    assert found.ending is Ending.EXHAUSTED
    return "SCH-8" not in {violation.property for violation in found.violations} and found.states > 1


@pytest.mark.parametrize("config", LIMITS, ids=str)
def test_what_is_rejected_could_not_be_served(config: Config) -> None:
    """And what is accepted is. Where prompts are not cut, what a preemption makes of a request has to fit as well."""
    preempted = config.chunked_prefill == 0 and config.token_budget == config.prompts[0]
    assert is_served(config, "queues-all") in {is_feasible(config, 0), is_feasible(config, 0) or preempted}
    assert not is_feasible(config, 0) or is_served(config, "normative")
