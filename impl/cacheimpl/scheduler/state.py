"""What a scheduler knows: the requests, the two caches, the plans in flight, and the round that is in progress."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.recency import OUTSIDE

NO_LIMIT = 2**62 - 1
"""Of a count that is not limited: two of them can be added."""


class Plan(NamedTuple):
    """What the workers are told in one step, a row for each plan in flight."""

    turns: Tensor
    """[plans, requests] int64, ranks: the order of a plan's parts; -1 where a request has none, and then what follows
    is 0"""
    starts: Tensor
    """[plans, requests] int64: the first token of the part"""
    tokens: Tensor
    """[plans, requests] int64"""
    drafts: Tensor
    """[plans, requests] int64: so many of the tokens, the last ones, are drafts"""
    samples: Tensor
    """[plans, requests] bool: a token is sampled behind the last one"""
    void: Tensor
    """[plans, requests] bool: the request was preempted or aborted since"""
    encode: Tensor
    """[plans, requests, items] bool"""
    relies: Tensor
    """[plans, requests, items] bool: of which items the tokens read the embeddings"""
    dropped: Tensor
    """[plans, contents] int32, ranks: encoder outputs that the workers drop"""
    finished: Tensor
    """[plans, requests] bool: of which the plan says that they are finished or aborted"""
    preempted: Tensor
    """[plans, requests] int64, ranks: requests preempted in the round of the plan"""
    fetched: Tensor
    """[plans, contents] bool: encoder outputs that the step loads from the encoder connector"""


class Config(NamedTuple):
    """What does not change. Requests are rows; counts are in tokens, of which an item has one embedding each.

    What is an `int` or a `bool` decides, as shapes do, which operations there are at all.
    """

    kv: kv_blocks.Config
    encoder: encoder_cache.Config
    """With the contents and the lengths (`claims`) of each request's items."""
    item_starts: Tensor
    """[requests, items] int64: the position of the first token of each item; arbitrary where there is none"""
    prompts: Tensor
    """[requests] int64"""
    finals: Tensor
    """[requests] int64: the most tokens that each request may have"""
    ends: Tensor
    """[requests] int64: the tokens of each request once it is finished: fewer than `finals` if a stop token ends it"""
    priorities: Tensor
    """[requests] int64: the least comes first; 0 everywhere where requests are served as they come"""
    external: Tensor
    """[requests] int64: first tokens of which an external store has the KV; 0 where there is none"""
    adapters: Tensor
    """[requests] int64: the adapter (LoRA) of each request; 0 for the base model"""
    later: Tensor
    """[requests] bool: the request waits until its external KV is loaded; where False, its first step loads it"""
    sent: Tensor
    """[requests] bool: the blocks are sent away once the request is finished, and then freed"""
    before: Tensor
    """[requests] int64: the row of the turn before, if the request is a later turn of a session; -1 elsewhere"""
    grammars: Tensor
    """[requests] bool: the output follows a grammar, which is compiled while the request waits"""
    block_size: Tensor
    """[] int64"""
    blocks: Tensor
    """[] int64: blocks in the pool"""
    token_budget: Tensor
    """[] int64"""
    encoder_compute: Tensor
    """[] int64, embeddings of a step"""
    max_running: Tensor
    """[] int64"""
    max_model_len: Tensor
    """[] int64"""
    rows: Tensor
    """[requests] int64: 0, 1, 2 and so on"""
    blank: Plan
    """One plan that says nothing"""
    most_of_one: int
    """Tokens of one request in one step; `NO_LIMIT` where that is not limited"""
    drafts: int
    """Draft tokens that are proposed whenever a token was sampled"""
    alignment: int
    """Chunks of a prompt end at its multiples where they can; 0 where they need not"""
    whole_items: bool
    """An item is computed in one chunk"""
    chunked: bool
    """What a request is admitted with is cut to the token budget"""
    caching: bool = True
    """A request may begin with the KV of another one"""
    pipelined: bool = False
    """Plans in flight are in the stages of a pipeline: the next token of a request is not planned before it is known"""
    watermark: int = 0
    """Free blocks that an admission leaves if another request runs"""
    most_adapters: int = 0
    """Different adapters of the requests that run; 0 if no request has one"""
    compiles: bool = False
    """Any request may have a grammar"""
    encoder_decoder: bool = False
    """The first step of a request encodes all its items, and later steps read the cross-attention KV that it writes"""
    loads: bool = False
    """Any request may wait until its external KV is loaded"""
    sends: bool = False
    """Blocks of any request may be sent away"""
    sessions: bool = False
    """Any request may be a later turn of a session"""
    fails: bool = False
    """A load may fail"""
    failed_ends: bool = False
    """A failed load ends its request"""
    connected: bool = False
    """An encoder connector may bring encoder outputs"""
    pools: bool = False
    """The model pools: a prompt may be as long as the model"""


class State(NamedTuple):
    """Plans are rows, the oldest first, the one of the round in progress behind those in flight; then empty ones."""

    kv: kv_blocks.Pool
    encoder: encoder_cache.Cache
    """Grants and attempts are resolved within a step of a round, so they are empty here."""
    running: Tensor
    """[requests] int64, ranks: the order of service; -1 where not running"""
    waiting: Tensor
    """[requests] int64, ranks: the order of admission; -1 where not waiting"""
    computed: Tensor
    """[requests] int64: tokens with KV, once the plans in flight are executed; 0 where not running"""
    produced: Tensor
    """[requests] int64: output tokens that were sampled"""
    proposed: Tensor
    """[requests] int64: draft tokens that are not scheduled yet"""
    gone: Tensor
    """[requests] bool: finished or aborted"""
    leaving: Tensor
    """[requests] bool: those of them of which the workers are to be told"""
    ending: Tensor
    """[requests] int64: finished, and not released yet: the least first; -1 where not"""
    compiling: Tensor
    """[requests] bool: those that wait for the grammar of their output"""
    queued: Tensor
    """[requests] bool: turns that arrived while an earlier turn of their session waits or runs"""
    transfer: Tensor
    """[requests] int64: the phase of the request's transfer of KV, see `transfers`; 0 if it has none"""
    brought: Tensor
    """[requests] int64: tokens that have their KV when the load is done; 0 if there is none"""
    remote: Tensor
    """[contents] int64: what the encoder connector has or expects, see `connector`"""
    plans: Tensor
    """[] int64: how many are in flight"""
    turns: Tensor
    """[plans, requests] int64, ranks: the order of a plan's parts; -1 where a request has none, and then what follows
    is 0"""
    starts: Tensor
    """[plans, requests] int64: the first token of the part"""
    tokens: Tensor
    """[plans, requests] int64"""
    drafts: Tensor
    """[plans, requests] int64: so many of the tokens, the last ones, are drafts"""
    samples: Tensor
    """[plans, requests] bool: a token is sampled behind the last one"""
    void: Tensor
    """[plans, requests] bool: the request was preempted or aborted since"""
    encode: Tensor
    """[plans, requests, items] bool"""
    relies: Tensor
    """[plans, requests, items] bool: of which items the tokens read the embeddings"""
    dropped: Tensor
    """[plans, contents] int32, ranks: encoder outputs that the workers drop"""
    finished: Tensor
    """[plans, requests] bool: of which the plan says that they are finished or aborted"""
    preempted: Tensor
    """[plans, requests] int64, ranks: requests preempted in the round of the plan"""
    fetched: Tensor
    """[plans, contents] bool: encoder outputs that the step loads from the encoder connector"""
    open: Tensor
    """[] bool: a round is in progress. Where none is, the fields below mean nothing"""
    parts: Tensor
    """[] int64: so many requests have a part of its plan"""
    served: Tensor
    """[] int64: so many of those that run were considered, from the first"""
    to_serve: Tensor
    """[] int64: so many of those that ran when the round began run still"""
    tokens_left: Tensor
    """[] int64: of the token budget"""
    embeds_left: Tensor
    """[] int64: of the encoder compute budget"""
    closed: Tensor
    """[] bool: a request waits for room in the encoder cache, and later requests take none"""
    ended: Tensor
    """[] bool: no further request is admitted"""
    passed: Tensor
    """[requests] bool: those that wait and were passed over: their adapter is one too many, or their KV cannot be
    loaded now
    """


def blank_plans(plans: int, requests: int, items: int, contents: int, device: torch.device | str = "cpu") -> Plan:
    """So many plans that say nothing."""

    def nobody(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.full((plans, *shape), OUTSIDE, dtype=dtype, device=device)

    def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.zeros((plans, *shape), dtype=dtype, device=device)

    return Plan(
        turns=nobody(requests),
        starts=zeros(requests),
        tokens=zeros(requests),
        drafts=zeros(requests),
        samples=zeros(requests, dtype=torch.bool),
        void=zeros(requests, dtype=torch.bool),
        encode=zeros(requests, items, dtype=torch.bool),
        relies=zeros(requests, items, dtype=torch.bool),
        dropped=nobody(contents, dtype=torch.int32),
        finished=zeros(requests, dtype=torch.bool),
        preempted=nobody(requests),
        fetched=zeros(contents, dtype=torch.bool),
    )


def empty(config: Config, kv: kv_blocks.Pool, plans: int, remote: Tensor | None = None) -> State:
    """No request has arrived; so many plans may be in flight.

    `remote` ([contents] int64): what an encoder connector has or expects, if there is one.
    """
    requests, items = config.item_starts.shape
    device, contents = config.prompts.device, config.blank.dropped.shape[1]
    nobody = torch.full((requests,), OUTSIDE, dtype=torch.int64, device=device)
    nothing, zero = torch.zeros_like(nobody), torch.zeros((), dtype=torch.int64, device=device)
    return State(
        kv=kv,
        encoder=encoder_cache.empty(config.encoder.capacity, requests, items, contents),
        running=nobody,
        waiting=nobody,
        computed=nothing,
        produced=nothing,
        proposed=nothing,
        gone=nothing.bool(),
        leaving=nothing.bool(),
        ending=nobody,
        compiling=nothing.bool(),
        queued=nothing.bool(),
        transfer=nothing,
        brought=nothing,
        remote=torch.zeros((contents,), dtype=torch.int64, device=device) if remote is None else remote,
        plans=zero,
        **blank_plans(plans, requests, items, contents, device)._asdict(),
        open=zero.bool(),
        parts=zero,
        served=zero,
        to_serve=zero,
        tokens_left=zero,
        embeds_left=zero,
        closed=zero.bool(),
        ended=zero.bool(),
        passed=nothing.bool(),
    )
