"""The functions of a ring by themselves: those that reserve and free chunks, and those that write and read the memory.

`CHUNKS` is about `chunks.py`: which chunks may go is any rule, and the operations are the calls of a component that
embeds a ring. `MEMORY` is about `memory.py`, for any place and any numbers in memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import SymbolicBoolean, Term, both, integer_term
from cacheproof.prove.loops import Locals, Loop, modules_of
from cacheproof.prove.proof import Law, Move, Proof
from cacheproof.prove.ring.chunks import (
    INVARIANTS,
    a_line,
    all_went,
    as_wanted,
    first_went,
    gone_are_listed,
    oldest_go,
    oldest_went,
    only_those_went,
    refused_for_a_reason,
    reserved,
    seen,
)
from cacheproof.prove.ring.memory import LOOPS as MEMORY_LOOPS
from cacheproof.prove.ring.memory import (
    PRESENTED,
    any_units,
    fits_a_field,
    is_between,
    is_chunk,
    is_read_id,
    is_read_payload,
    is_written,
    whole,
    width,
)
from cacheproof.prove.sequences import length
from cacheproof.prove.states import part_names, unchanged
from cachespec import ring
from cachespec.kernel import DONE, NORMATIVE, Code, Map, Operation, Outcome, Variant
from cachespec.ring import Config, chunks, memory

Ring = Any

# A valid configuration -----------------------------------------------------------------------------------------------


def sizes_are_positive(config: Any) -> Term:
    """Those of all contents."""
    sizes, content = config.sizes, z3.Int("content")
    inside = is_between(content, z3.IntVal(0), sizes.length)
    return z3.ForAll([content], z3.Implies(inside, sizes.items[content] > 0), patterns=seen(sizes.items, content))


def valid(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a call that asks for something."""
    yield both(config.header >= 2, config.capacity > config.header, config.modulus >= 2, config.readers >= 1)
    if type(operation) is Reserve:
        yield both(operation.payload >= 1)


def with_contents(config: Any) -> Iterable[Any]:
    """A valid configuration has a header of two fields, and contents of some units each."""
    yield SymbolicBoolean(integer_term(config.header) == 2 * width(config))
    yield SymbolicBoolean(sizes_are_positive(config))


# The chunks alone ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reserve(Operation):
    """Reserves a chunk with this number of units of payload."""

    payload: int


@dataclass(frozen=True, slots=True)
class FreeOldest(Operation):
    """Frees the oldest chunks, until `want` units are free or `kept` is the oldest: the first that the rule keeps."""

    want: int
    kept: int


@dataclass(frozen=True, slots=True)
class FreeAll(Operation):
    """All go, up to the first that may not."""

    kept: int


def reserve(config: Config, one: Ring, op: Reserve) -> tuple[Ring, Outcome]:
    """As a component calls it that embeds a ring."""
    return chunks.reserve(config, one, op.payload)


def free_oldest(config: Config, one: Ring, op: FreeOldest) -> tuple[Ring, Outcome]:
    """Likewise."""
    return chunks.free_chunks(config, one, lambda identity: identity != op.kept, op.want)


def free_all(config: Config, one: Ring, op: FreeAll) -> tuple[Ring, Outcome]:
    """Likewise."""
    return chunks.clear_chunks(config, one, lambda identity: identity != op.kept)


def calls(config: Config, one: Ring) -> list[Operation]:
    """For the witnesses."""
    kept = (-1, 1)
    return [*map(Reserve, config.sizes), *(FreeOldest(1, each) for each in kept), *map(FreeAll, kept)]


def unlike(kept: Any) -> Callable[[Term], Term]:
    """The rule that keeps this chunk."""
    return lambda identity: identity != integer_term(kept)


def wanted(move: Move) -> Any:
    """The units that are to be freed."""
    return move.config.capacity if type(move.operation) is FreeAll else move.operation.want


def total(move: Move) -> Any:
    """The units that are to be reserved."""
    return move.operation.payload + move.config.header


LAWS_OF_CHUNKS = (
    Law(
        "SHM-6",
        "what goes is the oldest, ids one after the other, and nothing else moves",
        (FreeOldest, FreeAll),
        lambda move: SymbolicBoolean(oldest_went(move.config, move.before, move.after)),
    ),
    Law(
        "SHM-6/listed",
        "freeing returns the ids of those that went, from the oldest on",
        (FreeOldest, FreeAll),
        lambda move: SymbolicBoolean(gone_are_listed(move.config, move.before, move.after, move.outcome.values)),
    ),
    Law(
        "SHM-6/wanted",
        "freeing stops once the requested space is free, or at a chunk that the rule keeps",
        (FreeOldest, FreeAll),
        lambda move: SymbolicBoolean(
            as_wanted(move.config, move.before, move.after, wanted(move), unlike(move.operation.kept))
        ),
    ),
    Law(
        "SHM-6/all",
        "clearing frees every chunk up to the first that the rule keeps",
        (FreeOldest, FreeAll),
        lambda move: SymbolicBoolean(all_went(move.config, move.after, wanted(move), unlike(move.operation.kept))),
    ),
    Law(
        "SHM-6/first",
        "if any space is requested, the oldest chunk is freed, unless the rule keeps it",
        (FreeOldest, FreeAll),
        lambda move: SymbolicBoolean(
            first_went(move.config, move.before, move.after, wanted(move), unlike(move.operation.kept))
        ),
    ),
    Law(
        "SHM-2/kept",
        "a chunk that the rule keeps stays",
        (FreeOldest, FreeAll),
        lambda move: SymbolicBoolean(only_those_went(move.before, move.after, unlike(move.operation.kept))),
    ),
    Law(
        "SHM-7",
        "a refused allocation changes nothing",
        (Reserve,),
        lambda move: unchanged(move.before, move.after),
        lambda move: move.outcome.code is Code.REFUSED,
    ),
    Law(
        "SHM-5/new",
        "a new chunk has the next id, which no live chunk has, and the others stay where they are",
        (Reserve,),
        lambda move: reserved(
            move.before, move.after, move.outcome.values, move.operation.payload + move.config.header
        ),
        lambda move: move.outcome.code is Code.DONE,
    ),
    Law(
        "SHM-8/room",
        "no allocation is refused if it fits behind the newest chunk or at the beginning",
        (Reserve,),
        lambda move: refused_for_a_reason(move.config, move.before, total(move)),
        lambda move: move.outcome.code is Code.REFUSED,
    ),
)


def left_to_go(local: Locals) -> Any:
    """The measure of the freeing loop."""
    return local["ring"].starts.length


def up_to_the_kept(entry: Locals, now: Locals) -> Iterable[Any]:
    """As `oldest_go`, and the one that the rule keeps stays."""
    kept = inspect.getclosurevars(now["may_go"]).nonlocals["op"].kept
    yield from oldest_go(entry, now)
    yield SymbolicBoolean(only_those_went(entry["ring"], now["ring"], unlike(kept)))


CHUNKS = Proof(
    component="ring",
    variant=Variant(
        tag=NORMATIVE,
        title="the chunks of the normative ring",
        state=chunks.Ring,
        initial=lambda config, containers: chunks.empty_ring(containers),
        transitions={Reserve: reserve, FreeOldest: free_oldest, FreeAll: free_all},
        view=lambda config, one: one,
        alphabet=calls,
    ),
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS_OF_CHUNKS,
    witnesses=(Config(capacity=7, modulus=3, sizes=(1, 2), wants=(), outstanding=0),),
    environment=valid,
    loops=(Loop(chunks.free_chunks, "loops", up_to_the_kept, (left_to_go,), renewed=a_line),),
    modules=modules_of(ring),
    functions=(chunks.reserve, chunks.free_chunks, chunks.clear_chunks),
)

# The memory alone ----------------------------------------------------------------------------------------------------


class Page(NamedTuple):
    """The memory, and nothing else."""

    memory: Map[int, int]


@dataclass(frozen=True, slots=True)
class Write(Operation):
    """Writes a chunk for this content."""

    at: int
    identity: int
    content: int


@dataclass(frozen=True, slots=True)
class ReadId(Operation):
    """Reads the id of the chunk there."""

    at: int


@dataclass(frozen=True, slots=True)
class ReadPayload(Operation):
    """Reads the payload of the chunk there."""

    at: int


def write(config: Config, page: Page, op: Write) -> tuple[Page, Outcome]:
    """As the ring calls it."""
    return Page(memory.write_chunk(config, page.memory, op.at, op.identity, op.content)), DONE


def read_id(config: Config, page: Page, op: ReadId) -> tuple[Page, Outcome]:
    """Likewise."""
    return page, Outcome(Code.HIT, (memory.read_id(config, page.memory, op.at),))


def read_payload(config: Config, page: Page, op: ReadPayload) -> tuple[Page, Outcome]:
    """Likewise."""
    return page, Outcome(Code.HIT, memory.read_payload(config, page.memory, op.at))


def a_page(kind: Any, name: str) -> Any:
    """Any value; of a page, any units."""
    if kind is Page:
        return Page(any_units(name))
    return states.fresh(kind, name)


def in_a_page(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a call of the ring."""
    yield from valid(config, operation)
    yield from with_contents(config)
    yield SymbolicBoolean(
        z3.And(*(fits_a_field(config, number) for number in (PRESENTED[0], whole(config, PRESENTED[1]))))
    )
    if operation is not None:
        yield operation.at >= 0
    if type(operation) is Write:
        yield both(operation.content >= 0, operation.content < length(config.sizes))


def terms_of(operation: Any) -> tuple[Term, ...]:
    """The fields of the operation."""
    return tuple(integer_term(getattr(operation, name)) for name in part_names(operation))


def chunk_is_written(part: int, move: Move) -> SymbolicBoolean:
    """One part of `is_written`: three of the new chunk, and three of any other one, that was there, too."""
    new, stays = is_written(
        move.config, is_chunk, move.before.memory, move.after.memory, terms_of(move.operation), OTHER
    ).children()
    premise, conclusion = stays.children()
    parts = [*new.children(), *(z3.Implies(premise, each) for each in conclusion.children())]
    return SymbolicBoolean(parts[part])


def id_is_read(move: Move) -> SymbolicBoolean:
    """`is_read_id`, of any presented chunk."""
    (value,) = map(integer_term, move.outcome.values)
    at = integer_term(move.operation.at)
    return SymbolicBoolean(is_read_id(move.config, is_chunk, move.before.memory, at, PRESENTED, value))


def payload_is_read(move: Move) -> SymbolicBoolean:
    """`is_read_payload`, of any presented chunk."""
    at = integer_term(move.operation.at)
    values = move.outcome.values
    return SymbolicBoolean(is_read_payload(move.config, is_chunk, move.before.memory, at, PRESENTED, values))


OTHER = tuple(z3.Ints("start id content"))
"""Any other chunk that is in memory, too."""

MEMORY = Proof(
    component="ring",
    variant=Variant(
        tag=NORMATIVE,
        title="the memory of the normative ring",
        state=Page,
        initial=lambda config, containers: Page(containers.map()),
        transitions={Write: write, ReadId: read_id, ReadPayload: read_payload},
        view=lambda config, page: page,
        alphabet=lambda config, page: (Write(0, 1, 0), ReadId(0), ReadPayload(0)),
    ),
    config=Config,
    invariants=(),
    laws=(
        *(
            Law(
                "written",
                "a chunk that was written is there, and every chunk beside it stays there",
                (Write,),
                partial(chunk_is_written, part),
            )
            for part in range(6)
        ),
        Law("read id", "the id of a chunk that is there is read", (ReadId,), id_is_read),
        Law("read payload", "the whole payload of a chunk that is there is read", (ReadPayload,), payload_is_read),
    ),
    witnesses=(Config(capacity=9, modulus=3, sizes=(1, 2)),),
    environment=in_a_page,
    loops=MEMORY_LOOPS,
    modules=modules_of(ring),
    fresh=a_page,
)
