"""Which requests there are, how long they are, what their blocks hold, and what their callers may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name, Unspecified, not_together

Request = Annotated[int, Name("request")]

Block = Annotated[int, Name("block")]
"""A block of KV memory. Its number says nothing: order is in the free queue only."""

Content = Annotated[int, Name("content")]
"""What a full block holds: the tokens of the block and all tokens before it. So a content has one parent."""

Hash = Annotated[int, Name("content")]
"""A hash value, written as the least content that has it."""

Position = int
"""A block's place in the table of a request; it covers the tokens from `position * block_size` on."""

NOTHING = -1


class Config(NamedTuple):
    """The pool, the requests, and the environment of a scope. Fields that do not name blocks are in tokens."""

    block_size: int
    """Tokens in a block."""
    blocks: int
    """Blocks in the pool."""
    chains: tuple[tuple[int, ...], ...]
    """For each request, the content of each of its full blocks, of its prompt and of its output."""
    lengths: tuple[int, ...]
    """For each request, how many tokens it has at most, of its prompt and of its output."""
    prompts: tuple[int, ...] = ()
    """For each request, how many tokens it has when it is looked up. Empty: all."""
    hashes: tuple[int, ...] = ()
    """For each content, its hash: the least content with the same one. Empty if no two hashes are equal."""
    limit: int = 0
    """The longest request that the engine admits (`max_model_len`). 0: the longest of `lengths`."""
    preallocated: int = 0
    """Blocks that the first managers take beyond what is needed."""
    steps: tuple[int, ...] = ()
    """Tokens that are scheduled at once. Empty: all that are left."""
    drafts: int = 0
    """Draft tokens for which a caller may ask beyond those that a request has."""
    withdrawals: int = 0
    """1: a scheduled request may be taken back before its step is executed."""
    rollbacks: int = 0
    """1: a request between two steps may have to compute some of its tokens again."""
    evictions: int = 0
    """1: blocks may be taken out of the prefix cache by number."""
    resets: int = 0
    """1: the prefix cache may be reset."""
    commons: int = 0
    """1: the common prefix of running requests is asked for; others that hold blocks are finished, and offloaded."""
    groups: int = 0
    """1: each two requests, 0 and 1, 2 and 3, and so on, are the tables of one request in two groups of layers."""
    repeats: int = 0
    """1: a request with a table also asks for slots like a new one."""
    disciplined: int = 1
    """1: callers keep the order of the engine's own scheduler (see `environment`). 0: any call at any time."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.block_size <= 0 or config.blocks <= 0:
        return "block_size and blocks must be positive"
    if not config.chains or len(config.chains) != len(config.lengths):
        return "there must be a request, and one chain and one length for each"
    return _invalid_chains(config) or _invalid_hashes(config) or _invalid_groups(config) or _invalid_environment(config)


def _invalid_chains(config: Config) -> str | None:
    parents: dict[int, int] = {}
    for request, chain in enumerate(config.chains):
        if min((config.lengths[request], *chain)) < 0:
            return "contents and lengths must not be negative"
        if len(chain) < config.lengths[request] // config.block_size:
            return f"request {request} has more full blocks than contents"
        for content, parent in zip(chain, (NOTHING, *chain), strict=False):
            if parents.setdefault(content, parent) != parent:
                return f"content {content} comes after two different contents, and a content names all before it"
    return None


def _invalid_hashes(config: Config) -> str | None:
    if not config.hashes:
        return None
    if len(config.hashes) <= max((content for chain in config.chains for content in chain), default=NOTHING):
        return "hashes must have one value for each content"
    if any(
        value < 0 or value > content or config.hashes[value] != value for content, value in enumerate(config.hashes)
    ):
        return "a hash must be the least content with that hash"
    return None


def _invalid_groups(config: Config) -> str | None:
    """A hash names its group, so what one group holds is never found in the other."""
    if not config.groups:
        return None
    first, second = config.chains[::2], config.chains[1::2]
    if config.lengths[::2] != config.lengths[1::2] or list(map(len, first)) != list(map(len, second)):
        return "with groups there must be two tables for each request, with equally many tokens and contents"
    pairs = {pair for chain, other in zip(first, second, strict=True) for pair in zip(chain, other, strict=True)}
    ours, theirs = {content for content, _ in pairs}, {content for _, content in pairs}
    if ours & theirs or not len(ours) == len(theirs) == len(pairs):
        return "with groups every content must have one content of its own in the other group"
    if any(
        (config.hashes[content] in ours) != (content in ours) for content in (ours | theirs if config.hashes else ())
    ):
        return "with groups a hash must be of a content of the same group"
    return None


def _invalid_environment(config: Config) -> str | None:
    if min((config.limit, config.preallocated, config.drafts, *config.steps)) < 0 or 0 in config.steps:
        return "limit, preallocated and drafts must not be negative, and steps must be positive"
    if config.limit and config.limit < max(config.lengths):
        return f"a request is longer than the limit of {config.limit}"
    if config.prompts and len(config.prompts) != len(config.lengths):
        return "prompts must have one length for each request"
    if any(not 0 <= prompt <= length for prompt, length in zip(config.prompts, config.lengths, strict=False)):
        return "a prompt must not be negative, and no longer than its request"
    for name in ("withdrawals", "rollbacks", "evictions", "resets", "commons", "groups", "repeats", "disciplined"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


UNSPECIFIED: tuple[Unspecified[Config], ...] = (
    *not_together("groups", "rollbacks", "repeats"),
    Unspecified("disciplined 0 together with groups", lambda config: config.groups == 1 and config.disciplined == 0),
)
"""What a pool has no rules for."""


def content_of(config: Config, request: Request, position: Position) -> Content:
    """What the full block at this position of the request holds; nothing beyond the last full block."""
    chain = config.chains[request]
    return chain[position] if position < len(chain) else NOTHING


def hash_of(config: Config, content: Content) -> Hash:
    """The hash by which a block of this content is found."""
    return config.hashes[content] if config.hashes and content >= 0 else content


def limit_of(config: Config) -> int:
    """The longest request that the engine admits."""
    return config.limit if config.limit > 0 else max(config.lengths)


def prompt_of(config: Config, request: Request) -> int:
    """How many tokens the request has when it is looked up."""
    return config.prompts[request] if config.prompts else config.lengths[request]


def full_blocks(config: Config, tokens: int) -> int:
    """The number of blocks that this many tokens fill."""
    return tokens // config.block_size


def blocks_for(config: Config, tokens: int) -> int:
    """The number of blocks that this many tokens need."""
    return (tokens + config.block_size - 1) // config.block_size


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests that are alike, unless they are tables of groups, and all blocks.

    A content is where the requests have it, so two contents can be exchanged only together with requests: no content
    is interchangeable on its own.
    """
    classes: dict[tuple[tuple[int, ...], int, int, int], list[int]] = {}
    for request, chain in enumerate(config.chains):
        alike = (chain, config.lengths[request], prompt_of(config, request), request if config.groups else 0)
        classes.setdefault(alike, []).append(request)
    return {
        "request": tuple(tuple(members) for members in classes.values()),
        "block": (tuple(range(config.blocks)),),
    }
