"""The search for a slot: each prefix goes its way until it finds a slot with its hash, or takes an empty one.

A round is one step of everybody at once. Whoever stands before an empty slot claims it, and the earliest item of the
burst gets it; the others look again and find either their own hash, which may be their content, or another one, and go
on. Most are done after the first round, so the next ones are made for those that are left, in fewer lanes: a fixed
number of rounds of fixed width. Who does not get a lane, or not to an end, stays where it is and goes on another time.

What a slot holds is such that the smallest value is the one that has to stay: a row, or `rows` where it is passed for
good; then claims, of earlier rounds before later ones, of earlier items before later ones; then EMPTY.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.hashing import ways
from cacheimpl.block_content.state import EMPTY, Config
from cacheimpl.writing import Writing

Schedule = tuple[tuple[int, int], ...]
"""One part in so many of the items get a lane, and how many rounds are made with those."""
MANY: Schedule = ((1, 1), (3, 3), (24, 11))
FEW: Schedule = ((1, 2), (8, 6))
"""Where the operations cost more than the lanes."""
FEW_ITEMS = 8192
LEAST_LANES = 64
MOST_ROUNDS = 15


class Search(NamedTuple):
    """What a burst looks for, by item or by lane, and how far it has come."""

    sought: Tensor
    """[items] int64: what is known of whatever ends the search"""
    begin: Tensor
    """[items] int64"""
    stride: Tensor
    """[items] int64, odd"""
    claims: Tensor
    """[items] int32: what an item claims with in the first round; EMPTY where it may not"""
    walked: Tensor
    """[items] int64: how far the place is from the beginning"""
    going_on: Tensor
    """[items] bool: the search has not ended"""


def search_of(config: Config, sums: Tensor, walked: Tensor, wanted: Tensor, claiming: Tensor, rows: int) -> Search:
    """The search for the wanted items ([items]), by the hashes of their prefixes, in a table of so many rows."""
    begin, stride = ways(config, sums)
    items = torch.arange(rows + 1, rows + 1 + sums.shape[0], device=sums.device, dtype=torch.int32)
    return Search(sums, begin, stride, torch.where(claiming, items, EMPTY), walked, wanted)


def place_of(search: Search, slots: Tensor) -> Tensor:
    """[items] int64: the slot before which each item stands."""
    return (search.begin + search.walked) & (slots.shape[0] - 2)


def index_bits(known: Tensor) -> int:
    """So many bits of a claim say whose it is; the round is above them."""
    bits = (known.shape[0] - 1).bit_length()
    assert MOST_ROUNDS << bits < EMPTY, "the burst and the table are too large for claims of 30 bits"
    return bits


def index_in(known: Tensor, seen: Tensor) -> Tensor:
    """[items] int32: a row, `rows` or more where it is a claim; 0 where the slot is empty."""
    return seen & ((1 << index_bits(known)) - 1)


def round_of(slots: Tensor, known: Tensor, search: Search, number: int, write: Writing) -> tuple[Tensor, Search]:
    """Everybody claims the slot before it, looks who has it, and stops or takes a step.

    Who may not claim an empty one stays before it.
    `known` ([rows + 1 + items] int64) says something of every row, then of every item: when a burst is interned, the
    hash of its prefix.
    """
    place = place_of(search, slots)
    slots = write.lower(slots, place, search.claims + (number << index_bits(known)))
    seen = slots.index_select(0, place)
    other = known.index_select(0, index_in(known, seen)) != search.sought
    going_on = search.going_on & other & (seen != EMPTY)
    return slots, search._replace(walked=search.walked + search.stride * going_on, going_on=going_on)


def narrowed(search: Search, width: int) -> tuple[Search, Tensor]:
    """The first items that go on in so many lanes, and for each item its lane, `width` where it has none.

    Lanes that are left over repeat the first item, which changes nothing.
    """
    lane = (search.going_on.cumsum(0) - 1).clamp(max=width)
    lane = torch.where(search.going_on, lane, width)
    items = torch.arange(lane.shape[0], device=lane.device)
    chosen = torch.zeros(width + 1, dtype=torch.int64, device=lane.device).scatter(0, lane, items)[:width]
    return Search(*(values.index_select(0, chosen) for values in search)), lane


def widened(search: Search, narrow: Search, lane: Tensor) -> Search:
    """The items where those with a lane have come."""
    width = narrow.walked.shape[0]
    inside, place = lane < width, lane.clamp(max=width - 1)
    return search._replace(
        walked=torch.where(inside, narrow.walked.index_select(0, place), search.walked),
        going_on=torch.where(inside, narrow.going_on.index_select(0, place), search.going_on),
    )


def searched(slots: Tensor, known: Tensor, search: Search, write: Writing) -> tuple[Tensor, Search]:
    """All rounds; who still goes on has come to no end."""
    items = search.walked.shape[0]
    wider: list[tuple[Search, Tensor]] = []
    number = 0
    for part, rounds in MANY if items > FEW_ITEMS else FEW:
        width = min(items, max(LEAST_LANES, items // part))
        if width < search.walked.shape[0]:
            narrow, lane = narrowed(search, width)
            wider.append((search, lane))
            search = narrow
        for _ in range(rounds):
            slots, search = round_of(slots, known, search, number, write)
            number += 1
    while wider:
        wide, lane = wider.pop()
        search = widened(wide, search, lane)
    return slots, search
