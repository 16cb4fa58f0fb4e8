"""Recorded loads through our scheduler: the number of steps in which no request takes the slow path alone.

The figures of a step hold for steps that process all requests at once. The number of such steps depends on the load, so
two loads are counted: long conversations with shared prefixes, and requests with images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.settings import Settings
from cacheproof.replay.readers import read
from cacheproof.replay.shipped import DATA

LIVE, BLOCKS, BUDGET = 64, 20_000, 8_192
"""Running requests, blocks of 16 tokens, and tokens of a step: values that an engine might have."""

TEXT, OUTPUT = 32, 64
"""Tokens before each image, and of an output: the composed load has no text of its own."""


class Place(NamedTuple):
    """Position of an item in its prompt."""

    offset: int
    length: int


class Feature(NamedTuple):
    """An item of a prompt."""

    identifier: str
    mm_position: Place


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int
    mm_features: tuple[Feature, ...] = ()


class Share(NamedTuple):
    """The steps of a load, and those in which no request took the slow path alone."""

    load: str
    at_once: int
    steps: int

    def __str__(self) -> str:
        return f"{self.load}: nothing remained in {self.at_once / self.steps:.1%} of {self.steps:,} steps"


def conversations(count: int) -> Iterator[Asked]:
    """The first requests of the shipped Mooncake slice; the name of a block stands for its tokens."""
    trace = read([DATA / "mooncake_slice.jsonl.gz"], {"requests": str(count)})
    for number, one in enumerate(trace.arrivals):
        assert one.tokens is not None
        size = trace.sizes[one.contents[0]] if one.contents else 1
        tokens = [name * size + place for name in one.contents for place in range(size)]
        rest = range(one.tokens.prompt - len(tokens))
        yield Asked(str(number), [*tokens, *(-1 - number for _ in rest)], max(1, one.tokens.output))


def images(count: int) -> Iterator[Asked]:
    """Requests composed from the shipped ServeGen clients, with a little text before each image."""
    trace = read([DATA / "servegen_clients_slice.jsonl.gz"], {"reuse": "zipf", "requests": str(count)})
    for number, one in enumerate(trace.arrivals):
        tokens: list[int] = []
        features = []
        for content in one.contents:
            tokens += [-1 - number] * TEXT
            features.append(Feature(f"image {content}", Place(len(tokens), trace.sizes[content])))
            tokens += [content] * trace.sizes[content]
        yield Asked(str(number), [*tokens, -1 - number], OUTPUT, tuple(features))


def shares(*, small: bool) -> list[Share]:
    """The lines for both loads."""
    torch.set_num_threads(1)
    return [
        served("Mooncake conversations", list(conversations(10 if small else 100))),
        served("ServeGen images", list(images(20 if small else 200))),
    ]


def served(load: str, asked: Sequence[Asked], blocks: int = BLOCKS) -> Share:
    """Serve all requests, at most `LIVE // 2` at a time."""
    longest = max(len(one.prompt_token_ids) + one.max_tokens for one in asked) + 1
    largest = max((item.mm_position.length for one in asked for item in one.mm_features), default=1)
    scheduler = Scheduler(
        Settings(
            block_size=16,
            num_gpu_blocks=blocks,
            max_num_batched_tokens=BUDGET,
            max_num_seqs=LIVE,
            max_model_len=longest,
            max_requests=LIVE,
            max_items=max(len(one.mm_features) for one in asked),
            encoder_compute_budget=max(BUDGET, largest),
            encoder_cache_size=max(BUDGET, largest),
        )
    )
    waiting = list(asked)[::-1]
    while waiting or scheduler.has_unfinished_requests():
        while waiting and scheduler.get_num_unfinished_requests() < LIVE // 2:
            scheduler.add_request(waiting.pop())
        if scheduler.schedule() is not None:
            scheduler.update_from_output()
    return Share(load, scheduler.rounds_at_once, scheduler.rounds_in_all)
