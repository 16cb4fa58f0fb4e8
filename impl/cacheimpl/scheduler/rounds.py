"""One scheduling step: which requests compute how many tokens, with which items, in which blocks.

`schedule` begins a round and goes as far as many requests at once can go; where that is all the way, it ends the round
too. Otherwise `remaining` says so, and `proceed` goes on, one request at a time where it has to be, until nothing
remains. Between `schedule` and the end of its round no other operation is called.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import UNANSWERED, Code, either
from cacheimpl.constants import constant
from cacheimpl.encoder_cache import Cache
from cacheimpl.recency import OUTSIDE, length
from cacheimpl.scheduler.burst import admit_first, serve_first
from cacheimpl.scheduler.plans import concluded
from cacheimpl.scheduler.readiness import candidates
from cacheimpl.scheduler.single import considers, one
from cacheimpl.scheduler.state import Config, State
from cacheimpl.writing import COPYING, Writing


class Extent(NamedTuple):
    """How much is done in one call: parts of the shapes, which decide what a call costs and not what comes of it."""

    width: int
    """Blocks that one running request may need in a burst: 1 where each computes one token, and a draft or two"""
    wide: int
    """Running requests that may need any number of blocks, behind those of that burst: they compute their prompts in
    chunks, and came last"""
    admissions: int
    """Waiting requests in a burst; 0 only if no request waits: looking them up costs a pass over all blocks"""
    rounds: int
    """How many requests `proceed` takes one at a time, each with a burst behind it"""
    fills: int
    """Blocks of one request that a step may fill: 1 where each computes one token"""
    releases: int
    """Finished requests that are released in one call"""
    new: int | None = None
    """New blocks of all requests of a burst of `width`; None: as many as there may be"""
    full: int | None = None
    """Blocks that a step fills, of all requests; None: as many as there may be. It must be enough, as `fills` must"""
    running: int | None = None
    """Upper bound of running requests; None for the engine's limit. 0 only if none runs"""
    void: bool = True
    """Whether a plan in flight may have a part of a request that was aborted or preempted since"""
    leaving: bool = True
    """Whether a request may have ended that no plan has reported"""
    items: bool = True
    """False only if no live request holds or needs an item, and no eviction is to be reported"""


def looks_at_items(config: Config, extent: Extent) -> bool:
    """Whether a step has operations for items."""
    return extent.items and config.item_starts.shape[1] > 0


def begin(config: Config, state: State) -> State:
    """A round begins, if one more plan may be in flight. None is in progress."""
    begins = state.plans < constant(state.turns.shape[0], state.plans.device)
    none = torch.zeros_like(state.plans)
    return state._replace(
        open=begins,
        parts=none,
        served=none,
        to_serve=length(state.running) * begins,
        tokens_left=config.token_budget,
        embeds_left=config.encoder_compute,
        closed=torch.zeros_like(begins),
        ended=torch.zeros_like(begins),
        passed=torch.zeros_like(state.passed),
    )


def remaining(config: Config, state: State) -> Tensor:
    """[] int64: how many requests are still to be considered in the round in progress; 0: it is over."""
    return (state.to_serve - state.served) * state.open + length(candidates(config, state)) * considers(config, state)


def burst(config: Config, state: State, extent: Extent, write: Writing) -> State:
    """As many as can be taken at once."""
    items = looks_at_items(config, extent)
    everybody = config.rows.shape[0] if extent.running is None else extent.running
    if everybody > 0:
        state = serve_first(config, state, everybody, extent.width, items=items, most=extent.new, write=write)
    if everybody > 0 and extent.wide > 0:
        longest = state.kv.tables.shape[1] - 1
        state = serve_first(config, state, extent.wide, longest, items=items, most=None, write=write)
    if extent.admissions > 0:
        state = admit_first(config, state, turns=extent.admissions, items=items, write=write)
    return state


def conclude(config: Config, state: State, extent: Extent, *, one_by_one: bool) -> tuple[State, Tensor]:
    """The round is over, if nothing remains: what it has decided is a plan in flight.

    `one_by_one`: whether requests were taken alone, for only then somebody may have been preempted. Returns a code
    ([] int64): DONE, MISS where there is nothing to say to the workers, UNANSWERED where the round goes on or there is
    none.
    """
    left = remaining(config, state) if extent.admissions > 0 else state.to_serve - state.served
    over = state.open & (left == 0)
    items = looks_at_items(config, extent)
    after, says = concluded(state, over, leaving=extent.leaving, items=items, preempted=one_by_one)
    encoder = reported(state.encoder, over) if items else state.encoder
    goes_on = constant(UNANSWERED, over.device)
    code = torch.where(over, either(says, Code.DONE, Code.MISS), goes_on)
    return after._replace(encoder=encoder, open=state.open & ~over), code


def reported(cache: Cache, over: Tensor) -> Cache:
    """Where the round is over, what was evicted is told to the workers, and nothing of it is left."""
    return cache._replace(
        sizes=cache.sizes.masked_fill(over & ~cache.resident, 0), freed=cache.freed.masked_fill(over, OUTSIDE)
    )


def schedule(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> tuple[State, Tensor]:
    """`schedule`: a round begins, and ends if no request has to be taken alone.

    No round is in progress. [] int64: DONE, MISS or, while the round goes on, UNANSWERED; REFUSED where as many plans
    are in flight as may be.
    """
    begun = begin(config, state)
    after, code = conclude(config, burst(config, begun, extent, write), extent, one_by_one=False)
    return after, torch.where(begun.open, code, int(Code.REFUSED))


def proceed(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> tuple[State, Tensor]:
    """The round in progress goes on, and ends if nothing remains; without one, nothing happens."""
    for _ in range(extent.rounds):
        state = burst(config, one(config, state, write=write), extent, write)
    return conclude(config, state, extent, one_by_one=True)
