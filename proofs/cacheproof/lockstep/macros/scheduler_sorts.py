"""Loads of further sorts: each makes another load of a given one."""

from __future__ import annotations

import random

from cachespec.scheduler.configuration import EXPECTED, STORED, Config, encoder_config


def elsewhere(config: Config, draw: random.Random) -> Config:
    """The same load with KV that comes from an external store and goes to one; loads may fail."""
    requests, fails = len(config.prompts), draw.randint(0, 1)
    return config._replace(
        external=tuple(draw.choice((0, draw.randint(1, prompt))) for prompt in config.prompts),
        loads_later=tuple(draw.randint(0, 1) for _ in range(requests)),
        load_failures=fails,
        failed_loads_end=fails * draw.randint(0, 1),
        sends=draw.choice(((), tuple(draw.randint(0, 1) for _ in range(requests)))),
        running_resets=0,
    )


def from_a_connector(config: Config, draw: random.Random) -> Config:
    """The same load with encoder outputs that an encoder connector has or expects."""
    contents = range(len(encoder_config(config).sizes))
    connector = tuple(draw.choice((0, STORED, EXPECTED)) for _ in contents)
    return config._replace(encoder_connector=connector if config.items else (), external=())


def pooled(config: Config, draw: random.Random) -> Config:
    """The same load for a pooling model; some prompts are as long as the model."""
    longest = max(config.prompts) + draw.randint(0, 1)
    return config._replace(
        pooling=1, outputs=(1,) * len(config.prompts), max_model_len=longest, drafts=0, external=(), ahead=1
    )


def conversing(config: Config, draw: random.Random) -> Config:
    """The same load in sessions of up to three turns."""
    turns, prompts, priorities = [0], list(config.prompts), list(config.priorities)
    for request in range(1, len(prompts)):
        kept = min(prompts[request - 1] + config.outputs[request - 1], config.max_model_len) - 1
        prompt = kept + draw.randint(1, 3)
        is_turn = draw.random() < 1 / 2 and turns[-2:] != [1, 1] and prompt < config.max_model_len
        turns.append(int(is_turn))
        if is_turn:
            prompts[request], priorities[request] = prompt, priorities[request - 1]
    return config._replace(
        turns=tuple(turns),
        prompts=tuple(prompts),
        priorities=tuple(priorities),
        items=(),
        groups=(),
        shared=(),
        external=(),
    )


def crossing(config: Config, draw: random.Random) -> Config:
    """The same load for an encoder-decoder model."""
    items = tuple(tuple((content, 0, length) for content, _, length in placed) for placed in config.items)
    return config._replace(
        prompts=tuple(draw.randint(1, prompt) for prompt in config.prompts),
        items=items,
        encoder_decoder=1,
        chunked_prefill=0,
        prefix_caching=0,
        whole_items=0,
        long_prefill_threshold=0,
        alignment=0,
        external=(),
        groups=(),
        shared=(),
        encoder_compute=config.encoder_compute + draw.choice((0, 0, 4)),
    )
