"""What a scheduling step works on: the round so far, and the attempt to schedule one request in it."""

from __future__ import annotations

from typing import NamedTuple

from cachespec.encoder_cache import Cache
from cachespec.kv_blocks import Pool
from cachespec.scheduler.configuration import ItemIndex, Request
from cachespec.scheduler.state import Scheduled, State


class Round(NamedTuple):
    """A step in progress."""

    state: State
    tokens: int
    """What is left of the token budget."""
    embeds: int
    """What is left of the encoder compute budget."""
    scheduled: tuple[Scheduled, ...]
    preempted: tuple[Request, ...]
    closed: int
    """1: a request waits for room in the encoder cache, and nobody behind it takes any (ENC-13)."""
    ended: int
    """1: nobody is admitted any more."""


class Prefix(NamedTuple):
    """Where a request begins."""

    hits: tuple[int, ...]
    """Blocks of its tokens that were found."""
    start: int
    """So many of its tokens are computed, those of the hits among them."""
    covered: int
    """So many are computed in blocks of its own: none, for it has none."""


class Fit(NamedTuple):
    """A request's tokens against its items, as far as they were looked at."""

    encoder: Cache
    tokens: int
    """So many of its tokens may be scheduled."""
    embeds: int
    """What is left of the compute budget of the step."""
    granted: int
    """Embeddings for which there is room, of this request in this pass."""
    encode: tuple[ItemIndex, ...]
    relies: tuple[ItemIndex, ...]
    closed: int
    """1: nothing is pinned or encoded any more, because somebody before waits for room."""
    refused: int
    """1: an item was not there and cannot be encoded now; what is behind it is not looked at."""


class Asked(NamedTuple):
    """The encoder cache after a question, and whether the answer was yes."""

    encoder: Cache
    yes: bool


class Slots(NamedTuple):
    """The KV blocks after a request for slots, and whether there were any."""

    kv: Pool
    yes: bool


class Search(NamedTuple):
    """The attempt to find KV blocks."""

    round: Round
    found: bool
