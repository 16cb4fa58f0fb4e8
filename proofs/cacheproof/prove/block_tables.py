"""Tables, references and the free queue of the KV blocks as terms: the invariants, and how each loop keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.containers import SymbolicQueue, every
from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, Term, assume, both, integer_term, path
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Invariant
from cacheproof.prove.sequences import SymbolicSequence, length
from cacheproof.prove.shapes import INTEGER
from cacheproof.prove.states import unchanged_but
from cachespec.kv_blocks import rolling_back, state, transitions

Pool = Any


def block_itself(config: Any) -> Callable[[Term], Term]:
    """The kind of a table position in tallies: the block at this position."""
    return lambda block: block


def references_are_places(config: Any, pool: Pool) -> SymbolicBoolean:
    """KV-1."""
    counts, references = pool.tables.tally.counts, pool.references

    def right(block: Term) -> Term:
        held = references.members[block]
        counted = z3.Implies(held, references.values[block] == counts[block])
        return z3.And(counts[block] >= 0, held == (counts[block] > 0), counted)

    return both(
        SymbolicBoolean(every(references.key, right)), references.total == SymbolicInteger(pool.tables.length_term)
    )


def is_pooled(config: Any, block: Term) -> Term:
    """There is such a block; normatively none is set aside."""
    return z3.And(block >= 0, block < integer_term(config.blocks))


def free_or_held(config: Any, pool: Pool) -> SymbolicBoolean:
    """KV-2: each block is free or held, and not both; nothing else is."""

    def right(block: Term) -> Term:
        free, held = pool.free.members[block], pool.references.members[block]
        return z3.And(z3.Or(free, held) == is_pooled(config, block), z3.Not(z3.And(free, held)))

    return SymbolicBoolean(every(pool.references.key, right))


def blocks_add_up(config: Any, pool: Pool) -> SymbolicBoolean:
    """KV-2/count."""
    return SymbolicBoolean(pool.free.length_term + pool.references.length_term == integer_term(config.blocks))


def places_are_in_tables(config: Any, pool: Pool) -> SymbolicBoolean:
    """A request has a block at each position below the length of its table, and nowhere else."""
    holdings = pool.holdings

    def right(place: Term) -> Term:
        request, position = pair_of(place)
        inside = z3.And(holdings.members[request], position >= 0, position < blocks_of(holdings, request))
        return pool.tables.members[place] == inside

    def counted(request: Term) -> Term:
        return z3.Implies(holdings.members[request], blocks_of(holdings, request) >= 0)

    return SymbolicBoolean(z3.And(every(pool.tables.key, right), every(holdings.key, counted)))


def pair_of(place: Term) -> tuple[Term, Term]:
    """Request and position, over terms."""
    sort = place.sort()
    return sort.accessor(0, 0)(place), sort.accessor(0, 1)(place)


def blocks_of(holdings: Any, request: Term) -> Term:
    """The length of the request's table, over terms: the first field of its entry."""
    held = holdings.values[request]
    return held.sort().accessor(0, 0)(held)


INVARIANTS = (
    Invariant(
        "KV-1", "the reference count of a block equals the number of table entries that name it", references_are_places
    ),
    Invariant("KV-2", "each block is free or held, and not both, and nothing else is", free_or_held),
    Invariant("KV-2/count", "free and held blocks add up to the pool", blocks_add_up),
    Invariant("KV-5/places", "a table has a block at each position, and at no other", places_are_in_tables),
)


def no_reference_is_lost(earlier: Pool, later: Pool) -> SymbolicBoolean:
    """A block that was held before has at least as many references afterwards."""
    before, after = earlier.references, later.references

    def right(block: Term) -> Term:
        return z3.Implies(
            before.members[block], z3.And(after.members[block], after.values[block] >= before.values[block])
        )

    return SymbolicBoolean(every(before.key, right))


def filled_blocks(config: Any, tokens: Any) -> Any:
    """`full_blocks`: the quotient, said by multiplication, and the same one for the same tokens."""
    quotient = z3.Function("full_blocks", z3.IntSort(), z3.IntSort(), z3.IntSort())
    size, number = integer_term(config.block_size), integer_term(tokens)
    full = quotient(size, number)
    assume(SymbolicBoolean(z3.And(full * size <= number, number < (full + 1) * size)))
    return SymbolicInteger(full)


# Loops --------------------------------------------------------------------------------------------------------------


def pool_size(pool: Pool) -> Any:
    """The number of blocks, from a pool that has the invariants."""
    return SymbolicInteger(pool.free.length_term + pool.references.length_term)


class _Sized:
    """A configuration; the proof reads only its number of blocks."""

    def __init__(self, blocks: Any) -> None:
        self.blocks = blocks


def preserved(*changed: str) -> Callable[[Locals, Locals], Iterable[Any]]:
    """The invariants hold at every turn, and nothing but these fields is touched."""

    def invariant(entry: Locals, now: Locals) -> Iterable[Any]:
        before, pool = entry["pool"], now["pool"]
        yield from (one.holds(_Sized(pool_size(before)), pool) for one in INVARIANTS)
        yield unchanged_but(before, pool, *changed)

    return invariant


def same_tables(before: Pool, pool: Pool) -> SymbolicBoolean:
    """The same requests have tables of the same lengths."""
    earlier, later = before.holdings, pool.holdings

    def right(request: Term) -> Term:
        alike = blocks_of(earlier, request) == blocks_of(later, request)
        return z3.And(earlier.members[request] == later.members[request], z3.Implies(earlier.members[request], alike))

    return SymbolicBoolean(every(earlier.key, right))


def following_the_worker(entry: Locals, now: Locals) -> Iterable[Any]:
    """Writing changes the progress of requests, and the contents of blocks."""
    yield from preserved("holdings", "bytes")(entry, now)
    yield same_tables(entry["pool"], now["pool"])
    yield same_or_more_computed(entry, now)


def same_or_more_computed(entry: Locals, now: Locals) -> SymbolicBoolean:
    """The worker goes no further than it was asked to."""
    return both(now["computed"] == entry["computed"])


def registering(entry: Locals, now: Locals) -> Iterable[Any]:
    """Registering changes what can be found."""
    yield from preserved("holdings", "registered", "prefix_map")(entry, now)
    yield same_tables(entry["pool"], now["pool"])


def free_hits(members: Term, hits: SymbolicSequence, count: Any) -> Any:
    """A ghost: how many of the first `count` hits are among these members. Its value is assumed at each read."""
    number = z3.Function(
        "free_hits", z3.ArraySort(z3.IntSort(), z3.BoolSort()), z3.ArraySort(z3.IntSort(), z3.IntSort()),
        z3.IntSort(), z3.IntSort(),
    )  # fmt: skip
    place = integer_term(count)
    here = number(members, hits.items, place)
    one = z3.If(members[hits.items[place]], z3.IntVal(1), z3.IntVal(0))
    assume(SymbolicBoolean(number(members, hits.items, z3.IntVal(0)) == 0))
    assume(SymbolicBoolean(number(members, hits.items, place + 1) == here + one))
    return SymbolicInteger(here)


def counting(entry: Locals, now: Locals) -> Iterable[Any]:
    """`count` is the number of free hits so far."""
    position = now["position"]
    yield both(position >= 0, position <= length(now["hits"]))
    yield now["count"] == free_hits(now["pool"].free.members, now["hits"], position)


def adopting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Each turn takes at most one free block, and only if its hit was counted; the table grows by one."""
    before, pool, position, request = entry["pool"], now["pool"], now["position"], now["request"]
    yield both(position >= 0, position <= length(now["hits"]))
    yield from preserved("tables", "holdings", "references", "free")(entry, now)
    left = SymbolicInteger(before.free.length_term) - free_hits(before.free.members, now["hits"], position)
    yield SymbolicInteger(pool.free.length_term) >= left
    yield only_leave(before.free, pool.free)
    yield transitions.holding_of(pool, request).blocks == transitions.holding_of(before, request).blocks + position
    yield from growing(before, pool, request)


def only_leave(before: Any, after: Any) -> SymbolicBoolean:
    """The later queue is the earlier one without some of its members."""
    return SymbolicBoolean(every(before.key, lambda key: z3.Implies(after.members[key], before.members[key])))


def growing(before: Pool, pool: Pool, request: Any) -> Iterable[Any]:
    """Places stay as they are, new ones are the request's, and no reference is given back."""

    def right(place: Term) -> Term:
        kept = z3.And(pool.tables.members[place], pool.tables.values[place] == before.tables.values[place])
        new = z3.Implies(z3.Not(before.tables.members[place]), pair_of(place)[0] == integer_term(request))
        return z3.And(z3.Implies(before.tables.members[place], kept), z3.Implies(pool.tables.members[place], new))

    yield SymbolicBoolean(every(before.tables.key, right))
    yield no_reference_is_lost(before, pool)


def lengthening(entry: Locals, now: Locals) -> Iterable[Any]:
    """There is a free block for each place that the table still lacks."""
    before, pool, request = entry["pool"], now["pool"], now["request"]
    yield from preserved("tables", "holdings", "references", "free", "registered", "prefix_map", "bytes")(entry, now)
    lacking = now["needed"] - transitions.holding_of(pool, request).blocks
    yield both(now["needed"] == entry["needed"], request == entry["request"])
    yield lacking <= SymbolicInteger(pool.free.length_term)
    yield from growing(before, pool, request)


def forgetting(entry: Locals, now: Locals) -> Iterable[Any]:
    """Only what can be found is touched."""
    yield from preserved("registered", "prefix_map")(entry, now)


def unwriting(entry: Locals, now: Locals) -> Iterable[Any]:
    """A block that is computed again is not findable, and its bytes do not count."""
    yield from preserved("registered", "prefix_map", "bytes")(entry, now)


def releasing(entry: Locals, now: Locals) -> Iterable[Any]:
    """The first loop goes up, and every position before it is present; the second goes down, and leaves none behind."""
    before, pool, request = entry["pool"], now["pool"], integer_term(now["request"])
    yield from (one.holds(_Sized(pool_size(before)), pool) for one in INVARIANTS[:3])
    yield unchanged_but(before, pool, "tables", "references", "free")
    blocks = integer_term(now["blocks"])
    down = "turn" in now
    turn = integer_term(now["turn"]) if down else integer_term(now["position"])
    yield SymbolicBoolean(z3.And(turn >= 0, turn <= z3.If(blocks >= 0, blocks, z3.IntVal(0))))

    def right(place: Term) -> Term:
        owner, position = pair_of(place)
        there, was = pool.tables.members[place], before.tables.members[place]
        same = z3.Implies(there, pool.tables.values[place] == before.tables.values[place])
        other = z3.Implies(owner != request, there == was)
        if down:
            mine = z3.Implies(there, z3.And(position >= 0, position < blocks - turn))
        else:
            inside = z3.And(position >= 0, position < blocks)
            mine = z3.And(z3.Implies(there, inside), z3.Implies(z3.And(inside, position >= turn), there))
        return z3.And(same, other, z3.Implies(owner == request, mine))

    yield SymbolicBoolean(every(pool.tables.key, right))


def nothing_more(entry: Locals, now: Locals) -> Iterable[Any]:
    """Reading needs no invariant."""
    return ()


def renewed(name: str, value: Any) -> Any:
    """Truth values, and a queue that is not symbolic yet, do not show their kind."""
    if name == "free":
        return states.fresh_queue(INTEGER, name)
    return SymbolicBoolean(path().fresh(name, z3.BoolSort())) if name == "behind" else None


def left_to_write(local: Locals) -> Any:
    """The measure of the loop that follows the worker."""
    return local["computed"] - transitions.holding_of(local["pool"], local["request"]).computed


def left_to_register(local: Locals) -> Any:
    """The measure of the registering loop."""
    config, pool, request = local["config"], local["pool"], local["request"]
    registered = transitions.holding_of(pool, request).cached_blocks
    return filled_blocks(config, local["computed"]) - registered


def left_to_take(local: Locals) -> Any:
    """The measure of the loop that lengthens a table."""
    return local["needed"] - transitions.holding_of(local["pool"], local["request"]).blocks


ROW = "loops"


def as_queue(free: Any) -> Any:
    """The free queue, as terms."""
    return free if type(free) is SymbolicQueue else states.queue_of(INTEGER, free.items())


def filling(entry: Locals, now: Locals) -> Iterable[Any]:
    """The blocks before this one are free."""
    block, free = integer_term(now["block"]), as_queue(now["free"])
    yield SymbolicBoolean(z3.And(block >= 0, block <= integer_term(now["config"].blocks), free.length_term == block))
    yield SymbolicBoolean(every(INTEGER, lambda key: free.members[key] == z3.And(key >= 0, key < block)))


LOOPS = (
    Loop(state.initial, ROW, filling, renewed=renewed, in_order=True),
    Loop(transitions.are_cached, ROW, nothing_more),
    Loop(transitions.free_among, ROW, counting, in_order=True),
    Loop(transitions.adopt, ROW, adopting, in_order=True),
    Loop(transitions.extend, ROW, lengthening, (left_to_take,)),
    Loop(transitions.release, ROW, releasing, in_order=True),
    Loop(transitions.write, ROW, following_the_worker, (left_to_write,)),
    Loop(transitions.register_full, ROW, registering, (left_to_register,)),
    Loop(transitions.evict_block, ROW, forgetting),
    Loop(transitions.forget_behind, ROW, forgetting, renewed=renewed),
    Loop(transitions.reset_prefix_cache, ROW, forgetting),
    Loop(rolling_back.shared_behind, ROW, nothing_more),
    Loop(rolling_back.unwritten_behind, ROW, unwriting),
    Loop(transitions.common_prefix, ROW, nothing_more, (lambda local: local["blocks"] - local["count"],)),
)
