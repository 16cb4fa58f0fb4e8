"""One scheduling step: who computes how many tokens, with which items, in which blocks.

`schedule` begins a round and goes as far as many requests at once can go; where that is all the way, it ends the round
too. Otherwise `remaining` says so, and `proceed` goes on, one request at a time where it has to be, until nothing
remains. Between `schedule` and the end of its round no other operation is called.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import encoder_cache
from cacheimpl.answer import UNANSWERED, Answer, Code
from cacheimpl.recency import length
from cacheimpl.scheduler.burst import admit_first, serve_first
from cacheimpl.scheduler.plans import concluded, shown
from cacheimpl.scheduler.single import considers, one
from cacheimpl.scheduler.state import Config, State
from cacheimpl.writing import COPYING, Writing


class Extent(NamedTuple):
    """How much is done in one call: parts of the shapes, which decide what a call costs and not what comes of it."""

    width: int
    """Blocks that one running request may need in a burst: 1 where each computes one token, and a draft or two"""
    admissions: int
    """Waiting requests in a burst"""
    rounds: int
    """How many requests `proceed` takes one at a time, each with a burst behind it"""
    fills: int
    """Blocks of one request that a step may fill: 1 where each computes one token"""
    releases: int
    """Finished requests whose blocks an update gives back in one call"""


def begin(config: Config, state: State) -> State:
    """A round begins, if none is in progress and one more plan may be in flight."""
    begins = ~state.open & (state.plans < state.turns.shape[0])

    def at_first(value: Tensor, now: Tensor) -> Tensor:
        return torch.where(begins, value, now)

    return state._replace(
        open=state.open | begins,
        to_serve=at_first(length(state.running).long(), state.to_serve),
        tokens_left=at_first(config.token_budget, state.tokens_left),
        embeds_left=at_first(config.encoder_compute, state.embeds_left),
    )


def remaining(config: Config, state: State) -> Tensor:
    """[] int64: how many requests are still to be considered in the round in progress; 0: it is over."""
    waiting = torch.where(considers(config, state), length(state.waiting).long(), 0)
    return torch.where(state.open, state.to_serve - state.served, 0) + waiting


def burst(config: Config, state: State, extent: Extent, write: Writing) -> State:
    """As many as can be taken at once."""
    state = serve_first(config, state, width=extent.width, write=write)
    return admit_first(config, state, turns=extent.admissions, write=write)


def conclude(config: Config, state: State) -> tuple[State, Answer]:
    """The round is over, if nothing remains: what it has decided is a plan in flight.

    DONE with request, first token and number of tokens of each part; MISS where there is nothing to say to the workers;
    UNANSWERED where the round goes on, or there is none.
    """
    over = state.open & (remaining(config, state) == 0)
    values, count = shown(state)
    reported, _ = encoder_cache.report(config.encoder, state.encoder)
    told, says = concluded(state, state.encoder.freed, over)
    code = torch.where(says, int(Code.DONE), int(Code.MISS))
    after = told._replace(
        encoder=state.encoder._replace(
            sizes=torch.where(over, reported.sizes, state.encoder.sizes),
            freed=torch.where(over, reported.freed, state.encoder.freed),
        ),
        open=state.open & ~over,
        **{name: getattr(state, name).where(~over, torch.zeros_like(getattr(state, name))) for name in PROGRESS},
    )
    return after, Answer(torch.where(over, code, UNANSWERED), values, torch.where(over & says, count, 0))


PROGRESS = ("served", "to_serve", "tokens_left", "embeds_left", "closed", "ended")


def schedule(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> tuple[State, Answer]:
    """`schedule`: a round begins, and ends if no request has to be taken alone.

    REFUSED: as many plans are in flight as may be.
    """
    full = ~state.open & (state.plans >= state.turns.shape[0])
    after, answer = conclude(config, burst(config, begin(config, state), extent, write))
    return after, answer._replace(code=torch.where(full, int(Code.REFUSED), answer.code))


def proceed(config: Config, state: State, *, extent: Extent, write: Writing = COPYING) -> tuple[State, Answer]:
    """The round in progress goes on, and ends if nothing remains; without one, nothing happens."""
    for _ in range(extent.rounds):
        state = burst(config, one(config, state, write=write), extent, write)
    return conclude(config, state)
