"""Which requests are written, from what, and how long they may get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name, apart

RequestName = Annotated[int, Name("request")]

Token = int
"""A token, by its id."""
Content = int
"""The content of an item, by its hash."""
Adapter = int
"""A LoRA adapter by what it is: its weights."""
Salt = int
"""A cache salt, by its number; 0 is none."""

NONE = -1
"""No adapter."""
UNSALTED = 0
PLACEHOLDER = 0
"""The token that stands where an item's embeddings will be. A prompt of token ids may hold it without an item."""


class Config(NamedTuple):
    """The parts from which the prompts of a scope are made."""

    block_size: int
    """Tokens of a block."""
    prompt_tokens: int
    """The longest prompt, in tokens."""
    tokens: int
    """The longest request, output included, in tokens."""
    requests: int = 2
    """Requests of a run."""
    opening: tuple[int, ...] = ()
    """The tokens with which every prompt begins."""
    words: tuple[int, ...] = (1,)
    """The tokens that can be written, and generated."""
    lengths: tuple[int, ...] = ()
    """Placeholders of each content; its position is the content."""
    items: int = 2
    """The most items in one request."""
    adapters: tuple[tuple[int, int, int], ...] = ()
    """Number, name and path of each adapter; its position is its content. Two may share a name, or a path."""
    salts: int = 0
    """Cache salts are 1 to this number; a salt and a content of one number are one string."""
    item_hashes: int = 0
    """If positive: the number of values that variants with a shortened item hash keep."""
    digests: int = 0
    """If positive: the number of values of the hash function of a weak variant."""
    seed: int = 0
    """The parent of first blocks, where a variant does not take the public one."""
    disciplined: int = 0
    """1: only calls that take effect are made."""
    forger: int = 0
    """1: the last request is an adversary's: its contents have the digests of the first one's under the public seed."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    for name in ("block_size", "requests", "prompt_tokens", "tokens"):
        if getattr(config, name) <= 0:
            return f"{name} must be positive, not {getattr(config, name)}"
    for name in ("items", "salts", "item_hashes", "digests", "seed"):
        if getattr(config, name) < 0:
            return f"{name} must not be negative, as {getattr(config, name)} is"
    if len(config.opening) > config.prompt_tokens or config.prompt_tokens > config.tokens:
        return "opening, prompt_tokens and tokens must not be shorter one than the other before it"
    if min((*config.words, *config.opening), default=0) < 0:
        return "tokens are not negative"
    if min(config.lengths, default=1) <= 0:
        return "every item has at least one placeholder"
    if min((part for adapter in config.adapters for part in adapter), default=0) < 0:
        return "number, name and path of an adapter are not negative"
    if len(set(config.adapters)) < len(config.adapters):
        return "two adapters have the same number, name and path: nothing tells them apart"
    if config.disciplined not in (0, 1):
        return f"disciplined must be 0 or 1, not {config.disciplined}"
    if config.forger not in (0, 1) or (config.forger and not (config.digests and config.requests > 1)):
        return "forger is 0 or 1, and needs digests and two requests"
    return None


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests, unless one of them is an adversary's. Contents, adapters and salts are values, not names."""
    return {"request": apart(config.requests) if config.forger else (tuple(range(config.requests)),)}
