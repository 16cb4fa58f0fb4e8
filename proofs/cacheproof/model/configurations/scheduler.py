"""Small engines under pressure: two to four requests, few blocks, and a random choice among all settings.

Each configuration first draws which settings it has at all, so that some have many and others few. Most of the drawn
engines could serve each of their requests alone. A step always has room for a token, with its drafts, of each request
that may run: no engine starts otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from cachespec.kernel import refused_with
from cachespec.scheduler import COMPONENT
from cachespec.scheduler.configuration import (
    BY_PRIORITY,
    CONTENT,
    EXPECTED,
    LENGTH,
    START,
    STORED,
    UNSPECIFIED,
    Config,
    Item,
    encoder_config,
    final_length,
    items_of,
    kept_tokens,
)
from cachespec.scheduler.feasibility import is_feasible

SETTINGS = (
    "policy",
    "drafts",
    "long_prefill_threshold",
    "whole_items",
    "uncut",
    "groups",
    "aborts",
    "resets",
    "alignment",
    "external",
    "uncached",
    "watermark",
    "admit_by_chunk",
)
"""What a configuration may have, beside items and steps ahead of their output."""
SHARES = (0.15, 0.35, 0.6)
"""The share of the settings that a configuration has; one is drawn for each."""
OUTSIDE = frozenset({"external"})
"""Settings that few releases can be driven with: they are drawn less often."""
WITH_ITEMS = 0.7
"""The share of the configurations that have items."""
SERVED = 0.8
"""The share of the configurations in which each request could be served if it were alone."""
GROWING = 0.5
"""The share of the configurations in which output takes the blocks: the requests run together and are preempted."""
CONNECTED = 0.2
"""The share of the configurations with a connector."""
AHEAD = 0.3
"""The share of those whose steps may be ahead of their output; releases are compared in the others only."""
SESSIONS = 0.15
"""The share of the configurations with sessions of several turns."""
GOES_ON = 0.6
"""The chance that a request of those is the next turn of the request before it."""
NOT_ON_THEIR_OWN = ("loads_later", "load_failures", "failed_loads_end")
"""Settings that need `external`, which is refused together with turns and for an encoder-decoder model."""
OUTPUTS_ELSEWHERE = 0.25
"""The share of those with an encoder connector, of the configurations that have items and may have one."""
POOLS = 0.25
"""The share of pooling models, of the configurations that may be of one."""
ENCODER_DECODERS = 0.15
"""The share of the configurations with an encoder-decoder model."""
LONGEST_PROMPT = 10
TEMPLATE = 12
"""Tokens of the prefix that the requests of a group share parts of."""


def draw(source: random.Random) -> Config:
    """One of them; sizes that do not go together are drawn again."""
    served = source.random() < SERVED
    while True:
        config = attempt(source)
        if COMPONENT.invalid(config) is None and (not served or all_can_be_served(config)):
            return pooling(source, outputs_elsewhere(source, config))


def all_can_be_served(config: Config) -> bool:
    """By the normative rules; every release sets one of the blocks aside."""
    fewer = config._replace(kv_blocks=config.kv_blocks - 1)
    return fewer.kv_blocks > 0 and all(is_feasible(fewer, request) for request in range(len(config.prompts)))


def attempt(source: random.Random) -> Config:
    """An engine, and the further settings that it has."""
    config = engine(source)
    config = config._replace(**further(source, config))
    config = config._replace(**transfers(source, config)) if source.random() < CONNECTED else config
    if source.random() < SESSIONS:
        return sessions(source, config)
    return encoder_decoder(source, config) if source.random() < ENCODER_DECODERS else config


def further(source: random.Random, config: Config) -> dict[str, Any]:
    """Settings that keep a request waiting or end it early; half as frequent as others.

    They are drawn last, so that the engine of a number is the one that it was without them.
    """
    share = source.choice(SHARES) / 2
    drawn: dict[str, Any] = {
        "stops": tuple(source.randint(0, output) for output in config.outputs),
        "min_tokens": tuple(source.randint(0, output) for output in config.outputs),
        "adapters": tuple(source.randint(0, 3) for _ in config.prompts),
        "grammars": tuple(source.randint(0, 1) for _ in config.prompts),
        "pipelined": 1 if config.ahead > 1 else 0,
        "running_resets": 1,
    }
    there = {name: value for name, value in drawn.items() if source.random() < share}
    return {**there, "max_adapters": source.randint(1, 2)} if "adapters" in there else there


def transfers(source: random.Random, config: Config) -> dict[str, Any]:
    """A connector that loads and sends, mostly with one step at a time. It is drawn last, like `further`."""
    fails, ahead = source.randint(0, 1), source.random() < AHEAD
    late, sent = (tuple(source.randint(0, 1) for _ in config.prompts) for _ in range(2))
    return {
        "external": config.external or tuple(source.randint(0, prompt) for prompt in config.prompts),
        "loads_later": () if config.running_resets or not any(late) else late,
        "load_failures": fails,
        "failed_loads_end": fails * source.randint(0, 1),
        "sends": () if config.running_resets or source.random() < 0.5 else sent,
        "ahead": config.ahead if ahead else 1,
        "pipelined": config.pipelined if ahead else 0,
    }


def sessions(source: random.Random, config: Config) -> Config:
    """Some requests become further turns of the request before them. It is drawn last, like `further`.

    Most models and pools then have room for every turn. Most engines have one step at a time and no drafts, as those
    that are compared with releases.
    """
    config = config._replace(
        **{name: Config._field_defaults[name] for name in (*refused_with("turns", UNSPECIFIED), *NOT_ON_THEIR_OWN)}
    )
    turns = tuple(int(source.random() < GOES_ON) if request else 0 for request in range(len(config.prompts)))
    alone, alike = source.random() >= AHEAD, source.random() < SERVED
    config = config._replace(
        turns=turns,
        ahead=1 if alone else config.ahead,
        pipelined=0 if alone else config.pipelined,
        drafts=0 if alone else config.drafts,
    )
    for turn, goes_on in enumerate(turns):
        if goes_on:
            config = _as_turn(source, config, turn, alike=alike)
    most = max(final_length(config, request) for request in range(len(config.prompts)))
    if source.random() >= SERVED:
        return config
    return config._replace(
        token_budget=max(config.token_budget, config.max_running * (config.drafts + 1)),
        kv_blocks=max(config.kv_blocks, 1 + -(-most // config.block_size)),
    )


def encoder_decoder(source: random.Random, config: Config) -> Config:
    """The model becomes an encoder-decoder. It is drawn last, like `further`.

    Most requests have one item, some have two or none; few contents, so that requests have the same one. Requests of a
    group have the same items. Most encoders have room for the items of each request.
    """
    lengths = tuple(source.randint(1, 4) for _ in range(source.randint(1, 3)))
    drawn = [
        tuple((content, 0, lengths[content]) for content in source.choices(range(len(lengths)), k=count))
        for count in source.choices((0, 1, 2), (1, 6, 2), k=len(config.prompts))
    ]
    items = tuple(drawn[group] for group in config.groups or range(len(drawn)))
    embeds = max(sum(item[LENGTH] for item in of_one) for of_one in items) if source.random() < SERVED else 1
    most = max(final_length(config, request) for request in range(len(config.prompts)))
    off: dict[str, Any] = {
        name: () if isinstance(Config._field_defaults[name], tuple) else 0
        for name in (*refused_with("encoder_decoder", UNSPECIFIED), *NOT_ON_THEIR_OWN)
    }
    room = source.choice((0, 0, 1, 2, 4))
    return config._replace(
        **off,
        items=items if any(items) else (),
        token_budget=max(config.token_budget, most, config.max_running * (config.drafts + 1)) + room,
        encoder_compute=max(1, embeds) + source.choice((0, 0, 1, 3)),
        encoder_capacity=max(1, embeds) + source.choice((0, 0, 1, 3)),
        encoder_decoder=1,
    )


def outputs_elsewhere(source: random.Random, config: Config) -> Config:
    """Some encoder outputs come from a connector. It is drawn last of all, so every engine stays as it is without."""
    if (
        any(getattr(config, name) for name in refused_with("encoder_connector", UNSPECIFIED))
        or not config.items
        or source.random() >= OUTPUTS_ELSEWHERE
    ):
        return config
    contents = range(len(encoder_config(config).sizes))
    phases = tuple(source.choice((0, STORED, STORED, EXPECTED, EXPECTED)) for _ in contents)
    return config._replace(encoder_connector=phases if any(phases) else ())


def pooling(source: random.Random, config: Config) -> Config:
    """The model pools, of some configurations in which it may: it is drawn last, as an encoder connector is.

    Some prompts are as long as the model.
    """
    taken = any(getattr(config, name) for name in refused_with("pooling", UNSPECIFIED)) or config.ahead > 1
    if taken or source.random() >= POOLS:
        return config
    longest = max(config.prompts) + source.choice((0, 0, 1))
    pooled = config._replace(pooling=1, outputs=(1,) * len(config.prompts), max_model_len=longest)
    return pooled if COMPONENT.invalid(pooled) is None else config


def _as_turn(source: random.Random, config: Config, turn: int, *, alike: bool) -> Config:
    """The request as the next turn of the one before: new input behind all that the session keeps, perhaps an item."""
    outputs = _put(config.outputs, turn, config.outputs[turn - 1]) if alike else config.outputs
    longest = config.prompts[turn - 1] + config.outputs[turn - 1] + 3 + outputs[turn]
    config = config._replace(outputs=outputs, max_model_len=max(config.max_model_len, longest if alike else 0))
    kept = kept_tokens(config, turn - 1)
    prompt, items = kept + source.randint(1, 3), list(items_of(config, turn - 1))
    known = sorted({(item[CONTENT], item[LENGTH]) for of_one in config.items for item in of_one})
    if known and source.random() < WITH_ITEMS:
        content, length = source.choice(known)
        items.append((content, kept, length))
        prompt = max(prompt, kept + length)
    same: dict[str, Any] = {
        name: _put(given, turn, given[turn - 1])
        for name in ("priorities", "adapters", "groups", "shared")
        if (given := getattr(config, name))
    }
    return config._replace(
        prompts=_put(config.prompts, turn, prompt),
        items=_put(config.items, turn, tuple(items)) if config.items else (),
        **same,
    )


def _put(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def engine(source: random.Random) -> Config:
    """Requests first, then an engine that is barely large enough for them."""
    there = settings(source)
    count = source.randint(2, 4)
    grows = source.random() < GROWING
    longest = (3, 3, 6) if grows else (4, LONGEST_PROMPT)
    prompts = tuple(source.randint(1, source.choice(longest)) for _ in range(count))
    outputs = tuple(source.randint(4, 8) if grows else source.randint(1, 4) for _ in range(count))
    lengths = tuple(source.randint(1, 4) for _ in range(source.randint(1, 3))) if source.random() < WITH_ITEMS else ()
    groups, shared, items = contents(source, prompts, lengths, grouped="groups" in there)
    most = max(prompt + output for prompt, output in zip(prompts, outputs, strict=True))
    block_size = source.choice((1, 2, 2, 4))
    drafts = source.randint(1, 3) if "drafts" in there else 0
    running = count if grows else source.randint(1, count)
    chunks = 0 if "uncut" in there else 1
    least = max(running, drafts + 1, 1 if chunks else most + 1)
    limit = source.randint(drafts + 1, drafts + 4) if "long_prefill_threshold" in there else 0
    embeds = max(lengths, default=1)
    return Config(
        block_size=block_size,
        kv_blocks=1 + -(-most // block_size) + (0 if grows else source.choice((0, 0, 1, 2, 4))),
        token_budget=least + source.choice((0, 0, 1, 2, 4, 8)),
        encoder_compute=embeds + source.choice((0, 0, 1, 3)),
        encoder_capacity=embeds + source.choice((0, 0, 1, 3)),
        max_running=running,
        max_model_len=max(2, most + source.choice((-1, 0, 1, 1, 2))),
        prompts=prompts,
        outputs=outputs,
        items=items,
        priorities=tuple(source.randint(0, 2) for _ in prompts) if "policy" in there else (),
        policy=BY_PRIORITY if "policy" in there else 0,
        groups=groups,
        shared=shared,
        external=tuple(source.randint(0, prompt) for prompt in prompts) if "external" in there else (),
        drafts=drafts,
        alignment=source.randint(2, 4) if "alignment" in there else 0,
        whole_items=int("whole_items" in there),
        chunked_prefill=chunks,
        long_prefill_threshold=limit,
        prefix_caching=0 if "uncached" in there else 1,
        watermark=source.randint(1, 3) if "watermark" in there else 0,
        admit_by_chunk=int("admit_by_chunk" in there),
        ahead=source.choice((1, 1, 1, 2, 2, 3)),
        aborts=int("aborts" in there),
        resets=int("resets" in there),
    )


def settings(source: random.Random) -> frozenset[str]:
    """Those of one configuration."""
    share = source.choice(SHARES)
    return frozenset(name for name in SETTINGS if source.random() < (share / 3 if name in OUTSIDE else share))


def contents(
    source: random.Random, prompts: tuple[int, ...], lengths: tuple[int, ...], *, grouped: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[Item, ...], ...]]:
    """The group of each request, its tokens that it shares with that, and its items.

    Requests of a group show the same items where they are alike.
    """
    templates = [tuple(items_from(source, 0, TEMPLATE, lengths)) for _ in range(2)]
    groups = tuple(source.randint(0, 1) for _ in prompts) if grouped else ()
    shared = tuple(source.randint(0, min(prompt, TEMPLATE)) for prompt in prompts) if grouped else ()
    items: list[tuple[Item, ...]] = []
    for request, prompt in enumerate(prompts):
        common = shared[request] if grouped else 0
        begun = tuple(item for item in templates[groups[request]] if item[START] < common) if grouped else ()
        end = max((item[START] + item[LENGTH] for item in begun), default=0)
        items.append((*begun, *items_from(source, max(common, end), prompt, lengths)))
    return groups, shared, tuple(items) if any(items) else ()


def items_from(source: random.Random, start: int, end: int, lengths: tuple[int, ...]) -> Iterable[Item]:
    """Items behind one another between two positions, contents repeated."""
    position = start + source.randint(0, 2)
    while lengths and source.random() < 0.75:  # most requests have an item or two
        content = source.randrange(len(lengths))
        if position + lengths[content] > end:
            return
        yield (content, position, lengths[content])
        position += lengths[content] + source.choice((0, 0, 1, 2))
