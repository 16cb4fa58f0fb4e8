"""The normative variant, the released managers, and the faults that were repaired before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from cachespec.kernel import NORMATIVE, Operation, Transition, Transitions, Variant, each_once
from cachespec.kv_blocks import era_on_demand as on_demand
from cachespec.kv_blocks import era_preallocating as preallocating
from cachespec.kv_blocks import era_rules as rules
from cachespec.kv_blocks import groups, single_faults
from cachespec.kv_blocks.configuration import Config
from cachespec.kv_blocks.environment import Lookup, calls, with_append_slots
from cachespec.kv_blocks.era_free_list import LinkedPool, initial_linked
from cachespec.kv_blocks.operations import (
    AllocateGroups,
    AllocateSlots,
    AppendSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    RollBack,
    Withdraw,
)
from cachespec.kv_blocks.rolling_back import roll_back, set_back
from cachespec.kv_blocks.state import Pool, View, initial, view
from cachespec.kv_blocks.transitions import TRANSITIONS

Op = TypeVar("Op", bound=Operation)
PoolVariant = Variant[Config, Pool, View]
Alphabet = Callable[[Config, Pool], Iterable[Operation]]


def lookup_in(transitions: Transitions[Config, Pool], config: Config, pool: Pool) -> Lookup:
    """The variant's own answers to look-ups in this state."""
    return lambda question: transitions[GetComputedBlocks](config, pool, question)[1]


def alphabet_of(transitions: Transitions[Config, Pool]) -> Alphabet:
    """The calls of callers that go by this variant's look-ups, each once."""
    return lambda config, pool: each_once(calls(config, view(config, pool), lookup_in(transitions, config, pool)))


def alphabet_with_append_slots(transitions: Transitions[Config, Pool]) -> Alphabet:
    """The same, where running requests have a call of their own."""
    ordinary = alphabet_of(transitions)
    return lambda config, pool: with_append_slots(ordinary(config, pool), view(config, pool))


def alphabet_with_one_token(transitions: Transitions[Config, Pool]) -> Alphabet:
    """The same, of a scheduler that computes one token of a full hit again."""
    ordinary = alphabet_with_append_slots(transitions)
    return lambda config, pool: single_faults.one_token_of_a_full_hit(
        config, ordinary(config, pool), lookup_in(transitions, config, pool)
    )


NORMATIVE_KV_BLOCKS: PoolVariant = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Pool,
    initial=initial,
    transitions={**TRANSITIONS, AllocateGroups: groups.allocate_groups, RollBack: roll_back},
    view=view,
    alphabet=alphabet_of(TRANSITIONS),
    asking=alphabet_of,
)

REGISTERED_EARLY = "registers full blocks when scheduled (C-KV-6) and finds them by hash alone (C-KV-10)"
NULL_ASIDE = "one block is reserved as the null block and is never free"
NOT_YET = "not there yet"
NEVER_BACK = "no such call, and no load that fails"
BY_THE_SCHEDULER = "no such call: the scheduler sets its count back and evicts the blocks by number (C-SCH-25)"

PREALLOCATING: Transitions[Config, Pool] = {
    GetComputedBlocks: rules.lookup_up_to_all,
    AllocateSlots: preallocating.allocate_new,
    AppendSlots: preallocating.append_slots,
    Commit: rules.execute,
    FreeRequest: rules.free_backwards,
    Withdraw: rules.withdraw_backwards,
    ResetPrefixCache: rules.reset_when_idle,
    CommonPrefix: rules.common_by_running,
}

EARLY: Mapping[str, str] = {
    "KV-7/executed": "blocks are registered when scheduled; KV-7 judges the consequences",
}

FROM_0_7: Mapping[str, str] = {
    **EARLY,
    "KV-12": "the scheduler, not the manager, gives back a block of a full hit",
    "KV-13/all": "too low a count costs time only; reference counts cannot give the exact one",
}

K0: PoolVariant = NORMATIVE_KV_BLOCKS.era(
    tag="K0",
    title="kv-2025-01",
    transitions=PREALLOCATING,
    differences={
        GetComputedBlocks: "a hit may cover all tokens; a hash is trusted (C-KV-10)",
        AllocateSlots: f"takes blocks in advance; overwrites a table (C-KV-5); {REGISTERED_EARLY}",
        AppendSlots: "a separate call for running requests; fails at the width of the table (C-KV-2)",
        Commit: "no such call: executing a step registers nothing",
        FreeRequest: "also queues a block that is not findable behind all others (C-KV-15)",
        Withdraw: "unexecuted blocks stay registered (C-KV-6)",
        CommonPrefix: "counts references of all requests, running or not (C-KV-13)",
    },
    asking=alphabet_with_append_slots,
    exempt=FROM_0_7,
).lacking({ResetPrefixCache: NOT_YET, EvictBlock: NOT_YET, AllocateGroups: NOT_YET, RollBack: NEVER_BACK})

ONE_CALL: Transitions[Config, Pool] = {
    **PREALLOCATING,
    AllocateSlots: preallocating.allocate_or_append,
}

K0B: PoolVariant = NORMATIVE_KV_BLOCKS.era(
    tag="K0b",
    title="kv-2025-02",
    transitions=ONE_CALL,
    differences={
        **K0.differences,
        AllocateSlots: f"one call for new and running requests; takes blocks in advance; {REGISTERED_EARLY}",
        ResetPrefixCache: "refused unless all blocks are free",
    },
    asking=alphabet_of,
    exempt=FROM_0_7,
).lacking({AppendSlots: "part of `allocate_slots`", EvictBlock: NOT_YET, AllocateGroups: NOT_YET, RollBack: NEVER_BACK})

ON_DEMAND: Transitions[Config, Pool] = {
    **PREALLOCATING,
    GetComputedBlocks: rules.lookup_but_the_last,
    AllocateSlots: on_demand.allocate,
    AllocateGroups: groups.allocate_in_two_phases,
    FreeRequest: rules.free_at_once,
    Withdraw: rules.withdraw_at_once,
}

K1_QUEUED: PoolVariant = NORMATIVE_KV_BLOCKS.era(
    tag="K1",
    title="kv-2025-10",
    transitions=ON_DEMAND,
    differences={
        GetComputedBlocks: "a hash is trusted (C-KV-10)",
        AllocateSlots: f"slots end at the length of the longest request; {REGISTERED_EARLY}",
        AllocateGroups: REGISTERED_EARLY,
        Commit: "no such call: executing a step registers nothing",
        FreeRequest: "also queues a block that is not findable behind all others (C-KV-15), and a block as often as "
        "the table has it (C-KV-21)",
        Withdraw: "unexecuted blocks stay registered (C-KV-6)",
        ResetPrefixCache: "refused unless all blocks but the null block are counted as free",
        CommonPrefix: "counts references of all requests, running or not (C-KV-13)",
    },
    initial=on_demand.initial_with_null,
    start_differs=NULL_ASIDE,
    exempt={**EARLY, "KV-13/all": FROM_0_7["KV-13/all"]},
).lacking({EvictBlock: NOT_YET, AppendSlots: "part of `allocate_slots`", RollBack: NEVER_BACK})


def with_free_list(variant: PoolVariant) -> PoolVariant:
    """The same manager with the linked list of its release in the place of a queue.

    Both agree while no table has a block twice, as in the schedulers, whose requests have no two equal hashes.
    """

    def alphabet(config: Config, pool: Pool) -> Iterable[Operation]:
        return () if pool.has_ended() else variant.alphabet(config, pool)

    return replace(variant, state=LinkedPool, initial=initial_linked, alphabet=alphabet)


K1 = with_free_list(K1_QUEUED)

BY_TABLES: Transitions[Config, Pool] = {
    **ON_DEMAND,
    AllocateSlots: on_demand.allocate_after_the_assertion,
    AllocateGroups: groups.allocate_group_by_group,
    EvictBlock: rules.evict_one,
    RollBack: set_back,
    CommonPrefix: on_demand.common_by_tables,
}

K1B_QUEUED: PoolVariant = NORMATIVE_KV_BLOCKS.era(
    tag="K1b",
    title="kv-2026-05",
    transitions=BY_TABLES,
    differences={
        **K1.differences,
        AllocateGroups: "takes blocks for one group before touching the hits of the next (C-KV-12)",
        EvictBlock: "blocks that follow it in the chain stay registered (C-KV-19)",
        RollBack: BY_THE_SCHEDULER,
        CommonPrefix: "compares reference counts with the number of tables",
    },
    initial=on_demand.initial_with_null,
    start_differs=NULL_ASIDE,
    exempt={**EARLY, "KV-13/all": FROM_0_7["KV-13/all"]},
).lacking({AppendSlots: "part of `allocate_slots`"})

K1B = with_free_list(K1B_QUEUED)

UNHASHED_FIRST: Transitions[Config, Pool] = {
    **BY_TABLES,
    AllocateSlots: on_demand.allocate_with_null_aside,
    AllocateGroups: groups.allocate_in_three_phases,
    FreeRequest: on_demand.free_unhashed_first,
    Withdraw: on_demand.withdraw_unhashed_first,
    CommonPrefix: on_demand.no_common_prefix,
}

K2: PoolVariant = NORMATIVE_KV_BLOCKS.era(
    tag="K2",
    title="kv-2026-11",
    transitions=UNHASHED_FIRST,
    differences={
        **K1B.differences,
        AllocateGroups: REGISTERED_EARLY,
        FreeRequest: "as the normative manager: blocks that are not findable are taken first",
        CommonPrefix: "always 0: cascade attention was removed",
    },
    initial=on_demand.initial_with_null,
    start_differs=NULL_ASIDE,
    exempt={
        **EARLY,
        "KV-13": "the common prefix is always 0",
        "KV-13/all": "the common prefix is always 0",
    },
).lacking({AppendSlots: "part of `allocate_slots`"})


def fault(
    base: PoolVariant,
    tag: str,
    title: str,
    operation: type[Op],
    transition: Transition[Config, Pool, Op],
    why: str,
) -> PoolVariant:
    """A released manager with one rule replaced; what else that call does differently it does here too."""
    return base.era(tag, title, {operation: transition}, {operation: f"{base.differences[operation]}; {why}"})


K0_UNLIMITED = fault(
    K0,
    "K0-unlimited",
    "before #10730: preallocates blocks without limit",
    AllocateSlots,
    lambda config, pool, op: preallocating.allocate_new(config, pool, op, single_faults.without_limit),
    "preallocates beyond the width of the table (C-KV-1)",
)
K0_TOUCH_FIRST = fault(
    K0,
    "K0-touch-first",
    "before #11565: hits are touched before the check",
    AllocateSlots,
    single_faults.touch_before_the_check,
    "a refusal leaves the hits touched (C-KV-3)",
)
K0_LATE_TOUCH = fault(
    K0,
    "K0-late-touch",
    "first version of #10507: takes blocks before it touches the hits",
    AllocateSlots,
    single_faults.take_before_touching,
    "a hit may be reallocated for another position (C-KV-3)",
)
K0_ONE_TOKEN: PoolVariant = K0.era(
    tag="K0-one-token",
    title="before #11186: recomputes one token of a full hit",
    transitions={},
    differences={
        AllocateSlots: f"{K0.differences[AllocateSlots]}; "
        "on a full hit its callers drop the last block and recompute one token of it (C-KV-4)",
    },
    asking=alphabet_with_one_token,
)
K1_SHORT = fault(
    K1,
    "K1-short",
    "as #46892 reports: the estimate omits externally loaded tokens",
    AllocateGroups,
    groups.allocate_on_a_short_estimate,
    "the estimate is below the number of blocks taken (C-KV-14)",
)
