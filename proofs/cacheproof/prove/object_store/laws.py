"""What holds of the books of an object store: its maps, its ring, and which handles P0 counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import some, someone_counts
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, integer_term
from cacheproof.prove.object_store.handles import (
    acknowledged,
    cells_are_of_the_sent,
    chunks_are_older,
    deliveries_are_of_items,
    few_are_rendered,
    handed_out_less,
    handles_are_older,
    missed_stay,
    missing_are_out,
    of_each,
    of_each_handle,
    one_walk_at_a_time,
    parts_are_numbers,
    protected_stay,
    renders_are_limited,
    standing_have_tickets,
    tickets_are_held,
    tickets_are_of_items,
    walks_are_counted,
)
from cacheproof.prove.proof import Invariant, Law, Move
from cacheproof.prove.ring.chunks import FIRST, Geometry, gone_are_listed, of_its_ring, oldest_went
from cacheproof.prove.sequences import length
from cacheproof.prove.states import same_map
from cachespec.kernel import Code, Operation
from cachespec.object_store import COMPONENT
from cachespec.object_store.configuration import content_of
from cachespec.object_store.operations import Clear, End, FreeUnused, GetCached, Put, Reject, Release, Restart

Store = Any

EVERY_CALL: tuple[type[Operation], ...] = tuple(COMPONENT.normative.transitions)
FREEING = (Put, FreeUnused, Clear, Restart)
"""The operations that change the ring."""


# Of a state: a worker's cell has a ticket at most once. So a chunk has at most its tickets times the workers as
# acknowledgements (SHM-3), and has all of them if no worker misses one (SHM-3/settled, SHM-3/out). There is at most one
# ticket for each item, so that the count fits the field of a valid configuration (SHM-11).
# --------------------------------------------------------------------------------------------------------------------


def geometry(config: Any, store: Store) -> Geometry:
    """The ring of the store."""
    return Geometry(config, store.ring)


def sizes_agree(config: Any, store: Store) -> SymbolicBoolean:
    """As many requests and workers as the configuration has: code that could change their number is refused."""
    requests = store.requests.length == integer_term(length(config.requests))
    return SymbolicBoolean(z3.And(requests, store.workers.length == integer_term(config.readers)))


def indices_agree(config: Any, store: Store) -> SymbolicBoolean:
    """SHM-4."""
    owners, listed, withdrawn = store.owners, store.listed, store.withdrawn
    tables = (store.epochs.members, store.issued.members, store.ring.starts.members)

    def of_chunk(one: Term) -> Term:
        there, content = owners.members[one], owners.values[one]
        alike = z3.And(*(there == table[one] for table in tables))
        marked = z3.Implies(z3.Or(withdrawn.members[one], store.protected.members[one]), there)
        kept = z3.And(there, z3.Not(withdrawn.members[one]))
        handed_out = z3.And(listed.members[content], listed.values[content] == one)
        return z3.And(alike, marked, z3.Implies(kept, handed_out))

    def of_content(content: Term) -> Term:
        one = listed.values[content]
        kept = z3.And(owners.members[one], owners.values[one] == content, z3.Not(withdrawn.members[one]))
        return z3.Implies(listed.members[content], kept)

    return of_each(owners, of_chunk) & of_each(listed, of_content)


def metadata_is_there(config: Any, store: Store) -> SymbolicBoolean:
    """SHM-4/metadata."""
    listed, kept = store.listed.members, store.metadata.members
    return of_each(store.listed, lambda content: z3.Implies(listed[content], kept[content]))


def no_other_metadata(config: Any, store: Store) -> SymbolicBoolean:
    """No content that is not handed out has any; so there are as many of the one as of the other."""
    listed, kept = store.listed, store.metadata
    inside = of_each(listed, lambda content: z3.Implies(kept.members[content], listed.members[content]))
    return inside & SymbolicBoolean(kept.length_term == listed.length_term)


def contents_are_known(config: Any, store: Store) -> SymbolicBoolean:
    """Each chunk has one of the configuration's contents."""
    owners, contents = store.owners, integer_term(length(config.payloads))

    def right(one: Term) -> Term:
        return z3.Implies(owners.members[one], z3.And(owners.values[one] >= 0, owners.values[one] < contents))

    return of_each(owners, right)


def handles_are_counted(config: Any, store: Store) -> SymbolicBoolean:
    """A live chunk has as many handles as there are tickets for it; any other has none."""
    counts, issued = store.tickets.tally.counts, store.issued

    def right(one: Term) -> Term:
        live = z3.Implies(issued.members[one], issued.values[one] == counts[one])
        return z3.And(live, z3.Implies(z3.Not(issued.members[one]), counts[one] == 0), counts[one] >= 0)

    return of_each(issued, right)


def protected_are_handed_out(config: Any, store: Store) -> SymbolicBoolean:
    """What is protected is not withdrawn."""
    protected, withdrawn = store.protected.members, store.withdrawn.members
    return of_each(store.protected, lambda one: z3.Implies(protected[one], z3.Not(withdrawn[one])))


def blocking_is_withdrawn(config: Any, store: Store) -> SymbolicBoolean:
    """The chunk that blocked an item is live and is not handed out, or there is none."""
    one = integer_term(store.blocking)
    return SymbolicBoolean(z3.Or(one == -1, z3.And(store.owners.members[one], store.withdrawn.members[one])))


def epoch_is_a_number(config: Any, store: Store) -> SymbolicBoolean:
    """It counts up from 0."""
    return both(store.epoch >= 0)


BOOKS_ARE_RIGHT = (
    *of_its_ring(),
    Invariant(
        "SHM-4",
        "index, owners, counts, marks and ring list the same chunks, except chunks that are withdrawn from hand-out",
        indices_agree,
    ),
    Invariant("SHM-4/metadata", "every content that P0 may hand out has its prompt updates", metadata_is_there),
    Invariant("SHM-4/no-other", "no other content has prompt updates", no_other_metadata),
    Invariant("contents", "each chunk has one of the configuration's contents", contents_are_known),
    Invariant("SHM-3", "readers never acknowledge more handles than were issued", handles_are_counted),
    Invariant("SHM-8/protected", "no protected chunk is withdrawn from hand-out", protected_are_handed_out),
    Invariant("SHM-8/blocking", "the chunk that blocked an item is withdrawn", blocking_is_withdrawn),
    Invariant("SHM-5/epoch", "the epoch is not negative", epoch_is_a_number),
    Invariant("SHM-7/walked", "a rendered request has a handle for each item that P0 has walked", walks_are_counted),
)
"""What holds at every turn of every loop."""

AT_EVERY_TURN = (
    *BOOKS_ARE_RIGHT,
    Invariant(
        "SHM-3/settled",
        "once no request or worker needs a chunk, all its issued handles are acknowledged",
        tickets_are_held,
    ),
    Invariant(
        "SHM-3/out",
        "a chunk whose issued handles are all acknowledged has no outstanding handle",
        standing_have_tickets,
    ),
)
"""What holds at every turn of the loops that leave requests and workers alone."""

INVARIANTS = (
    *AT_EVERY_TURN,
    Invariant("SHM-11", "no count exceeds the range of its field", tickets_are_of_items),
    Invariant("SHM-5/older", "every live chunk is older than the next one", chunks_are_older),
    Invariant("SHM-5/handles", "every handle is older than the next chunk", handles_are_older),
    Invariant(
        "SHM-7/concurrent",
        "P0 renders at most as many requests at a time as the configuration says",
        few_are_rendered,
    ),
    Invariant(
        "SHM-3/early",
        "a worker has acknowledged no handle of a request that was not sent to the workers",
        cells_are_of_the_sent,
    ),
    Invariant(
        "SHM-8/deliveries", "each handle that a worker was sent is for an item that there is", deliveries_are_of_items
    ),
    Invariant("SHM-7/walks", "P0 walks one request at a time", one_walk_at_a_time),
    Invariant(
        "SHM-7/limited", "the requests that may still be rendered are limited as configured", renders_are_limited
    ),
    Invariant("SHM-10/written", "header and data of a chunk are visible or not", parts_are_numbers),
)

# Of a step ----------------------------------------------------------------------------------------------------------


def ended(move: Move, *codes: Code) -> bool:
    """How the operation ended."""
    return move.outcome.code in codes


def is_stored(move: Move) -> bool:
    """Whether a put has stored its item."""
    return type(move.operation) is Put and ended(move, Code.DONE)


def is_handed_out(move: Move) -> bool:
    """Whether the operation has issued a handle."""
    return is_stored(move) or (type(move.operation) is GetCached and ended(move, Code.HIT))


def shrunk(config: Any, before: Store, after: Store) -> SymbolicBoolean:
    """The oldest chunks are gone, and the others have the epochs that they had."""
    kept, were, are = after.ring.starts.members, before.epochs.values, after.epochs.values
    same = of_each(after.epochs, lambda one: z3.Implies(kept[one], were[one] == are[one]))
    return SymbolicBoolean(oldest_went(config, before.ring, after.ring)) & same


def oldest_go_first(part: int, move: Move) -> SymbolicBoolean:
    """SHM-6: those that stay are the youngest; behind them stands the new chunk, if there is one."""
    old, new = geometry(move.config, move.before), geometry(move.config, move.after)
    stored = 1 if is_stored(move) else 0
    gone, stayed = old.count - (new.count - stored), new.live[FIRST]
    if stored:
        stayed = z3.And(stayed, old.id_end != FIRST)
    young = z3.And(old.live[FIRST], old.age(FIRST) >= gone)
    epochs = move.before.epochs.values[FIRST] == move.after.epochs.values[FIRST]
    kept = z3.ForAll([FIRST], z3.And(stayed == young, z3.Implies(stayed, epochs)))
    last = z3.And(new.live[old.id_end], new.newest() == old.id_end) if stored else new.id_end == old.id_end
    first = z3.Implies(new.count > 0, new.id_start == old.aged(gone))
    return SymbolicBoolean((z3.And(gone >= 0, gone <= old.count), first, last, kept)[part])


def freed_are_reported(move: Move) -> SymbolicBoolean:
    """SHM-6/reported."""
    return SymbolicBoolean(gone_are_listed(move.config, move.before.ring, move.after.ring, move.outcome.values))


def metadata_is_bounded(move: Move) -> SymbolicBoolean:
    """SHM-4/bounded."""
    return SymbolicBoolean(move.after.metadata.length_term <= 2 * move.after.listed.length_term)


def chunk_is_named(move: Move) -> SymbolicBoolean:
    """SHM-2/named: address and id of the answer are those of the live chunk of the item."""
    address, identity = map(integer_term, move.outcome.values)
    content = integer_term(content_of(move.config, move.operation.request, move.operation.position))
    after = move.after
    there = z3.And(after.ring.starts.members[identity], after.ring.starts.values[identity] == address)
    return SymbolicBoolean(z3.And(there, after.owners.members[identity], after.owners.values[identity] == content))


def handed_out_is_unprotected(move: Move) -> SymbolicBoolean:
    """SHM-7/handed."""
    return SymbolicBoolean(z3.Not(move.after.protected.members[integer_term(move.outcome.values[1])]))


def what_blocks_is_not_handed_out(move: Move) -> SymbolicBoolean:
    """SHM-8/drained."""
    return both(move.outcome.values[1] != move.before.blocking)


def nothing_is_protected(move: Move) -> SymbolicBoolean:
    """SHM-8/released."""
    protected = move.after.protected
    return of_each(protected, lambda one: z3.Not(protected.members[one]))


def is_missed(store: Store, one: Term | None = None) -> Term:
    """Some worker has not acknowledged some ticket, of this chunk if one is given."""
    slot, tickets = z3.Const("slot", store.tickets.key.sort), store.tickets
    assume(SymbolicBoolean(someone_counts(tickets)))
    mine = z3.BoolVal(True) if one is None else tickets.values[slot] == one
    return z3.Exists([slot], z3.And(tickets.members[slot], mine, z3.Not(acknowledged(store.workers, slot))))


def oldest_is_needed(move: Move) -> SymbolicBoolean:
    """SHM-8/freed."""
    after, one = move.after, integer_term(move.after.ring.id_start)
    needed = z3.Or(is_missed(after, one), after.protected.members[one])
    return SymbolicBoolean(z3.Or(after.ring.starts.length_term == 0, needed))


def refusal_has_a_holder(move: Move) -> SymbolicBoolean:
    """SHM-8/room."""
    assume(SymbolicBoolean(someone_counts(move.after.tickets)))
    protected = move.before.protected
    return SymbolicBoolean(z3.Or(is_missed(move.before), some(protected.key, lambda one: protected.members[one])))


def identities_are_new(move: Move) -> SymbolicBoolean:
    """SHM-5: no handle has the id and the epoch of the new chunk."""
    identity = integer_term(move.outcome.values[1])
    epoch = move.after.epochs.values[identity]
    other = of_each_handle(
        move.before, lambda handle: z3.Not(z3.And(handle["identity"] == identity, handle["epoch"] == epoch))
    )
    return SymbolicBoolean(other)


def end_settles(move: Move) -> SymbolicBoolean:
    """X-3/store."""
    return handles_are_counted(move.config, move.after) & missing_are_out(move.config, move.after)


BOOKS = ("ring", "listed", "owners", "epochs", "issued", "tickets", "withdrawn", "protected", "metadata")
"""What P0 knows of chunks and handles."""


def books_are_the_same(move: Move) -> SymbolicBoolean:
    """P0 knows what it knew."""
    before, after = move.before, move.after
    rings = (getattr(before.ring, part) == getattr(after.ring, part) for part in ("id_start", "id_end", "start", "end"))
    maps = [(getattr(before, part), getattr(after, part)) for part in BOOKS if part != "ring"]
    maps += [(getattr(before.ring, part), getattr(after.ring, part)) for part in ("starts", "sizes")]
    return both(*rings, *(same_map(one, other) for one, other in maps))


def put_that_stores_nothing(move: Move) -> SymbolicBoolean:
    """SHM-7: after a refusal, each handle that some worker has not acknowledged is out for the same chunk."""
    same = move.before.workers is move.after.workers
    if not ended(move, Code.REFUSED):
        return both(same, move.before.memory is move.after.memory) & books_are_the_same(move)
    return both(same) & needed_stay(move.config, move.before, move.after)


def needed_stay(config: Any, before: Store, after: Store) -> SymbolicBoolean:
    """Handles that are missed at some worker, and protected chunks, are as they were; no item is handed out anew."""
    return missed_stay(before, after) & handed_out_less(before, after) & protected_stay(before, after)


LAWS = (
    Law(
        "SHM-5",
        "a new chunk never has the address and identity of a chunk that a handle may still name",
        (Put,),
        identities_are_new,
        is_stored,
    ),
    Law(
        "SHM-8/freed",
        "after a clear or a freeing of unused chunks, the oldest remaining chunk is still needed",
        (Clear, FreeUnused),
        oldest_is_needed,
    ),
    Law(
        "SHM-8/room",
        "an item is refused for lack of room only while some chunk is still needed",
        (Put,),
        refusal_has_a_holder,
        lambda move: ended(move, Code.REFUSED),
    ),
    Law(
        "X-3/store",
        "once P0 learns that a request ended, every chunk that nothing needs has all its handles acknowledged",
        (Reject, End),
        end_settles,
    ),
    Law(
        "SHM-4/bounded",
        "after a put, P0 keeps prompt updates for at most twice as many contents as it may hand out",
        (Put,),
        metadata_is_bounded,
        is_stored,
    ),
    *(
        Law(
            "SHM-6", "chunks are freed in the order in which they were created", FREEING, partial(oldest_go_first, part)
        )
        for part in range(4)
    ),
    Law(
        "SHM-6",
        "chunks are freed in the order in which they were created",
        tuple(one for one in EVERY_CALL if one not in FREEING),
        lambda move: move.before.ring is move.after.ring and move.before.epochs is move.after.epochs,
    ),
    Law(
        "SHM-6/reported",
        "a freeing of unused chunks answers with the ids of those that it freed, the oldest first",
        (FreeUnused,),
        freed_are_reported,
    ),
    Law(
        "SHM-7",
        "a put that stores nothing leaves P0's records unchanged, except for freed chunks without readers",
        (Put,),
        put_that_stores_nothing,
        lambda move: not is_stored(move),
    ),
    Law(
        "SHM-7/walk",
        "P0 never fails on an item: it hands out a handle or sends the payload",
        (Put, GetCached),
        lambda move: not ended(move, Code.FAILED),
    ),
    Law(
        "SHM-2/named",
        "the answer of a put or a look-up names the live chunk of its item",
        (Put, GetCached),
        chunk_is_named,
        is_handed_out,
    ),
    Law(
        "SHM-7/handed",
        "an item that is handed out needs no protection any more",
        (Put, GetCached),
        handed_out_is_unprotected,
        is_handed_out,
    ),
    Law(
        "SHM-8/drained",
        "P0 does not hand out again the chunk that blocked a refused item",
        (GetCached,),
        what_blocks_is_not_handed_out,
        is_handed_out,
    ),
    Law(
        "SHM-8/released",
        "after a release or a clear, no chunk is protected",
        (Release, Clear),
        nothing_is_protected,
        lambda move: ended(move, Code.DONE),
    ),
)
