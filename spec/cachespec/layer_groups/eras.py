"""The normative variant, the released managers, and faults that were repaired between releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachespec.kernel import NORMATIVE, Operation, Transitions, Variant, each_once
from cachespec.layer_groups import era_0_11, era_drafts, era_later
from cachespec.layer_groups import era_rules as rules
from cachespec.layer_groups.configuration import Config
from cachespec.layer_groups.environment import calls
from cachespec.layer_groups.operations import AllocateSlots, Commit, FreeRequest, GetComputedBlocks, NewStep
from cachespec.layer_groups.state import Pool, View, initial, view
from cachespec.layer_groups.transitions import TRANSITIONS

PoolVariant = Variant[Config, Pool, View]
Alphabet = Callable[[Config, Pool], Iterable[Operation]]


def alphabet_of(transitions: Transitions[Config, Pool]) -> Alphabet:
    """The calls of callers that go by this variant's look-ups, each once. None calls an engine that is gone."""

    def alphabet(config: Config, pool: Pool) -> Iterable[Operation]:
        if pool.ended:
            return {}
        lookup = transitions[GetComputedBlocks]
        return each_once(calls(config, view(config, pool), lambda question: lookup(config, pool, question)[1]))

    return alphabet


NORMATIVE_LAYER_GROUPS: PoolVariant = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Pool,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=alphabet_of(TRANSITIONS),
    asking=alphabet_of,
)

REGISTERED_EARLY = "registers full blocks when scheduled (C-KV-6)"
EXECUTES = "no such call: executing a step registers nothing"
AT_THE_END = "also queues a block that is not findable behind all others (C-KV-15)"
EARLY = {
    "LG-7/executed": "blocks are registered when scheduled; LG-7/found judges the consequences",
    "LG-7/registered": "blocks are registered when scheduled; LG-7/found judges the consequences",
    "LG-9/begun": "the set of states is kept as the release keeps it",
}

K1: PoolVariant = NORMATIVE_LAYER_GROUPS.era(
    tag="K1",
    title="kv-2025-10",
    transitions={
        GetComputedBlocks: era_drafts.answering(era_drafts.found_in_0_11),
        AllocateSlots: era_0_11.allocating(era_0_11.IN_0_11),
        Commit: rules.executed,
        FreeRequest: rules.free_backwards,
    },
    differences={
        GetComputedBlocks: "finds no states; with draft layers each sort of groups drops a block (C-KV-25), and "
        "a whole prompt loses one more (C-KV-27)",
        AllocateSlots: "gives back behind the scheduled tokens (C-KV-22); counts cross-attention blocks as blocks too "
        f"many (C-KV-24); {REGISTERED_EARLY}",
        Commit: EXECUTES,
        FreeRequest: AT_THE_END,
    },
    exempt={
        **EARLY,
        "LG-5/behind": "a chunk keeps the last registered block, and a state-space group keeps every block",
        "LG-7/found": "blocks of state-space groups are registered, and never found",
        "LG-7/taken": "adopts blocks of a hit that are behind the window of what is loaded",
        "LG-8/room": "a state-space group takes a block at every position",
        "LG-8/turned-down": "states are not found",
        "LG-12": "states are not found",
    },
).lacking({NewStep: "added later"})

K1B: PoolVariant = NORMATIVE_LAYER_GROUPS.era(
    tag="K1b",
    title="kv-2026-05",
    transitions={
        GetComputedBlocks: era_drafts.answering(era_drafts.found_in_0_20),
        AllocateSlots: era_later.allocating(era_later.IN_0_20),
        NewStep: rules.new_step,
        Commit: rules.executed,
        FreeRequest: rules.free_backwards,
    },
    differences={
        GetComputedBlocks: "with draft layers finds a state behind the prefix of the other groups (C-KV-26); a "
        "whole prompt loses one block more (C-KV-27)",
        AllocateSlots: "takes blocks for one group before touching the hits of the next (C-KV-12); gives back behind "
        f"the scheduled tokens (C-KV-22); estimates one block for a state that is loaded (C-KV-14); {REGISTERED_EARLY}",
        NewStep: "empties the set of states that were registered in the step before",
        Commit: EXECUTES,
        FreeRequest: AT_THE_END,
    },
    exempt=EARLY,
)

K2: PoolVariant = NORMATIVE_LAYER_GROUPS.era(
    tag="K2",
    title="kv-2026-11",
    transitions={
        GetComputedBlocks: era_drafts.answering(era_drafts.found_in_0_33),
        AllocateSlots: era_later.allocating(era_later.IN_0_33),
        NewStep: rules.new_step,
        Commit: rules.executed,
    },
    differences={
        GetComputedBlocks: "with draft layers a whole prompt loses one block more in one group (C-KV-27); no block is "
        "dropped again after a state has shortened the prefix (C-KV-36)",
        AllocateSlots: f"estimates one block for a state that is loaded (C-KV-14); {REGISTERED_EARLY}, and of windows "
        "only the blocks that a hit can need; with draft layers retains other prefixes than hits have (C-KV-35)",
        NewStep: K1B.differences[NewStep],
        Commit: EXECUTES,
    },
    exempt=EARLY,
)

SAME_STEP: PoolVariant = K1B.era(
    tag="K1b-same-step",
    title="before #29387: finds states of the current step",
    transitions={AllocateSlots: era_later.allocating(era_later.IN_THE_SAME_STEP)},
    differences={AllocateSlots: f"{K1B.differences[AllocateSlots]}; adopts a state of the current step (C-KV-23)"},
)
