"""The byte-weighted cache by recency, for any capacity, any keys, any sizes and any number of entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every, member_outside
from cacheproof.prove.executor import SymbolicBoolean, both, implies
from cacheproof.prove.loops import Locals, Loop
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.states import unchanged, unchanged_but
from cachespec import lru
from cachespec.kernel import Code

Cache = Any


def order_is_entries(config: Any, cache: Cache) -> SymbolicBoolean:
    """LRU-1."""
    return SymbolicBoolean(every(cache.order.key, lambda key: cache.order.members[key] == cache.entries.members[key]))


def bytes_are_counted(config: Any, cache: Cache) -> SymbolicBoolean:
    """LRU-2."""
    return both(cache.used == cache.entries.total, cache.used <= config.capacity)


def pins_are_entries(config: Any, cache: Cache) -> SymbolicBoolean:
    """Stronger than LRU-3: a pin counts the bytes of its entry."""

    def alike(key: Any) -> Any:
        present = z3.And(cache.entries.members[key], cache.pinned.values[key] == cache.entries.values[key])
        return z3.Implies(cache.pinned.members[key], present)

    return SymbolicBoolean(every(cache.pinned.key, alike))


def counters_agree(config: Any, cache: Cache) -> SymbolicBoolean:
    """LRU-4."""
    return both(cache.hits <= cache.total, cache.reported_hits <= cache.hits, cache.reported_total <= cache.total)


def fits(config: Any, cache: Cache, key: Any, size: Any) -> SymbolicBoolean:
    """There is room, counting what the key itself holds; said anew, so that the transitions' own test is checked."""
    return both(cache.used - cache.entries.get(key, 0) + size <= config.capacity)


def fits_beside_the_pins(config: Any, cache: Cache, key: Any, size: Any) -> SymbolicBoolean:
    """There would be room if everything went that is not pinned."""
    return both(cache.pinned.total - cache.pinned.get(key, 0) + size <= config.capacity)


def loop_has_a_victim(config: Any, cache: Cache) -> SymbolicBoolean:
    """While a put is in progress, room lacks, and the pins leave enough of it."""
    key, size = cache.putting, cache.putting_size
    idle, putting = cache.doing == lru.IDLE, cache.doing == lru.PUTTING
    going_on = both(
        size >= 0,
        size <= config.capacity,
        ~fits(config, cache, key, size),
        fits_beside_the_pins(config, cache, key, size),
    )
    return both(idle | putting, implies(putting, going_on))


INVARIANTS = (
    Invariant("LRU-1", "the recency order contains exactly the cached entries", order_is_entries),
    Invariant(
        "LRU-2", "the byte count equals the sum of the entry sizes and is at most the capacity", bytes_are_counted
    ),
    Invariant("LRU-3", "every pinned key is in the cache and counted with the bytes of its entry", pins_are_entries),
    Invariant("LRU-4", "hits never exceed look-ups, and reported counts never exceed counted ones", counters_agree),
    Invariant("LRU-6/room", "a call that evicts lacks room, and the pinned keys leave enough", loop_has_a_victim),
)


def gone(move: Move, key: Any) -> Any:
    """The key has left the cache in this step."""
    return z3.And(move.before.entries.members[key], z3.Not(move.after.entries.members[key]))


def membership_stays(move: Move) -> SymbolicBoolean:
    """LRU-5."""
    before, after = move.before.entries, move.after.entries
    return SymbolicBoolean(every(before.key, lambda key: before.members[key] == after.members[key]))


def evicted_are_oldest(move: Move) -> SymbolicBoolean:
    """Whatever leaves, all that is older and not pinned leaves too; what is pinned stays."""
    order, pinned = move.before.order, move.before.pinned

    def justified(victim: Any, other: Any) -> Any:
        passed_over = z3.And(order.members[other], z3.Not(pinned.members[other]), z3.Not(gone(move, other)))
        return z3.Implies(z3.And(gone(move, victim), passed_over), order.stamps[victim] < order.stamps[other])

    pairs = every(order.key, lambda victim: z3.ForAll([OTHER], justified(victim, OTHER)))
    kept = every(order.key, lambda key: z3.Implies(pinned.members[key], z3.Not(gone(move, key))))
    return SymbolicBoolean(z3.And(pairs, kept))


OTHER = z3.Int("other")


def others_keep_their_order(move: Move) -> SymbolicBoolean:
    """Of what stays and was not named, nothing changes; the key that was named is the most recent."""
    before, after = move.before.order, move.after.order
    named = move.operation.key.term if hasattr(move.operation, "key") else move.before.putting.term

    def same(key: Any) -> Any:
        other = z3.And(after.members[key], key != named)
        return z3.Implies(other, z3.And(before.members[key], before.stamps[key] == after.stamps[key]))

    def newest(key: Any) -> Any:
        older = z3.And(after.members[key], after.members[named], key != named)
        return z3.Implies(older, after.stamps[key] < after.stamps[named])

    return both(
        SymbolicBoolean(every(before.key, same)),
        implies(stored(move) | used(move), SymbolicBoolean(every(before.key, newest))),
    )


def stored(move: Move) -> Any:
    """The call has put its key."""
    return both(
        type(move.operation) in (lru.Put, lru.Evict), move.outcome.code is Code.DONE, move.after.doing == lru.IDLE
    )


def used(move: Move) -> Any:
    """The call has touched its key."""
    return both(type(move.operation) in (lru.Get, lru.Lookup, lru.Touch), move.outcome.code in (Code.HIT, Code.DONE))


def a_turn_shrinks(move: Move) -> SymbolicBoolean:
    """Without a victim the order would stay as long as it is; the newcomer may have been a victim itself."""
    grown = move.after.order.length_term - z3.If(stored(move).term, z3.IntVal(1), z3.IntVal(0))
    return SymbolicBoolean(z3.And(grown < move.before.order.length_term, grown >= 0))


def everything_is_gone(move: Move) -> SymbolicBoolean:
    """After clearing."""
    nobody = SymbolicBoolean(every(move.after.entries.key, lambda key: z3.Not(move.after.entries.members[key])))
    return both(nobody, move.after.hits == 0, move.after.total == 0)


def is_counted(move: Move) -> SymbolicBoolean:
    """A hit counts twice, as a hit and as a look-up; a miss of `get` as a look-up, a miss of `[]` not at all."""
    before, after, hit = move.before, move.after, move.outcome.code is Code.HIT
    looked_up = hit or type(move.operation) is lru.Get
    return both(after.hits == before.hits + int(hit), after.total == before.total + int(looked_up))


def report_is_the_difference(move: Move) -> SymbolicBoolean:
    """What was counted since the last report; and the next one begins here."""
    before, after = move.before, move.after
    hits, total = move.outcome.values
    counted = both(hits == before.hits - before.reported_hits, total == before.total - before.reported_total)
    return both(counted, after.reported_hits == after.hits, after.reported_total == after.total)


def it_was_there(move: Move) -> SymbolicBoolean:
    """The premise of a call about a key that is present."""
    return both(move.before.entries.has(move.operation.key))


def only_it_is_gone(move: Move) -> SymbolicBoolean:
    """The key is not there any more, and every other one is."""
    before, after, named = move.before.entries, move.after.entries, move.operation.key.term
    stays = every(before.key, lambda key: after.members[key] == z3.And(before.members[key], key != named))
    return both(move.outcome.code is Code.DONE, SymbolicBoolean(stays))


def it_is_there(move: Move) -> SymbolicBoolean:
    """The key that was put has the size that was given."""
    operation, after = move.operation, move.after
    return both(after.entries.has(operation.key), after.entries.get(operation.key, -1) == operation.size)


def fits_at_once(move: Move) -> SymbolicBoolean:
    """The loop would not run."""
    return fits(move.config, move.before, move.operation.key, move.operation.size)


def can_be_made_to_fit(move: Move) -> SymbolicBoolean:
    """The pins leave enough room."""
    beside = fits_beside_the_pins(move.config, move.before, move.operation.key, move.operation.size)
    return both(move.operation.size <= move.config.capacity, beside)


LAWS = (
    Law("LRU-4/counted", "each look-up is counted once, as a hit or a miss", (lru.Get, lru.Lookup), is_counted),
    Law(
        "LRU-4/report",
        "a report covers exactly the look-ups since the previous report",
        (lru.Stat,),
        report_is_the_difference,
    ),
    Law(
        "LRU-5",
        "touching and querying never change the content of the cache",
        (lru.Touch, lru.Contains),
        membership_stays,
    ),
    Law(
        "LRU-6",
        "each turn of the eviction loop evicts an entry: the order without the newcomer becomes shorter",
        (lru.Evict,),
        a_turn_shrinks,
        lambda move: move.before.doing == lru.PUTTING,
    ),
    Law(
        "LRU-7",
        "the evicted key is the least recently used one that is not pinned",
        (lru.Put, lru.Evict),
        evicted_are_oldest,
    ),
    Law(
        "LRU-7/order",
        "what is used or stored becomes the most recent, and the rest keeps its order",
        (lru.Put, lru.Evict, lru.Get, lru.Lookup, lru.Touch),
        others_keep_their_order,
    ),
    Law(
        "LRU-8",
        "what cannot fit changes nothing",
        (lru.Put,),
        lambda move: unchanged(move.before, move.after),
        lambda move: move.outcome.code in (Code.TOO_LARGE, Code.REFUSED),
    ),
    Law(
        "fits",
        "what fits without evicting is stored at once",
        (lru.Put,),
        lambda move: both(move.outcome.code is Code.DONE, move.after.doing == lru.IDLE, it_is_there(move)),
        lambda move: fits_at_once(move) & can_be_made_to_fit(move),
    ),
    Law(
        "accepted",
        "what fits beside the pins is not refused",
        (lru.Put,),
        lambda move: move.outcome.code is Code.DONE,
        can_be_made_to_fit,
    ),
    Law("popped", "what is popped is gone, and nothing else", (lru.Pop,), only_it_is_gone, it_was_there),
    Law(
        "pinned",
        "what is present can be pinned",
        (lru.Pin,),
        lambda move: both(move.outcome.code is Code.DONE, move.after.pinned.has(move.operation.key)),
        it_was_there,
    ),
    Law("cleared", "nothing is left, and the counters start again", (lru.Clear,), everything_is_gone),
)


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A valid configuration; callers name no negative size."""
    yield config.capacity > 0
    if type(operation) is lru.Put:
        yield operation.size >= 0


def lemmas(config: Any, cache: Cache, operation: Any) -> Iterable[Any]:
    """While room lacks beside the pins, something is not pinned."""
    if type(operation) is lru.Evict:
        yield SymbolicBoolean(member_outside(cache.pinned, cache.entries, cache.putting))


def loop_of_clear(entry: Locals, now: Locals) -> Iterable[Any]:
    """The invariants, and a frame: the loop touches only the fields that `without` changes."""
    config, cache = now["config"], now["cache"]
    yield from (invariant.holds(config, cache) for invariant in INVARIANTS)
    yield unchanged_but(entry["cache"], cache, "entries", "order", "used", "pinned")


PROOF = Proof(
    component="lru",
    variant=lru.COMPONENT.normative,
    config=lru.Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(
        lru.Config(capacity=3, sizes=(1, 2), grown=(2, 3), lookups=2, pins=1),
        lru.Config(capacity=2, sizes=(1, 1, 3), lookups=1, pins=1),
    ),
    environment=environment,
    lemmas=lemmas,
    loops=(Loop(lru.clear, "LRU-6", loop_of_clear, (lambda local: local["cache"].order.length,)),),
)

PROOFS = (PROOF,)
