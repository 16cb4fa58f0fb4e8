"""The search for a slot: each prefix goes its way until it finds a slot with its hash, or takes an empty one.

A round is one step of everybody at once. Whoever stands before an empty slot claims it, and the earliest item of the
burst gets it; the others look again and find either their own hash, which may be their content, or another one, and go
on. Most are done after the first round, so the next ones are made for those that are left, in fewer lanes: a fixed
number of rounds of fixed width. Who does not get a lane, or not to an end, stays where it is and goes on another time.

What a slot holds is such that the smallest value is the one that has to stay: a row, or `rows` where it is passed for
good; then claims, of earlier rounds before later ones, of earlier items before later ones; then EMPTY. Below all of
these is a part of the hash, so that whoever looks at a slot looks nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.hashing import strides
from cacheimpl.block_content.state import ABOVE, EMPTY, LOW
from cacheimpl.writing import Writing

Schedule = tuple[tuple[int, int], ...]
"""One part in so many of the items get a lane, and how many rounds are made with those."""
MANY: Schedule = ((1, 1), (5, 1), (32, 2), (128, 10))
FEW: Schedule = ((1, 2), (8, 3), (64, 6))
"""Where the operations cost more than the lanes."""
FEW_ITEMS = 8192
LEAST_LANES = 64
MOST_ROUNDS = 15


class Search(NamedTuple):
    """What a burst looks for, by item or by lane, and how far it has come."""

    sums: Tensor
    """[items] int64: the hash"""
    sought: Tensor
    """[items] int64: what a slot that ends the search has, in the bits that count"""
    claims: Tensor
    """[items] int64: what an item claims with in the first round; EMPTY where it may not"""
    stands: Tensor
    """[items] int64: the slot before which each item stands, before it is wrapped"""
    seen: Tensor
    """[items] int64: what was in the slot when the item came to it"""
    going_on: Tensor
    """[items] bool: it was something else, and the search goes on behind it"""


class Rounds(NamedTuple):
    """What all rounds have in common."""

    counted: int
    """The bits of a slot that are compared with what is sought."""
    above: int
    """Where the number of the round begins in a claim."""

    @property
    def whose(self) -> int:
        """The bits of a slot without the number of the round."""
        return (1 << self.above) - 1


def rounds_for(names: int, *, whose: bool) -> Rounds:
    """For claims of so many names, rows and items; what is sought is a hash, or, with `whose`, one of the names."""
    above = (names - 1).bit_length() + ABOVE
    assert MOST_ROUNDS << above < EMPTY, "the burst and the table are too large for claims of 30 bits"
    return Rounds((1 << above) - 1 if whose else LOW, above)


def hash_in(sums: Tensor) -> Tensor:
    """[items] int64: the part of the hash that is in a slot."""
    return (sums >> ABOVE) & LOW


def place_in(slots: Tensor, stands: Tensor) -> Tensor:
    """[items] int64: the slot before which each item stands."""
    return stands & (slots.shape[0] - 2)


def round_of(slots: Tensor, search: Search, rounds: Rounds, number: int, write: Writing) -> tuple[Tensor, Search]:
    """Everybody claims the slot before it, looks who has it, and stops or goes on.

    An item that may not claim an empty slot stays before it.
    """
    place = place_in(slots, search.stands)
    slots = write.lower(slots, place, search.claims + (number << rounds.above) if number else search.claims)
    seen = slots.index_select(0, place)
    other = (seen & rounds.counted) != search.sought
    return slots, search._replace(seen=seen, going_on=search.going_on & other & (seen != EMPTY))


def stepped(search: Search) -> Search:
    """Each item that goes on stands before the next slot of its way."""
    return search._replace(stands=torch.where(search.going_on, search.stands + strides(search.sums), search.stands))


def first_of(chosen: Tensor, width: int) -> Tensor:
    """[width] int64: the first of the items that are chosen ([items] bool), in order, and 0 behind them."""
    return chosen.nonzero_static(size=width, fill_value=0).squeeze(1)


def narrowed(search: Search, width: int) -> tuple[Search, Tensor]:
    """The first items that go on in so many lanes, and the item of each lane ([width] int64).

    Lanes that are left over repeat the first item, which changes nothing.
    """
    chosen = first_of(search.going_on, width)
    sums, sought, claims, stands, going_on = (
        values.index_select(0, chosen)
        for values in (search.sums, search.sought, search.claims, search.stands, search.going_on)
    )
    return Search(sums, sought, claims, stands, sums, going_on), chosen  # what it has seen is not looked at again


def widened(search: Search, narrow: Search, chosen: Tensor) -> Search:
    """The items where those with a lane have come."""
    return search._replace(
        stands=search.stands.scatter(0, chosen, narrow.stands),
        seen=search.seen.scatter(0, chosen, narrow.seen),
        going_on=search.going_on.scatter(0, chosen, narrow.going_on),
    )


def searched(slots: Tensor, search: Search, rounds: Rounds, write: Writing) -> tuple[Tensor, Search]:
    """All rounds; who still goes on has come to no end, and stands before a slot that is not for it."""
    items = search.stands.shape[0]
    wider: list[tuple[Search, Tensor]] = []
    number = 0
    for part, count in MANY if items > FEW_ITEMS else FEW:
        width = min(items, max(LEAST_LANES, items // part))
        if width < search.stands.shape[0]:
            narrow, chosen = narrowed(search, width)
            wider.append((search, chosen))
            search = narrow
        for _ in range(count):
            search = stepped(search) if number else search
            slots, search = round_of(slots, search, rounds, number, write)
            number += 1
    while wider:
        wide, chosen = wider.pop()
        search = widened(wide, search, chosen)
    return slots, search
