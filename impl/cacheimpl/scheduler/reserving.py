"""Encoder entries for many requests in one go: what each of them would get if its items were looked at one by one.

One after the other, a request pins what is there, and has room made for what is not: idle entries go, the longest idle
first. As long as nothing is evicted that somebody behind still finds, and no item is refused, all of that is sums: how
much has to be encoded up to an item, and how much the older idle entries occupy that nobody here finds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.encoder_cache import Cache
from cacheimpl.encoder_cache.state import inputs_per_content
from cacheimpl.recency import oldest_until, queued, total_of_older, with_newest_in_turn, without
from cacheimpl.scheduler.connector import STORED, of_items
from cacheimpl.scheduler.items import Items, cut_short, touched
from cacheimpl.scheduler.state import NO_LIMIT, Config, State


class Reservation(NamedTuple):
    """What the requests of some turns read, and which of it is encoded for that."""

    reads: Tensor
    """[turns, items] bool"""
    encode: Tensor
    """[turns, items] bool"""
    fetch: Tensor | None
    """[turns, items] bool: outputs that the encoder connector has are loaded; None if there is no connector"""
    settled: Tensor
    """[turns] bool: all items of the request are there or encoded, if that is so of all before it"""


class First(NamedTuple):
    """Of items in the order of turns, [turns * items] each, those that come first with what they show."""

    contents: Tensor
    """int64: of an item that is read and not held yet; elsewhere the content behind all, nobody's"""
    absent: Tensor
    """bool: the first with its content, of which there is no entry"""
    waking: Tensor
    """bool: the first with its content, if the entry of the content is unreferenced"""
    agreed: Tensor
    """bool: the entry, or the item that comes first, has its length"""


def reserved(config: Config, state: State, row: Tensor, items: Items, start: Tensor, tokens: Tensor) -> Reservation:
    """For the tokens that the requests of these rows may have ([turns] int64 each), in this order.

    An item settles what it asks for, given that all before it do, where

    - the request holds it; or there is an entry, which has not been evicted before, for this item or one before it
      pins it: then it has the length that the item claims;
    - or it is the first that shows this, nobody waits for room, the compute budget is enough for all that are encoded
      up to it, and the room for those and for all that a connector brings: idle entries that no item of these turns
      finds are evicted for it, and each that an item behind it finds is younger than those.

    Where an item must not be cut, one that is has to be looked at alone; and so the items of an encoder-decoder model.
    """
    reads = touched(config, items, start, tokens)
    asks = reads & ~state.encoder.held.index_select(0, row)
    first, lengths = first_of(state.encoder, items, asks), items.lengths.flatten()
    upto = torch.where(first.absent, lengths, 0).cumsum(0)
    encoded, computed, fetch = first.absent, upto, None
    if config.connected:
        stored = of_items(items.contents, state.remote, STORED)
        fetch = first.absent.reshape(asks.shape) & stored
        encoded = first.absent & ~stored.flatten()
        computed = torch.where(encoded, lengths, 0).cumsum(0)
    room = room_for(state.encoder, first)
    possible = ~first.absent | ((computed <= state.embeds_left) & (upto - state.encoder.free <= room))
    refused = asks & ~(first.agreed & possible & ~state.closed).reshape(asks.shape)
    if config.whole_items:
        refused = refused | (reads & cut_short(items, start, tokens))
    if config.encoder_decoder:
        refused = refused | reads
    return Reservation(reads, encoded.reshape(asks.shape), fetch, ~refused.any(1))


def first_of(cache: Cache, items: Items, asks: Tensor) -> First:
    """Among the items that are asked for ([turns, items] bool)."""
    count, moments = cache.sizes.shape[0], torch.arange(asks.numel(), device=asks.device)
    contents, lengths = torch.where(asks, items.contents, count).flatten(), items.lengths.flatten()
    never = torch.full((count + 1,), asks.numel(), dtype=torch.int64, device=asks.device)
    earliest = never.scatter_reduce(0, contents, moments, "amin").gather(0, contents)
    entry = contents.clamp(max=count - 1)
    there = cache.resident.gather(0, entry)
    claimed = torch.where(there, cache.sizes.gather(0, entry), lengths.gather(0, earliest))
    is_first = asks.flatten() & (earliest == moments)
    waking = is_first & queued(cache.idle).gather(0, entry)
    return First(contents, is_first & ~there, waking, lengths == claimed)


def room_for(cache: Cache, first: First) -> Tensor:
    """[turns * items] int64: how much may be evicted up to an item.

    No more than the idle entries occupy that nobody here finds; and no more than those of them that are older than an
    entry that is found behind it.
    """
    is_resident = is_found(first.contents, first.waking, cache.sizes.shape[0])
    going = torch.where(is_resident, 0, cache.sizes)
    before = total_of_older(cache.idle, going).gather(0, first.contents.clamp(max=is_resident.shape[0] - 1))
    behind = torch.where(first.waking, before, NO_LIMIT).flip(0).cummin(0).values.flip(0)
    return torch.minimum(behind, torch.where(queued(cache.idle), going, 0).sum())


def is_found(contents: Tensor, moments: Tensor, count: int) -> Tensor:
    """[count] bool: the contents of these moments ([moments] int64 and bool)."""
    nothing = torch.zeros(count + 1, dtype=torch.bool, device=contents.device)
    return nothing.scatter(0, torch.where(moments, contents, count), True)[:count]


def held_from_now_on(config: Config, cache: Cache, reads: Tensor, encode: Tensor) -> Cache:
    """The encoder cache once requests hold what they read, with what is encoded for it ([requests, items] bool each).

    Only what is settled: so it does not matter in which order. What has to go for it is evicted.
    """
    count, contents = cache.sizes.shape[0], config.encoder.contents
    needed = torch.where(encode, config.encoder.claims, 0)
    rows = torch.where(encode, contents, count).flatten()
    sizes = torch.nn.functional.pad(cache.sizes, (0, 1)).scatter(0, rows, needed.flatten())[:count]
    placed = is_found(contents.flatten(), encode.flatten(), count)
    inputs = inputs_per_content(contents, reads & ~cache.held, count)
    waking, total = queued(cache.idle) & (inputs > 0), needed.sum()
    idle = without(cache.idle, waking)
    leaving = oldest_until(idle, queued(idle), cache.sizes, total - cache.free)
    return cache._replace(
        free=cache.free + torch.where(leaving, cache.sizes, 0).sum() - total,
        freeable=cache.freeable - torch.where(waking, cache.sizes, 0).sum() - total,
        resident=(cache.resident & ~leaving) | placed,
        sizes=sizes,
        references=cache.references + inputs,
        held=cache.held | reads,
        idle=without(idle, leaving),
        freed=with_newest_in_turn(without(cache.freed, placed), leaving, idle.long()),
    )


def up_to_barred(config: Config, items: Items, held: Tensor, start: Tensor, closed: Tensor) -> Tensor:
    """[turns] int64: so many tokens are before the first item ahead that the request does not hold.

    No limit unless somebody waits for room (`closed`, [] bool), for else it may get the item. `held`: [turns, items].
    """
    ends = items.starts if config.encoder_decoder else items.starts + items.lengths - 1
    ahead = (items.contents >= 0) & (ends >= start[:, None]) & ~held & closed
    return torch.where(ahead, (items.starts - start[:, None]).clamp(min=0), NO_LIMIT).amin(1)
