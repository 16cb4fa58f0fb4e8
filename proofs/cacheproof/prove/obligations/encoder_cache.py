"""The encoder cache, for any capacity, sizes, requests, inputs, sharing, and any number of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove import states
from cacheproof.prove.containers import every, sum_is_at_most
from cacheproof.prove.encoder_cache_laws import LAWS, evicted_in_order, evicted_is_listed, owner_of
from cacheproof.prove.executor import SymbolicBoolean, Term, assume, both, implies, integer_term
from cacheproof.prove.loops import Locals, Loop, modules_of
from cacheproof.prove.proof import Invariant, Move, Proof
from cacheproof.prove.sequences import length
from cacheproof.prove.states import unchanged_but
from cachespec import encoder_cache
from cachespec.encoder_cache import passes, transitions
from cachespec.encoder_cache.configuration import Config
from cachespec.encoder_cache.operations import (
    CanAllocate,
)
from cachespec.kernel import DONE

Cache = Any

NORMATIVE = encoder_cache.COMPONENT.normative


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
