"""KV cache events: that each property can fail where the specification holds, and what the eras tell."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cachespec import kv_blocks
from cachespec.kernel import Operation
from cachespec.kv_blocks import AllocateSlots, Commit, FreeRequest, ResetPrefixCache
from cachespec.kv_events import (
    CLEARED,
    COMPONENT,
    NORMATIVE_KV_EVENTS,
    REMOVED,
    STORED,
    Config,
    TakeEvents,
    environment,
    telling,
    transitions,
)

SHARED = Config(1, 3, ((0, 1), (0, 2)), (2, 2), steps=(1, 2), withdrawals=1, evictions=1, resets=1)
COPIES = Config(1, 5, ((0, 1), (0, 1), (2,)), (2, 2, 1))
RESET = Config(2, 3, ((0,), (0, 1)), (3, 4), resets=1)


class Planted(NamedTuple):
    """One change of the specification, where it shows, and the property that it breaks."""

    breaks: str
    where: Config
    change: Change


BUGS = (
    Planted("KVE-1", SHARED, Change(telling.gone, "not after.prefix_map.has($told)", "after.prefix_map.has($told)")),
    Planted("KVE-1/all", COPIES, Change(telling.gone, "not after.prefix_map.has($told)", "True")),
    Planted("KVE-2", SHARED, Change(kv_blocks.transitions.register_next, "$position > 0 and $rest", "False")),
    Planted("KVE-2/chain", SHARED, Change(telling.stored, "$first - 1", "$first")),
    Planted("KVE-3", SHARED, Change(transitions.flat, "for event in queue: $body", "pass")),
    Planted("KVE-4", COPIES, Change(telling.come, "before.prefix_map.has($told)", "False")),
    Planted("KVE-4/joined", SHARED, Change(telling.followed_by, "len($queue) > 0", "False")),
    Planted("KVE-4/named", SHARED, Change(telling.removed, "len($hashes) > 0", "True")),
    Planted("KVE-5", RESET, Change(environment.taken_at_any_time, "yield TakeEvents()", "pass")),
    Planted("KVE-6", SHARED, Change(kv_blocks.transitions.commit, "execute(*$rest)", "(pool, DONE)")),
    Planted("KVE-6/executed", SHARED, Change(kv_blocks.transitions.commit, "$x.computed", "$x.computed + 1")),
    Planted("KV-10/counted", SHARED, Change(transitions.silent, "pool=pool", "queue=publisher.queue")),
)


@pytest.mark.parametrize("where", [SHARED, COPIES, RESET], ids=lambda where: f"{where.block_size}-{where.blocks}")
def test_configurations_of_planted_bugs_are_valid(where: Config) -> None:
    assert COMPONENT.invalid(where) is None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.breaks)
def test_a_planted_bug_is_found(bug: Planted) -> None:
    with planted(bug.change):
        plan = Plan(until=frozenset({bug.breaks}), limit_states=4_000, liveness=bug.breaks == "KVE-5")
        found = explore(COMPONENT, NORMATIVE_KV_EVENTS, bug.where, plan)
    assert bug.breaks in {violation.property for violation in found.violations}


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {bug.breaks for bug in BUGS}


def told(config: Config, *operations: Operation, tag: str = "normative") -> tuple[int, ...]:
    """What the last call returns."""
    variant = COMPONENT.variants[tag]
    state = variant.start(config)
    values: tuple[int, ...] = ()
    for operation in operations:
        state, outcome = variant.step(config, state, operation)
        values = outcome.values
    return values


BOTH = (AllocateSlots(0, 0, 2, ()), AllocateSlots(1, 0, 2, ()))
"""Two equal requests that run at once."""


def test_a_copy_is_told_by_releases_only() -> None:
    written = (*BOTH, Commit(0, 2), Commit(1, 2), TakeEvents())
    assert told(COPIES, *written) == (STORED, -1, 2, 0, 1)
    roomy = COPIES._replace(blocks=6)
    for tag in ("K1", "K1b", "K2"):
        assert told(roomy, *BOTH, TakeEvents(), tag=tag) == (STORED, -1, 2, 0, 1) * 2


def test_a_hash_is_removed_with_its_last_block() -> None:
    """The third request takes the free block, then a copy; the last block of each request goes first."""
    config = COPIES._replace(lengths=(2, 2, 3), chains=((0, 1), (0, 1), (2, 3, 4)))
    before = (*BOTH, Commit(0, 2), Commit(1, 2), TakeEvents(), FreeRequest(0), FreeRequest(1))
    assert told(config, *before, AllocateSlots(2, 0, 2, ()), TakeEvents()) == ()
    assert told(config, *before, AllocateSlots(2, 0, 3, ()), TakeEvents()) == ()
    roomy = config._replace(blocks=6)
    assert told(roomy, *before, AllocateSlots(2, 0, 3, ()), TakeEvents(), tag="K2")[0] == REMOVED


def test_a_reset_is_told_as_a_whole() -> None:
    assert told(RESET, ResetPrefixCache(), TakeEvents()) == (CLEARED, -1, 0)


@pytest.mark.parametrize(
    ("config", "words"),
    [(SHARED._replace(queued=0), "queued"), (SHARED._replace(blocks=0), "positive")],
)
def test_a_configuration_that_makes_no_sense_is_refused(config: Config, words: str) -> None:
    assert words in (COMPONENT.invalid(config) or "")
