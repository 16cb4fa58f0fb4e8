"""The engine: that each of its own properties can fail, and that what it shows is what its parts do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.verdict import unwitnessed
from cachespec import scheduler
from cachespec.encoder_cache import transitions as encoder_transitions
from cachespec.engine import (
    COMPONENT,
    Cancel,
    Config,
    DeliverAbort,
    Execute,
    SubmitRequest,
    View,
    plans,
    state,
    transitions,
    worker,
)
from cachespec.engine.answers import ANSWERS
from cachespec.engine.configuration import Own, contents_of, scheduler_config
from cachespec.engine.eras import IN_STATES, MIRRORS
from cachespec.engine.operations import DeliverRequest
from cachespec.engine.properties import OWN, PROGRESS
from cachespec.engine.steps import STEPS
from cachespec.kernel import DONE, Code, Operation, Outcome
from cachespec.kernel import FROZEN as FROZEN_MAPS
from cachespec.kv_blocks import transitions as kv_transitions
from cachespec.mirror import protocol
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, Receive, Retry
from cachespec.object_store import readers
from cachespec.object_store.operations import Clear
from cachespec.scheduler import parts, requests
from cachespec.scheduler import worker as memory
from cachespec.scheduler.operations import FinishLoad, Schedule, Update


def config_of(scope: str) -> Config:
    """The configuration of a scope."""
    found: Config = scope_named(COMPONENT, scope).config
    return found


def with_settings(scope: str, **settings: Any) -> Config:
    """The configuration of a scope, with other settings."""
    changed: Config = COMPONENT.config(**{**config_of(scope)._asdict(), **settings})
    return changed


def run(where: Config, *until: str, liveness: bool = False) -> Exploration:
    plan = Plan(symmetry=False, liveness=liveness, limit_states=8_000, until=frozenset(until))
    return explore(COMPONENT, COMPONENT.normative, where, plan)


ALONE = "alone"
FROZEN = "shared-memory-frozen"
CROWDED = "created-again"
RESET = "reset-in-flight"
DECODER = "encoder-decoder"

BUGS: dict[str, tuple[str, Change]] = {
    "X-1": (CROWDED, Change(plans.step_of, "$plan.dropped", "(*$plan.dropped, *$plan.dropped)")),
    "X-1/agreement": (CROWDED, Change(plans.step_of, "$plan.dropped", "()")),
    "ENC-8": (ALONE, Change(worker.encode, "$step.encodes", "()")),
    "KV-7/read": (ALONE, Change(worker.attend, "(*$step.loads, *$step.chunks)", "$step.loads")),
    "KV-7/crossed": (DECODER, Change(worker.gather, "with_cross_attention($a, $b, $c, $d)", "$c")),
    "KV-7/found": (ALONE, Change(worker.attend, "$worker._replace(memory=$memory)", "$worker")),
    "SHM-10/used": (FROZEN, Change(readers.acknowledge, "$worker.copied", "-1")),
    "SHM-8/heard": (
        FROZEN,
        Change(transitions.update, "completed($parts, $config, $state, $outcome.values)", "$state"),
    ),
    "KV-7/told": (ALONE, Change(plans.chunk_of, "$one.start + $one.tokens", "$one.start + 1")),
    "X-1/answered": (ALONE, Change(transitions.execute, "$after.finding == 0", "$after.finding == 1")),
    "SCH-14/heard": (
        "failed-step",
        Change(transitions.fail_step, "not is_executed($state)", "is_executed($state)"),
    ),
    "KV-7/loads": ("failed-step", Change(plans.loads, "$stored > $found", "$stored >= $found")),
    "KV-7/forgotten": (ALONE, Change(worker.kept_blocks, "$memory.remove($block)", "$memory")),
    "X-3": (FROZEN, Change(transitions.received, "$state.received.set($request, 1)", "$state.received")),
    "X-4": (
        RESET,
        Change(
            worker.queue,
            "$worker._replace(inbox=(*$worker.inbox, $step))",
            "$worker._replace(memory=cleared(config, $worker.memory), inbox=(*$worker.inbox, $step))",
        ),
    ),
    "X-4/counted": (RESET, Change(transitions.reset_prefix_cache, "$state.resets_left - 1", "$state.resets_left - 2")),
    "X-3/heard": (ALONE, Change(transitions.cancel, "$state.cancelled.set($op.request, 1)", "$state.cancelled")),
    "X-3/told": (ALONE, Change(transitions.deliver_abort, "scheduler=$after", "")),
    "X-1/turn": (RESET, Change(transitions.execute, "with_worker($state, $op.worker, $after)", "$state")),
    "X-1/output": (RESET, Change(state.is_executed, "waiting_plans($worker) < $x", "waiting_plans($worker) <= $x")),
    "KV-7/settled": ("drafts", Change(transitions.without, "$worker._replace(memory=$memory)", "$worker")),
    "X-3/ledger": (ALONE, Change(transitions.step_mirror, "max($confirmed, 0)", "0")),
    "X-3/sent": (ALONE, Change(transitions.rendered, "mirror=$mirror", "")),
    "X-3/once": (
        "shared-memory-resumed",
        Change(state.is_on_its_way, "not $state.received.has($request)", "True"),
    ),
    "X-3/turned-away": (RESET, Change(transitions.deliver, "$outcome.code in $codes", "$outcome.code not in $codes")),
    "X-1/ended": ("failed-step", Change(transitions.followed_by_workers, "scheduler=$after", "")),
    "X-4/stopped": ("waiting", Change(transitions.reset_running, "scheduler=$after", "")),
    "X-3/answered": (ALONE, Change(state.is_executed, "len($state.scheduler.plans)", "-len($state.scheduler.plans)")),
}
"""The scope in which the bug shows, and the bug."""

BUGS_OF_PARTS: dict[str, tuple[str, Change]] = {
    "MIR-1": (ALONE, Change(protocol.receive, "order=$order", "")),
    "SHM-8": (FROZEN, Change(transitions.end, "$state._replace(store=$after)", "$state")),
    "SCH-5/blocks": (ALONE, Change(requests.withdrawn, "without_blocks($rules, $config, $state, $request)", "$state")),
    "ENC-2": (ALONE, Change(encoder_transitions.place, "$cache.free - $size", "$cache.free")),
    "KV-2": (ALONE, Change(kv_transitions.touch, "$pool.free.remove($block)", "$pool.free")),
}
"""One for each part: in an engine it is held to its own properties, too."""

EVERY_BUG = BUGS | BUGS_OF_PARTS


@pytest.mark.parametrize("name", EVERY_BUG)
def test_a_planted_bug_breaks_its_property(name: str) -> None:
    scope, change = EVERY_BUG[name]
    liveness = name in {rule.name for rule in PROGRESS}
    with planted(change):
        found = run(config_of(scope), name, liveness=liveness)
    assert name in {violation.property for violation in found.violations}


def test_every_own_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in OWN} | {rule.name for rule in (*STEPS, *ANSWERS)} | {"X-3/answered"} <= set(BUGS)


def test_a_reset_that_forgets_nothing_is_noticed() -> None:
    """The other half of X-4."""
    with planted(Change(requests.reset_items, "$state._replace(encoder=$encoder)", "$state")):
        assert {found.property for found in run(config_of(RESET), "X-4").violations} >= {"X-4"}


NOT_WRITTEN = {
    "a request that resumes finds a prefix": (
        1,
        Change(parts.cached_prefix, "$config.prefix_caching == 0", "$config.prefix_caching == 2"),
    ),
    "what an issued step reads is forgotten": (2, Change(worker.kept_crossed, "$needed.set($one, 0)", "$needed")),
}
"""Steps in flight, and a bug."""


@pytest.mark.parametrize("name", NOT_WRITTEN)
def test_cross_attention_that_is_read_and_was_not_written_is_noticed(name: str) -> None:
    """ENC-8 holds without the bug, and a worker finds it when it executes a step behind the request's first one."""
    ahead, change = NOT_WRITTEN[name]
    where = with_settings(DECODER, ahead=ahead)
    assert run(where, "ENC-8").violations == ()
    with planted(change):
        assert "ENC-8" in {found.property for found in run(where, "ENC-8").violations}


def test_the_first_step_of_an_admission_finds_no_cross_attention_of_an_earlier_one() -> None:
    inside = scheduler_config(config_of(DECODER))
    before = worker.initial(FROZEN_MAPS)
    first, later = (worker.Step(chunks=(memory.Chunk(0, start, start + 1, (0, 1)),)) for start in (0, 1))
    encodes = first._replace(encodes=((0,),))
    ran = worker.gather(inside, worker.encode(inside, before, encodes), encodes)
    assert worker.gather(inside, ran, later).finding == worker.SOUND
    without_output = worker.drop(inside, ran, worker.Step(drops=((0,),)))
    again = worker.gather(inside, without_output, first)
    assert worker.gather(inside, again, later).finding == worker.NO_TENSOR


def test_kv_that_appears_without_a_step_is_noticed() -> None:
    """The other half of X-1/turn: an output leaves a worker with more KV than it had."""
    more = Change(memory.truncated, "token($config, $request, $kept - 1)", "token($config, $request, $kept + 1)")
    with planted(more):
        assert {found.property for found in run(config_of("drafts"), "X-1/turn").violations} >= {"X-1/turn"}


def test_a_load_that_does_not_reach_the_workers_is_noticed() -> None:
    """The request is admitted with its KV, and no worker has it."""
    lost = Change(
        transitions.with_changes, "$worker._replace(memory=$worker.memory._replace(memory=$memory))", "$worker"
    )
    with planted(lost):
        assert {found.property for found in run(config_of("transfers"), "KV-7/read").violations} >= {"KV-7/read"}


def test_what_was_awaited_is_not_loaded_again() -> None:
    """A step that loads once more hides that a load has failed."""
    where, engine = config_of("transfers"), COMPONENT.normative
    after = engine.start(where)
    for operation in (SubmitRequest(0), Schedule(), FinishLoad(0), Schedule()):
        after, _ = engine.step(where, after, operation)
    (step,) = after.workers[0].inbox
    assert step.chunks
    assert step.loads == ()


def test_a_client_that_leaves_a_session_ends_the_turn_under_way() -> None:
    """The abort of a turn that is queued is one of its session."""
    with planted(Change(transitions.turn_under_way, "range($first, $request)", "range($request, $request)")):
        assert {found.property for found in run(config_of("sessions"), "X-3/told").violations} >= {"X-3/told"}


def test_a_turn_brings_the_items_of_its_own_input() -> None:
    where = with_settings("sessions", prompts=(2, 5, 2), items=(((1, 0, 1),), ((1, 0, 1), (0, 3, 1)), ()), sizes=(1, 1))
    assert COMPONENT.invalid(where) is None
    assert [contents_of(where, request) for request in range(3)] == [(1,), (0,), ()]


@pytest.mark.parametrize("scope", sorted({scope for scope, _ in EVERY_BUG.values()}))
def test_the_normative_engine_holds_where_the_bugs_are_planted(scope: str) -> None:
    found = run(config_of(scope), liveness=True)
    assert found.ending is Ending.EXHAUSTED
    assert not found.violations


@pytest.mark.nightly
def test_every_witness_is_reached_in_a_default_scope() -> None:
    """`make check` explores these scopes too, and fails if a witness is reached in none."""
    names = (
        "rejected",
        "two-requests",
        "three-requests",
        "shared-memory",
        "shared-memory-cleared",
        "drafts",
        "waiting",
        "sessions",
        "transfers",
        "failed-step",
        "encoder-decoder",
    )
    scopes = [scope_named(COMPONENT, name) for name in names]
    assert {scope.set for scope in scopes} == {"default"}
    runs = [explore(COMPONENT, COMPONENT.normative, scope.config, scope.plan) for scope in scopes]
    assert unwitnessed(COMPONENT, runs) == ()


def test_every_setting_of_the_scheduler_is_one_of_the_engine() -> None:
    """With the same default, so that a scope of one is a scope of the other."""
    whole = COMPONENT.config
    assert set(scheduler.Config._fields) <= set(whole._fields)
    assert scheduler.Config._field_defaults.items() <= whole._field_defaults.items()
    assert not set(whole._fields) - set(scheduler.Config._fields) - set(Own._fields)


# Released engines ---------------------------------------------------------------------------------------------------


def released(era: str, *operations: Operation, aborts: int = 0) -> View:
    """Two requests with one item at one frontend, and these calls."""
    sizes = {"kv_blocks": 4, "max_running": 2, "token_budget": 4, "aborts": aborts}
    config = COMPONENT.config(**{**config_of("missed")._asdict(), **sizes})
    variant = COMPONENT.variants[era]
    after = variant.start(config)
    for operation in operations:
        after, _ = variant.call(config, after, operation)
    return variant.view(config, after)


MISS = (SubmitRequest(0), Deliver(0), Receive(0), SubmitRequest(1), ResetReceiver(), Deliver(0))
"""The item of the second request is a hit at P0, and P1 has forgotten it."""


@pytest.mark.parametrize(("era", "received", "rejected"), [("S2", (0,), ()), ("S2b", (0, 1), (1,)), ("S3", (0,), ())])
def test_a_miss_ends_the_thread_the_request_or_an_attempt(
    era: str, received: tuple[int, ...], rejected: tuple[int, ...]
) -> None:
    seen = released(era, *MISS)
    assert (seen.received, seen.rejected) == (received, rejected)
    assert seen.mirror.hung is (era == "S2")


def test_a_client_sends_a_missed_request_again() -> None:
    seen = released("S3", *MISS, Receive(0), Retry(0), Deliver(0))
    assert seen.received == (0, 1)
    assert seen.scheduler.waiting == (0, 1)


def test_a_client_that_has_left_sends_nothing_again() -> None:
    seen = released("S3", *MISS[:-1], Cancel(1), Deliver(0), Receive(0), DeliverAbort(1), aborts=1)
    assert (seen.received, seen.rejected, seen.cancelled) == ((0, 1), (1,), ())
    assert seen.mirror.links[0].unanswered == 0


def test_a_deaf_engine_hears_of_no_abort_and_of_no_text() -> None:
    seen = released("S2", *MISS, Cancel(0), DeliverAbort(0), aborts=1)
    assert seen.cancelled == (0,)


def test_a_request_that_fails_at_its_frontend_is_over() -> None:
    """C-MIR-16: the item is larger than the cache."""
    config = config_of("missed")._replace(sizes=(2,))
    for era, failed in (("S2", (0,)), ("S2b", (0,)), ("S3", ())):
        variant = COMPONENT.variants[era]
        after, _ = variant.call(config, variant.start(config), SubmitRequest(0))
        seen = variant.view(config, after)
        assert (seen.submitted, seen.failed, seen.received) == ((0,), failed, ())


def test_only_an_engine_whose_mirror_retries_has_a_retry() -> None:
    assert [tag for tag, variant in COMPONENT.variants.items() if Retry in variant.transitions] == ["S3"]


def test_the_engine_of_each_release_has_its_mirror() -> None:
    for tag, mirror in MIRRORS.items():
        own = COMPONENT.variants[tag].exempt
        owner = component_named("mirror")
        exempt = owner.variants[mirror].exempt
        assert {rule.name for rule in owner.properties() if rule.name in exempt} & IN_STATES <= set(own)


def after_calls(era: str, where: Config, *operations: Operation) -> tuple[Outcome, list[Operation], View]:
    """The outcome of the last of these calls, what is possible afterwards, and the state."""
    variant = COMPONENT.variants[era]
    after = variant.start(where)
    outcome = DONE
    for operation in operations:
        after, outcome = variant.call(where, after, operation)
    return outcome, list(variant.alphabet(where, after)), variant.view(where, after)


STALE = (SubmitRequest(0), DeliverRequest(0), Schedule(), Clear(), SubmitRequest(1), Execute(0))
"""The store is cleared before the worker has read its item, and another item comes to its place."""


@pytest.mark.parametrize(("era", "finding"), [("S2", 4), ("S2b", 4), ("S3", 5), ("normative", 0)])
def test_a_handle_of_a_cleared_store_is_read_wrongly_or_ends_the_engine(era: str, finding: int) -> None:
    """C-SHM-7, C-SHM-12: ids that begin again lead to another item; ids that go on are an error."""
    outcome, possible, seen = after_calls(era, config_of("shared-memory-cleared"), *STALE)
    assert seen.workers[0].finding == finding
    assert outcome == (Outcome(Code.FAILED) if finding else DONE)
    assert (possible == []) == (finding == 5)


def test_a_request_whose_walk_fails_at_its_frontend_is_over() -> None:
    """C-MIR-9: 0.11.0 touches nothing, so the walk evicts an item that the look-up has found."""
    where = with_settings(
        "shared-memory-cleared",
        prompts=(2, 3),
        items=(((0, 0, 1),), ((1, 0, 1), (0, 1, 1))),
        store_capacity=3,
        max_model_len=4,
    )
    read = (SubmitRequest(0), DeliverRequest(0), Schedule(), Execute(0))
    for era, failed in (("S2", (1,)), ("S2b", ()), ("S3", ()), ("normative", ())):
        outcome, possible, seen = after_calls(era, where, *read, SubmitRequest(1))
        assert seen.failed == failed
        assert outcome.code is (Code.FAILED if failed else Code.DONE)
        assert (DeliverRequest(1) in possible) == (failed == ())


def test_a_load_into_a_block_that_had_the_same_tokens_reaches_the_workers() -> None:
    """Request 1 leaves the first tokens of request 2 in block 3, which count for nothing until request 2 loads them."""
    config = with_settings(
        "alone",
        block_size=2,
        kv_blocks=8,
        token_budget=5,
        encoder_compute=1,
        encoder_capacity=1,
        max_running=2,
        max_model_len=10,
        prompts=(6, 5, 4, 6, 5, 3),
        outputs=(2, 3, 2, 2, 3, 4),
        sizes=(4, 7),
        mirror_capacity=1,
        items=(((0, 5, 1),), ((1, 4, 1),), (), ((0, 5, 1),), (), ((1, 2, 1),)),
        groups=(0, 0, 0, 1, 1, 1),
        shared=(4, 4, 2, 4, 5, 2),
        external=(4, 5, 4, 6, 3, 2),
        aborts=1,
        loads_later=(0, 1, 1, 1, 0, 0),
        sends=(0, 1, 0, 1, 0, 1),
        shared_memory=1,
        store_capacity=18,
    )
    arrivals = (SubmitRequest(1), SubmitRequest(4), Cancel(1), SubmitRequest(5), DeliverRequest(5), DeliverRequest(1))
    beginning = (SubmitRequest(2), Schedule(), DeliverRequest(4), Execute(0), DeliverRequest(2), FinishLoad(1))
    leaving = (Cancel(5), DeliverAbort(5), DeliverAbort(1), Update(0), Schedule(), Execute(0))
    loaded = (FinishLoad(2), Update(0), Schedule(), Execute(0))
    engine = COMPONENT.variants["S3"]
    after, outcome = engine.start(config), DONE
    for operation in (*arrivals, *beginning, *leaving, *loaded):
        after, outcome = engine.call(config, after, operation)
    assert (outcome.code, after.scheduler.kv.tables.get((2, 0), -1)) == (Code.DONE, 3)
