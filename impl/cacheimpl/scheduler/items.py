"""Encoder items of requests: which request touches which item, one request's pass over its items, and releases."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import encoder_cache
from cacheimpl.answer import Code
from cacheimpl.encoder_cache import Cache
from cacheimpl.encoder_cache.state import inputs_per_content
from cacheimpl.recency import OUTSIDE, queued, with_newest_in_turn
from cacheimpl.scheduler.connector import STORED, of_items
from cacheimpl.scheduler.state import Config, State
from cacheimpl.table import choose, row

# All requests -------------------------------------------------------------------------------------------------------


class Items(NamedTuple):
    """The items of some requests; each [requests, items] int64."""

    contents: Tensor
    """-1 where there is none"""
    starts: Tensor
    lengths: Tensor


def items_of(config: Config, rows: Tensor) -> Items:
    """The items of these requests ([requests] int64)."""
    tables = (config.encoder.contents, config.item_starts, config.encoder.claims)
    return Items(*(table.index_select(0, rows) for table in tables))


def touched(config: Config, items: Items, start: Tensor, tokens: Tensor) -> Tensor:
    """[requests, items] bool: of which items these tokens ([requests] int64) of each request are.

    The first step of an encoder-decoder model reads all of them.
    """
    if config.encoder_decoder:
        return (items.contents >= 0) & ((start == 0) & (tokens > 0))[:, None]
    apart = (items.starts >= (start + tokens)[:, None]) | (items.starts + items.lengths <= start[:, None])
    return (items.contents >= 0) & ~apart & (tokens > 0)[:, None]


def cut_short(items: Items, start: Tensor, tokens: Tensor) -> Tensor:
    """[requests, items] bool: items that begin among these tokens or behind them, and in which they end."""
    inside = (start + tokens)[:, None] < items.starts + items.lengths
    return (start[:, None] <= items.starts) & inside


def items_matter(config: Config, state: State) -> Tensor:
    """[] bool: whether a live request holds or still needs an item. Between rounds."""
    live = queued(state.running) | queued(state.waiting)
    ahead = (config.encoder.contents >= 0) & ~are_behind(config, state.computed) & live[:, None]
    return ahead.any() | state.encoder.held.any()


def are_behind(config: Config, end: Tensor) -> Tensor:
    """[requests, items] bool: which items no step behind the token at `end` ([requests] int64) reads."""
    if config.encoder_decoder:
        return (end > 0)[:, None].expand_as(config.item_starts)
    return config.item_starts + config.encoder.claims <= end[:, None]


def released_in_turn(config: Config, cache: Cache, letting_go: Tensor, turns: Tensor) -> Cache:
    """Requests let go of items ([requests, items] bool), one request after the other, each from the first to the last.

    `turns` ([requests] int64, not negative) orders the requests. It is what the one-request release gives when it is
    done for each: an entry becomes idle where its last input lets go, so it joins the order of eviction at the moment
    of that input, the entries in the order of these moments. An input that holds nothing gives nothing back.
    """
    requests, items = letting_go.shape
    letting_go = letting_go & cache.held
    contents, count = config.encoder.contents, cache.sizes.shape[0]
    released = inputs_per_content(contents, letting_go, count)
    references = cache.references - released
    resting = (released > 0) & (references == 0)
    moments = turns[:, None] * items + torch.arange(items, device=turns.device)
    entries = torch.where(letting_go, contents, count).flatten()
    start = torch.full((count + 1,), -1, dtype=torch.int64, device=turns.device)
    last = start.scatter_reduce(0, entries, moments.flatten(), "amax")[:count]
    moment = last.masked_fill(~resting, requests * items)
    marked = torch.zeros(requests * items + 1, dtype=torch.int64, device=turns.device).scatter(0, moment, 1)
    places = marked.cumsum(0).gather(0, moment) - 1
    return cache._replace(
        freeable=cache.freeable + torch.where(resting, cache.sizes, 0).sum(),
        references=references,
        held=cache.held & ~letting_go,
        idle=with_newest_in_turn(cache.idle, resting, places),
    )


# One request --------------------------------------------------------------------------------------------------------


class Alone(NamedTuple):
    """One request's view of the encoder cache: tables of one row, so that what it does costs as for one request."""

    config: encoder_cache.Config
    cache: Cache
    starts: Tensor
    """[items] int64"""
    stored: Tensor
    """[items] bool: the encoder connector has the output"""


class Fit(NamedTuple):
    """A request's tokens against its items, as far as they were looked at."""

    cache: Cache
    """The request's view."""
    tokens: Tensor
    """[] int64: so many of its tokens may be scheduled"""
    embeds: Tensor
    """[] int64: what is left of the compute budget"""
    encode: Tensor
    """[items] bool"""
    relies: Tensor
    """[items] bool"""
    fetch: Tensor
    """[items] bool: the output is loaded from the encoder connector"""
    refused: Tensor
    """[] bool: an item was not there and cannot be encoded now"""


def alone(config: Config, cache: Cache, request: Tensor, remote: Tensor | None = None) -> Alone:
    """The view of the request of this row ([] int64). Nothing is granted or attempted yet.

    `remote` ([contents] int64): what the encoder connector has or expects, if there is one.
    """
    nothing = torch.full_like(cache.promised[:1], OUTSIDE)
    contents = row(config.encoder.contents, request)
    return Alone(
        config.encoder._replace(
            contents=contents[None],
            claims=row(config.encoder.claims, request)[None],
            abandonable=torch.ones_like(config.encoder.abandonable),
        ),
        cache._replace(held=row(cache.held, request)[None], promised=nothing, attempted=nothing),
        row(config.item_starts, request),
        torch.zeros_like(contents, dtype=torch.bool) if remote is None else of_items(contents, remote, STORED),
    )


def returned(cache: Cache, view: Cache, is_request: Tensor) -> Cache:
    """The encoder cache after what the request ([requests] bool: which) did in its view."""
    return view._replace(
        held=torch.where(is_request[:, None], view.held, cache.held),
        promised=cache.promised,
        attempted=cache.attempted,
    )


def fitted(config: Config, view: Alone, start: Tensor, offer: Tensor, embeds: Tensor, closed: Tensor) -> Fit:
    """Every item of the request, in the order of the prompt.

    This is a chain, for what is granted to one item may evict what the next one would have hit: so the items of *one*
    request are looked at one by one. `start`, `offer`, `embeds` [] int64; `closed` [] bool.
    """
    items = view.starts.shape[0]
    nothing = torch.zeros(items, dtype=torch.bool, device=start.device)
    fit = Fit(view.cache, offer, embeds, nothing, nothing, nothing, torch.zeros_like(closed))
    granted = torch.zeros_like(embeds)
    for item in range(items):
        fit, granted = _with_item(config, view, fit, granted, item, start, closed)
    return fit


def _with_item(
    config: Config, view: Alone, fit: Fit, granted: Tensor, item: int, start: Tensor, closed: Tensor
) -> tuple[Fit, Tensor]:
    """One item: the tokens that remain touch it only if it is there, or encoded in this step."""
    contents, lengths = view.config.contents[0], view.config.claims[0]
    first, length, content, end = view.starts[item], lengths[item], contents[item], start + fit.tokens
    touches = (content >= 0) & (first < end) & (first + length > start)
    if config.encoder_decoder:
        touches = (content >= 0) & (start == 0)
    looked_at = ~fit.refused & (fit.tokens > 0) & touches
    barred = closed & ~fit.cache.held[0, item]
    if config.whole_items:
        barred = barred | ((start <= first) & (end < first + length))
    request, position = torch.zeros_like(start), torch.full_like(start, item)
    is_item = torch.arange(contents.shape[0], device=start.device) == item
    asks, cache, shown_already = looked_at & ~barred, fit.cache, torch.zeros_like(closed)
    if not config.encoder_decoder:  # whose items are encoded together, without a look-up
        held, answer = encoder_cache.check_and_update(view.config, fit.cache, request, position)
        there = answer.code == int(Code.HIT)
        shown_already = there | ((fit.encode | fit.fetch) & (contents == content)).any()
        cache = choose(asks, held, fit.cache)
    stored = view.stored[item]
    budget, cost = torch.where(stored, length, fit.embeds), torch.where(stored, 0, length)
    made, answer = encoder_cache.can_allocate(view.config, cache, request, position, budget, granted)
    room = asks & ~shown_already & (answer.code == int(Code.DONE))
    reads = asks & (shown_already | room)
    refused = looked_at & ~reads
    before_item = torch.minimum(fit.tokens, first - start).clamp(min=0)
    after = Fit(
        cache=choose(room, made, cache),
        tokens=torch.where(refused, before_item, fit.tokens),
        embeds=fit.embeds - torch.where(room, cost, 0),
        encode=fit.encode | (is_item & room & ~stored),
        relies=fit.relies | (is_item & reads),
        fetch=fit.fetch | (is_item & room & stored),
        refused=fit.refused | refused,
    )
    return after, granted + torch.where(room, length, 0)


def taken(view: Alone, cache: Cache, fit: Fit) -> Cache:
    """What was granted is allocated in this view, and items that show the same as one of those are held as well."""
    request = torch.zeros_like(fit.tokens)
    new = fit.encode | fit.fetch
    for item in range(fit.encode.shape[0]):
        position = torch.full_like(fit.tokens, item)
        placed, _ = encoder_cache.allocate(view.config, cache, request, position)
        cache = choose(new[item], placed, cache)
    for item in range(fit.encode.shape[0]):
        position = torch.full_like(fit.tokens, item)
        held, _ = encoder_cache.check_and_update(view.config, cache, request, position)
        cache = choose(fit.relies[item], held, cache)
    return cache


def given_up(view: Alone, cache: Cache) -> Cache:
    """The attempt is over: exactly what it has pinned in this view is released."""
    return encoder_cache.abandon(view.config, cache, torch.zeros_like(cache.free))[0]
