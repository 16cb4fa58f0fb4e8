"""The normative variant, and the released manager whose hits may end within a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachespec.kernel import NORMATIVE, Operation, Transitions, Variant, each_once
from cachespec.partial_hits import era_0_33
from cachespec.partial_hits.configuration import Config
from cachespec.partial_hits.environment import calls
from cachespec.partial_hits.operations import AllocateSlots, Dispatch, Execute, GetComputedBlocks
from cachespec.partial_hits.state import Pool, View, initial, view
from cachespec.partial_hits.transitions import TRANSITIONS

PoolVariant = Variant[Config, Pool, View]
Alphabet = Callable[[Config, Pool], Iterable[Operation]]


def alphabet_of(transitions: Transitions[Config, Pool]) -> Alphabet:
    """The calls of callers that go by this variant's look-ups, each once."""

    def alphabet(config: Config, pool: Pool) -> Iterable[Operation]:
        lookup = transitions[GetComputedBlocks]
        return each_once(calls(config, view(config, pool), lambda question: lookup(config, pool, question)[1]))

    return alphabet


NORMATIVE_PARTIAL_HITS: PoolVariant = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Pool,
    initial=initial,
    transitions=TRANSITIONS,
    view=view,
    alphabet=alphabet_of(TRANSITIONS),
    asking=alphabet_of,
)

K2: PoolVariant = NORMATIVE_PARTIAL_HITS.era(
    tag="K2",
    title="kv-2026-11",
    transitions={
        AllocateSlots: era_0_33.allocating(era_0_33.waits_for_state),
        Dispatch: era_0_33.dispatch,
        Execute: era_0_33.execute,
    },
    differences={
        AllocateSlots: "registers when scheduled (C-KV-6); copies a block that the same step computes (C-KV-34); "
        "moves the keys of a state before it is copied",
        Dispatch: "also lets go of the copy of a state, which can be found already",
        Execute: "no such call: executing a step registers nothing",
    },
    exempt={
        "PH-4/found": "blocks are registered when scheduled; PH-4/stays and PH-4/read judge the consequences",
        "PH-4/new": "blocks are registered when scheduled; PH-4/stays and PH-4/read judge the consequences",
        "PH-4/executed": "blocks are registered when scheduled; PH-4/stays and PH-4/read judge the consequences",
        "PH-4/own": "a block may be shared before its step has run; PH-4/stays and PH-4/read judge the consequences",
        "PH-7/copy": "the copy of a state can be found before it has run",
        "PH-9/room": "a request whose hit ends with a state of the same step waits for the next one",
    },
)
