"""Loads that the checks of a device share."""

from __future__ import annotations

import random

import torch

from cacheimpl import kv_blocks
from cacheproof.model.registry import component_named
from cachespec.scheduler import Config as SchedulerConfig

SPARE = {"carried": 1, "stamp": 1, "bytes": 1, "order": 1}
"""Fields of the pool whose last element holds anything: what is written for nobody goes there, in any order."""


def shared_prefixes(
    requests: int, positions: int, block_size: int, draw: random.Random, device: str
) -> kv_blocks.Config:
    """Requests of full length, of which many begin alike."""
    known: dict[tuple[int, ...], int] = {}
    chains = []
    for _ in range(requests):
        path = tuple(draw.randrange(3 if place < 2 else requests) for place in range(positions))
        chains.append([known.setdefault(path[: end + 1], len(known)) for end in range(positions)])
    limit = positions * block_size
    return kv_blocks.configuration(
        torch.tensor(chains, device=device),
        torch.full((requests,), limit, device=device),
        block_size=block_size,
        limit=limit,
        count=len(known),
    )


def scheduler_load(draw: random.Random, requests: int, *, text: bool = False) -> SchedulerConfig:
    """Too few blocks, tokens and places; requests of a group begin alike; some have items.

    `text`: no items, shorter prompts and longer outputs, so that more run at a time, and a budget of any size, so that
    prompts are cut.
    """
    block_size = draw.choice((2, 4))
    longest = 10 * block_size
    prompts = tuple(draw.randint(2, longest // 2 if text else longest - 4) for _ in range(requests))
    outputs = tuple(draw.randint(1, 4 * block_size if text else 2 * block_size) for _ in range(requests))
    needed = sum(-(-(prompt + output) // block_size) for prompt, output in zip(prompts, outputs, strict=True))
    share = 0.0 if text else 0.5
    items = tuple(((draw.randrange(max(1, requests // 2)), 0, 2),) if draw.random() < share else () for _ in prompts)
    groups = tuple(draw.randrange(max(1, requests // 3)) for _ in range(requests))
    begins = {group: items[row] for row, group in reversed(list(enumerate(groups)))}
    config = SchedulerConfig(
        block_size=block_size,
        kv_blocks=max(10, needed // (4 if text else 3)),
        token_budget=draw.choice((2, 3, requests, longest)) if text else max(longest, 2 * requests),
        encoder_compute=6,
        encoder_capacity=max(6, requests // 4),
        max_running=max(2, 2 * requests // 3),
        max_model_len=longest,
        prompts=prompts,
        outputs=outputs,
        items=tuple(begins[group] for group in groups),
        groups=groups,
        shared=prompts,
    )
    wrong = component_named("scheduler").invalid(config)
    assert wrong is None, wrong
    return config
