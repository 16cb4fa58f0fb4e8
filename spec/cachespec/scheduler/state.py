"""The state of a scheduler with its caches, what is in a plan, and the view that properties read."""

from __future__ import annotations

from typing import NamedTuple

from cachespec import encoder_cache, kv_blocks
from cachespec.kernel import Containers, Map
from cachespec.scheduler.configuration import Config, ItemIndex, Request, connected, encoder_config, kv_config
from cachespec.scheduler.worker import Worker, WorkerView, initial_worker

Line = tuple[Request, ...]
"""Requests in the order in which they are served or admitted."""


class Scheduled(NamedTuple):
    """One request's part of a plan: the tokens from `start` on, `tokens` of them."""

    request: Request
    start: int
    tokens: int
    drafts: int
    """How many of the tokens, at the end, are drafts."""
    samples: int
    """1: the token after its last one is unknown and is sampled."""
    encode: tuple[ItemIndex, ...]
    """Items that are encoded in this step."""
    relies: tuple[ItemIndex, ...]
    """Items of which the tokens read the embeddings; those of `encode` among them."""
    void: int = 0
    """1: the request was preempted or aborted since. The workers execute the part, and its output is dropped."""


class Plan(NamedTuple):
    """What the workers are told in one step (`SchedulerOutput`). They drop first, then encode, then compute."""

    scheduled: tuple[Scheduled, ...]
    dropped: tuple[int, ...]
    """Encoder outputs that are no longer needed, as the encoder cache reports them."""
    finished: tuple[Request, ...]
    """Requests that are finished or aborted since the last plan."""
    preempted: tuple[Request, ...]
    """Requests that lost their KV in this round."""
    brought: tuple[int, ...] = ()
    """Contents whose encoder outputs the step loads from the encoder connector, ascending."""


LOADS_IN_STEP, LOADING, LOADED, ABANDONED, SENDING, KEPT = 1, 2, 3, 4, 5, 6
"""Phases of a transfer."""


class Transfer(NamedTuple):
    """KV that comes from an external store, or goes to one."""

    phase: int
    """`LOADS_IN_STEP`: the request's first step in flight loads it. `LOADING`: the request waits for it. `LOADED`: the
    request waits to be admitted with it. `ABANDONED`: the request was aborted meanwhile, and the load still writes.
    `SENDING`: the request is finished, and its blocks are read. `KEPT`, in eras: the request is the next turn of a
    session, which waits for its input with what it has computed."""
    tokens: int
    """The request's tokens that have their KV when the load is done; 0 if it is sent."""


NO_TRANSFER = Transfer(0, 0)


class State(NamedTuple):
    """A request waits, or runs, or neither; the ones that run are in `computed`.

    Only those, and requests with a transfer, hold anything.
    """

    kv: kv_blocks.Pool
    encoder: encoder_cache.Cache
    waiting: Line
    """In the order in which they will be admitted."""
    running: Line
    """In the order in which they are served; the last is the first to be preempted."""
    computed: Map[Request, int]
    """Running requests: the tokens of which the KV is there, or will be when the plans in flight are executed."""
    produced: Map[Request, int]
    """Output tokens that were sampled; absent where none."""
    proposed: Map[Request, int]
    """Draft tokens that were proposed with the last output and are not scheduled yet; absent where none."""
    compiling: Map[Request, int]
    """Requests that wait for the grammar of their output; each 1."""
    queued: Map[Request, int]
    """Turns that have arrived while an earlier turn of their session waits or runs; each 1."""
    gone: Map[Request, int]
    """Requests that are finished or aborted; each 1. The turns behind an aborted one are, too: none of them arrives."""
    leaving: Map[Request, int]
    """Those of them of which the workers are to be told; each 1."""
    transfers: Map[Request, Transfer]
    """Requests whose KV is transferred."""
    remote: Map[int, int]
    """Contents whose encoder output the encoder connector has (`STORED`) or expects (`EXPECTED`)."""
    plans: tuple[Plan, ...]
    """In flight, the oldest first."""
    worker: Worker
    """History: what the workers really have computed, all plans in flight included."""


class View(NamedTuple):
    """What properties read: the same for every variant."""

    kv: kv_blocks.View
    encoder: encoder_cache.View
    waiting: tuple[int, ...]
    running: tuple[int, ...]
    computed: tuple[tuple[int, int], ...]
    produced: tuple[tuple[int, int], ...]
    proposed: tuple[tuple[int, int], ...]
    compiling: tuple[int, ...]
    queued: tuple[int, ...]
    gone: tuple[int, ...]
    leaving: tuple[int, ...]
    transfers: tuple[tuple[int, Transfer], ...]
    remote: tuple[tuple[int, int], ...]
    plans: tuple[Plan, ...]
    worker: WorkerView


def remote_at_first(config: Config, containers: Containers) -> Map[int, int]:
    """What the encoder connector has or expects before the first operation."""
    remote: Map[int, int] = containers.map()
    for content in range(len(config.encoder_connector)):
        if connected(config, content) > 0:
            remote = remote.set(content, connected(config, content))
    return remote


def initial(config: Config, containers: Containers) -> State:
    """No request has arrived."""
    return State(
        kv=kv_blocks.NORMATIVE_KV_BLOCKS.initial(kv_config(config), containers),
        encoder=encoder_cache.NORMATIVE_ENCODER_CACHE.initial(encoder_config(config), containers),
        waiting=(),
        running=(),
        computed=containers.map(),
        produced=containers.map(),
        proposed=containers.map(),
        compiling=containers.map(),
        queued=containers.map(),
        gone=containers.map(),
        leaving=containers.map(),
        transfers=containers.map(),
        remote=remote_at_first(config, containers),
        plans=(),
        worker=initial_worker(containers),
    )
