"""What a scheduler knows: the requests, the two caches, the plans in flight, and the round that is in progress."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl import encoder_cache, kv_blocks
from cacheimpl.recency import OUTSIDE

NO_LIMIT = 2**62 - 1
"""Of a count that is not limited: two of them can be added."""


class Config(NamedTuple):
    """What does not change. Requests are rows; counts are in tokens, of which an item has one embedding each."""

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
    most_of_one: Tensor
    """[] int64: tokens of one request in one step; `NO_LIMIT` where that is not limited"""
    drafts: Tensor
    """[] int64: draft tokens that are proposed whenever a token was sampled"""
    alignment: Tensor
    """[] int64: chunks of a prompt end at its multiples where they can; 0 where they need not"""
    whole_items: Tensor
    """[] bool: an item is computed in one chunk"""
    chunked: Tensor
    """[] bool: what a request is admitted with is cut to the token budget"""


class State(NamedTuple):
    """Plans are rows, the oldest first, the one of the round in progress behind those in flight; then empty ones."""

    kv: kv_blocks.Pool
    encoder: encoder_cache.Cache
    """Grants and attempts are resolved within a step of a round, so they are empty here."""
    running: Tensor
    """[requests] int32, ranks: the order of service; -1 where not running"""
    waiting: Tensor
    """[requests] int32, ranks: the order of admission; -1 where not waiting"""
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
    """[requests] int32, ranks: gone, and their blocks are not given back yet, in this order"""
    plans: Tensor
    """[] int64: how many are in flight"""
    turns: Tensor
    """[plans, requests] int32, ranks: the order of a plan's parts; -1 where a request has none, and then what follows
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
    """[plans, requests] int32, ranks: who lost its KV in the round of the plan"""
    open: Tensor
    """[] bool: a round is in progress. Where none is, the fields below are 0"""
    served: Tensor
    """[] int64: so many of those that run were considered, from the first"""
    to_serve: Tensor
    """[] int64: so many of those that ran when the round began run still"""
    tokens_left: Tensor
    """[] int64: of the token budget"""
    embeds_left: Tensor
    """[] int64: of the encoder compute budget"""
    closed: Tensor
    """[] bool: a request waits for room in the encoder cache, and nobody behind it takes any"""
    ended: Tensor
    """[] bool: nobody is admitted any more"""


def empty(config: Config, kv: kv_blocks.Pool, contents: int, plans: int) -> State:
    """No request has arrived; `contents` encoder outputs can be told apart, `plans` plans may be in flight."""
    requests, items = config.item_starts.shape
    device = config.prompts.device

    def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    def flags(*shape: int) -> Tensor:
        return zeros(*shape, dtype=torch.bool)

    def nobody(*shape: int) -> Tensor:
        return torch.full(shape, OUTSIDE, dtype=torch.int32, device=device)

    return State(
        kv=kv,
        encoder=encoder_cache.empty(config.encoder.capacity, requests, items, contents),
        running=nobody(requests),
        waiting=nobody(requests),
        computed=zeros(requests),
        produced=zeros(requests),
        proposed=zeros(requests),
        gone=flags(requests),
        leaving=flags(requests),
        ending=nobody(requests),
        plans=zeros(),
        turns=nobody(plans, requests),
        starts=zeros(plans, requests),
        tokens=zeros(plans, requests),
        drafts=zeros(plans, requests),
        samples=flags(plans, requests),
        void=flags(plans, requests),
        encode=flags(plans, requests, items),
        relies=flags(plans, requests, items),
        dropped=nobody(plans, contents),
        finished=flags(plans, requests),
        preempted=nobody(plans, requests),
        open=flags(),
        served=zeros(),
        to_serve=zeros(),
        tokens_left=zeros(),
        embeds_left=zeros(),
        closed=flags(),
        ended=flags(),
    )
