"""Which groups of layers there are, which requests, what their blocks hold, and what their callers may do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import lcm
from typing import Annotated, NamedTuple

from cachespec.kernel import Name, Unspecified

Request = Annotated[int, Name("request")]

Block = Annotated[int, Name("block")]
"""A block of the one pool. Its number says nothing: order is in the free queue only."""

Content = Annotated[int, Name("content")]
"""The tokens of one hash block and all tokens before it. So a content has one parent."""

Group = int
"""A KV cache group: layers of one kind, with one table for each request."""

Position = int
"""A block's place in a table; it covers the tokens from `position * size` on, with the size of its group."""

Key = tuple[Group, Content]
"""By which a block is found: its group, and the content up to the block's last token."""

NOTHING = -1

FULL, WINDOW, CHUNK, STATE, CROSS = range(5)
"""The kinds of layers, as numbers of `Config.kinds`."""


class Config(NamedTuple):
    """The pool, the groups, the requests, and the environment of a scope. Lengths and sizes are in tokens."""

    blocks: int
    """Blocks in the pool; one of them is the null block."""
    kinds: tuple[int, ...]
    """For each group, its kind: 0 full attention, 1 sliding window, 2 chunked local, 3 state space, 4 cross."""
    chains: tuple[tuple[int, ...], ...]
    """For each request, the content of each of its full hash blocks, of its prompt and of its output."""
    lengths: tuple[int, ...]
    """For each request, how many tokens it has at most, of its prompt and of its output."""
    spans: tuple[int, ...] = ()
    """For each group, the window, the chunk, or the encoder tokens of each request; 0 for other kinds. Empty: all 0."""
    sizes: tuple[int, ...] = ()
    """For each group, the tokens of a block. Empty: a hash block in all groups."""
    hash_size: int = 1
    """Tokens in a hash block."""
    prompts: tuple[int, ...] = ()
    """For each request, how many tokens it has when it is looked up. Empty: all."""
    steps: tuple[int, ...] = ()
    """Tokens that are scheduled at once. Empty: all that are left."""
    external: int = 0
    """Tokens whose KV may be loaded from outside, behind a hit."""
    ahead: int = 0
    """1: a step may be scheduled while the step before it has not been executed."""
    resets: int = 0
    """1: the prefix cache may be reset."""
    disciplined: int = 1
    """1: callers keep the order of the engine's scheduler (see `environment`). 0: they also make other calls."""
    drafting: tuple[int, ...] = ()
    """For each group, 1 if it has layers of a draft model, so that a hit drops its last block. Empty: all 0.

    Releases flag state-space groups, too, if nothing says which groups have such layers; a state is never dropped."""
    many: int = 0
    """1 if the groups are of more than two sorts, or of two without full attention, or interleave.

    The first coordinators refuse such groups."""
    retention: int = -1
    """Tokens between two prefixes whose windows and states can be found; 0: only those of prompts and shared prefixes.

    -1: every block of a window and every state can be found."""
    shared_prefixes: tuple[int, ...] = ()
    """For each request, the tokens of a prefix that its caller knows other requests to share; 0 if it knows none.

    Empty: all 0."""


def size_of(config: Config, group: Group) -> int:
    """The tokens of a block of this group."""
    return config.sizes[group] if config.sizes else config.hash_size


def span_of(config: Config, group: Group) -> int:
    """The window, the chunk or the encoder tokens of this group."""
    return config.spans[group] if config.spans else 0


def is_drafting(config: Config, group: Group) -> bool:
    """The group has layers of a draft model: the KV of a token there depends on the token behind it."""
    return config.drafting[group] == 1 if config.drafting else False


def proofs_of(config: Config, group: Group) -> int:
    """How many blocks behind a hit the group must have: they tell that the token behind the hit is the same one."""
    return 1 if is_drafting(config, group) and config.kinds[group] != STATE else 0


def prompt_of(config: Config, request: Request) -> int:
    """How many tokens the request has when it is looked up."""
    return config.prompts[request] if config.prompts else config.lengths[request]


def shared_prefix_of(config: Config, request: Request) -> int:
    """How many tokens of the request its caller knows others to share."""
    return config.shared_prefixes[request] if config.shared_prefixes else 0


def alignment(config: Config) -> int:
    """Hits end where a block ends in every group."""
    return lcm(*(size_of(config, group) for group in range(len(config.kinds))))


def caches(config: Config) -> bool:
    """With cross attention nothing is found by prefix: what the decoder computes depends on the encoder's input."""
    return CROSS not in config.kinds


def blocks_for(config: Config, group: Group, tokens: int) -> int:
    """The number of positions that this many tokens need in the group."""
    size = size_of(config, group)
    return (tokens + size - 1) // size


def key_of(config: Config, request: Request, group: Group, position: Position) -> Key:
    """The key of the full block at this position; no content behind the request's last full hash block."""
    last = (position + 1) * size_of(config, group) // config.hash_size - 1
    chain = config.chains[request]
    return group, chain[last] if last < len(chain) else NOTHING


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    return (
        _invalid_groups(config)
        or _invalid_spans(config)
        or _invalid_drafting(config)
        or _invalid_requests(config)
        or _invalid_retention(config)
        or _invalid_rest(config)
    )


def _invalid_groups(config: Config) -> str | None:
    if config.blocks <= 1 or config.hash_size <= 0:
        return "there must be a block beside the null block, and hash_size must be positive"
    if not config.kinds or any(kind not in range(5) for kind in config.kinds):
        return "there must be a group, and kinds must be between 0 and 4"
    if len(config.spans) not in (0, len(config.kinds)) or len(config.sizes) not in (0, len(config.kinds)):
        return "spans and sizes must be empty or have one number for each group"
    if any(size <= 0 or size % config.hash_size for size in config.sizes):
        return "sizes must be multiples of hash_size"
    if len(config.kinds) > 1 and len(set(sorts_of(config))) == 1:
        return "the groups are all of one sort: layers of one sort are one group"
    if config.many not in (0, 1) or bool(config.many) != has_many(config):
        return f"many must be {int(has_many(config))} with these groups"
    return None


def _invalid_spans(config: Config) -> str | None:
    for group, kind in enumerate(config.kinds):
        span, size = span_of(config, group), size_of(config, group)
        if span < 0 or (kind in (FULL, STATE) and span != 0):
            return f"group {group} has no span, so its span must be 0"
        if kind == WINDOW and span < 2:
            return f"the window of group {group} must be at least 2"
        if kind == CHUNK and (span <= 0 or span % size):
            return f"the chunk of group {group} must be a multiple of the block size"
        if kind == CROSS and span <= 0:
            return f"group {group} needs encoder tokens"
    return None


def _invalid_drafting(config: Config) -> str | None:
    if len(config.drafting) not in (0, len(config.kinds)) or any(flag not in (0, 1) for flag in config.drafting):
        return "drafting must be empty or have 0 or 1 for each group"
    if config.drafting and len(set(zip(sorts_of(config), config.drafting, strict=True))) > len(set(sorts_of(config))):
        return "groups of one sort must have draft layers all or none"
    return None


def _invalid_requests(config: Config) -> str | None:
    if not config.chains or len(config.chains) != len(config.lengths):
        return "there must be a request, and one chain and one length for each"
    parents: dict[int, int] = {}
    for request, chain in enumerate(config.chains):
        if min((config.lengths[request], *chain)) < 0:
            return "contents and lengths must not be negative"
        if len(chain) < config.lengths[request] // config.hash_size:
            return f"request {request} has more full hash blocks than contents"
        for content, parent in zip(chain, (NOTHING, *chain), strict=False):
            if parents.setdefault(content, parent) != parent:
                return f"content {content} comes after two different contents, and a content names all before it"
    return None


def _invalid_retention(config: Config) -> str | None:
    if config.retention < -1 or (config.retention > 0 and config.retention % alignment(config)):
        return f"retention must be -1, 0 or a multiple of {alignment(config)}, with which blocks of all groups end"
    if config.retention >= 0 and WINDOW not in config.kinds and STATE not in config.kinds:
        return "retention must be -1: only windows and states are thinned out, and there are none"
    if len(config.shared_prefixes) not in (0, len(config.lengths)):
        return "shared_prefixes must be empty or have one number for each request"
    if any(not 0 <= shared <= length for shared, length in zip(config.shared_prefixes, config.lengths, strict=False)):
        return "a shared prefix must have no more tokens than its request"
    if config.shared_prefixes and config.retention < 0:
        return "shared_prefixes must be empty if every block can be found"
    return None


def _invalid_rest(config: Config) -> str | None:
    if config.prompts and len(config.prompts) != len(config.lengths):
        return "prompts must have one length for each request"
    if any(prompt > length or prompt < 0 for prompt, length in zip(config.prompts, config.lengths, strict=False)):
        return "a prompt is longer than its request"
    if config.external < 0 or any(step <= 0 for step in config.steps):
        return "external must not be negative, and steps must be positive"
    for name in ("ahead", "resets", "disciplined"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


UNSPECIFIED: tuple[Unspecified[Config], ...] = (
    Unspecified("groups of full attention with blocks of different sizes", lambda config: len(full_sizes(config)) > 1),
    Unspecified(
        "chunked local attention together with blocks of different sizes",
        lambda config: CHUNK in config.kinds and len(set(config.sizes)) > 1,
    ),
    Unspecified(
        "one group with blocks larger than hash blocks",
        lambda config: len(config.kinds) == 1 and size_of(config, 0) > config.hash_size,
    ),
    Unspecified("state-space layers with blocks larger than hash blocks", lambda config: has_larger(config, STATE)),
    Unspecified(
        "drafting together with chunked local attention", lambda config: any(config.drafting) and CHUNK in config.kinds
    ),
    Unspecified("drafting together with cross attention", lambda config: any(config.drafting) and not caches(config)),
    Unspecified(
        "draft layers of full attention with blocks larger than hash blocks",
        lambda config: has_larger(config, FULL, drafting=True),
    ),
    Unspecified("external together with cross attention", lambda config: config.external > 0 and not caches(config)),
)
"""What groups of layers have no rules for."""


def full_sizes(config: Config) -> set[int]:
    """The block sizes of groups of full attention."""
    return {size for kind, _, size in sorts_of(config) if kind == FULL}


def has_larger(config: Config, wanted: int, *, drafting: bool = False) -> bool:
    """Whether a group of this kind, with draft layers or not, has blocks larger than hash blocks."""
    return any(
        kind == wanted and size_of(config, group) != config.hash_size and (is_drafting(config, group) or not drafting)
        for group, kind in enumerate(config.kinds)
    )


def sorts_of(config: Config) -> list[tuple[int, int, int]]:
    """For each group its kind, its span and the size of its blocks."""
    return [(kind, span_of(config, group), size_of(config, group)) for group, kind in enumerate(config.kinds)]


def has_many(config: Config) -> bool:
    """Whether the first coordinators refuse these groups; without prefix caching they take all."""
    sorts = sorts_of(config)
    changes = sum(first != second for first, second in pairwise(sorts))
    full = {sort for sort in sorts if sort[0] == FULL}
    if not caches(config) or len(sorts) == 1:
        return False
    return len(full) != 1 or len(set(sorts)) != 2 or changes > 1


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests that are alike, and all blocks. Groups are not: allocation goes through them in their order."""
    classes: dict[tuple[tuple[int, ...], int, int, int], list[int]] = {}
    for request, chain in enumerate(config.chains):
        alike = chain, config.lengths[request], prompt_of(config, request), shared_prefix_of(config, request)
        classes.setdefault(alike, []).append(request)
    return {
        "request": tuple(tuple(members) for members in classes.values()),
        "block": (tuple(range(config.blocks)),),
    }
