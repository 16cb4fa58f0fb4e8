"""One request of a round, whatever it takes: the next one that runs, or the first one that waits.

Where it is neither (all are served, and nobody is admitted any more), nothing changes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.kv_blocks import Hits
from cacheimpl.recency import OUTSIDE, length, queued, without
from cacheimpl.scheduler.burst import admitted
from cacheimpl.scheduler.counts import aligned, known_length, length_in_sight, limited, wanted
from cacheimpl.scheduler.items import alone, fitted, given_up, released_in_turn, returned, taken
from cacheimpl.scheduler.lines import before_equals, rows_in_order
from cacheimpl.scheduler.plans import Parts, voided, with_parts, with_preempted
from cacheimpl.scheduler.readiness import adapter_fits, candidates
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.transferring import (
    IN_STEP,
    LOADED,
    LOADING,
    blocks_for,
    may_be_overwritten,
    only,
    reserve,
)
from cacheimpl.table import choose, row
from cacheimpl.writing import Writing


class Turn(NamedTuple):
    """Whose turn it is; every field is []."""

    request: Tensor
    """int64: the row; arbitrary where it is nobody's turn"""
    serves: Tensor
    """bool: it runs"""
    admits: Tensor
    """bool: it waits, and may be admitted"""
    passes: Tensor
    """bool: it waits, and is passed over"""
    loads: Tensor
    """bool: it waits, and its KV is to be loaded first"""


def considers(config: Config, state: State) -> Tensor:
    """[] bool: all running requests are served, and the first waiting request is considered."""
    over = (state.served >= state.to_serve) & ~state.ended & queued(candidates(config, state)).any()
    return state.open & over & (state.tokens_left > 0) & (length(state.running) < config.max_running)


def next_turn(config: Config, state: State) -> Turn:
    """The next one that runs; when all are served, the first one that waits."""
    serves, admits = state.open & (state.served < state.to_serve), considers(config, state)
    is_next = torch.where(serves, state.running == state.served, candidates(config, state) == 0)
    request, passes = is_next.long().argmax(), torch.zeros_like(admits)
    if config.most_adapters > 0:
        passes = admits & ~adapter_fits(config, state, request)
    return Turn(request, serves, admits & ~passes, passes, torch.zeros_like(admits))


def loading_first(config: Config, state: State, turn: Turn, start: Tensor, cached: Tensor) -> Turn:
    """The turn of a request whose KV is loaded before it is admitted, or that is passed over for that.

    `start`, `cached`: [] int64, where it would begin, and what is cached of it.
    """
    loads = turn.admits & row(config.later, turn.request) & (row(state.transfer, turn.request) != LOADED)
    loads = loads & (start > cached)
    waits = loads & may_be_overwritten(state)
    return turn._replace(admits=turn.admits & ~loads, passes=turn.passes | waits, loads=loads & ~waits)


def one(config: Config, state: State, *, write: Writing) -> State:
    """The request whose turn it is gets what it can: tokens, then items, then blocks.

    A running one for which there are no tokens is passed over, and one that waits is turned down where it lacks
    anything: what the attempt has pinned is released, what it has evicted stays evicted.
    """
    turn = next_turn(config, state)
    known = row(known_length(config, state), turn.request)
    searched = known if config.caching else torch.zeros_like(known)
    loaded = torch.zeros_like(turn.admits)
    if config.loads:
        loaded = row(state.transfer, turn.request) == LOADED
    hits = kv_blocks.get_computed_blocks(
        config.kv, state.kv, only(config, turn.admits & ~loaded, turn.request), searched[None]
    )
    start, cached = first_token(config, state, turn, known, hits), hits.lengths[0] * config.block_size
    if config.loads:
        start = torch.where(turn.admits & loaded, row(state.brought, turn.request), start)
        turn = loading_first(config, state, turn, start, cached)
        cached = torch.where(turn.admits & loaded, start, cached)
    is_turn = (config.rows == turn.request) & (turn.serves | turn.admits)
    view = alone(config, state.encoder, turn.request, state.remote if config.connected else None)
    fit = fitted(config, view, start, offered(config, state, turn, known, start), state.embeds_left, state.closed)
    some = fit.tokens > 0
    state = state._replace(encoder=returned(state.encoder, fit.cache, is_turn))
    state, kept = with_room(config, state, turn, start + fit.tokens, turn.serves & some, write=write)
    state, got = with_slots(config, state, turn, start, fit.tokens, kept, cached, hits, write=write)
    begins, got = turn.loads & got, got & ~turn.loads
    passed_over, turned_down = turn.serves & ~some, (turn.admits & ~got) | (turn.loads & ~begins)
    abandoned = returned(state.encoder, given_up(view, fit.cache), is_turn)
    encoder = choose(passed_over | turned_down, abandoned, state.encoder)
    holder = alone(config, encoder, turn.request)
    encoder = choose(got, returned(encoder, taken(holder, holder.cache, fit), is_turn), encoder)
    parts = Parts(
        chosen=is_turn & got,
        order=torch.zeros_like(state.computed),
        start=start.expand_as(state.computed),
        tokens=fit.tokens * (is_turn & got),
        encode=fit.encode.expand_as(state.encode[0]),
        relies=fit.relies.expand_as(state.relies[0]),
        fetch=fit.fetch.expand_as(state.relies[0]) if config.connected else None,
    )
    after = with_parts(config, state, parts, length_in_sight(config, state))
    if config.loads or config.fails:
        mine = config.rows == turn.request
        after = with_transfer(config, after, mine & begins, mine & turn.admits & got, start > cached, start)
    return admitted(config, after, is_turn & turn.admits & got)._replace(
        encoder=encoder,
        embeds_left=torch.where(got, fit.embeds, state.embeds_left),
        closed=state.closed | (fit.refused & (got | passed_over)),
        ended=state.ended | turned_down,
        served=state.served + (passed_over | kept),
        passed=state.passed | ((config.rows == turn.request) & turn.passes),
    )


def with_transfer(
    config: Config, state: State, loads: Tensor, admitted: Tensor, brings: Tensor, start: Tensor
) -> State:
    """A request `loads`, or it is `admitted` and its first step `brings` KV, or its load is over.

    `loads`, `admitted`: [requests] bool; `brings`: [] bool; `start`: [] int64, the tokens that have their KV then.
    """
    in_step = admitted & brings & config.fails
    phase, over = torch.where(loads, LOADING, IN_STEP), admitted & ~in_step
    return state._replace(
        transfer=torch.where(loads | in_step, phase, state.transfer.masked_fill(over, 0)),
        brought=torch.where(loads | in_step, start, state.brought.masked_fill(over, 0)),
    )


def first_token(config: Config, state: State, turn: Turn, known: Tensor, hits: Hits) -> Tensor:
    """[] int64: where the request goes on, or begins: behind what is cached of it, here or in an external store."""
    cached = hits.lengths[0] * config.block_size
    beyond = torch.minimum(row(config.external, turn.request), known - 1)
    return torch.where(turn.serves, row(state.computed, turn.request), torch.maximum(cached, beyond))


def offered(config: Config, state: State, turn: Turn, known: Tensor, start: Tensor) -> Tensor:
    """[] int64: so many of its tokens may be scheduled before its items are looked at."""
    wants = row(wanted(config, state, length_in_sight(config, state)), turn.request)
    most = limited(config, torch.where(turn.serves, wants, known - start))
    tokens = torch.minimum(most, state.tokens_left).clamp(min=0)
    offer = aligned(config, row(config.prompts, turn.request), known, start, tokens)
    if not config.chunked:
        offer = offer.masked_fill(turn.admits & (most > state.tokens_left), 0)
    return offer.masked_fill(~(turn.serves | turn.admits), 0)


# Blocks, and who is preempted for them ------------------------------------------------------------------------------


def with_slots(
    config: Config,
    state: State,
    turn: Turn,
    start: Tensor,
    tokens: Tensor,
    kept: Tensor,
    cached: Tensor,
    hits: Hits,
    *,
    write: Writing,
) -> tuple[State, Tensor]:
    """Slots for the tokens of the request, or for what is loaded of it, and whether it has them ([] bool).

    `kept` ([] bool): it runs and there is room for it. `cached`: [] int64, the tokens that have blocks.
    """
    width = state.kv.tables.shape[1] - 1
    kv, _ = kv_blocks.allocate_slots(
        config.kv, state.kv, only(config, kept, turn.request), start[None], tokens[None], width=width, write=write
    )
    new, loaded = start - cached + tokens, cached - hits.lengths[0] * config.block_size
    asks = (turn.admits & (tokens > 0)) | turn.loads
    spare = torch.where(queued(state.running).any(), config.watermark, 0)
    if config.loads:
        spare = torch.maximum(spare, reserve(config, state, turn.request, start + tokens))
    kv, slots = kv_blocks.admit(
        config.kv,
        kv,
        only(config, asks, turn.request),
        loaded[None],
        new[None],
        hits,
        width=width,
        spare=spare[None] if config.watermark > 0 or config.loads else None,
        write=write,
    )
    return state._replace(kv=kv), kept | (asks & slots.done[0])


def with_room(
    config: Config, state: State, turn: Turn, end: Tensor, wants: Tensor, *, write: Writing
) -> tuple[State, Tensor]:
    """As many of those that run are preempted, the last one first, as it takes to have blocks up to this end.

    The request itself is the last that may go. Returns whether it has not ([] bool); `wants` ([] bool): whether it
    needs blocks at all.
    """
    lacking = blocks_for(end, config.block_size) - row(state.kv.blocks, turn.request)
    running, count = length(state.running), state.running.shape[0]
    places = torch.arange(count + 1, device=end.device)
    short = state.kv.free + given_back_from(state) < lacking
    victims = (short & (places > state.served) & (places <= running) & wants).sum()
    going = queued(state.running) & (state.running >= running - victims)
    turns = running - 1 - state.running
    return preempted(config, state, going, turns, victims, write=write), wants & (running - victims > state.served)


def given_back_from(state: State) -> Tensor:
    """[requests + 1] int64: how many blocks are free when all that run from this rank on have been preempted.

    Beyond those that are free now. A block is given back with the first in the line that holds it, for that is the last
    to be preempted. What a transfer holds is not given back.
    """
    count = state.running.shape[0]
    ranks = torch.nn.functional.pad(state.running, (0, 1), value=OUTSIDE)
    tables = state.kv.tables.long()
    positions = torch.arange(tables.shape[1], device=tables.device)
    held = torch.where(positions < state.kv.blocks[:, None], tables, state.kv.references.shape[0] - 1)
    ranks = ranks[:, None].expand_as(held)
    first = torch.full_like(state.kv.references, count).scatter_reduce(0, held.flatten(), ranks.flatten(), "amin")
    freed = ((state.kv.references > 0) & (first != OUTSIDE))[:-1].long()
    ranks = first[:-1].clamp(min=0)
    by_rank = torch.zeros(count + 1, dtype=torch.int64, device=tables.device).scatter_add(0, ranks, freed)
    return by_rank.flip(0).cumsum(0).flip(0)


def preempted(config: Config, state: State, victims: Tensor, turns: Tensor, count: Tensor, *, write: Writing) -> State:
    """So many of those that run ([] int64) are set back, and the plan of the round names them."""
    after = with_preempted(set_back(config, state, victims, turns, write=write), victims, turns)
    return after._replace(to_serve=state.to_serve - count, ended=state.ended | victims.any())


def set_back(config: Config, state: State, victims: Tensor, turns: Tensor, *, write: Writing) -> State:
    """They give back their blocks, their items and what is in flight, and wait before all that came later."""
    rows = rows_in_order(torch.where(victims, turns, OUTSIDE), config.rows)
    everything = victims[:, None].expand_as(state.encoder.held)
    kv, _ = kv_blocks.free_request(config.kv, state.kv, rows, write=write)
    return voided(state, victims)._replace(
        kv=kv,
        running=without(state.running, victims),
        waiting=before_equals(config.priorities, state.waiting, victims, turns),
        computed=torch.where(victims, 0, state.computed),
        proposed=torch.where(victims, 0, state.proposed),
        transfer=torch.where(victims, 0, state.transfer),
        brought=torch.where(victims, 0, state.brought),
        encoder=released_in_turn(config, state.encoder, everything, turns.clamp(min=0)),
    )
