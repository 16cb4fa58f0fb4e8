"""Groups of layers: what each kind needs of a hit, and that each property can fail where the specification holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.planting import Change, planted

from cacheproof.model.plan import Plan
from cacheproof.search.reference import explore
from cachespec.kernel import Code, Operation
from cachespec.layer_groups import (
    CHUNK,
    COMPONENT,
    CROSS,
    FULL,
    NORMATIVE_LAYER_GROUPS,
    STATE,
    WINDOW,
    AllocateSlots,
    Commit,
    Config,
    FreeRequest,
    GetComputedBlocks,
    NewStep,
    configuration,
    era_retention,
    prefixes,
    retention,
    tables,
    transitions,
)

CHAINS = ((0, 1, 2), (0, 1, 3))
WINDOWS = Config(7, (FULL, WINDOW), CHAINS, (3, 3), spans=(0, 2), steps=(1, 3))
TIGHT = Config(5, (FULL, WINDOW), CHAINS, (3, 3), spans=(0, 2), steps=(1, 3), ahead=1)
CHUNKS = Config(7, (FULL, CHUNK), CHAINS, (3, 3), spans=(0, 2), steps=(1, 3), resets=1)
STATES = Config(6, (FULL, STATE), ((0, 1, 2), (0, 1)), (3, 2), steps=(1, 2))
PARTIAL = Config(6, (FULL, STATE), ((0, 1), (0,)), (5, 3), hash_size=2, steps=(1, 4))
ENCODER = Config(7, (FULL, CROSS), ((0, 1), (0, 1)), (2, 2), spans=(0, 2), steps=(1,), resets=1)
SIZES = Config(8, (FULL, WINDOW), ((0, 1, 2, 3), (0, 1, 2, 4)), (4, 4), spans=(0, 2), sizes=(2, 1), steps=(2, 4))
LOADED = Config(7, (FULL, WINDOW), ((0, 1), (0, 2)), (5, 4), spans=(0, 3), hash_size=2, steps=(4,), external=1)
DRAFTING = Config(9, (FULL, WINDOW), ((0, 1), (0, 1)), (5, 5), (0, 2), hash_size=2, steps=(2, 4), drafting=(1, 1))
RETENTION = Config(8, (FULL, WINDOW), ((0, 1, 2, 3), (0, 1, 4)), (4, 3), (0, 2), steps=(1, 4), retention=0)
ANY_CALL = Config(6, (WINDOW, STATE), ((0, 1), (0,)), (2, 1), (2, 0), steps=(1,), many=1, external=1, disciplined=0)


class Planted(NamedTuple):
    """One change of the specification, where it shows, and the property that it breaks."""

    breaks: str
    where: Config
    change: Change


BUGS = (
    Planted("LG-1", WINDOWS, Change(tables.let_go, "$count > 0", "$count > 1")),
    Planted("LG-2", WINDOWS, Change(tables.touch, "$pool.free.remove($block)", "$pool.free")),
    Planted(
        "LG-2/groups",
        LOADED,
        Change(transitions.adopt, "touch($pool, $hits[$position])", "$pool"),
    ),
    Planted("LG-2/null", WINDOWS, Change(tables.drop, "$block == pool.null", "$block < 0")),
    Planted("LG-3", WINDOWS, Change(prefixes.forget, "$pool.registered.remove($block)", "$pool.registered")),
    Planted("LG-4", PARTIAL, Change(tables.take, "touch($pool, $block)", "$pool")),
    Planted("LG-5/behind", WINDOWS, Change(tables.give_back, "min(first_needed(*$x), $rest)", "0")),
    Planted("LG-5/kept", TIGHT, Change(transitions.allocate_running, "$progress.computed", "scheduled($progress)")),
    Planted(
        "LG-6",
        WINDOWS,
        Change(
            transitions.register_full, "key_of(config, request, group, position)", "key_of(config, request, group, 0)"
        ),
    ),
    Planted("LG-7", STATES, Change(prefixes.has_prefix, "first_copy(*$rest) < 0", "False")),
    Planted("LG-7/executed", PARTIAL, Change(transitions.commit, "execute(*$rest)", "pool")),
    Planted(
        "LG-7/found",
        PARTIAL,
        Change(transitions.register_full, "$end // size_of(*$rest)", "blocks_for(config, group, $end)"),
    ),
    Planted("LG-7/registered", STATES, Change(transitions.is_checkpoint, "$left or $right", "$left")),
    Planted("LG-7/taken", WINDOWS, Change(tables.take, "$pool.bytes.remove($block)", "$pool.bytes")),
    Planted("LG-7/written", TIGHT, Change(transitions.execute, "$progress.ends[0]", "scheduled($progress)")),
    Planted("LG-8", WINDOWS, Change(transitions.extend_all, "range(len($kinds))", "range(1)")),
    Planted(
        "LG-8/others",
        WINDOWS,
        Change(transitions.free_request, "release(*$rest)", "give_back(config, release(*$rest), 1 - op.request, 9)"),
    ),
    Planted("LG-8/room", WINDOWS, Change(transitions.free_hits, "1 if $free else 0", "1")),
    Planted("LG-8/turned-down", ANY_CALL, Change(transitions.commit, "return $pool, STALE", "return $pool, ABSENT")),
    Planted("LG-9", WINDOWS, Change(transitions.adopt, "$position < $first or $null", "$position <= $first or $null")),
    Planted("LG-9/begun", STATES, Change(transitions.states_done, "$pool.this_step.remove($key)", "$pool.this_step")),
    Planted(
        "LG-9/step",
        STATES,
        Change(
            transitions.allocate_slots,
            "return allocate_new(*$rest)",
            (
                "pool, outcome = allocate_new(*$rest)\n"
                "for group in range(2 if outcome.code is Code.DONE else 0):\n"
                "    pool = register_full(config, pool, op.request, group, op.tokens)\n"
                "return pool, outcome"
            ),
        ),
    ),
    Planted("LG-10", WINDOWS, Change(tables.append, "$row.length + 1", "$row.length + 2")),
    Planted(
        "LG-10/entries",
        WINDOWS,
        Change(transitions.release_group, "$pool.tables.remove($position)", "$pool.tables"),
    ),
    Planted("LG-10/counted", TIGHT, Change(transitions.execute, "$progress.ends[1:]", "()")),
    Planted("LG-11", WINDOWS, Change(tables.let_go, "$pool.free.push($block, 1)", "$pool.free.push_front($block, 1)")),
    Planted(
        "LG-11/useless",
        WINDOWS,
        Change(tables.let_go, "$pool.free.push_front($block, 1)", "$pool.free.push($block, 1)"),
    ),
    Planted(
        "LG-11/taken",
        WINDOWS,
        Change(
            tables.take,
            "$pool.free.oldest(NOTHING)",
            "pool.free.oldest_outside(pool.references.set(pool.free.oldest(NOTHING), 1), pool.free.oldest(NOTHING))",
        ),
    ),
    Planted("LG-12", WINDOWS, Change(prefixes.cached_tokens, "prompt_of(*$rest) - 1", "prompt_of(*$rest) - 2")),
    Planted("LG-12/drafts", DRAFTING, Change(configuration.proofs_of, "1 if $drafting else 0", "0")),
    Planted("LG-12/once", DRAFTING, Change(configuration.proofs_of, "1 if $drafting else 0", "2 if $drafting else 0")),
    Planted("LG-12/needed", WINDOWS, Change(prefixes.hit_blocks, "$position >= $first", "$position > $first")),
    Planted("LG-15", RETENTION, Change(retention.replayed, "$prompt - 1", "$prompt - 2")),
    Planted("LG-14", CHUNKS, Change(transitions.reset_prefix_cache, "forget(*$rest)", "pool")),
)


SCOPES = (WINDOWS, TIGHT, CHUNKS, STATES, PARTIAL, ENCODER, SIZES, LOADED, DRAFTING, ANY_CALL, RETENTION)


@pytest.mark.parametrize("where", SCOPES, ids=lambda where: f"{where.kinds}-{where.blocks}")
def test_configurations_of_planted_bugs_are_valid(where: Config) -> None:
    assert COMPONENT.invalid(where) is None


def kept(config: Config, request: int, group: int) -> list[int]:
    """The positions of which the specification retains the block."""
    positions = range(config.lengths[request] // configuration.size_of(config, group))
    return [position for position in positions if retention.is_retained(config, request, group, position)]


def test_what_is_retained() -> None:
    """Full attention keeps all; a window of three tokens the two before a prefix; states the one behind it."""
    groups = Config(9, (FULL, WINDOW, STATE), (tuple(range(12)),), (12,), (0, 3, 0), many=1, prompts=(9,))
    for interval, shared, windows in (
        (-1, (), [*range(12)]),
        (0, (), [6, 7]),
        (0, (4,), [2, 3, 6, 7]),
        (5, (), [3, 4, 6, 7, 8, 9]),
        (2, (), [*range(12)]),
    ):
        config = groups._replace(retention=interval, shared_prefixes=shared)
        assert COMPONENT.invalid(config) is None
        assert kept(config, 0, 0) == [*range(12)]
        assert kept(config, 0, 1) == windows
    assert kept(groups._replace(retention=5, shared_prefixes=(4,)), 0, 2) == [3, 4, 7, 9]


def test_what_0_33_0_retains_with_draft_layers() -> None:
    """C-KV-35: the prompt of seven tokens goes on behind six, with the block of the seventh as proof."""
    sizes = Config(
        *(9, (FULL, WINDOW), (tuple(range(7)),), (7,), (0, 2), (2, 1)), drafting=(0, 1), retention=0, prompts=(7,)
    )
    assert COMPONENT.invalid(sizes) is None
    assert kept(sizes, 0, 1) == [5, 6]
    assert [at for at in range(7) if era_retention.is_reachable(sizes, 0, 1, at)] == [3, 4]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"retention": 1}, "a multiple of 2"),
        ({"retention": -2}, "a multiple of 2"),
        ({"retention": 0, "kinds": (FULL, CHUNK)}, "must be -1"),
        ({"retention": 0, "shared_prefixes": (1,)}, "one number for each request"),
        ({"retention": 0, "shared_prefixes": (1, 6)}, "no more tokens than its request"),
        ({"shared_prefixes": (1, 1)}, "if every block can be found"),
    ],
)
def test_wrong_retention(wrong: dict[str, Any], problem: str) -> None:
    assert problem in str(COMPONENT.invalid(DRAFTING._replace(drafting=(), **wrong)))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.breaks)
def test_a_planted_bug_is_found(bug: Planted) -> None:
    with planted(bug.change):
        plan = Plan(until=frozenset({bug.breaks}), limit_states=4_000)
        found = explore(COMPONENT, NORMATIVE_LAYER_GROUPS, bug.where, plan)
    assert bug.breaks in {violation.property for violation in found.violations}


def test_every_property_has_a_planted_bug() -> None:
    assert {rule.name for rule in COMPONENT.properties()} == {bug.breaks for bug in BUGS}


def answers(config: Config, *operations: Operation, tag: str = "normative") -> list[tuple[Code, tuple[int, ...]]]:
    """What came of each call."""
    variant = COMPONENT.variants[tag]
    state, outcomes = variant.start(config), []
    for operation in operations:
        state, outcome = variant.step(config, state, operation)
        outcomes.append((outcome.code, outcome.values))
    return outcomes


def computed(request: int, tokens: int, steps: int) -> list[Operation]:
    """`steps` steps of the request, of `tokens` tokens each."""
    return [each for _ in range(steps) for each in (AllocateSlots(request, 0, tokens), Commit(request))]


def test_a_window_needs_its_last_blocks_only() -> None:
    """Block 0 is the null block; the window gives its first block back, and the hit does not need it."""
    operations = [*computed(0, 1, 3), GetComputedBlocks(1)]
    assert answers(WINDOWS, *operations)[-1] == (Code.HIT, (2, 1, 3, 0, 4))


def test_a_chunk_needs_nothing_at_its_start() -> None:
    operations = [*computed(0, 3, 1), GetComputedBlocks(1)]
    assert answers(CHUNKS, *operations)[-1] == (Code.HIT, (2, 1, 2, 0, 0))


def test_a_state_is_found_at_its_checkpoint_only() -> None:
    """Both blocks of a step of two tokens are full, and there is one state behind it."""
    config = STATES._replace(chains=((0, 1, 2), (0, 1, 3)), lengths=(3, 3))
    assert answers(config, *computed(0, 2, 1), GetComputedBlocks(1))[-1] == (Code.HIT, (2, 1, 2, 0, 3))
    shorter = config._replace(lengths=(3, 2), chains=((0, 1, 2), (0, 1)))
    assert answers(shorter, *computed(0, 2, 1), GetComputedBlocks(1))[-1] == (Code.MISS, ())


def test_with_cross_attention_nothing_is_found() -> None:
    assert answers(ENCODER, *computed(0, 1, 2), GetComputedBlocks(1))[-1] == (Code.MISS, ())


def test_a_hit_ends_where_a_block_ends_in_every_group() -> None:
    config = SIZES._replace(chains=((0, 1, 2, 3), (0, 1, 2, 3)))
    assert answers(config, *computed(0, 4, 1), GetComputedBlocks(1))[-1] == (Code.HIT, (2, 1, 0, 4))


def test_a_state_of_the_current_step_is_adopted_in_the_next_one() -> None:
    """In releases, which register when they schedule; and before #29387 at once."""
    config = STATES._replace(blocks=9, chains=((0, 1, 2), (0, 1, 3)), lengths=(3, 3))
    both = [AllocateSlots(0, 0, 2), AllocateSlots(1, 0, 1)]
    assert answers(config, *both, tag="K1b-same-step")[-1] == (Code.DONE, (2,))
    for tag in ("K1b", "K2"):
        assert answers(config, *both, tag=tag)[-1] == (Code.REFUSED, ())
        assert answers(config, both[0], NewStep(), both[1], tag=tag)[-1] == (Code.DONE, (2,))


def test_a_request_that_is_over_gives_back_what_it_has_in_all_groups() -> None:
    operations = [AllocateSlots(0, 0, 3), AllocateSlots(1, 0, 3), FreeRequest(0), AllocateSlots(1, 0, 3)]
    assert [code for code, _ in answers(WINDOWS, *operations)] == [Code.DONE, Code.REFUSED, Code.DONE, Code.DONE]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (WINDOWS._replace(blocks=1), "beside the null block"),
        (WINDOWS._replace(kinds=(0, 5)), "kinds"),
        (WINDOWS._replace(spans=(0,)), "one number for each group"),
        (SIZES._replace(hash_size=2), "multiples"),
        (WINDOWS._replace(kinds=(FULL, FULL), spans=()), "all of one sort"),
        (
            WINDOWS._replace(kinds=(FULL, FULL, WINDOW), spans=(0, 0, 2), sizes=(1, 2, 1), many=1),
            "blocks of different sizes",
        ),
        (WINDOWS._replace(many=1), "many must be 0"),
        (ANY_CALL._replace(many=0), "many must be 1"),
        (WINDOWS._replace(spans=(1, 2)), "has no span"),
        (WINDOWS._replace(spans=(0, 1)), "at least 2"),
        (CHUNKS._replace(spans=(0, 3), hash_size=2, chains=((0,), (0,))), "multiple of the block size"),
        (ENCODER._replace(spans=(0, 0)), "encoder tokens"),
        (STATES._replace(sizes=(2, 2)), "blocks larger than hash blocks"),
        (WINDOWS._replace(chains=((0, 1), (0, 1, 2))), "more full hash blocks than contents"),
        (WINDOWS._replace(chains=((0, 1, 2), (1, 0, 2))), "two different contents"),
        (WINDOWS._replace(chains=((0, 1, 2),)), "one chain and one length"),
        (WINDOWS._replace(chains=((0, 1, -2), (0, 1, 3))), "negative"),
        (WINDOWS._replace(prompts=(4, 3)), "longer than its request"),
        (WINDOWS._replace(prompts=(3,)), "for each request"),
        (WINDOWS._replace(steps=(0,)), "positive"),
        (ENCODER._replace(external=1), "cross attention"),
        (WINDOWS._replace(ahead=2), "ahead must be 0 or 1"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(config: Config, words: str) -> None:
    assert words in (COMPONENT.invalid(config) or "")


def test_blocks_behind_a_window_are_queued_together_in_0_33() -> None:
    """Blocks 2 and 5 cannot be found, and 3 can: the last block that cannot is taken next (lockstep, 5 calls)."""
    config = Config(14, (FULL, WINDOW), ((0, 1, 2, 3, 5),), (10,), (0, 3), sizes=(4, 2), hash_size=2, ahead=1)
    variant = COMPONENT.variants["K2"]
    state = variant.start(config)
    for call in (AllocateSlots(0, 0, 4), AllocateSlots(0, 0, 4), Commit(0), Commit(0), AllocateSlots(0, 0, 1)):
        state, outcome = variant.call(config, state, call)
        assert outcome.code is Code.DONE
    shown = COMPONENT.observe(config, variant.view(config, state))
    assert shown["tables"] == (0, 0, 3, 1, 4, 5, 0, 1, 5, 0, 0, 0, 6, 2)
