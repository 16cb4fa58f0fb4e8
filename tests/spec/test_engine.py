"""The engine: that each of its own properties can fail, and that what it shows is what its parts do."""

from __future__ import annotations

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.model.scope import scope_named
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending, Exploration
from cacheproof.search.verdict import unwitnessed
from cachespec import scheduler
from cachespec.encoder_cache import transitions as encoder_transitions
from cachespec.engine import COMPONENT, Config, plans, state, transitions, worker
from cachespec.engine.configuration import Own
from cachespec.engine.properties import OWN, PROGRESS
from cachespec.engine.steps import STEPS
from cachespec.kv_blocks import transitions as kv_transitions
from cachespec.mirror import protocol
from cachespec.object_store import readers
from cachespec.scheduler import requests
from cachespec.scheduler import worker as memory


def config_of(scope: str) -> Config:
    """The configuration of a scope."""
    found: Config = scope_named(COMPONENT, scope).config
    return found


def run(where: Config, *until: str, liveness: bool = False) -> Exploration:
    plan = Plan(symmetry=False, liveness=liveness, limit_states=8_000, until=frozenset(until))
    return explore(COMPONENT, COMPONENT.normative, where, plan)


ALONE = "alone"
FROZEN = "shared-memory-frozen"
CROWDED = "created-again"
RESET = "reset-in-flight"

BUGS: dict[str, tuple[str, Change]] = {
    "X-1": (CROWDED, Change(plans.step_of, "$plan.dropped", "(*$plan.dropped, *$plan.dropped)")),
    "X-1/agreement": (CROWDED, Change(plans.step_of, "$plan.dropped", "()")),
    "ENC-8": (ALONE, Change(worker.encode, "$step.encodes", "()")),
    "KV-7/read": (ALONE, Change(worker.attend, "(*$step.loads, *$step.chunks)", "$step.loads")),
    "KV-7/found": (ALONE, Change(worker.attend, "$worker._replace(memory=$memory)", "$worker")),
    "SHM-10/used": (FROZEN, Change(readers.acknowledge, "$worker.copied", "-1")),
    "SHM-8/heard": (
        FROZEN,
        Change(transitions.update, "completed($parts, $config, $state, $outcome.values)", "$state"),
    ),
    "KV-7/told": (ALONE, Change(plans.chunk_of, "$one.start + $one.tokens", "$one.start + 1")),
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
    "X-3/answered": (ALONE, Change(state.is_executed, "len($state.scheduler.plans)", "-len($state.scheduler.plans)")),
}
"""The scope in which the bug shows, and the bug."""

BUGS_OF_PARTS: dict[str, tuple[str, Change]] = {
    "MIR-1": (ALONE, Change(protocol.receive, "order=$order", "")),
    "SHM-8": (FROZEN, Change(transitions.end, "$state._replace(store=$after)", "$state")),
    "SCH-5/blocks": (ALONE, Change(requests.leave, "without_blocks($rules, $config, $state, $request)", "$state")),
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
    assert {rule.name for rule in OWN} | {rule.name for rule in STEPS} | {"X-3/answered"} <= set(BUGS)


def test_a_reset_that_forgets_nothing_is_noticed() -> None:
    """The other half of X-4."""
    with planted(Change(requests.reset_items, "$state._replace(encoder=$encoder)", "$state")):
        assert {found.property for found in run(config_of(RESET), "X-4").violations} >= {"X-4"}


def test_kv_that_appears_without_a_step_is_noticed() -> None:
    """The other half of X-1/turn: an output leaves a worker with more KV than it had."""
    more = Change(memory.truncated, "token($config, $request, $kept - 1)", "token($config, $request, $kept + 1)")
    with planted(more):
        assert {found.property for found in run(config_of("drafts"), "X-1/turn").violations} >= {"X-1/turn"}


@pytest.mark.parametrize("scope", sorted({scope for scope, _ in EVERY_BUG.values()}))
def test_the_normative_engine_holds_where_the_bugs_are_planted(scope: str) -> None:
    found = run(config_of(scope), liveness=True)
    assert found.ending is Ending.EXHAUSTED
    assert not found.violations


def test_every_witness_is_reached_in_a_default_scope() -> None:
    names = ("two-requests", "three-requests", "shared-memory", "shared-memory-cleared", "drafts")
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
