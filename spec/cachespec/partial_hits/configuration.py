"""The pool, the requests token by token, and what their callers may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name

Request = Annotated[int, Name("request")]

Block = Annotated[int, Name("block")]
"""A block of the one pool. Its number says nothing: order is in the free queue only."""

Content = Annotated[int, Name("content")]
"""One token and all tokens before it. So a content has one parent."""

Group = int
"""A KV cache group: layers of one kind, with one table for each request."""

Position = int
"""A block's place in a table; it covers the tokens from `position * block_size` on."""

Key = tuple[Group, Content]
"""By which a block is found: its group, and the content of the last token of the prefix."""

NOTHING = -1

FULL, STATE = range(2)
"""The groups: layers of full attention, and state-space layers."""


class Config(NamedTuple):
    """The pool, the requests, and the environment of a scope. Lengths and sizes are in tokens."""

    blocks: int
    """Blocks in the pool; one of them is the null block."""
    block_size: int
    """Tokens of a block, in both groups."""
    chains: tuple[tuple[int, ...], ...]
    """For each request, the content of each of its tokens, of its prompt and of its output."""
    hash_size: int = 1
    """Tokens in a hash block: a hit ends where a hash block ends."""
    prompts: tuple[int, ...] = ()
    """For each request, the tokens of its prompt. Empty: all."""
    known: tuple[int, ...] = ()
    """For each request, the tokens that it has when looked up; output too, if it was preempted. Empty: prompts."""
    steps: tuple[int, ...] = ()
    """Tokens that are scheduled at once. Empty: all that are left."""
    alone: int = 0
    """1: there is full attention only. Releases have hits within a block only beside state-space layers."""
    ahead: int = 0
    """1: a step may be scheduled while the step before it has not been executed."""
    withdrawals: int = 0
    """1: a request may be freed while the step that has tokens of it is still being planned."""
    resets: int = 0
    """1: the prefix cache may be reset."""


def groups(config: Config) -> range:
    """The groups, in the order of their allocation."""
    return range(1 if config.alone == 1 else 2)


def prompt_of(config: Config, request: Request) -> int:
    """The tokens of the request's prompt."""
    return config.prompts[request] if config.prompts else len(config.chains[request])


def known_of(config: Config, request: Request) -> int:
    """The tokens that the request has when it is looked up."""
    return config.known[request] if config.known else prompt_of(config, request)


def tail_of(config: Config, request: Request) -> int:
    """Where the last hash block of the prompt ends, one token left out: an equal prompt finds that much at most."""
    return max(0, prompt_of(config, request) - 1) // config.hash_size * config.hash_size


def blocks_for(config: Config, tokens: int) -> int:
    """The number of positions that this many tokens need."""
    return (tokens + config.block_size - 1) // config.block_size


def content_at(config: Config, request: Request, tokens: int) -> Content:
    """The content of the prefix with this many tokens; nothing if it is empty or the request ends before."""
    chain = config.chains[request]
    return chain[tokens - 1] if 0 < tokens <= len(chain) else NOTHING


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    return _invalid_sizes(config) or _invalid_chains(config) or _invalid_lengths(config) or _invalid_rest(config)


def _invalid_sizes(config: Config) -> str | None:
    if config.blocks <= 1 or config.hash_size <= 0:
        return "there must be a block beside the null block, and hash_size must be positive"
    if config.block_size <= 0 or config.block_size % config.hash_size:
        return "block_size must be a positive multiple of hash_size"
    return None


def _invalid_chains(config: Config) -> str | None:
    if not config.chains or not all(config.chains):
        return "there must be a request, and each must have a token"
    parents: dict[int, int] = {}
    for chain in config.chains:
        if min(chain) < 0:
            return "contents must not be negative"
        for content, parent in zip(chain, (NOTHING, *chain), strict=False):
            if parents.setdefault(content, parent) != parent:
                return f"content {content} comes after two different contents, and a content names all before it"
    return None


def _invalid_lengths(config: Config) -> str | None:
    for name in ("prompts", "known"):
        lengths = getattr(config, name)
        if lengths and len(lengths) != len(config.chains):
            return f"{name} must have one length for each request"
    for request, chain in enumerate(config.chains):
        if not 0 < prompt_of(config, request) <= known_of(config, request) <= len(chain):
            return f"request {request} must have a prompt, known at least to its end, and no longer than its tokens"
    return None


def _invalid_rest(config: Config) -> str | None:
    if any(step <= 0 for step in config.steps):
        return "steps must be positive"
    for name in ("alone", "ahead", "withdrawals", "resets"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests that are alike, and all blocks."""
    classes: dict[tuple[tuple[int, ...], int, int], list[int]] = {}
    for request, chain in enumerate(config.chains):
        alike = chain, prompt_of(config, request), known_of(config, request)
        classes.setdefault(alike, []).append(request)
    return {
        "request": tuple(tuple(members) for members in classes.values()),
        "block": (tuple(range(config.blocks)),),
    }
