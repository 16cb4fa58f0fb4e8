"""Hits that end within a block: that each property can fail where the specification holds, and what 0.33.0 does."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cachespec.kernel import Operation, Outcome
from cachespec.partial_hits import (
    COMPONENT,
    NORMATIVE_PARTIAL_HITS,
    AllocateSlots,
    Config,
    Dispatch,
    Execute,
    FreeRequest,
    GetComputedBlocks,
    prefixes,
    tables,
    transitions,
    worker,
)

ONE = Config(6, 4, ((0, 1, 2, 3), (0, 1, 2, 3)), prompts=(3, 3))
TWO = Config(6, 2, ((0, 1, 2, 3), (0, 1, 2, 4)), prompts=(4, 4), withdrawals=1, resets=1)
AHEAD = Config(6, 2, ((0, 1, 2), (0, 1, 3)), prompts=(2, 2), ahead=1, withdrawals=1)
RESUMED = Config(6, 2, ((0, 1, 2), (0, 1, 2, 3, 4), (5, 6, 7)), prompts=(2, 2, 3), known=(2, 4, 3))


class Planted(NamedTuple):
    """One change of the specification, where it shows, and the property that it breaks."""

    breaks: str
    where: Config
    change: Change


BUGS = (
    Planted("PH-1", ONE, Change(tables.redirect, "touch(pool, target)", "pool")),
    Planted("PH-2", TWO, Change(tables.let_all_go, "useless = (*useless, block)", "pass")),
    Planted("PH-2/apart", TWO, Change(transitions.adopt, "hits[group]", "hits[0]")),
    Planted("PH-3", TWO, Change(prefixes.forget, "pool.registered.remove(block)", "pool.registered")),
    Planted("PH-4/found", ONE, Change(transitions.registered_state, "not checkpoint or $rest", "$rest")),
    Planted("PH-4/stays", ONE, Change(transitions.overwrites_tail, "config.alone == 0 and $a and $b", "False")),
    Planted("PH-4/own", ONE, Change(transitions.begin, "ends_within(config, found)", "False")),
    Planted(
        "PH-4/read", ONE, Change(tables.redirect, "Copy($s, group, source, $t, $k)", "Copy($s, group, $t, $t, $k)")
    ),
    Planted("PH-4/written", ONE, Change(worker.slots_of, "slot < len(held)", "False")),
    Planted("PH-4/executed", ONE, Change(transitions.registered_full, "ends_within(config, tail)", "False")),
    Planted(
        "PH-4/new",
        ONE,
        Change(
            transitions.dispatch,
            "let_all_go(pool, $held)",
            "register(let_all_go(pool, $held), pool.free.oldest(0), (0, 0))",
        ),
    ),
    Planted("PH-5", TWO, Change(tables.first_needed, "tokens - 1", "tokens + 1")),
    Planted("PH-6", ONE, Change(transitions.allocate_running, "overwrites_tail(config, op.request, start)", "False")),
    Planted("PH-6/apart", ONE, Change(tables.redirect, "take(pool)", "(pool, source)")),
    Planted(
        "PH-6/dispatched",
        ONE,
        Change(tables.pairs, "(*$b, copy.source, copy.target)", "(*$b, copy.target, copy.source)"),
    ),
    Planted("PH-6/next", AHEAD, Change(worker.later_writes, "write._replace(step=write.step - 1)", "write")),
    Planted("PH-7", ONE, Change(transitions.move_state, "preserve(config, pool, $r, $p, $k)", "pool")),
    Planted("PH-7/copy", ONE, Change(transitions.move_state, "forget(pool, $b)", "pool")),
    Planted("PH-8", TWO, Change(prefixes.holds_whole, "end < $known", "end <= $known")),
    Planted(
        "PH-8/adopted",
        TWO,
        Change(transitions.adopt, "append($p, $r, group, block)", "append($p, $r, group, pool.null)"),
    ),
    Planted(
        "PH-9",
        ONE,
        Change(
            transitions.begin,
            "extend($c, $p, $r, group, end)",
            "extend($c, $p, $r, group, end + config.block_size)",
        ),
    ),
    Planted("PH-9/room", ONE, Change(transitions.needed_by_new, "1 if $within else 0", "2")),
    Planted("PH-9/answers", ONE, Change(transitions.allocate_running, "end > $length", "end >= $length")),
    Planted(
        "PH-10", TWO, Change(tables.take, "pool.free.oldest(NOTHING)", "max(name for name, _ in pool.free.items())")
    ),
    Planted("PH-10/freed", TWO, Change(transitions.release, "backwards(blocks)", "blocks")),
    Planted("PH-11", ONE, Change(worker.run, "write.end", "write.start")),
    Planted("PH-11/planned", TWO, Change(worker.orphaned, "write.step < pool.dispatched", "True")),
    Planted(
        "PH-11/others", ONE, Change(transitions.release, "pool.tables.remove($name)", "pool.tables.remove((0, group))")
    ),
)


@pytest.mark.parametrize("where", [ONE, TWO, AHEAD, RESUMED], ids=lambda where: f"{where.blocks}-{where.block_size}")
def test_configurations_of_planted_bugs_are_valid(where: Config) -> None:
    assert COMPONENT.invalid(where) is None


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.breaks)
def test_a_planted_bug_is_found(bug: Planted) -> None:
    with planted(bug.change):
        found = explore(
            COMPONENT, NORMATIVE_PARTIAL_HITS, bug.where, Plan(until=frozenset({bug.breaks}), limit_states=4_000)
        )
    assert bug.breaks in {violation.property for violation in found.violations}


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {bug.breaks for bug in BUGS}


def answers(config: Config, *operations: Operation, tag: str = "normative") -> tuple[Outcome, ...]:
    """What each call returns."""
    variant = COMPONENT.variants[tag]
    state = variant.start(config)
    outcomes: tuple[Outcome, ...] = ()
    for operation in operations:
        state, outcome = variant.step(config, state, operation)
        outcomes = (*outcomes, outcome)
    return outcomes


STEP = (Dispatch(), Execute())


@pytest.mark.parametrize("tag", ["normative", "K2"])
def test_a_hit_ends_within_a_block_and_both_blocks_are_copied(tag: str) -> None:
    calls = (AllocateSlots(0, 2), *STEP, GetComputedBlocks(1), AllocateSlots(1, 1), Dispatch())
    *_, found, granted, copies = answers(ONE, *calls, tag=tag)
    assert (found.values, granted.values, copies.values) == ((2, 1, 2), (2,), (1, 3, 2, 4))


def test_a_state_that_goes_on_is_found_in_its_copy() -> None:
    """The request itself writes into the block that it has; what equal prompts find moves to another one."""
    calls = (AllocateSlots(0, 2), *STEP, AllocateSlots(0, 1), Dispatch(), Execute(), GetComputedBlocks(1))
    for tag in ("normative", "K2"):
        *_, copies, executed, found = answers(ONE, *calls, tag=tag)
        assert (copies.values, executed.values, found.values) == ((2, 3), (), (2, 1, 3))


def test_0_33_copies_a_block_before_the_step_that_computes_it() -> None:
    """C-KV-34: the state of the first run is still there, and the block of full attention is of the same step."""
    first = (AllocateSlots(0, 1), AllocateSlots(2, 2), Dispatch(), FreeRequest(0), Execute())
    evicting = (AllocateSlots(2, 1), Dispatch(), FreeRequest(2), Execute())
    together = (AllocateSlots(1, 2), AllocateSlots(0, 1), Dispatch())
    *_, resumed, equal, copies = answers(RESUMED, *first, *evicting, *together, tag="K2")
    assert (resumed.values, equal.values, copies.values) == ((0,), (1,), (1, 3, 2, 4))
    *_, resumed, equal, copies = answers(RESUMED, *first, *evicting, *together)
    assert (resumed.values, equal.values, copies.values) == ((0,), (0,), ())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ONE._replace(block_size=3, hash_size=2), "multiple"),
        (ONE._replace(known=(2, 3)), "prompt"),
        (ONE._replace(chains=((0, 1), (1, 0))), "two different"),
        (ONE._replace(ahead=2), "ahead"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(config: Config, words: str) -> None:
    assert words in (COMPONENT.invalid(config) or "")
