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
    """[requests] int64: the tokens of each request once it is finished"""
    priorities: Tensor
    """[requests] int64: the least comes first; 0 everywhere where requests are served as they come"""
    external: Tensor
    """[requests] int64: first tokens of which an external store has the KV; 0 where there is none"""
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
    )


def empty(config: Config, kv: kv_blocks.Pool, plans: int) -> State:
    """No request has arrived; so many plans may be in flight."""
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
    )
