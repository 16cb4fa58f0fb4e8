"""The shared-memory ring, for any capacity, header, number of ids, sizes, and any number of live chunks.

The claims are about the addresses of chunks. The memory and the issued handles do not matter to them: any functions
replace those that write and read them. That a writer that starts again has an empty ring is explored, not proved.

`PROOF` is about the component. `CHUNKS` says the same of `chunks.py` alone, which the object store embeds: which chunks
may go is any rule, and the operations are the calls of a component that embeds a ring.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, integer, integer_term
from cacheproof.prove.loops import Locals, Loop, modules_of
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.sequences import length
from cacheproof.prove.states import unchanged
from cachespec import ring
from cachespec.kernel import Code, Operation, Outcome, Variant
from cachespec.ring import Config, chunks, transitions
from cachespec.ring.operations import Allocate, Clear, Free, Restart

Ring = Any
Segment = Any

NORMATIVE = ring.COMPONENT.normative.lacking({Restart: "explored: nothing is claimed of the writer that begins anew"})

FIRST, SECOND = z3.Int("first"), z3.Int("second")


class Geometry:
    """The arithmetic of one ring, as terms; said anew, so that the transitions' own is checked by it."""

    def __init__(self, config: Any, one: Ring) -> None:
        self.capacity, self.modulus = config.capacity.term, config.modulus.term
        self.live, self.starts, self.sizes = one.starts.members, one.starts.values, one.sizes.values
        self.sized, self.count = one.sizes.members, one.starts.length_term
        self.id_start, self.id_end = integer_term(one.id_start), integer_term(one.id_end)
        self.start, self.end = integer_term(one.start), integer_term(one.end)

    def place(self, address: Term) -> Term:
        """The position in the data of an address of one of the first two laps."""
        return z3.If(address < self.capacity, address, address - self.capacity)

    def age(self, identity: Term) -> Term:
        """The number of chunks that are older than this id."""
        ahead = identity - self.id_start
        return z3.If(ahead >= 0, ahead, ahead + self.modulus)

    def distance(self, identity: Term) -> Term:
        """From the start to the chunk."""
        ahead = self.place(self.starts[identity]) - self.place(self.start)
        return z3.If(ahead >= 0, ahead, ahead + self.capacity)

    def occupied(self) -> Term:
        """From the start to the end."""
        return self.end - self.start


def each(shape: Geometry, formula: Term) -> Term:
    """For every id; the solver tries the ids whose liveness is asked for."""
    return z3.ForAll([FIRST], formula, patterns=[shape.live[FIRST]])


def each_pair(shape: Geometry, formula: Term) -> Term:
    """For every two ids."""
    return z3.ForAll([FIRST, SECOND], formula, patterns=[z3.MultiPattern(shape.live[FIRST], shape.live[SECOND])])


def apart(shape: Geometry) -> Term:
    """SHM-1: live chunks are inside the data, none reaches across its end, no two have a unit in common."""
    one, two = FIRST, SECOND
    first, second = shape.place(shape.starts[one]), shape.place(shape.starts[two])
    within = z3.And(first >= 0, first + shape.sizes[one] <= shape.capacity)
    disjoint = z3.Or(first + shape.sizes[one] <= second, second + shape.sizes[two] <= first)
    pair = z3.And(shape.live[one], shape.live[two], one != two)
    return z3.And(
        each(shape, z3.Implies(shape.live[one], within)),
        each_pair(shape, z3.Implies(pair, disjoint)),
    )


def extended(shape: Geometry) -> Term:
    """Every live chunk has an address of the first two laps, a size, and its place between start and end."""
    one = FIRST
    addressed = z3.And(shape.starts[one] >= 0, shape.starts[one] < 2 * shape.capacity)
    fits = z3.And(shape.sizes[one] > 0, shape.distance(one) + shape.sizes[one] <= shape.occupied())
    return each(shape, z3.Implies(shape.live[one], z3.And(addressed, fits)))


def in_order(shape: Geometry) -> Term:
    """An older chunk ends before a younger one begins, going ahead from the start."""
    one, two = FIRST, SECOND
    premise = z3.And(shape.live[one], shape.live[two], shape.age(one) < shape.age(two))
    behind = shape.distance(one) + shape.sizes[one] <= shape.distance(two)
    return each_pair(shape, z3.Implies(premise, behind))


def contiguous(shape: Geometry) -> Term:
    """SHM-4, SHM-6: live ids are so many from the oldest on."""
    one = FIRST
    known = z3.And(one >= 0, one < shape.modulus, shape.age(one) < shape.count)
    tables = z3.And(shape.live[one] == known, shape.sized[one] == shape.live[one])
    following = shape.id_start + shape.count
    after = z3.If(following < shape.modulus, following, following - shape.modulus)
    counts = z3.And(shape.count >= 0, shape.count <= shape.modulus, shape.id_start >= 0, shape.id_start < shape.modulus)
    return z3.And(counts, shape.id_end == after, z3.ForAll([one], tables))


def window(shape: Geometry, laps: int) -> Term:
    """What is occupied is at most one lap, begins with the oldest chunk, and is nothing where there is none."""
    start = z3.And(shape.start >= 0, shape.start < laps * shape.capacity)
    extent = z3.And(shape.occupied() >= 0, shape.occupied() <= shape.capacity)
    oldest = z3.Implies(shape.count > 0, shape.distance(shape.id_start) == 0)
    empty = z3.Implies(shape.count == 0, z3.And(shape.start == 0, shape.end == 0))
    return z3.And(start, extent, oldest, empty)


def of_ring(formula: Callable[[Geometry], Term]) -> Callable[[Any, Any], SymbolicBoolean]:
    """A formula about a ring, or about that in a segment."""
    return lambda config, state: SymbolicBoolean(formula(Geometry(config, getattr(state, "ring", state))))


INVARIANTS = (
    Invariant(
        "SHM-1", "live chunks lie inside the data area, none wraps around its end, and no two overlap", of_ring(apart)
    ),
    Invariant(
        "SHM-1/extent",
        "each live chunk lies between start and end, with its address in the first two laps",
        of_ring(extended),
    ),
    Invariant(
        "SHM-1/lap",
        "what is occupied is at most one lap, from the oldest chunk on",
        of_ring(lambda shape: window(shape, 1)),
    ),
    Invariant("SHM-4/ids", "live ids are consecutive from the oldest to the next, in both tables", of_ring(contiguous)),
    Invariant("SHM-6/order", "chunks lie in the order of their ids", of_ring(in_order)),
)


# Of a step ----------------------------------------------------------------------------------------------------------


def oldest_went(config: Any, before: Ring, after: Ring) -> Term:
    """Those that went are the oldest, so many as are missing; the others are as they were."""
    old, new, one = Geometry(config, before), Geometry(config, after), FIRST
    gone = old.count - new.count
    stays = new.live[one] == z3.And(old.live[one], old.age(one) >= gone)
    alike = z3.And(new.starts[one] == old.starts[one], new.sizes[one] == old.sizes[one])
    first = old.id_start + gone
    moved = new.id_start == z3.If(first < old.modulus, first, first - old.modulus)
    kept = z3.ForAll([one], z3.And(stays, z3.Implies(new.live[one], alike)))
    return z3.And(gone >= 0, gone <= old.count, moved, new.id_end == old.id_end, kept)


def held_stays(unanswered: Any, before: Ring, after: Ring) -> Term:
    """No chunk went that has a handle which is not answered."""
    one = FIRST
    kept = z3.Implies(z3.And(before.starts.members[one], unanswered.members[one]), after.starts.members[one])
    return z3.ForAll([one], kept)


def new_chunk(move: Move) -> SymbolicBoolean:
    """One chunk more, of the size that was asked for, with the id and the address that are returned."""
    before, after = move.before.ring, move.after.ring
    address, identity = move.outcome.values
    size = move.config.sizes[move.operation.content] + move.config.header
    one, named = FIRST, integer_term(identity)
    others = z3.Implies(
        z3.And(before.starts.members[one], one != named),
        z3.And(after.starts.members[one], after.starts.values[one] == before.starts.values[one]),
    )
    there = both(after.starts.get(identity, -1) == address, after.sizes.get(identity, -1) == size)
    return there & ~both(before.starts.has(identity)) & SymbolicBoolean(z3.ForAll([one], others))


def fits_behind(move: Move) -> SymbolicBoolean:
    """The premise of an allocation: the next id is free, and there is room within the lap and before its end."""
    before, config = move.before.ring, move.config
    size = config.sizes[move.operation.content] + config.header
    shape = Geometry(config, before)
    room = z3.And(
        shape.place(shape.end) + size.term <= shape.capacity,
        shape.occupied() + size.term <= shape.capacity,
    )
    return SymbolicBoolean(room) & ~both(before.starts.has(before.id_end))


LAWS = (
    Law(
        "SHM-6",
        "what goes is the oldest, ids one after the other, and nothing else moves",
        (Free, Clear),
        lambda move: SymbolicBoolean(oldest_went(move.config, move.before.ring, move.after.ring)),
    ),
    Law(
        "SHM-2/freed",
        "no chunk is freed while a handle to it is unanswered",
        (Free, Clear),
        lambda move: SymbolicBoolean(held_stays(move.before.unanswered, move.before.ring, move.after.ring)),
    ),
    Law(
        "SHM-7",
        "a refused allocation changes nothing",
        (Allocate,),
        lambda move: unchanged(move.before, move.after),
        lambda move: move.outcome.code is Code.REFUSED,
    ),
    Law(
        "SHM-5",
        "a new chunk has an id that no live chunk has, and the others stay where they are",
        (Allocate,),
        new_chunk,
        lambda move: move.outcome.code is Code.DONE,
    ),
    Law(
        "fits",
        "what has room behind the newest chunk is not refused",
        (Allocate,),
        lambda move: move.outcome.code is Code.DONE,
        fits_behind,
    ),
)


# Loops, and what is left open ---------------------------------------------------------------------------------------


def freeing(entry: Locals, now: Locals) -> Iterable[Any]:
    """As `oldest_go`, and none of them has a handle that is not answered."""
    yield from oldest_go(entry, now)
    yield SymbolicBoolean(held_stays(held_by(now["may_go"]), entry["ring"], now["ring"]))


def oldest_go(entry: Locals, now: Locals) -> Iterable[Any]:
    """So many of the oldest are gone; the start may have come into the second lap."""
    config, before, one = now["config"], entry["ring"], now["ring"]
    shape, old = Geometry(config, one), Geometry(config, before)
    yield SymbolicBoolean(z3.And(window(shape, 2), contiguous(shape), extended(shape), in_order(shape), apart(shape)))
    yield SymbolicBoolean(oldest_went(config, before, one))
    moved = old.start + old.distance(shape.id_start)
    yield SymbolicBoolean(z3.Implies(shape.count > 0, z3.And(shape.end == old.end, shape.start == moved)))
    yield SymbolicBoolean(z3.And(old.start < old.capacity, shape.modulus == old.modulus))


def held_by(may_go: Any) -> Any:
    """The chunks that may not go, by the rule that the transition gives."""
    return inspect.getclosurevars(may_go).nonlocals["segment"].unanswered


def nothing_more(entry: Locals, now: Locals) -> Iterable[Any]:
    """No claim reads the variables that the loop changes."""
    return ()


LOOPS = (
    Loop(chunks.free_chunks, "loops", freeing, (lambda local: local["ring"].starts.length,)),
    Loop(transitions.issue, "loops", nothing_more),
)


def history_is_any(segment: Segment, gone: Any) -> Segment:
    """In the place of `forgotten`, which lists ids."""
    return segment._replace(
        contents=states.fresh_like(segment.contents, "contents"),
        unanswered=states.fresh_like(segment.unanswered, "unanswered"),
    )


REPLACED = (
    (transitions, "forgotten", history_is_any),
    (transitions, "write_chunk", lambda config, memory, *_: states.fresh_like(memory, "memory")),
    (transitions, "read_id", lambda *_: integer("id")),
    (transitions, "read_payload", lambda *_: ()),
)


def fresh(kind: Any, name: str) -> Any:
    """Any value; the sizes of a valid configuration are positive."""
    value = states.fresh(kind, name)
    if kind is not Config:
        return value

    def positive(place: Term, number: Any) -> Any:
        assume(number > 0)
        return number

    return value._replace(sizes=replace(value.sizes, seen=positive))


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration, and a call that names what there is."""
    yield both(config.header >= 2, config.capacity > config.header, config.modulus >= 2, config.readers >= 1)
    if type(operation) is Allocate:
        yield both(operation.content >= 0, operation.content < length(config.sizes))
    if type(operation) is Reserve:
        yield both(operation.payload >= 1)


PROOF = Proof(
    component="ring",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(
        Config(capacity=7, modulus=3, sizes=(1, 2), wants=(1, 7), outstanding=2, clears=1, revocations=1),
        Config(capacity=9, modulus=2, sizes=(1,), outstanding=3, clears=1),
    ),
    environment=environment,
    loops=LOOPS,
    modules=modules_of(ring),
    replaced=REPLACED,
    fresh=fresh,
)

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


CHUNKS = Proof(
    component="ring",
    variant=Variant(
        tag=NORMATIVE.tag,
        title="the chunks of the normative ring",
        state=chunks.Ring,
        initial=lambda config, containers: chunks.empty_ring(containers),
        transitions={Reserve: reserve, FreeOldest: free_oldest, FreeAll: free_all},
        view=lambda config, one: one,
        alphabet=calls,
    ),
    config=Config,
    invariants=INVARIANTS,
    laws=(
        Law(
            "SHM-6",
            "what goes is the oldest, ids one after the other, and nothing else moves",
            (FreeOldest, FreeAll),
            lambda move: SymbolicBoolean(oldest_went(move.config, move.before, move.after)),
        ),
        Law(
            "SHM-7",
            "a refused allocation changes nothing",
            (Reserve,),
            lambda move: unchanged(move.before, move.after),
            lambda move: move.outcome.code is Code.REFUSED,
        ),
    ),
    witnesses=(Config(capacity=7, modulus=3, sizes=(1, 2), wants=(), outstanding=0),),
    environment=environment,
    loops=(Loop(chunks.free_chunks, "loops", oldest_go, (lambda local: local["ring"].starts.length,)),),
    modules=modules_of(ring),
    fresh=fresh,
    functions=(chunks.reserve, chunks.free_chunks, chunks.clear_chunks),
)

PROOFS = (PROOF, CHUNKS)
