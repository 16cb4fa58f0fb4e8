"""The cache by recency: what it does in known cases, and that each of its properties can fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from cacheproof.model.plan import Granularity, Plan
from cacheproof.search.reference import explore
from cacheproof.search.result import Ending
from cachespec.kernel import DONE, FAILED, HIT, REFUSED, Code, Operation, Outcome
from cachespec.lru import (
    COMPONENT,
    GHOST,
    NORMATIVE_LRU,
    RELEASED,
    STALE_GROWTH,
    Cache,
    Clear,
    Config,
    Contains,
    Evict,
    Get,
    Lookup,
    Pin,
    Pop,
    Put,
    Result,
    Stat,
    Touch,
    recent,
)
from cachespec.lru.transitions import clear, evict, finished, get, put, stat, stored, touch, without

A, B, C = 0, 1, 2
TENS = Config(capacity=10, sizes=(4, 3, 3), grown=(6, 6, 6))
FILLED = [Put(A, 4), Put(B, 3), Put(C, 3)]


def ran(variant: Any, config: Config, operations: Sequence[Operation]) -> tuple[Any, Outcome]:
    """The view after whole calls, and the last outcome."""
    state, outcome = variant.start(config), DONE
    for operation in operations:
        state, outcome = variant.call(config, state, operation)
    return variant.view(config, state), outcome


# What it does -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "operation", "left"),
    [
        (STALE_GROWTH, Put(C, 6), (C,)),
        (RELEASED, Put(C, 6), (B, C)),
        (NORMATIVE_LRU, Put(C, 6), (B, C)),
        (STALE_GROWTH, Put(A, 6), (C, A)),
        (RELEASED, Put(A, 6), (C, A)),
        (NORMATIVE_LRU, Put(A, 6), (C, A)),
    ],
)
def test_the_two_rules_of_growth(variant: Any, operation: Operation, left: tuple[int, ...]) -> None:
    """As seen when cachetools 7.1.6 and 8.0.0 were run."""
    view, outcome = ran(variant, TENS, [*FILLED, operation])
    assert (view.order, outcome) == (left, DONE)


def test_shrinking_evicts_nothing() -> None:
    view, _ = ran(NORMATIVE_LRU, Config(6, (2, 2, 6), (1, 2, 6)), [Put(0, 2), Put(1, 2), Put(0, 1)])
    assert view.entries == ((0, 1), (1, 2))
    assert view.order == (1, 0)


@pytest.mark.parametrize(
    ("operations", "counts"),
    [
        ([Lookup(A)], (0, 0)),
        ([Get(A)], (0, 1)),
        ([Put(A, 1), Get(A)], (1, 1)),
        ([Put(A, 1), Lookup(A)], (1, 1)),
        ([Put(A, 1), Contains(A), Touch(A), Pop(A)], (0, 0)),
        ([Put(A, 1), Get(A), Clear()], (0, 0)),
    ],
)
def test_what_is_counted(operations: list[Operation], counts: tuple[int, int]) -> None:
    view, _ = ran(NORMATIVE_LRU, Config(2, (1, 1), lookups=3), operations)
    assert (view.hits, view.total) == counts


def test_a_report_is_what_was_counted_since_the_previous_one() -> None:
    _, outcome = ran(NORMATIVE_LRU, Config(2, (1, 1)), [Put(A, 1), Get(A), Stat(), Get(B), Get(A), Stat()])
    assert outcome == Outcome(Code.DONE, (1, 2))


def test_what_cannot_fit_beside_what_is_pinned() -> None:
    config = Config(3, (1, 1, 3), pins=1)
    filled: list[Operation] = [Put(0, 1), Put(1, 1), Pin(1)]
    view, outcome = ran(NORMATIVE_LRU, config, [*filled, Put(2, 3)])
    assert (view.order, outcome) == ((0, 1), REFUSED)
    view, outcome = ran(RELEASED, config, [*filled, Put(2, 3)])
    assert (view.order, outcome) == ((1,), FAILED)


def test_clearing_forgets_pins() -> None:
    view, _ = ran(NORMATIVE_LRU, Config(2, (1, 1), pins=1), [Put(0, 1), Pin(0), Clear()])
    assert (view.entries, view.order, view.used, view.pinned) == ((), (), 0, ())


UNITS = Config(3, (1, 1, 1, 1, 3, 4, 1, 1))


@pytest.mark.parametrize(
    "operations",
    [
        [Touch(3), Touch(4), Put(3, 1), Put(4, 3)],
        [Touch(5), Put(5, 4), Put(3, 1), Put(6, 1), Put(7, 1), Put(0, 1)],
        [Pop(1), Touch(1), Pop(0), Pop(2), Put(0, 1), Clear()],
    ],
    ids=["touched-before-it-is-stored", "oversize", "clear"],
)
def test_a_ghost_ends_no_loop(operations: list[Operation]) -> None:
    """C-MIR-10, in the traces of the public reports; the same calls return in the later release."""
    filled = [Put(0, 1), Put(1, 1), Put(2, 1)]
    assert ran(GHOST, UNITS, [*filled, *operations])[1].code is Code.DIVERGED
    view, outcome = ran(RELEASED, UNITS, [*filled, *operations])
    assert outcome.code is Code.DONE
    assert not view.in_progress


def test_a_ghost_newer_than_all_entries_survives_clearing() -> None:
    view, _ = ran(GHOST, UNITS, [Put(0, 1), Touch(1), Clear()])
    assert (view.entries, view.order) == ((), (1,))


# That its properties can fail ---------------------------------------------------------------------------------------


def leave_order(config: Config, cache: Cache, op: Pop) -> Result:
    """Removes the entry and forgets the order."""
    return without(cache, op.key)._replace(order=cache.order), DONE


def keep_bytes(config: Config, cache: Cache, op: Pop) -> Result:
    """Removes the entry and does not give its bytes back."""
    return without(cache, op.key)._replace(used=cache.used), DONE


def keep_pin(config: Config, cache: Cache, op: Pop) -> Result:
    """Removes the entry and leaves it pinned."""
    return without(cache, op.key)._replace(pinned=cache.pinned), DONE


def pop_the_oldest(config: Config, cache: Cache, op: Pop) -> Result:
    """Takes out another key."""
    return (
        (without(cache, cache.order.oldest(-1)), DONE) if cache.entries.has(op.key) else (cache, Outcome(Code.ABSENT))
    )


def pop_nothing(config: Config, cache: Cache, op: Pop) -> Result:
    """Says that the key is gone."""
    return cache, DONE if cache.entries.has(op.key) else Outcome(Code.ABSENT)


def clear_counters_only(config: Config, cache: Cache, op: Clear) -> Result:
    """The counters start again, and the entries stay."""
    return cache._replace(hits=0, total=0, reported_hits=0, reported_total=0), DONE


def find_pinned_only(config: Config, cache: Cache, op: Contains) -> Result:
    """Looks in the wrong map."""
    return cache, HIT if cache.pinned.has(op.key) else Outcome(Code.MISS)


def unpin_when_put(config: Config, cache: Cache, op: Put) -> Result:
    """What is stored again is not pinned any more."""
    after, outcome = put(config, cache, op)
    return after._replace(pinned=after.pinned.remove(op.key)), outcome


def pin_nothing(config: Config, cache: Cache, op: Pin) -> Result:
    """Says that the key is pinned."""
    return cache, DONE if cache.entries.has(op.key) else Outcome(Code.ABSENT)


def count_hits_only(config: Config, cache: Cache, op: Get) -> Result:
    """A hit is no look-up."""
    after, outcome = get(config, cache, op)
    return after._replace(total=cache.total + (outcome != HIT)), outcome


def count_misses(config: Config, cache: Cache, op: Lookup) -> Result:
    """A look-up counts before it fails."""
    hit = cache.entries.has(op.key)
    counted = cache._replace(total=cache.total + 1, hits=cache.hits + hit)
    return (recent(counted, op.key), HIT) if hit else (counted, Outcome(Code.ABSENT))


def report_everything(config: Config, cache: Cache, op: Stat) -> Result:
    """A report starts from the beginning each time."""
    return stat(config, cache, op)[0], Outcome(Code.DONE, (cache.hits, cache.total))


def touch_removes(config: Config, cache: Cache, op: Touch) -> Result:
    """Touching takes the key out."""
    return without(cache, op.key), DONE


def touch_nothing(config: Config, cache: Cache, op: Touch) -> Result:
    """First in, first out."""
    return cache, touch(config, cache, op)[1]


def evict_newest(config: Config, cache: Cache, op: Evict) -> Result:
    """The loop takes the wrong end."""
    last = NORMATIVE_LRU.view(config, cache).order[-1]
    return finished(stored(without(cache, last), cache.putting, cache.putting_size)), DONE


def evict_everything(config: Config, cache: Cache, op: Evict) -> Result:
    """The loop does not stop where there is room."""
    empty, _ = clear(config, cache, Clear())
    counted = empty._replace(hits=cache.hits, total=cache.total)
    return finished(stored(counted, cache.putting, cache.putting_size)), DONE


def evict_nothing(config: Config, cache: Cache, op: Evict) -> Result:
    """The loop goes round on the spot."""
    return cache, DONE


def evict_and_restore(config: Config, cache: Cache, op: Evict) -> Result:
    """The loop moves the oldest to the end instead of evicting it."""
    oldest = cache.order.oldest(-1)
    return recent(cache, oldest), DONE


def make_room_first(config: Config, cache: Cache, op: Put) -> Result:
    """The oldest goes before the size is looked at."""
    if op.size > config.capacity:
        return without(cache, cache.order.oldest(-1)), Outcome(Code.TOO_LARGE)
    return put(config, cache, op)


def refuse_large(config: Config, cache: Cache, op: Put) -> Result:
    """Refuses what just fits."""
    return (cache, REFUSED) if op.size == config.capacity else put(config, cache, op)


def evict_and_forget(config: Config, cache: Cache, op: Evict) -> Result:
    """Makes room and stores nothing."""
    after, outcome = evict(config, cache, op)
    return (after if after.doing else without(after, cache.putting)), outcome


class Planted(NamedTuple):
    """A bug, and the property that it breaks."""

    breaks: str
    bug: Mapping[type[Operation], Any]
    granularity: Granularity = Granularity.STEP


PLANTED = [
    Planted("LRU-1", {Pop: leave_order}),
    Planted("LRU-2", {Pop: keep_bytes}),
    Planted("LRU-3", {Pop: keep_pin}),
    Planted("LRU-1/answered", {Contains: find_pinned_only}),
    Planted("LRU-1/leaving", {Pop: pop_the_oldest}),
    Planted("LRU-1/leaving", {Pop: pop_nothing}),
    Planted("LRU-1/leaving", {Clear: clear_counters_only}),
    Planted("LRU-3/kept", {Put: unpin_when_put}),
    Planted("LRU-3/kept", {Pin: pin_nothing}),
    Planted("LRU-4", {Get: count_hits_only}),
    Planted("LRU-4/count", {Lookup: count_misses}),
    Planted("LRU-4/report", {Stat: report_everything}),
    Planted("LRU-5", {Touch: touch_removes}),
    Planted("LRU-6", {Evict: evict_nothing}),
    Planted("LRU-6", {Evict: evict_and_restore}),
    Planted("LRU-7", {Evict: evict_newest}),
    Planted("LRU-7/needed", {Evict: evict_everything}),
    Planted("LRU-7/recency", {Touch: touch_nothing}),
    Planted("LRU-8", {Put: make_room_first}),
    Planted("LRU-8/stored", {Put: refuse_large}),
    Planted("LRU-8/stored", {Evict: evict_and_forget}, Granularity.CALL),
]
SMALL = Config(capacity=3, sizes=(1, 1, 2, 3, 4), lookups=2, pins=1)


def plan(granularity: Granularity, *until: str) -> Plan:
    return Plan(granularity, symmetry=False, liveness=True, limit_states=5_000, until=frozenset(until))


@pytest.mark.parametrize("granularity", Granularity)
def test_the_normative_variant_holds_where_the_bugs_are_planted(granularity: Granularity) -> None:
    found = explore(COMPONENT, NORMATIVE_LRU, SMALL, plan(granularity))
    assert found.ending is Ending.EXHAUSTED
    assert found.violations == ()


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: next(iter(planted.bug.values())).__name__)
def test_a_planted_bug_is_found(planted: Planted) -> None:
    mutant = NORMATIVE_LRU.era("planted", "a planted bug", planted.bug, dict.fromkeys(planted.bug, "planted"))
    found = explore(COMPONENT, mutant, SMALL, plan(planted.granularity, planted.breaks))
    assert planted.breaks in {violation.property for violation in found.violations}


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {planted.breaks for planted in PLANTED}
