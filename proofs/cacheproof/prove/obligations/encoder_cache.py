"""The encoder cache, for any capacity, sizes, requests, inputs, sharing, and any number of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.containers import every, everyone_counts, sum_is_at_most
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, implies, integer_term
from cacheproof.prove.loops import Locals, Loop, modules_of
from cacheproof.prove.proof import Invariant, Law, Move, Proof
from cacheproof.prove.sequences import length
from cacheproof.prove.states import unchanged, unchanged_but
from cachespec import encoder_cache
from cachespec.encoder_cache import passes, transitions
from cachespec.encoder_cache.configuration import Config, content_of, size_of
from cachespec.encoder_cache.operations import (
    Abandon,
    Allocate,
    CanAllocate,
    CheckAndUpdate,
    FreeInput,
    FreeRequest,
)
from cachespec.kernel import DONE, Code, Operation

Cache = Any

NORMATIVE = encoder_cache.COMPONENT.normative
EVERY_CALL: tuple[type[Operation], ...] = tuple(NORMATIVE.transitions)


def content_of_pair(config: Any) -> Callable[[Term], Term]:
    """The content of a request's input, over terms: the kind by which `held` is counted."""
    contents = config.requests

    def kind(pair: Term) -> Term:
        request, position = (pair.sort().accessor(0, place)(pair) for place in range(2))
        row = contents.items[request]
        return row.sort().accessor(0, 0)(row)[position]

    return kind


def counts_are_in_range(config: Any, cache: Cache) -> SymbolicBoolean:
    """ENC-1; that no more is freeable than the capacity is a law of sums."""
    assume(SymbolicBoolean(sum_is_at_most(cache.idle, cache.sizes)))
    return both(cache.free >= 0, cache.free <= cache.freeable, cache.freeable <= config.capacity)


def slots_are_conserved(config: Any, cache: Cache) -> SymbolicBoolean:
    """ENC-2."""
    return both(cache.free + cache.sizes.total == config.capacity)


def freeable_is_conserved(config: Any, cache: Cache) -> SymbolicBoolean:
    """ENC-2/freeable."""
    return both(cache.freeable == cache.free + cache.idle.total)


def idle_is_unreferenced(config: Any, cache: Cache) -> SymbolicBoolean:
    """ENC-3, and what is referred to is resident."""

    def right(content: Term) -> Term:
        resident, referenced = cache.sizes.members[content], cache.references.members[content]
        idle = cache.idle.members[content] == z3.And(resident, z3.Not(referenced))
        return z3.And(idle, z3.Implies(referenced, resident))

    return SymbolicBoolean(every(cache.sizes.key, right))


def gives_back_its_size(config: Any, cache: Cache) -> SymbolicBoolean:
    """The half of ENC-4 that slots depend on."""
    idle, sizes = cache.idle, cache.sizes
    return SymbolicBoolean(
        every(sizes.key, lambda key: z3.Implies(idle.members[key], idle.weights[key] == sizes.values[key]))
    )


def references_are_counted(config: Any, cache: Cache) -> SymbolicBoolean:
    """ENC-5: as many references as inputs that hold the content, and none where there are none."""
    counts, references = cache.held.tally.counts, cache.references

    def right(content: Term) -> Term:
        present = references.members[content] == (counts[content] > 0)
        return z3.And(
            counts[content] >= 0,
            present,
            z3.Implies(references.members[content], references.values[content] == counts[content]),
        )

    return SymbolicBoolean(every(references.key, right))


def freed_is_absent(config: Any, cache: Cache) -> SymbolicBoolean:
    """ENC-7."""
    freed, sizes = cache.freed, cache.sizes
    return SymbolicBoolean(every(sizes.key, lambda key: z3.Implies(freed.members[key], z3.Not(sizes.members[key]))))


def inputs_exist(config: Any, cache: Cache) -> SymbolicBoolean:
    """Only inputs of the configuration are held; where a loop does not know the configuration, it holds nothing new."""
    if config.requests is None:
        return both(True)
    requests = config.requests

    def right(pair: Term) -> Term:
        request, position = (pair.sort().accessor(0, place)(pair) for place in range(2))
        row = requests.items[request]
        inside = z3.And(position >= 0, position < row.sort().accessor(0, 1)(row))
        return z3.Implies(cache.held.members[pair], inside)

    return SymbolicBoolean(every(cache.held.key, right))


INVARIANTS = (
    Invariant("ENC-1", "0 <= free <= freeable <= capacity", counts_are_in_range),
    Invariant("ENC-2", "the free slots and the sizes of the resident entries sum to the capacity", slots_are_conserved),
    Invariant(
        "ENC-2/freeable",
        "the freeable slots are the free slots plus the sizes of the unreferenced entries",
        freeable_is_conserved,
    ),
    Invariant(
        "ENC-3", "the eviction order contains exactly the resident entries without references", idle_is_unreferenced
    ),
    Invariant("ENC-4/idle", "an entry releases exactly the slots that it took", gives_back_its_size),
    Invariant(
        "ENC-5",
        "the reference count of an entry equals the number of inputs that hold its content",
        references_are_counted,
    ),
    Invariant("ENC-7", "no entry awaiting a report as dropped is resident", freed_is_absent),
    Invariant("ENC-5/inputs", "only inputs that there are are held", inputs_exist),
)


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
)


def fresh(kind: Any, name: str) -> Any:
    """Any value. What a valid configuration says of its sizes, contents and claims is assumed where one is read."""
    value = states.fresh(kind, name)
    if kind is not Config:
        return value
    sizes, requests, claims = value.sizes, value.requests, value.claims
    assume(implies(length(claims) > 0, length(claims) == length(requests)))

    def not_negative(place: Term, number: Any) -> Any:
        assume(number >= 0)
        return number

    def a_content(place: Term, content: Any) -> Any:
        assume(both(content >= 0, content < length(sizes)))
        return content

    def a_request(place: Term, contents: Any) -> Any:
        return replace(contents, seen=a_content)

    def claims_of(place: Term, claimed: Any) -> Any:
        assume(length(claimed) == length(requests.element.decode(requests.items[place])))
        return replace(claimed, seen=not_negative)

    return value._replace(
        sizes=replace(sizes, seen=not_negative),
        requests=replace(requests, seen=a_request),
        claims=replace(claims, seen=claims_of),
    )


def environment(config: Any, operation: Any) -> Iterable[Any]:
    """A capacity, and a call that names a request and an input that there are."""
    yield config.capacity > 0
    if hasattr(operation, "request"):
        yield both(operation.request >= 0, operation.request < length(config.requests))
    if hasattr(operation, "input"):
        contents = config.requests[operation.request]
        yield both(operation.input >= 0, operation.input < length(contents))
    if type(operation) is CanAllocate:
        yield operation.pending >= 0


def preserved(*changed: str) -> Callable[[Locals, Locals], Iterable[Any]]:
    """The invariants hold at every turn, entries only leave, and nothing but these fields is touched."""

    def invariant(entry: Locals, now: Locals) -> Iterable[Any]:
        before, cache = entry["cache"], now["cache"]
        requests = entry["config"].requests if "config" in entry else None
        capacity = SimpleNamespace(capacity=before.free + before.sizes.total, requests=requests)
        yield from (one.holds(capacity, cache) for one in INVARIANTS)
        yield unchanged_but(before, cache, *changed)
        yield entries_only_leave(before, cache)

    return invariant


def entries_only_leave(before: Cache, after: Cache) -> SymbolicBoolean:
    """What is resident was so before, with the same size."""
    earlier, later = before.sizes, after.sizes

    def same(key: Term) -> Term:
        return z3.Implies(later.members[key], z3.And(earlier.members[key], earlier.values[key] == later.values[key]))

    return SymbolicBoolean(every(earlier.key, same))


def evicting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The oldest go first, and what is needed can still be had."""
    yield from preserved("free", "sizes", "idle", "freed")(entry, now)
    yield now["needed"] <= now["cache"].freeable
    before, after = entry["cache"], now["cache"]
    yield evicted_in_order(Move(None, before, None, DONE, after))
    yield stamps_are_kept(before.idle, after.idle)
    yield evicted_is_listed(before, after)


def stamps_are_kept(before: Any, after: Any) -> SymbolicBoolean:
    """The later queue is the earlier one without some of its members."""

    def kept(key: Term) -> Term:
        return z3.Implies(after.members[key], z3.And(before.members[key], before.stamps[key] == after.stamps[key]))

    return SymbolicBoolean(every(before.key, kept))


def nothing_more(entry: Locals, now: Locals) -> Iterable[Any]:
    """The loop that empties a queue needs no invariant."""
    return ()


def idle_entries(local: Locals) -> Any:
    """The measure of a loop that evicts."""
    return local["cache"].idle.length


def freed_entries(local: Locals) -> Any:
    """The measure of a loop that reports."""
    return local["cache"].freed.length


def letting_go(*changed: str) -> Callable[[Locals, Locals], Iterable[Any]]:
    """Nothing is held that was not held before."""

    def invariant(entry: Locals, now: Locals) -> Iterable[Any]:
        yield from preserved(*changed)(entry, now)
        before, after = entry["cache"].held, now["cache"].held
        yield SymbolicBoolean(every(before.key, lambda pair: z3.Implies(after.members[pair], before.members[pair])))

    return invariant


def pair_is_before(pair: Term, now: Locals, request: Term) -> Term:
    """Whether the pair is one of the request's inputs that the loop has visited."""
    position, place = pair.sort().accessor(0, 1)(pair), integer_term(now["position_at"])
    return z3.And(owner_of(pair) == request, position >= 0, position < place)


def freeing(entry: Locals, now: Locals) -> Iterable[Any]:
    """Of the request's inputs, those before this place hold nothing; the others hold what they held."""
    yield from RELEASING(entry, now)
    before, after, request = entry["cache"], now["cache"], integer_term(now["op"].request)
    yield both(now["position_at"] >= 0, now["position_at"] <= length(now["position_all"]))

    def right(pair: Term) -> Term:
        visited = pair_is_before(pair, now, request)
        kept = after.attempted.members[pair] == before.attempted.members[pair]
        return z3.And(
            after.held.members[pair] == z3.And(before.held.members[pair], z3.Not(visited)),
            z3.Implies(owner_of(pair) != request, kept),
        )

    yield SymbolicBoolean(every(before.held.key, right))


def undoing(entry: Locals, now: Locals) -> Iterable[Any]:
    """Likewise, of those inputs that the attempt has pinned."""
    yield from RELEASING(entry, now)
    before, after, request = entry["cache"], now["cache"], integer_term(now["op"].request)
    yield both(now["position_at"] >= 0, now["position_at"] <= length(now["position_all"]))

    def right(pair: Term) -> Term:
        visited = pair_is_before(pair, now, request)
        undone = z3.And(visited, before.attempted.members[pair])
        kept = after.attempted.members[pair] == before.attempted.members[pair]
        return z3.And(
            after.held.members[pair] == z3.And(before.held.members[pair], z3.Not(undone)),
            z3.Implies(z3.Not(visited), kept),
        )

    yield SymbolicBoolean(every(before.held.key, right))


def admitting(entry: Locals, now: Locals) -> Iterable[Any]:
    """The attempts of other requests go on."""
    yield from preserved("attempted")(entry, now)
    before, after, request = entry["cache"].attempted, now["cache"].attempted, integer_term(now["request"])

    def right(pair: Term) -> Term:
        return z3.Implies(owner_of(pair) != request, after.members[pair] == before.members[pair])

    yield SymbolicBoolean(every(before.key, right))


RELEASING = preserved("references", "held", "attempted", "idle", "freeable")
ROW = "loops"

LOOPS = (
    Loop(passes.emptied, ROW, nothing_more, (lambda local: local["queue"].length,)),
    Loop(passes.admitted, ROW, admitting),
    Loop(passes.withdraw, ROW, preserved("promised")),
    Loop(transitions.make_room, ROW, evicting, (idle_entries,)),
    Loop(transitions.free_request, ROW, freeing, in_order=True),
    Loop(transitions.abandon, ROW, undoing, in_order=True),
    Loop(transitions.cached_inputs, ROW, preserved()),
    Loop(transitions.report, ROW, preserved("freed"), (freed_entries,)),
    Loop(
        transitions.reset,
        ROW,
        letting_go("references", "held", "attempted", "idle", "freeable", "free", "sizes", "freed"),
        (idle_entries, freed_entries),
    ),
)

PROOF = Proof(
    component="encoder_cache",
    variant=NORMATIVE,
    config=Config,
    invariants=INVARIANTS,
    laws=LAWS,
    witnesses=(
        Config(capacity=3, sizes=(1, 2), requests=((0, 1), (1, 0)), failures=1, resets=1),
        Config(capacity=2, sizes=(1, 2), requests=((0, 0), (1,)), claims=((1, 1), (1,)), budgets=(0, 2)),
    ),
    environment=environment,
    loops=LOOPS,
    modules=modules_of(encoder_cache),
    tallies={"held": content_of_pair},
    fresh=fresh,
)

PROOFS = (PROOF,)
