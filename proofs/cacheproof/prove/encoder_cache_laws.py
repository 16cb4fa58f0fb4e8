"""What holds of each step of an encoder cache, for any sizes."""

from __future__ import annotations

from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import every, everyone_counts
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, implies, integer_term
from cacheproof.prove.proof import Law, Move
from cacheproof.prove.sequences import length
from cacheproof.prove.states import unchanged
from cachespec import encoder_cache
from cachespec.encoder_cache.configuration import content_of, size_of
from cachespec.encoder_cache.operations import (
    Abandon,
    Allocate,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
    Reset,
)
from cachespec.kernel import Code, Operation

Cache = Any

EVERY_CALL: tuple[type[Operation], ...] = tuple(encoder_cache.COMPONENT.normative.transitions)


def pinned_stays(move: Move) -> SymbolicBoolean:
    """What is resident and held by an input that still holds it afterwards is resident afterwards."""
    before, after = move.before, move.after
    kind = before.held.tally.kind
    assume(SymbolicBoolean(everyone_counts(after.held)))

    def stays(pair: Term) -> Term:
        still = z3.And(before.held.members[pair], after.held.members[pair])
        return z3.Implies(still, after.sizes.members[kind(pair)])

    return SymbolicBoolean(every(before.held.key, stays))


def sizes_are_constant(move: Move) -> SymbolicBoolean:
    """ENC-4/constant."""
    before, after = move.before.sizes, move.after.sizes

    def same(key: Term) -> Term:
        return z3.Implies(z3.And(before.members[key], after.members[key]), before.values[key] == after.values[key])

    return SymbolicBoolean(every(before.key, same))


def evicted_in_order(move: Move) -> SymbolicBoolean:
    """ENC-12: whatever was evicted had been idle for longer than what was idle and stays."""
    before, after = move.before, move.after
    other = z3.Int("other")

    def justified(victim: Term) -> Term:
        gone = z3.And(before.idle.members[victim], z3.Not(after.sizes.members[victim]))
        stays = z3.And(before.idle.members[other], after.sizes.members[other])
        return z3.Implies(z3.And(gone, stays), before.idle.stamps[victim] < before.idle.stamps[other])

    return SymbolicBoolean(every(before.idle.key, lambda victim: z3.ForAll([other], justified(victim))))


def evicted_is_listed(before: Cache, after: Cache) -> SymbolicBoolean:
    """ENC-7/once, for what is evicted: it waits for the report."""

    def listed(key: Term) -> Term:
        gone = z3.And(before.sizes.members[key], z3.Not(after.sizes.members[key]))
        return z3.Implies(gone, after.freed.members[key])

    return SymbolicBoolean(every(before.sizes.key, listed))


def resident_as_claimed(move: Move) -> SymbolicBoolean:
    """The premise of a hit: the content is there, with the size that this input claims."""
    request, position = move.operation.request, move.operation.input
    content = content_of(move.config, request, position)
    there = move.before.sizes.get(content, 0) == size_of(move.config, request, position)
    return both(move.before.sizes.has(content), there)


def is_hit_and_held(move: Move) -> SymbolicBoolean:
    """The input refers to the entry from now on."""
    return both(move.outcome.code is Code.HIT, move.after.held.has((move.operation.request, move.operation.input)))


def has_room(move: Move) -> SymbolicBoolean:
    """What is asked for, beside what was promised, fits the freeable slots and the budget."""
    size = size_of(move.config, move.operation.request, move.operation.input)
    return both(size <= move.operation.budget, size + move.operation.pending <= move.before.freeable)


def room_is_made(move: Move) -> SymbolicBoolean:
    """The slots are free at once."""
    size = size_of(move.config, move.operation.request, move.operation.input)
    return both(move.outcome.code is Code.DONE, move.after.free >= size + move.operation.pending)


def absent_and_fits(move: Move) -> SymbolicBoolean:
    """The premise of an allocation."""
    request, position = move.operation.request, move.operation.input
    fits = size_of(move.config, request, position) <= move.before.free
    return both(fits) & ~both(move.before.sizes.has(content_of(move.config, request, position)))


def is_resident_and_held(move: Move) -> SymbolicBoolean:
    """The entry is there with its size, and the input holds it."""
    request, position = move.operation.request, move.operation.input
    size = move.after.sizes.get(content_of(move.config, request, position), -1)
    there = size == size_of(move.config, request, position)
    return both(move.outcome.code is Code.DONE, there, move.after.held.has((request, position)))


def not_held(move: Move) -> SymbolicBoolean:
    """The input holds nothing."""
    return ~both(move.before.held.has((move.operation.request, move.operation.input)))


def owner_of(pair: Term) -> Term:
    """The request of a pair of request and input, over terms."""
    return pair.sort().accessor(0, 0)(pair)


def finished_holds_nothing(move: Move) -> SymbolicBoolean:
    """ENC-5/finished."""
    held, request = move.after.held, integer_term(move.operation.request)
    return SymbolicBoolean(
        every(held.key, lambda pair: z3.Implies(owner_of(pair) == request, z3.Not(held.members[pair])))
    )


def attempt_is_undone(move: Move) -> SymbolicBoolean:
    """ENC-11: what the attempt has pinned is let go, and nothing else; the same entries are resident."""
    before, after, request = move.before, move.after, integer_term(move.operation.request)

    def right(pair: Term) -> Term:
        undone = z3.And(before.attempted.members[pair], owner_of(pair) == request)
        return after.held.members[pair] == z3.And(before.held.members[pair], z3.Not(undone))

    same = every(before.sizes.key, lambda key: before.sizes.members[key] == after.sizes.members[key])
    return SymbolicBoolean(z3.And(every(before.held.key, right), same))


def only_the_input_is_given(move: Move) -> SymbolicBoolean:
    """No call but a look-up and an allocation makes an input hold anything, and those only the input that they name."""
    before, after, operation = move.before.held, move.after.held, move.operation

    def right(pair: Term) -> Term:
        new = z3.And(after.members[pair], z3.Not(before.members[pair]))
        if type(operation) not in (CheckAndUpdate, Allocate):
            return z3.Not(new)
        return z3.Implies(new, pair == after.key.encode((operation.request, operation.input)))

    return SymbolicBoolean(every(before.key, right))


def pins_are_noted(move: Move) -> SymbolicBoolean:
    """What an attempt has pinned is known as such until its request is admitted, or the pass ends."""
    before, after = move.before, move.after
    admitted = integer_term(move.operation.request) if type(move.operation) is Allocate else None

    def right(pair: Term) -> Term:
        was, is_now = (z3.And(one.held.members[pair], z3.Not(one.attempted.members[pair])) for one in (before, after))
        mine = z3.BoolVal(False) if admitted is None else owner_of(pair) == admitted
        return z3.Implies(is_now, z3.Or(was, mine))

    return SymbolicBoolean(every(before.held.key, right))


def only_the_named_lets_go(move: Move) -> SymbolicBoolean:
    """No input lets go of its entry but the one that is freed, those of the request that is, and all at a reset."""
    before, after, operation = move.before.held, move.after.held, move.operation
    if type(operation) is Reset:
        return both(True)

    def right(pair: Term) -> Term:
        named = z3.BoolVal(False)
        if type(operation) in (FreeRequest, Abandon):
            named = owner_of(pair) == integer_term(operation.request)
        if type(operation) is FreeInput:
            named = pair == after.key.encode((operation.request, operation.input))
        return z3.Implies(z3.And(before.members[pair], z3.Not(after.members[pair])), named)

    return SymbolicBoolean(every(before.key, right))


def entries_come_and_go(move: Move) -> SymbolicBoolean:
    """An allocation alone makes its content resident; a request for room and a reset alone evict."""
    before, after, operation = move.before.sizes, move.after.sizes, move.operation
    comes, goes = z3.BoolVal(False), z3.BoolVal(type(operation) in (CanAllocate, Reset))
    if type(operation) is Allocate:
        comes = integer_term(content_of(move.config, operation.request, operation.input))

    def right(key: Term) -> Term:
        new = z3.And(after.members[key], z3.Not(before.members[key]))
        gone = z3.And(before.members[key], z3.Not(after.members[key]))
        allowed = key == comes if type(operation) is Allocate else comes
        return z3.And(z3.Implies(new, allowed), z3.Implies(gone, goes))

    return SymbolicBoolean(every(before.key, right))


def free_slots_are_taken(move: Move) -> SymbolicBoolean:
    """An allocation takes the slots of its entry."""
    before, after, operation = move.before, move.after, move.operation
    if type(operation) is Allocate and move.outcome.code is Code.DONE:
        return both(after.free == before.free - size_of(move.config, operation.request, operation.input))
    return both(after.free == before.free)


def have_the_size_of_their_content(config: Any, cache: Cache) -> SymbolicBoolean:
    """Every entry has the size of its content."""
    sizes = cache.sizes
    return SymbolicBoolean(
        every(sizes.key, lambda key: z3.Implies(sizes.members[key], sizes.values[key] == config.sizes.items[key]))
    )


def sizes_are_those_of_contents(move: Move) -> SymbolicBoolean:
    """Where inputs claim no sizes of their own, entries keep the sizes of their contents; at first there is none."""
    before, after = (have_the_size_of_their_content(move.config, cache) for cache in (move.before, move.after))
    return implies(both(length(move.config.claims) == 0) & before, after)


def is_granted(move: Move) -> SymbolicBoolean:
    """The room that was asked for is free."""
    size = size_of(move.config, move.operation.request, move.operation.input)
    return both(move.after.free >= size + move.operation.pending)


def is_absent(move: Move) -> SymbolicBoolean:
    """What the input shows is not resident."""
    return ~both(move.before.sizes.has(content_of(move.config, move.operation.request, move.operation.input)))


def present_or_too_large(move: Move) -> SymbolicBoolean:
    """The content is resident already, or does not fit the free slots."""
    size = size_of(move.config, move.operation.request, move.operation.input)
    return ~is_absent(move) | both(size > move.before.free)


LAWS = (
    Law("ENC-5/finished", "no entry has a reference from a finished request", (FreeRequest,), finished_holds_nothing),
    Law(
        "ENC-11",
        "an abandoned admission attempt restores the references from before it",
        (Abandon,),
        attempt_is_undone,
    ),
    Law(
        "ENC-5/given",
        "only a look-up and an allocation let an input hold an entry",
        EVERY_CALL,
        only_the_input_is_given,
    ),
    Law(
        "ENC-11/noted",
        "what an attempt has pinned is known as such until its request is admitted",
        (CheckAndUpdate, CanAllocate, Allocate, FreeInput, FreeRequest, Abandon),
        pins_are_noted,
        lambda move: move.config.failures != 0,
    ),
    Law("ENC-4/constant", "the size of a resident entry never changes", EVERY_CALL, sizes_are_constant),
    Law("ENC-6", "an entry is not evicted while a request holds it", EVERY_CALL, pinned_stays),
    Law(
        "ENC-10",
        "releasing what is not held changes nothing, and says so",
        (FreeInput,),
        lambda move: both(move.outcome.code is Code.ABSENT, unchanged(move.before, move.after)),
        not_held,
    ),
    Law(
        "ENC-7/once",
        "what is evicted waits for the report",
        (CanAllocate,),
        lambda move: evicted_is_listed(move.before, move.after),
    ),
    Law(
        "found",
        "what is resident with the claimed size is a hit, and held",
        (CheckAndUpdate,),
        is_hit_and_held,
        resident_as_claimed,
    ),
    Law("ENC-12", "the entry that has been unreferenced longest is evicted first", (CanAllocate,), evicted_in_order),
    Law(
        "room",
        "where budget and freeable slots suffice, the room is made at once",
        (CanAllocate,),
        room_is_made,
        has_room,
    ),
    Law(
        "fits",
        "what is absent and fits the free slots is allocated",
        (Allocate,),
        is_resident_and_held,
        absent_and_fits,
    ),
    Law(
        "refused",
        "a refusal changes nothing",
        (CanAllocate, Allocate, CheckAndUpdate),
        lambda move: unchanged(move.before, move.after),
        lambda move: move.outcome.code in (Code.REFUSED, Code.PRESENT, Code.MISS),
    ),
    Law(
        "ENC-5/kept",
        "an input holds its entry until it or its request is freed, its attempt is abandoned, or the cache is reset",
        EVERY_CALL,
        only_the_named_lets_go,
    ),
    Law(
        "ENC-6/entries",
        "only an allocation makes a content resident, and only a request for room or a reset evicts",
        EVERY_CALL,
        entries_come_and_go,
    ),
    Law(
        "ENC-1/taken",
        "without an eviction only an allocation changes the free slots: it takes those of its entry",
        tuple(one for one in EVERY_CALL if one not in (CanAllocate, Reset)),
        free_slots_are_taken,
    ),
    Law(
        "ENC-4/content",
        "if inputs claim no sizes, every entry has the size of its content",
        EVERY_CALL,
        sizes_are_those_of_contents,
    ),
    Law(
        "granted",
        "what was granted is free at once",
        (CanAllocate,),
        is_granted,
        lambda move: both(move.outcome.code is Code.DONE),
    ),
    Law(
        "missed",
        "what is not resident is a miss",
        (CheckAndUpdate,),
        lambda move: both(move.outcome.code is Code.MISS),
        is_absent,
    ),
    Law(
        "denied",
        "what is resident or does not fit is not allocated",
        (Allocate,),
        lambda move: both(move.outcome.code in (Code.PRESENT, Code.REFUSED)),
        present_or_too_large,
    ),
)
