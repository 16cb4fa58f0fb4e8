"""What a scheduling step works on: the round so far, and the attempt to schedule one request in it."""

from __future__ import annotations

from typing import NamedTuple

from cachespec.encoder_cache import Cache
from cachespec.kernel import Map
from cachespec.kv_blocks import Pool
from cachespec.scheduler.configuration import ItemIndex, Request
from cachespec.scheduler.state import Scheduled, State
from cachespec.scheduler.worker import Chunk


class Round(NamedTuple):
    """A step in progress."""

    state: State
    tokens: int
    """What is left of the token budget."""
    embeds: int
    """What is left of the encoder compute budget."""
    scheduled: tuple[Scheduled, ...]
    chunks: tuple[Chunk, ...]
    """The slots of each of them, at the time it was scheduled."""
    told: Pool
    """The blocks as they were when the step began: the workers know these tables."""
    preempted: tuple[Request, ...]
    brought: tuple[int, ...]
    """Contents whose encoder outputs the step loads from the encoder connector."""
    closed: int
    """1: a request waits for room in the encoder cache, and no request behind it takes any (ENC-13)."""
    ended: int
    """1: no further request is admitted."""


class Prefix(NamedTuple):
    """Where a request begins."""

    hits: tuple[int, ...]
    """Blocks of its tokens that were found."""
    start: int
    """How many of its tokens are computed, including those of the hits."""
    covered: int
    """How many of them are computed in its own blocks: 0 unless a release keeps some."""


class Fit(NamedTuple):
    """The tokens of a request that fit its items, for the items considered so far."""

    encoder: Cache
    remote: Map[int, int]
    """What the encoder connector has or expects."""
    tokens: int
    """How many of its tokens may be scheduled."""
    embeds: int
    """What is left of the compute budget of the step."""
    granted: int
    """Embeddings granted to this request in this pass."""
    encode: tuple[ItemIndex, ...]
    bring: tuple[ItemIndex, ...]
    """Items whose encoder outputs the connector has, and the step loads."""
    relies: tuple[ItemIndex, ...]
    closed: int
    """1: no item is pinned or encoded, because an earlier request waits for room."""
    refused: int
    """1: an item is missing and cannot be encoded now; later items are not considered."""


class Asked(NamedTuple):
    """The encoder cache after a query, and whether the answer was yes."""

    encoder: Cache
    yes: bool


class Slots(NamedTuple):
    """The KV blocks after an allocation, and whether it succeeded."""

    kv: Pool
    yes: bool


class Search(NamedTuple):
    """The result of a search for KV blocks."""

    round: Round
    found: bool
