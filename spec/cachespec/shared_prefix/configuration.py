"""Prompts with items in them, the requests that share them, and the size of a step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, NamedTuple

from cachespec import encoder_cache
from cachespec.kernel import Name

Request = Annotated[int, Name("request")]

Prompt = int
"""A prompt by what it says: requests with the same one share all of it."""


class Config(NamedTuple):
    """Positions and sizes are in tokens; an item has as many embeddings as tokens."""

    batch_tokens: int
    """Tokens of one step, of all requests together."""
    block_size: int
    """Tokens of one block of the prefix cache."""
    sequences: int
    """Requests that run at once."""
    prompts: tuple[int, ...]
    """The length of each prompt."""
    items: tuple[tuple[tuple[int, int, int], ...], ...]
    """The items of each prompt, in their order: content, start, and the position after the end."""
    requests: tuple[int, ...]
    """The prompt of each request."""
    constant: int = 1
    """Both budgets, before they were computed."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if min(config.batch_tokens, config.block_size, config.sequences, config.constant) <= 0:
        return "batch_tokens, block_size, sequences and constant must be positive"
    if not config.prompts or len(config.items) != len(config.prompts):
        return "there must be a prompt, and a list of items for each"
    if not config.requests or not set(config.requests) <= set(range(len(config.prompts))):
        return f"requests must name prompts, from 0 to {len(config.prompts) - 1}"
    return next((wrong for prompt in range(len(config.prompts)) if (wrong := _invalid_prompt(config, prompt))), None)


def _invalid_prompt(config: Config, prompt: Prompt) -> str | None:
    position = 0
    sizes: dict[int, int] = {}
    for others in config.items:
        for content, start, end in others:
            if sizes.setdefault(content, end - start) != end - start:
                return f"content {content} has two sizes"
    if sorted(sizes) != list(range(len(sizes))):
        return "contents must be numbered from 0 without a gap"
    if len({content for content, _, _ in config.items[prompt]}) < len(config.items[prompt]):
        return f"prompt {prompt} has an item twice"
    for _, start, end in config.items[prompt]:
        if not position <= start < end <= config.prompts[prompt]:
            return f"the items of prompt {prompt} must lie in it, one after the other"
        position = end
    return None if config.prompts[prompt] > 0 else "a prompt has a token"


@cache
def sizes(config: Config) -> tuple[int, ...]:
    """Of each content."""
    found = {content: end - start for items in config.items for content, start, end in items}
    return tuple(found[content] for content in sorted(found))


@cache
def encoder_config(config: Config, space: int) -> encoder_cache.Config:
    """The configuration of the encoder cache manager with this many slots."""
    return encoder_cache.Config(
        capacity=space,
        sizes=sizes(config),
        requests=tuple(tuple(content for content, _, _ in config.items[prompt]) for prompt in config.requests),
        failures=1,
    )


def items_of(config: Config, request: Request) -> tuple[tuple[int, int, int], ...]:
    """Content, start and end of each item of the request."""
    return config.items[config.requests[request]]


def length_of(config: Config, request: Request) -> int:
    """Tokens of its prompt."""
    return config.prompts[config.requests[request]]


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests with the same prompt."""
    classes: dict[int, list[int]] = {}
    for request, prompt in enumerate(config.requests):
        classes.setdefault(prompt, []).append(request)
    return {"request": tuple(tuple(members) for members in classes.values())}
