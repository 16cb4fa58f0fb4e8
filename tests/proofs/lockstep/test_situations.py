"""Small scopes gone through: the shortest ways to situations, what breaks there, and the same calls on a target."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproof.lockstep.decisions.scheduler import gives_way_to_later, is_limited, round_of
from cacheproof.lockstep.pair import Pair
from cacheproof.lockstep.retracing import STEPS_AFTER, retrace
from cacheproof.lockstep.situations import explored, longest, needed
from cacheproof.model.finding import Difference, Subject
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.targets.specification import SpecificationTarget
from cachespec.kernel import Kind, Outcome
from cachespec.scheduler import Add, Config, Schedule, Update
from cachespec.scheduler.state import Scheduled, State

SCHEDULER = component_named("scheduler")
TIGHT = Config(2, 5, 4, 2, 2, 2, 8, (4, 3), (2, 3), (((0, 1, 2),), ((0, 0, 2),)))
UNSERVED = TIGHT._replace(encoder_capacity=1)
"""No item fits the encoder cache."""
STATES = 300


def subject(tag: str, config: Config = TIGHT) -> Subject:
    return Subject(SCHEDULER, SCHEDULER.variants[tag], config)


def test_what_breaks_is_seen_in_as_few_calls_as_can_be() -> None:
    assert explored(subject("normative", UNSERVED), STATES, set()).broken == ()
    done = explored(subject("queues-all", UNSERVED), STATES, set())
    shortest = {one.rule.name: len(one.calls) for one in done.broken}
    assert shortest["SCH-9"] == 1
    assert shortest["SCH-8"] == 2, "both requests have come, and neither is ever served"


def test_what_a_scope_file_expects_of_an_era_is_found() -> None:
    scope = scope_named(SCHEDULER, "two-chunks-in-flight")
    done = explored(subject("S3", scope.config), 1_000, set())
    assert done.whole
    assert [(one.rule.name, len(one.calls)) for one in done.broken] == [("ENC-6/held", 4)]


def test_ways_can_be_gone_and_lead_to_what_is_new_once() -> None:
    known: set[object] = set()
    done = explored(subject("S3"), STATES, known)
    assert len(done.ways) > 5
    assert len(set(done.ways)) == len(done.ways) < len(known)
    again = Pair(subject("S3"), SpecificationTarget(SCHEDULER, SCHEDULER.variants["S3"]), "S3")
    for way in done.ways:
        again.replay(way, only_offered=True)
        assert tuple(again.operations) == way
    assert explored(subject("S3"), STATES, known).ways == ()


def test_of_ways_the_beginnings_of_others_are_left_out() -> None:
    calls = (Add(0), Schedule(), Update(0))
    assert list(longest([calls[:1], calls, calls[:2], (Add(1),)])) == [calls, (Add(1),)]


def test_what_needs_more_settings_is_left_out() -> None:
    (seen,) = [one for one in explored(subject("queues-all", UNSERVED), STATES, set()).broken if one.kind is Add]
    more, other = UNSERVED._replace(policy=1), UNSERVED._replace(items=(), prompts=(9, 9), drafts=1)
    assert list(needed([(UNSERVED, seen), (more, seen), (other, seen)])) == [(UNSERVED, seen), (other, seen)]
    assert list(needed([(more, seen), (UNSERVED, seen)])) == [(more, seen), (UNSERVED, seen)]


def test_ways_are_gone_on_both_sides() -> None:
    ways = explored(subject("S3"), STATES, set()).ways
    same = Pair(subject("S3"), SpecificationTarget(SCHEDULER, SCHEDULER.variants["S3"]), "S3")
    done = retrace(same, ways, 1)
    assert (done.finding, done.tally.episodes) == (None, len(ways))
    assert done.tally.steps > sum(map(len, ways))
    unserved = explored(subject("normative", UNSERVED), STATES, set()).ways
    queueing = SpecificationTarget(SCHEDULER, SCHEDULER.variants["queues-all"])
    other = Pair(subject("normative", UNSERVED), queueing, "queues-all")
    assert isinstance(retrace(other, unserved, 1).finding, Difference)


def test_a_difference_behind_the_calls_is_found() -> None:
    """A target that forgets a request when the second output of it comes, which no way reaches."""
    right = SCHEDULER.variants["normative"]

    def forgetful(config: Config, state: State, operation: Update) -> tuple[State, Outcome]:
        after, outcome = right.transitions[Update](config, state, operation)
        return (after._replace(waiting=(), running=()) if after.produced.get(0, 0) > 1 else after), outcome

    config = TIGHT._replace(prompts=(1, 1), outputs=(4, 1), items=(), drafts=0)
    wrong = replace(right, transitions={**right.transitions, Update: forgetful})
    pair = Pair(Subject(SCHEDULER, right, config), SpecificationTarget(SCHEDULER, wrong), "forgetful")
    way = (Add(0), Schedule())
    done = retrace(pair, [way], 1)
    assert isinstance(done.finding, Difference)
    assert len(way) < len(done.finding.trace.steps) <= len(way) + STEPS_AFTER
    assert all(call.kind is Kind.INTERNAL for call in done.finding.trace.operations[1:])


@pytest.mark.parametrize(("model", "limited"), [(6, False), (5, True)])
def test_a_part_for_whose_drafts_the_model_has_no_room_is_another_situation(model: int, limited: bool) -> None:
    """#53962: the draft behind the last token of the prompt would be the last token of the model."""
    config = Config(1, 9, 4, 1, 1, 1, model, (4,), (1,), drafts=1)
    part = Scheduled(request=0, start=3, tokens=1, drafts=0, samples=1, encode=(), relies=())
    assert is_limited(config, part) is limited
    assert not is_limited(config._replace(drafts=0), part)


THREE = Config(1, 7, 4, 1, 1, 3, 6, (1, 2, 1), (4, 3, 3), (), priorities=(2, 1, 0), policy=1)
"""The request that comes first gives way to both others, and blocks are scarce."""


@pytest.mark.parametrize(("blocks", "gives_way"), [(6, False), (7, True), (9, False)])
def test_that_one_gives_way_to_a_later_one_before_others_is_another_situation(blocks: int, gives_way: bool) -> None:
    """#49206: the scheduler removed an earlier request and skipped the next. With 6 blocks the victim is the asker."""
    variant, config = SCHEDULER.variants["S3"], THREE._replace(kv_blocks=blocks)
    calls = (Add(0), Schedule(), Add(1), Add(2), Update(0), Schedule(), Update(0))
    state = variant.start(config)
    for call in calls:
        state, _ = variant.call(config, state, call)
    after, _ = variant.call(config, state, Schedule())
    views = variant.view(config, state), variant.view(config, after)
    scheduled = {part.request for part in views[1].plans[-1].scheduled}
    assert views[0].running == (0, 2, 1)
    assert gives_way_to_later(config, *views, scheduled) is gives_way
    if blocks < 9:
        assert (views[1].waiting, scheduled) == ((0,), {1, 2})


def test_a_victim_that_had_drafts_is_another_situation() -> None:
    """#28558, #30916: its drafts stayed in the plan of the step, or were scheduled when it ran again."""
    variant, config = SCHEDULER.variants["S3"], THREE._replace(drafts=1)
    state = variant.start(config)
    for call in (Add(0), Schedule(), Add(1), Add(2), Update(0), Schedule(), Update(0)):
        state, _ = variant.call(config, state, call)
    after, _ = variant.call(config, state, Schedule())
    before, later = variant.view(config, state), variant.view(config, after)
    (victim,) = set(before.running) & set(later.waiting)
    assert victim in dict(before.proposed)
    with_drafts = round_of(config, before, later, victim, None)
    assert with_drafts != round_of(config, before._replace(proposed=()), later, victim, None)
