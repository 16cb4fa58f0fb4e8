"""The publication of chunks, for any capacity, number of ids, sizes, readers, stores that wait, and handles.

The ring in it is a stand-in, as the proofs of the ring say what its functions do. `ANSWERS` is about the function that
says which chunks may go; here its meaning stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cacheproof.prove.loops import modules_of
from cacheproof.prove.proof import Law, Move, Proof
from cacheproof.prove.publication.invariants import INVARIANTS
from cacheproof.prove.publication.laws import (
    handed_to_everybody,
    handles_are_served,
    one_reader_goes_on,
    one_store_appears,
    read_is_whole,
    readers_keep_to_their_counts,
    reserved_and_nothing_else,
    segments_are_counted,
    stores_wait,
    what_is_answered_goes,
)
from cacheproof.prove.publication.loops import ANSWERS, LOOPS, REPLACED
from cacheproof.prove.publication.states import any_may_go, environment, fresh, initial, lift
from cacheproof.prove.ring.chunks import any_clear, any_free, any_reserve
from cachespec import publication
from cachespec.kernel import Code, Operation
from cachespec.publication import Config, transitions
from cachespec.publication.operations import (
    OPERATIONS,
    Acknowledge,
    Allocate,
    Appear,
    Clear,
    Copy,
    Free,
    Open,
    Publish,
    ReaderDies,
    WriteCounts,
    WriteData,
    WriteHeader,
)
from cachespec.publication.properties import STEPS

STATEMENTS = {step.name: step.statement for step in STEPS}


def law(
    name: str,
    operations: tuple[type[Operation], ...],
    then: Callable[[Move], Any],
    when: Callable[[Move], Any] = lambda move: True,
) -> Law:
    """The law of a property."""
    return Law(name, STATEMENTS[name], operations, then, when)


LAWS = (
    law("SHM-5/segment", OPERATIONS, segments_are_counted),
    law("SHM-6", (Free, Clear), what_is_answered_goes),
    law("SHM-7", (Allocate,), reserved_and_nothing_else),
    law("SHM-8/step", (Open, Copy, Acknowledge, ReaderDies), one_reader_goes_on),
    law("SHM-8/served", (Open,), handles_are_served, lambda move: move.outcome.code is not Code.ABSENT),
    law("SHM-9", (Open, Copy, Acknowledge), readers_keep_to_their_counts),
    law("SHM-10", (Acknowledge,), read_is_whole, lambda move: move.outcome.code is Code.HIT),
    law("SHM-10/stored", (WriteHeader, WriteCounts, WriteData), stores_wait),
    law("SHM-10/visible", (Appear,), one_store_appears),
    law("SHM-10/handed", (Publish,), handed_to_everybody),
)

PROOF = Proof(
    component="publication",
    variant=replace(publication.COMPONENT.normative, initial=initial),
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(
        Config(capacity=9, modulus=2, sizes=(1, 2), readers=2, outstanding=2, clears=1, deaths=1, restarts=1),
        Config(capacity=5, modulus=2, sizes=(1, 2), outstanding=1, clears=1, deaths=1, restarts=1),
    ),
    environment=environment,
    loops=LOOPS,
    modules=modules_of(publication),
    replaced=(
        *REPLACED,
        (transitions, "reserve", any_reserve),
        (transitions, "free_chunks", any_free),
        (transitions, "clear_chunks", any_clear),
        (transitions, "may_go", any_may_go),
    ),
    fresh=fresh,
    lift=lift,
    second_opinion=False,
)

PROOFS = (PROOF, ANSWERS)
