"""The encoder cache in the proofs that follow items: which inputs hold what, what is resident, and how much is free.

Each stand-in for a call allows every result that the laws of the cache's own proof allow (`found`, `granted`, `fits`,
`ENC-1/taken`, `ENC-5/given`, `ENC-5/kept`, `ENC-6/entries` and others in `encoder_cache_laws.py`). An entry has the
size of its content (`ENC-4/content`), which is the length of each item that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.executor import NotFollowedError, SymbolicBoolean, Term, assume, integer_term, path
from cacheproof.prove.scheduler.queues import ANSWERS, INTEGERS
from cacheproof.prove.scheduler.stand_ins import any_answer, any_line
from cacheproof.prove.shapes import INTEGER, small_array
from cachespec import encoder_cache
from cachespec.kernel import DONE, HIT, MISS, PRESENT, REFUSED, Outcome
from cachespec.scheduler.configuration import CONTENT, LENGTH, START

PAIRS = z3.ArraySort(z3.IntSort(), ANSWERS)
"""Of each request, of each place of an item: yes or no."""


class ItemTerms(NamedTuple):
    """An item, over terms."""

    content: Term
    start: Term
    length: Term


def item_of(config: Any, request: Term, index: Term) -> ItemTerms:
    """The item at this place of the request."""
    row = config.items.items[request]
    item = row.sort().accessor(0, 0)(row)[index]
    return ItemTerms(*(item.sort().accessor(0, place)(item) for place in (CONTENT, START, LENGTH)))


def is_item(config: Any, request: Term, index: Term) -> Term:
    """Whether the request has an item at this place."""
    row = config.items.items[request]
    there = z3.And(request >= 0, request < config.items.length)
    return z3.And(there, index >= 0, index < row.sort().accessor(0, 1)(row))


def is_read(config: Any, request: Term, index: Term, start: Term, end: Term) -> Term:
    """Whether a chunk from `start` up to `end` reads the item, as the specification says."""
    item = item_of(config, request, index)
    first = z3.And(start == 0, end > 0)
    touched = z3.And(item.start < end, start < item.start + item.length)
    return z3.If(integer_term(config.encoder_decoder) == 1, first, touched)


def fresh_array(name: str, sort: Any) -> Term:
    """Any array; in a small counterexample it is blank but at a few places."""
    array = path().fresh(name, sort)
    path().hints.append(array == small(sort, name))
    return array


def small(sort: Any, name: str) -> Term:
    """An array, or an array of arrays, that is blank but at a few places."""
    inner = sort.range()
    if not z3.is_sort(inner) or inner.kind() != z3.Z3_ARRAY_SORT:
        return small_array(INTEGER, z3.BoolVal(False) if inner == z3.BoolSort() else z3.IntVal(0), name)
    array = z3.K(z3.IntSort(), z3.K(z3.IntSort(), z3.BoolVal(False)))
    for sample in INTEGER.samples:
        array = z3.Store(array, sample, small(inner, name))
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The encoder cache, and what the plan that is being made needs of it."""

    pairs: Term
    """The inputs that hold an entry: request and place of the item."""
    resident: Term
    """The contents that are there."""
    free: Term
    needed: Term
    """The items that chunks of this plan touch: request and place."""
    encoded: Term
    """The contents that this plan encodes."""
    encoders: Term
    """The request of the chunk that encodes each of them."""
    indices: Term
    """The place of the item, for which it is encoded."""

    @classmethod
    def fresh(cls, name: str) -> Entries:
        """Any cache, and any plan."""
        return cls(
            pairs=fresh_array(f"{name}.pairs", PAIRS),
            resident=fresh_array(f"{name}.resident", ANSWERS),
            free=path().fresh(f"{name}.free", z3.IntSort()),
            needed=fresh_array(f"{name}.needed", PAIRS),
            encoded=fresh_array(f"{name}.encoded", ANSWERS),
            encoders=fresh_array(f"{name}.encoders", INTEGERS),
            indices=fresh_array(f"{name}.indices", INTEGERS),
        )

    @classmethod
    def empty(cls, free: int) -> Entries:
        """An empty cache, and nothing planned."""
        none, zeros = z3.K(z3.IntSort(), z3.BoolVal(False)), z3.K(z3.IntSort(), z3.IntVal(0))
        pairs = z3.K(z3.IntSort(), none)
        return cls(pairs, none, z3.IntVal(free), pairs, none, zeros, zeros)

    def without_plan(self) -> Entries:
        """Nothing is planned yet."""
        none = Entries.empty(0)
        return replace(self, needed=none.needed, encoded=none.encoded)

    @property
    def held(self) -> Entries:
        """The inputs that are held."""
        return self

    def has(self, pair: Any) -> SymbolicBoolean:
        """Whether this one is."""
        request, index = (integer_term(part) for part in pair)
        return SymbolicBoolean(self.pairs[request][index])

    def law(self, config: Any) -> Term:
        """Every held content is resident (ENC-3, ENC-5), and free slots are not negative (ENC-1)."""
        request, index = z3.Ints("request index")
        there = self.resident[item_of(config, request, index).content]
        return z3.And(self.free >= 0, z3.ForAll([request, index], z3.Implies(self.pairs[request][index], there)))


def lets_go_of(before: Entries, after: Entries, request: Term) -> SymbolicBoolean:
    """No input of another request holds more or less."""
    other, index = z3.Ints("other index")
    same = after.pairs[other][index] == before.pairs[other][index]
    return SymbolicBoolean(z3.ForAll([other, index], z3.Implies(other != request, same)))


def holds_still(before: Entries, after: Entries, request: Term) -> SymbolicBoolean:
    """What the request has held it still holds."""
    index = z3.Int("index")
    still = z3.Implies(before.pairs[request][index], after.pairs[request][index])
    return SymbolicBoolean(z3.ForAll([index], still))


def fewer_entries(before: Entries, after: Entries) -> SymbolicBoolean:
    """Nothing has become resident."""
    content = z3.Int("content")
    return SymbolicBoolean(z3.ForAll([content], z3.Implies(after.resident[content], before.resident[content])))


def changed(before: Entries, config: Any, name: str, **sorts: Any) -> Entries:
    """The cache with any values of these parts that obey its law."""
    parts = {
        part: path().fresh(f"{name}.{part}", sort) if sort == z3.IntSort() else fresh_array(f"{name}.{part}", sort)
        for part, sort in sorts.items()
    }
    after = replace(before, **parts)
    path().assume(after.law(config))
    return after


def content(config: Any, operation: Any) -> Term:
    """What the input of the call shows."""
    return item_of(config, integer_term(operation.request), integer_term(operation.input)).content


def size(config: Any, operation: Any) -> Term:
    """The slots that it needs."""
    return item_of(config, integer_term(operation.request), integer_term(operation.input)).length


def with_pair(entries: Entries, operation: Any) -> Entries:
    """The input of the call holds its entry."""
    return replace(
        entries, pairs=with_one(entries.pairs, integer_term(operation.request), integer_term(operation.input))
    )


def with_one(pairs: Term, request: Term, index: Term) -> Term:
    """With the pair."""
    return z3.Store(pairs, request, z3.Store(pairs[request], index, z3.BoolVal(True)))


def looked_up(config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
    """A content that is resident is a hit, and held; another one is a miss."""
    if not SymbolicBoolean(entries.resident[content(config, operation)]):
        return entries, MISS
    return with_pair(entries, operation), HIT


def room_asked(config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
    """A yes makes the room at once: entries that no input holds are evicted."""
    if not any_answer():
        return entries, REFUSED
    after = changed(entries, config, "room", resident=ANSWERS, free=z3.IntSort())
    assume(fewer_entries(entries, after))
    path().assume(after.free >= size(config, operation) + integer_term(operation.pending))
    return after, DONE


def allocated(config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
    """A content that is absent and fits is allocated, and nothing is evicted for it."""
    if SymbolicBoolean(entries.resident[content(config, operation)]):
        return entries, PRESENT
    if SymbolicBoolean(entries.free < size(config, operation)):
        return entries, REFUSED
    after = with_pair(entries, operation)
    resident = z3.Store(entries.resident, content(config, operation), z3.BoolVal(True))
    return replace(after, resident=resident, free=entries.free - size(config, operation)), DONE


def given_up(config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
    """The request lets go of some inputs, and no entry is evicted."""
    after = changed(entries, config, "given_up", pairs=PAIRS, free=z3.IntSort())
    assume(lets_go_of(entries, after, integer_term(operation.request)))
    assume(holds_still(after, entries, integer_term(operation.request)))
    path().assume(after.free >= entries.free)
    return after, DONE


def finished(config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
    """The request holds nothing."""
    after, outcome = given_up(config, entries, operation)
    index, request = z3.Int("index"), integer_term(operation.request)
    path().assume(z3.ForAll([index], z3.Not(after.pairs[request][index])))
    return after, outcome


def reported(config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
    """Nothing changes but what is to be reported."""
    return entries, Outcome(DONE.code, any_line())


class CacheOfItems(NamedTuple):
    """In the place of a variant: a result for each call, which depends on the items of the scheduler."""

    calls: dict[type, Callable[[Any, Entries, Any], tuple[Entries, Outcome]]]

    def step(self, config: Any, entries: Entries, operation: Any) -> tuple[Entries, Outcome]:
        """Any result that the laws of the cache allow."""
        if type(operation) not in self.calls:
            raise NotFollowedError(f"nothing is known of {type(operation).__name__} in this proof")
        return self.calls[type(operation)](config, entries, operation)


ENCODER_WITH_ITEMS = CacheOfItems(
    {
        encoder_cache.CheckAndUpdate: looked_up,
        encoder_cache.CanAllocate: room_asked,
        encoder_cache.Allocate: allocated,
        encoder_cache.Abandon: given_up,
        encoder_cache.FreeRequest: finished,
        encoder_cache.Report: reported,
    }
)
