"""The laws that the proofs assume of maps and queues, on the frozen containers.

`prove/containers.py` keeps totals and lengths as numbers beside symbolic arrays, and the order of a queue as stamps.
Here the frozen containers are shown to be what those say they are.
"""

from __future__ import annotations

from icontract import ensure, require

from cachespec.kernel.containers import FrozenMap, FrozenQueue

Entries = tuple[tuple[int, int], ...]
"""Keys with numbers."""

NOBODY = -1


def distinct(entries: Entries, most: int) -> bool:
    """No key occurs twice, and there are not too many."""
    if len(entries) > most:
        return False
    return all(entries[later][0] != entries[earlier][0] for later in range(len(entries)) for earlier in range(later))


def not_negative(entries: Entries) -> bool:
    """No number is negative."""
    return all(number >= 0 for _, number in entries)


@require(lambda entries: distinct(entries, 3))
@ensure(lambda result: result)
def set_adds_the_difference(entries: Entries, key: int, value: int) -> bool:
    """`set`: the total grows by the new number less the old, the length by one for a new key."""
    before = FrozenMap.of(entries)
    after = before.set(key, value)
    added = 0 if before.has(key) else 1
    return after.total == before.total - before.get(key, 0) + value and after.length == before.length + added


@require(lambda entries: distinct(entries, 2))
@ensure(lambda result: result)
def set_changes_one_key(entries: Entries, key: int, value: int, other: int) -> bool:
    """`set`: the key has the value, any other key what it had."""
    before = FrozenMap.of(entries)
    after = before.set(key, value)
    same = after.has(other) == before.has(other) and after.get(other, NOBODY) == before.get(other, NOBODY)
    return after.has(key) and after.get(key, value - 1) == value and (other == key or same)


@require(lambda entries: distinct(entries, 2))
@ensure(lambda result: result)
def remove_takes_the_number(entries: Entries, key: int, other: int) -> bool:
    """`remove`: the total loses the key's number, the length one if it was there; any other key has what it had."""
    before = FrozenMap.of(entries)
    after = before.remove(key)
    gone = 1 if before.has(key) else 0
    counted = after.total == before.total - before.get(key, 0) and after.length == before.length - gone
    same = after.has(other) == before.has(other) and after.get(other, NOBODY) == before.get(other, NOBODY)
    return counted and not after.has(key) and (other == key or same)


@require(lambda entries: distinct(entries, 3) and not_negative(entries))
@ensure(lambda result: result)
def a_member_is_at_most_the_total(entries: Entries, key: int) -> bool:
    """A member's number is at most the total, and there is a length; without a member both are 0."""
    one = FrozenMap.of(entries)
    present = not one.has(key) or (one.get(key, 0) <= one.total and one.length > 0)
    return present and (len(entries) > 0 or (one.length == 0 and one.total == 0))


@require(lambda outer, keep: distinct(outer, 3) and not_negative(outer) and len(keep) == len(outer))
@ensure(lambda result: result)
def inner_sum_is_at_most_the_outer(outer: Entries, keep: tuple[bool, ...]) -> bool:
    """What lies inside, with the same numbers, adds up to no more."""
    inside = tuple(entry for entry, kept in zip(outer, keep, strict=True) if kept)
    return FrozenMap.of(inside).total <= FrozenMap.of(outer).total


@require(lambda outer, keep: distinct(outer, 2) and not_negative(outer) and len(keep) == len(outer))
@ensure(lambda result: result)
def a_larger_sum_has_a_member_outside(outer: Entries, keep: tuple[bool, ...], apart: int) -> bool:
    """If the outer sum is larger even apart from one key, another key is in the outer map and not in the inner."""
    inside = tuple(entry for entry, kept in zip(outer, keep, strict=True) if kept)
    larger, smaller = FrozenMap.of(outer), FrozenMap.of(inside)
    more = larger.total - larger.get(apart, 0) > smaller.total - smaller.get(apart, 0)
    return not more or any(key != apart and not smaller.has(key) for key, _ in outer)


def tally(one: FrozenMap[int, int], least: int) -> int:
    """How many keys there are of the kind "not less than this"."""
    return sum(1 for key, _ in one if key >= least)


@require(lambda entries: distinct(entries, 2))
@ensure(lambda result: result)
def set_counts_a_new_key_of_its_kind(entries: Entries, key: int, least: int) -> bool:
    """`set`: its kind has one more key if the key is new; a member's kind has at least one."""
    before = FrozenMap.of(entries)
    after = before.set(key, 1)
    new = 1 if key >= least and not before.has(key) else 0
    return tally(after, least) == tally(before, least) + new and (key < least or tally(after, least) > 0)


@require(lambda entries: distinct(entries, 2))
@ensure(lambda result: result)
def remove_counts_a_key_of_its_kind(entries: Entries, key: int, least: int) -> bool:
    """`remove`: its kind has one key fewer if the key was there."""
    before = FrozenMap.of(entries)
    gone = 1 if key >= least and before.has(key) else 0
    return tally(before.remove(key), least) == tally(before, least) - gone


@require(lambda entries: distinct(entries, 3))
@ensure(lambda result: result)
def a_kind_that_counts_has_a_member(entries: Entries, least: int) -> bool:
    """A kind whose count is positive has a key."""
    one = FrozenMap.of(entries)
    return tally(one, least) <= 0 or any(one.has(key) for key, _ in entries if key >= least)


# Queues: the order by stamps ----------------------------------------------------------------------------------------

Stamped = tuple[tuple[int, int, int], ...]
"""Stamps with keys and weights: a queue as the proofs see it."""


def by_stamp(entries: Stamped, clock: int, most: int) -> bool:
    """Stamps ascend and lie before the clock, keys are distinct, and there are not too many."""
    if len(entries) > most or not distinct(tuple((key, weight) for _, key, weight in entries), most):
        return False
    stamps = (*(stamp for stamp, _, _ in entries), clock)
    return all(stamps[place] < stamps[place + 1] for place in range(len(entries)))


def queue_of(entries: Stamped) -> FrozenQueue[int]:
    """The frozen queue in the order of the stamps."""
    return FrozenQueue((key, weight) for _, key, weight in entries)


def pushed(entries: Stamped, clock: int, key: int, weight: int) -> Stamped:
    """The proofs' push: the key is stamped with the clock's time, wherever it was."""
    return (*(entry for entry in entries if entry[1] != key), (clock, key, weight))


@require(lambda entries, clock: by_stamp(entries, clock, 2))
@ensure(lambda result: result)
def push_stamps_with_the_clock(entries: Stamped, clock: int, key: int, weight: int) -> bool:
    """`push`: the order is that of the stamps, and so are weights, length and total."""
    before, expected = queue_of(entries), pushed(entries, clock, key, weight)
    after = before.push(key, weight)
    total = before.total - before.weight(key, 0) + weight
    counted = after.length == before.length + (0 if before.has(key) else 1) and after.total == total
    return by_stamp(expected, clock + 1, 3) and after == queue_of(expected) and counted and after.has(key)


@require(lambda entries, clock: by_stamp(entries, clock, 2))
@ensure(lambda result: result)
def push_front_stamps_before_all(entries: Stamped, clock: int, key: int, weight: int) -> bool:
    """`push_front`: the key has a stamp before all others, and so are weights, length and total."""
    before = queue_of(entries)
    others = tuple(entry for entry in entries if entry[1] != key)
    dawn = min((stamp for stamp, _, _ in entries), default=clock) - 1
    after, expected = before.push_front(key, weight), ((dawn, key, weight), *others)
    total = before.total - before.weight(key, 0) + weight
    counted = after.length == before.length + (0 if before.has(key) else 1) and after.total == total
    return by_stamp(expected, clock, 3) and after == queue_of(expected) and counted and after.oldest(-1) == key


@require(lambda entries, clock: by_stamp(entries, clock, 3))
@ensure(lambda result: result)
def remove_leaves_the_stamps(entries: Stamped, clock: int, key: int) -> bool:
    """`remove`: the others keep their stamps, hence their order; length and total lose what the key had."""
    before = queue_of(entries)
    after = before.remove(key)
    counted = after.length == before.length - int(before.has(key)) and after.total == before.total - before.weight(
        key, 0
    )
    return after == queue_of(tuple(entry for entry in entries if entry[1] != key)) and counted and not after.has(key)


@require(lambda entries, clock: by_stamp(entries, clock, 3))
@ensure(lambda result: result)
def the_oldest_has_the_least_stamp(entries: Stamped, clock: int) -> bool:
    """`oldest`: the member with the least stamp, or the default where there is no member."""
    default = clock
    first = queue_of(entries).oldest(default)
    stamps = [stamp for stamp, key, _ in entries if key == first]
    return all(stamps[0] <= stamp for stamp, _, _ in entries) if entries else first == default


@require(lambda entries, clock: by_stamp(entries, clock, 2))
@ensure(lambda result: result)
def the_oldest_outside_has_the_least_stamp_outside(entries: Stamped, clock: int, excluded: int) -> bool:
    """`oldest_outside`: of the members that are not excluded the one with the least stamp, or else the default."""
    outside = [(stamp, key) for stamp, key, _ in entries if key != excluded]
    first = queue_of(entries).oldest_outside(FrozenMap.of([(excluded, 0)]), excluded)
    if not outside:
        return first == excluded
    return first != excluded and (min(outside)[0], first) in outside


LEDGER = {
    "set_adds_the_difference": "maps of at most 3 entries",
    "set_changes_one_key": "maps of at most 2 entries",
    "remove_takes_the_number": "maps of at most 2 entries",
    "a_member_is_at_most_the_total": "maps of at most 3 entries",
    "inner_sum_is_at_most_the_outer": "maps of at most 3 entries",
    "a_larger_sum_has_a_member_outside": "maps of at most 2 entries",
    "set_counts_a_new_key_of_its_kind": "maps of at most 2 entries",
    "remove_counts_a_key_of_its_kind": "maps of at most 2 entries",
    "a_kind_that_counts_has_a_member": "maps of at most 3 entries",
    "push_stamps_with_the_clock": "queues of at most 2 entries",
    "push_front_stamps_before_all": "queues of at most 2 entries",
    "remove_leaves_the_stamps": "queues of at most 3 entries",
    "the_oldest_has_the_least_stamp": "queues of at most 3 entries",
    "the_oldest_outside_has_the_least_stamp_outside": "queues of at most 2 entries, one excluded",
}
