"""The shared-memory ring, for any capacity, header, number of ids, sizes, readers, and any number of live chunks.

`PROOF` is about the component: its chunks, its memory, and the handles that are out. The functions that reserve and
free chunks, and those that write and read the memory, are stand-ins there. Their answers are any for which the laws of
`CHUNKS` and `MEMORY` hold; these two proofs are about the functions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import SymbolicBoolean, Term, both, integer_term
from cacheproof.prove.loops import modules_of
from cacheproof.prove.proof import Invariant, Law, Proof
from cacheproof.prove.ring.chunks import (
    EMBEDDED,
    Geometry,
    any_clear,
    any_free,
    any_reserve,
    as_wanted,
    contiguous,
    refused_for_a_reason,
)
from cacheproof.prove.ring.functions import CHUNKS, MEMORY, valid, with_contents
from cacheproof.prove.ring.handles import (
    LOOPS,
    answers_are_owed,
    any_handles,
    known_handles,
    names_its_chunk,
    tables_are_of_live_chunks,
    unanswered_are_written,
)
from cacheproof.prove.ring.memory import (
    PRESENTED,
    any_read_id,
    any_read_payload,
    any_units,
    any_write_chunk,
)
from cacheproof.prove.ring.segments import (
    answers_are_counted,
    freed_in_order,
    ids_are_unique,
    is_current,
    is_possible,
    is_presented,
    is_refused,
    presentable_stay,
    read_is_its_own,
    reading_changes_nothing,
    segments_are_counted,
    size_of,
    unheld,
)
from cacheproof.prove.sequences import length
from cacheproof.prove.states import unchanged
from cachespec import ring
from cachespec.kernel import Code
from cachespec.kernel.names import hints_of
from cachespec.ring import Config, transitions
from cachespec.ring.operations import Allocate, Clear, Free, Read, Restart, Revoke

Ring = Any
Segment = Any


# A segment ----------------------------------------------------------------------------------------------------------


IN_ONE_SEGMENT = (Allocate, Read, Revoke, Free, Clear)

LAWS = (
    Law(
        "SHM-2/freed",
        "no chunk is freed while a handle to it is unanswered",
        IN_ONE_SEGMENT,
        lambda move: SymbolicBoolean(presentable_stay(move)),
    ),
    Law(
        "SHM-5/segment",
        "a restarted writer has the next segment, which is empty, and no other operation creates a segment",
        (*IN_ONE_SEGMENT, Restart),
        segments_are_counted,
    ),
    Law(
        "SHM-6",
        "only freeing removes chunks, from the oldest on, with consecutive ids",
        IN_ONE_SEGMENT,
        freed_in_order,
    ),
    Law(
        "SHM-6/wanted",
        "freeing stops once the requested space is free, or at a chunk that is still needed",
        (Free,),
        lambda move: SymbolicBoolean(
            as_wanted(
                move.config, move.before.ring, move.after.ring, move.operation.want, unheld(move.before.unanswered)
            )
        ),
    ),
    Law(
        "SHM-7",
        "a refused allocation changes nothing",
        (Allocate,),
        lambda move: unchanged(move.before, move.after),
        is_refused,
    ),
    Law(
        "SHM-7/other",
        "no other call is refused",
        (Read, Revoke, Free, Clear, Restart),
        lambda move: not is_refused(move),
    ),
    Law(
        "SHM-8/room",
        "no allocation is refused if it fits behind the newest chunk or at the beginning",
        (Allocate,),
        lambda move: refused_for_a_reason(move.config, move.before.ring, size_of(move)),
        is_refused,
    ),
    Law(
        "SHM-8/served",
        "a handle is served unless its segment is gone",
        (Read,),
        lambda move: SymbolicBoolean(is_current(move) == z3.BoolVal(move.outcome.code is Code.HIT)),
        is_presented,
    ),
    Law(
        "SHM-8/once",
        "a presented or revoked handle is removed, no longer protects its chunk, and affects no other handle",
        (Read, Revoke),
        answers_are_counted,
        is_presented,
    ),
    Law("SHM-8/held", "the holder of a handle can always present or revoke it", (Read, Revoke), is_possible),
    Law("SHM-9", "reading changes neither memory nor chunks", (Read,), reading_changes_nothing),
    Law(
        "SHM-10",
        "a reader gets the complete payload for which its handle was issued",
        (Read,),
        read_is_its_own,
        lambda move: move.outcome.code is Code.HIT,
    ),
)


def fresh(kind: Any, name: str) -> Any:
    """Any value; the handles to each chunk are counted."""
    if kind is not ring.Segment:
        return states.fresh(kind, name)
    hints = hints_of(kind)
    known = {part: states.fresh(hints[part], f"{name}.{part}") for part in kind._fields if part not in UNLIKE_OTHERS}
    handles: Any = any_handles(f"{name}.handles")
    return ring.Segment(memory=any_units(f"{name}.memory"), handles=handles, **known)


UNLIKE_OTHERS = ("memory", "handles")
"""Parts of a segment that have more than a name."""


def lift(kind: Any, value: Any) -> Any:
    """The value as terms; the handles to each chunk are counted."""
    one = states.lift(kind, value)
    if kind is not ring.Segment:
        return one
    return one._replace(handles=known_handles(one.handles, [key for key, _ in value.handles.items()]))


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a call that names what there is."""
    yield from valid(config, operation)
    yield from with_contents(config)
    if type(operation) is Allocate:
        yield both(operation.content >= 0, operation.content < length(config.sizes))
    if type(operation) is Read:
        presented = (integer_term(operation.identity), integer_term(operation.content))
        yield SymbolicBoolean(z3.And(*(one == other for one, other in zip(PRESENTED, presented, strict=True))))


def of_segment(formula: Callable[[Any, Segment], Term]) -> Callable[[Any, Segment], SymbolicBoolean]:
    """A formula as a condition."""
    return lambda config, segment: SymbolicBoolean(formula(config, segment))


PROOF = Proof(
    component="ring",
    variant=ring.COMPONENT.normative,
    config=Config,
    invariants=(
        *EMBEDDED,
        *(
            Invariant("SHM-2", "every unanswered handle names its chunk, which is live and unchanged", of_segment(part))
            for part in (names_its_chunk, unanswered_are_written)
        ),
        Invariant(
            "SHM-4",
            "live ids are consecutive from the oldest to the next, and every table has exactly those",
            lambda config, segment: SymbolicBoolean(
                z3.And(contiguous(Geometry(config, segment.ring)), tables_are_of_live_chunks(config, segment))
            ),
        ),
        Invariant(
            "SHM-5",
            "an id names one chunk among the live chunks and those that a handle may still name",
            of_segment(ids_are_unique),
        ),
        Invariant(
            "owed",
            "a chunk counts as many unanswered handles as there are to it in this segment",
            of_segment(answers_are_owed),
        ),
    ),
    laws=LAWS,
    witnesses=(
        Config(capacity=7, modulus=3, sizes=(1, 2), wants=(1, 7), outstanding=2, clears=1, revocations=1),
        Config(capacity=9, modulus=2, sizes=(1,), outstanding=3, clears=1, restarts=1),
    ),
    environment=environment,
    loops=LOOPS,
    modules=modules_of(ring),
    replaced=(
        (transitions, "reserve", any_reserve),
        (transitions, "free_chunks", any_free),
        (transitions, "clear_chunks", any_clear),
        (transitions, "write_chunk", any_write_chunk),
        (transitions, "read_id", any_read_id),
        (transitions, "read_payload", any_read_payload),
    ),
    fresh=fresh,
    lift=lift,
)


PROOFS = (PROOF, CHUNKS, MEMORY)
