"""Small random loads of a scheduler, of which each request could be served if it were alone."""

from __future__ import annotations

import random
from typing import Any

from cachespec.scheduler import COMPONENT
from cachespec.scheduler.configuration import BY_PRIORITY, FIRST_COME, LENGTH, Config, Item
from cachespec.scheduler.feasibility import is_feasible

CONTENTS = 2
OF_EACH_REQUEST = ("prompts", "outputs", "items", "priorities", "groups", "shared", "external")


def load(source: random.Random, *, wide: bool = False) -> Config:
    """Two to four requests with items, and little of everything that they share. `wide`: with rarer settings, too."""
    while True:
        config = widened(source, attempt(source)) if wide else attempt(source)
        servable = (could_be_served(config, request) for request in range(len(config.prompts)))
        if COMPONENT.invalid(config) is None and all(servable):
            return config


def could_be_served(config: Config, request: int) -> bool:
    """By the normative rules; of the blocks one is set aside, as in every release."""
    return config.kv_blocks > 1 and is_feasible(config._replace(kv_blocks=config.kv_blocks - 1), request)


def attempt(source: random.Random) -> Config:
    """Sizes at random; whether they go together is for others to say."""
    count, longest = source.randint(2, 4), source.randint(4, 12)
    prompts = tuple(source.randint(1, longest) for _ in range(count))
    outputs = tuple(source.randint(1, 3) for _ in range(count))
    lengths = [source.randint(1, 5) for _ in range(CONTENTS)]
    block_size = source.choice((1, 2, 2, 4))
    most = max(prompt + output for prompt, output in zip(prompts, outputs, strict=True))
    return Config(
        block_size=block_size,
        kv_blocks=1 + -(-most // block_size) + source.randint(0, 1),
        token_budget=source.randint(2, longest + 4),
        encoder_compute=max(lengths) + source.randint(0, 3),
        encoder_capacity=max(lengths) + source.randint(0, 1),
        max_running=source.randint(2, count),
        max_model_len=most + 1,
        prompts=prompts,
        outputs=outputs,
        items=tuple(items_of(source, prompt, lengths) for prompt in prompts),
        priorities=tuple(source.randint(0, 2) for _ in range(count)),
        policy=source.choice((FIRST_COME, FIRST_COME, BY_PRIORITY)),
        long_prefill_threshold=source.choice((0, 0, 0, source.randint(1, longest))),
        ahead=source.choice((1, 1, 2)),
    )


def widened(source: random.Random, config: Config) -> Config:
    """Drafts, prompts that are not cut, items that are not split, prompts that begin alike, an encoder for one item.

    Engines start only where a step has room for a token of each request, and, where prompts are not cut, for the
    longest request. A step and the threshold have room for a token with its drafts.
    """
    count = len(config.prompts)
    largest = max((item[LENGTH] for items in config.items for item in items), default=1)
    outputs = tuple(source.randint(1, 6) for _ in range(count))
    most = max(prompt + output for prompt, output in zip(config.prompts, outputs, strict=True))
    chunks, drafts = source.choice((1, 1, 1, 0)), source.choice((0, 0, 1, 3))
    groups = tuple(source.randint(0, 1) for _ in range(count)) if source.random() < 0.5 else ()  # half of them
    return config._replace(
        kv_blocks=1 + -(-most // config.block_size) + source.randint(0, 1),
        max_model_len=most + 1,
        outputs=outputs,
        encoder_compute=source.choice((largest, config.encoder_compute)),
        encoder_capacity=source.choice((largest, config.encoder_capacity)),
        drafts=drafts,
        token_budget=max(config.token_budget, count, drafts + 1, 0 if chunks else most + 1),
        long_prefill_threshold=config.long_prefill_threshold and max(config.long_prefill_threshold, drafts + 1),
        chunked_prefill=chunks,
        whole_items=source.choice((0, 0, 1)),
        groups=groups,
        shared=tuple(source.randint(0, prompt) for prompt in config.prompts) if groups else (),
        max_running=source.randint(1, count),
        aborts=source.choice((0, 0, 1)),
        resets=source.choice((0, 0, 1)),
    )


def items_of(source: random.Random, prompt: int, lengths: list[int]) -> tuple[Item, ...]:
    """Items behind one another, as long as the prompt lasts."""
    items: list[Item] = []
    start = source.randint(0, 2)
    while source.random() < 0.8:  # most requests have an item
        content = source.randrange(CONTENTS)
        if start + lengths[content] > prompt:
            break
        items.append((content, start, lengths[content]))
        start += lengths[content] + source.randint(0, 2)
    return tuple(items)


def without(config: Config, request: int) -> Config:
    """The load without one request; those behind it move up."""
    fields: dict[str, Any] = {
        name: (*values[:request], *values[request + 1 :])
        for name in OF_EACH_REQUEST
        if (values := getattr(config, name))
    }
    return config._replace(**fields)
