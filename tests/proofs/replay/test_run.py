"""Replays: hits item by item against a cache written for the purpose, and planted bugs that are noticed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyVariant, component_named
from cacheproof.model.target import Target
from cacheproof.replay.readers import read
from cacheproof.replay.run import Replay, ReplayResult, Setting, configuration
from cacheproof.replay.shipped import DATA
from cacheproof.replay.workload import Arrival, Workload
from cacheproof.targets.specification import SpecificationTarget
from cachespec.encoder_cache import Allocate, FreeRequest
from cachespec.kernel import FAILED, HIT, Code, Operation, Outcome
from cachespec.lru import NORMATIVE_LRU, Evict, Get, Put
from cachespec.mirror.operations import Deliver, Receive

POPE = DATA / "pope_coco_slice.jsonl.gz"
CLIENTS = DATA / "servegen_clients_slice.jsonl.gz"
COMPONENTS = ["lru", "encoder_cache", "mirror"]
AFTERNOON = {"start": "43200", "requests": "400"}
MADE = Path("made.jsonl")


def workload(*requests: tuple[int, ...], sizes: tuple[int, ...] = (1,) * 8) -> Workload:
    """Requests made by hand: each stands in the line of its number, counted from one."""
    arrivals = tuple(Arrival(contents, MADE, line) for line, contents in enumerate(requests, start=1))
    return Workload("made by hand", "slots", sizes, arrivals)


def replayed(
    component: str,
    given: Workload,
    capacity: int,
    *,
    variant: AnyVariant | None = None,
    target: Target | None = None,
    **settings: int,
) -> ReplayResult:
    """The result of a replay; of the normative variant where none is given."""
    chosen = component_named(component)
    return Replay(Setting(chosen, variant or chosen.normative, given, capacity, **settings), target).run()


def hits_of(component: str, given: Workload, capacity: int, **settings: int) -> list[tuple[bool, ...]]:
    """For each request, which of its contents were hits."""
    chosen = component_named(component)
    seen: list[tuple[bool, ...]] = []
    setting = Setting(chosen, chosen.normative, given, capacity, **settings)
    result = Replay(setting, seen=lambda request, served: seen.append(served.hits)).run()
    assert not result.violations
    assert sum(map(sum, seen)) == result.hits
    return seen


def planted(
    component: str, operation: type[Operation], wrong: Callable[[Any, Any, Any, Any], Any], **changes: Any
) -> AnyVariant:
    """The normative variant with a bug: `wrong(right, config, state, operation)` takes the place of one transition."""
    normative = component_named(component).normative
    right = normative.transitions[operation]

    def transition(config: Any, state: Any, op: Any) -> tuple[Any, Outcome]:
        after: tuple[Any, Outcome] = wrong(right, config, state, op)
        return after

    return normative.era("planted", "planted", {operation: transition}, {operation: "planted"}, **changes)


def exempt(variant: AnyVariant, *names: str) -> Mapping[str, str]:
    """The exemptions of the variant, and those properties as well."""
    return {**variant.exempt, **dict.fromkeys(names, "to see what else notices")}


def plain_lru(given: Workload, capacity: int) -> list[tuple[bool, ...]]:
    """An LRU cache written for these tests alone: for each request, which of its contents were hits."""
    held: OrderedDict[int, int] = OrderedDict()
    answers = []
    for arrival in given.arrivals:
        hits = []
        for content in arrival.contents:
            size = given.sizes[content]
            hits.append(content in held)
            if content in held:
                held.move_to_end(content)
            elif size <= capacity:
                while sum(held.values()) + size > capacity:
                    held.popitem(last=False)
                held[content] = size
        answers.append(tuple(hits))
    return answers


# Hits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("order", ["file", "round-robin", "shuffled"])
@pytest.mark.parametrize("capacity", [1, 7, 29, 30, 1000])
def test_every_component_hits_the_items_that_a_plain_lru_hits(component: str, order: str, capacity: int) -> None:
    """One item of one slot a request, served at once: the three components are one cache then."""
    given = read([POPE], {"order": order})
    assert hits_of(component, given, capacity) == plain_lru(given, capacity)


@pytest.mark.parametrize("reuse", ["none", "conversation", "zipf"])
@pytest.mark.parametrize("capacity", [500, 4096, 65_536])
def test_lru_hits_the_items_that_a_plain_lru_hits_in_a_composed_load(reuse: str, capacity: int) -> None:
    given = read([CLIENTS], {**AFTERNOON, "reuse": reuse, "pool": "60"})
    assert hits_of("lru", given, capacity) == plain_lru(given, capacity)


def test_a_hit_is_a_content_that_was_there_when_it_was_looked_up() -> None:
    given = workload((0,), (1,), (0,), (2,), (1,), (0,))
    assert hits_of("lru", given, 2) == [(False,), (False,), (True,), (False,), (False,), (False,)]


def test_counts_of_a_replay() -> None:
    result = replayed("lru", workload((0, 1), (), (1, 0, 0)), 5)
    assert (result.requests, result.references, result.hits) == (3, 5, 3)
    assert result.hit_ratio == 3 / 5
    assert result.events == 5 + 2


def test_a_workload_of_no_references_has_a_ratio_of_zero() -> None:
    assert replayed("mirror", workload((), ()), 5).hit_ratio == 0.0


# Requests that wait, and requests that cannot be served -------------------------------------------------------------


def test_requests_that_run_at_the_same_time_hold_what_they_use() -> None:
    """Two slots, and two requests that may run: the third one's content has to wait for the first to finish."""
    given = workload((0,), (1,), (2,), (0,))
    alone = replayed("encoder_cache", given, 1, concurrency=1, check_every=1)
    assert (alone.requests, alone.waited, alone.rejected) == (4, 0, 0)
    together = replayed("encoder_cache", given, 1, concurrency=3, check_every=1)
    assert (together.requests, together.waited, together.rejected, together.violations) == (4, 3, 0, [])


def test_what_can_never_be_admitted_is_turned_down_and_counted() -> None:
    result = replayed("encoder_cache", workload((0,), (1,), (0,), sizes=(2, 9)), 4, check_every=1)
    assert (result.requests, result.rejected, result.hits, result.violations) == (3, 1, 1, [])


def test_messages_are_in_flight_while_requests_run() -> None:
    given = read([POPE], {"order": "shuffled"})
    assert hits_of("mirror", given, 10, concurrency=5, check_every=1) == hits_of("mirror", given, 10)


# Checks -------------------------------------------------------------------------------------------------------------


def test_full_checks_come_at_the_stated_rate_and_at_the_end() -> None:
    given = workload(*[(0,)] * 20)
    assert replayed("lru", given, 1, check_every=0).full_states == 1
    every_fifth = replayed("lru", given, 1, check_every=5)
    assert (every_fifth.full_steps, every_fifth.full_states) == (2 + 3, 2 + 3 + 1)
    every = replayed("lru", given, 1, check_every=1)
    assert (every.full_steps, every.full_states) == (21, 22)


def test_constant_time_checks_come_after_every_call() -> None:
    service = component_named("lru").service
    assert service is not None
    assert replayed("lru", workload(*[(0,)] * 20), 1, check_every=0).constant_checks == 21 * len(service.checks)


def forgets_recency(right: Any, config: Any, state: Any, op: Any) -> Any:
    """First in, first out: a hit leaves the order as it is."""
    after, outcome = right(config, state, op)
    return (after._replace(order=state.order) if outcome.code is Code.HIT else after), outcome


def test_first_in_first_out_is_noticed_by_a_property() -> None:
    given = read([POPE], {"order": "shuffled"})
    result = replayed("lru", given, 10, variant=planted("lru", Get, forgets_recency), check_every=1)
    assert [violation.property for violation in result.violations] == ["LRU-7/recency"]


def test_first_in_first_out_changes_the_counts() -> None:
    """Seen only by what is hit: the property that would notice it does not apply here."""
    given = read([POPE], {"order": "shuffled"})
    fifo = planted("lru", Get, forgets_recency, exempt=exempt(NORMATIVE_LRU, "LRU-7/recency"))
    result = replayed("lru", given, 10, variant=fifo, check_every=1)
    assert result.violations == []
    assert result.requests == 540
    assert result.hits != replayed("lru", given, 10).hits


def leaks_from_the_fourth_on(right: Any, config: Any, state: Any, op: Any) -> Any:
    """A byte is counted that nobody holds, once three keys are there."""
    after, outcome = right(config, state, op)
    return (after._replace(used=after.used + 1) if after.entries.length > 3 else after), outcome


def test_a_constant_time_check_notices_at_once_and_the_replay_stops_there() -> None:
    given = workload((0,), (1,), (0,), (2,), (3,), (4,))
    leaking = planted("lru", Put, leaks_from_the_fourth_on)
    result = replayed("lru", given, 8, variant=leaking, check_every=0)
    assert result.requests == 4
    (violation,) = result.violations
    assert (violation.property, violation.request, violation.path, violation.line) == ("LRU-2", 4, "made.jsonl", 5)
    assert violation.operation == {"op": "put", "key": 3, "size": 1}
    assert violation.outcome == {"code": "done"}
    assert violation.sentence() == (
        "made.jsonl, line 5, request 4: LRU-2: "
        "the byte count equals the sum of the entry sizes and is at most the capacity (put(key=3, size=1): done)"
        " (cacheproof explain LRU-2)"
    )


def does_not_charge(right: Any, config: Any, state: Any, op: Any) -> Any:
    after, outcome = right(config, state, op)
    return after._replace(free=state.free), outcome


def frees_nothing(right: Any, config: Any, state: Any, op: Any) -> Any:
    return state, right(config, state, op)[1]


def forgets_to_apply(right: Any, config: Any, state: Any, op: Any) -> Any:
    """P1 answers, and its cache stays as it was."""
    after, outcome = right(config, state, op)
    (before,), (link,) = state.links, after.links
    kept = link._replace(partition=link.partition._replace(order=before.partition.order))
    return after._replace(links=(kept,)), outcome


def test_an_encoder_cache_that_does_not_charge_is_noticed() -> None:
    broken = planted("encoder_cache", Allocate, does_not_charge)
    (violation,) = replayed("encoder_cache", workload((0,), (1,)), 4, variant=broken, check_every=0).violations
    assert (violation.property, violation.line) == ("ENC-1", 1)


def test_an_encoder_cache_that_frees_nothing_runs_full_and_is_noticed() -> None:
    """Nothing is violated in the constant-time checks: the requests that find no room are counted."""
    broken = planted("encoder_cache", FreeRequest, frees_nothing)
    result = replayed("encoder_cache", workload((0,), (1,), (2,)), 2, variant=broken, check_every=0)
    assert (result.rejected, result.violations) == (1, [])
    (violation,) = replayed("encoder_cache", workload((0,), (1,)), 4, variant=broken, check_every=1).violations
    assert violation.property == "ENC-5/answered"  # it says done, and what it was to release is still held


def test_a_receiver_that_forgets_an_update_is_noticed() -> None:
    broken = planted("mirror", Deliver, forgets_to_apply)
    (violation,) = replayed("mirror", workload((0,), (1,)), 4, variant=broken, check_every=0).violations
    assert (violation.property, violation.line) == ("MIR-1", 1)


def test_what_is_still_pending_at_the_end_is_noticed() -> None:
    deaf = planted("mirror", Receive, lambda right, config, state, op: (state, HIT))
    (violation,) = replayed("mirror", workload((0,), (1,)), 4, variant=deaf, check_every=0).violations
    assert violation.property == "MIR-7/served"
    assert violation.statement.endswith("still pending at the end")
    assert violation.operation is None


def test_a_call_that_fails_inside_the_engine_is_a_violation() -> None:
    failing = planted("lru", Put, lambda right, config, state, op: (state, FAILED))
    (violation,) = replayed("lru", workload((0,)), 4, variant=failing, check_every=0).violations
    assert (violation.property, violation.statement) == ("call", "the call fails inside the engine")


@pytest.mark.parametrize("check_every", [0, 1])
def test_a_call_that_never_returns_is_a_violation(check_every: int) -> None:
    """With the eviction loop of the ghost era on an entry that does not leave, however closely it is looked at."""
    stuck = planted("lru", Evict, lambda right, config, state, op: (state, right(config, state, op)[1]))
    (violation,) = replayed("lru", workload((0,), (1,)), 1, variant=stuck, check_every=check_every).violations
    assert (violation.property, violation.line) == ("call", 2)
    assert violation.statement == "the call never returns"


def test_checks_of_the_normative_state_are_left_out_for_an_era_with_another_state() -> None:
    era = component_named("encoder_cache").variants["E0"]
    result = replayed("encoder_cache", workload((0,), (0,)), 4, variant=era)
    assert (result.constant_checks, result.violations) == (0, [])
    assert result.full_states > 0


# Eras on real distributions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("component", "era", "capacity", "property_"),
    [
        ("encoder_cache", "E1", 8192, "ENC-7"),
        ("mirror", "M0", 4096, "MIR-11"),
        ("mirror", "M2", 4096, "MIR-4"),
    ],
)
def test_a_composed_load_refutes_an_era(component: str, era: str, capacity: int, property_: str) -> None:
    given = read([CLIENTS], {"start": "43200", "requests": "1500", "reuse": "zipf"})
    variant = component_named(component).variants[era]
    (violation,) = replayed(component, given, capacity, variant=variant, check_every=1).violations
    assert violation.property == property_


# Settings that are wrong --------------------------------------------------------------------------------------------


def test_a_component_that_serves_no_workload_cannot_be_replayed() -> None:
    lru = component_named("lru")
    with pytest.raises(InputError, match="lru does not say how it serves a workload"):
        configuration(Setting(replace(lru, service=None), lru.normative, workload((0,)), 1))


def test_a_configuration_that_the_component_calls_invalid_is_refused() -> None:
    lru = component_named("lru")
    with pytest.raises(InputError, match="lru: capacity must be positive"):
        configuration(Setting(lru, lru.normative, workload((0,)), 0))


def test_a_variant_that_lacks_a_call_cannot_be_replayed() -> None:
    normative = component_named("lru").normative
    without = {operation: each for operation, each in normative.transitions.items() if operation is not Put}
    lacking = normative.era("planted", "planted", {}, {})
    with pytest.raises(InputError, match="cannot be replayed: it has no put"):
        replayed("lru", workload((0,)), 1, variant=replace(lacking, transitions=without))


# Targets ------------------------------------------------------------------------------------------------------------


def target(component: str, variant: Any = None) -> Target:
    chosen = component_named(component)
    return SpecificationTarget(chosen, variant or chosen.normative)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_target_that_agrees_is_compared_call_by_call(component: str) -> None:
    given = read([POPE], {"order": "shuffled"})
    result = replayed(component, given, 10, target=target(component), check_every=11)
    assert (result.violations, result.compared) == ([], result.events)


def test_a_target_that_answers_otherwise_is_a_violation() -> None:
    given = read([POPE], {"order": "shuffled"})
    result = replayed("lru", given, 10, target=target("lru", planted("lru", Get, forgets_recency)), check_every=0)
    (violation,) = result.violations
    assert violation.property == "target"
    assert violation.statement in (
        "the target answers miss, and the specification hit",
        "the target answers hit, and the specification miss",
    )
    assert violation.line == given.arrivals[violation.request].line


def test_a_target_that_shows_otherwise_is_a_violation_where_it_is_looked_at() -> None:
    given = workload((0,), (1,), (0,))
    wrong = planted("lru", Get, forgets_recency)
    looked_at = replayed("lru", given, 4, target=target("lru", wrong), check_every=1)
    assert looked_at.violations[0].statement == "order differs from the specification"
    assert looked_at.violations[0].line == 3
    at_the_end = replayed("lru", given, 4, target=target("lru", wrong), check_every=0)
    assert at_the_end.violations[0].statement == "order differs from the specification"
    assert at_the_end.violations[0].operation is None
