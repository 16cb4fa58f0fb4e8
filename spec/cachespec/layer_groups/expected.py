"""What a group needs, counted token by token: the properties' own account, apart from that of the transitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cachespec.layer_groups.configuration import (
    CHUNK,
    CROSS,
    FULL,
    NOTHING,
    STATE,
    WINDOW,
    Config,
    Key,
    alignment,
    blocks_for,
    caches,
    prompt_of,
    size_of,
    span_of,
)
from cachespec.layer_groups.operations import AllocateSlots
from cachespec.layer_groups.state import NO_ROW, Progress, View, scheduled


class Entry(NamedTuple):
    """One position of one table that has a block."""

    request: int
    group: int
    position: int
    block: int


def entries(view: View) -> Iterator[Entry]:
    """Every position of every table but those with the null block."""
    for (request, group), blocks in view.tables:
        for position, block in enumerate(blocks):
            if block != view.null:
                yield Entry(request, group, position, block)


def key_at(config: Config, request: int, group: int, position: int) -> Key:
    """The group and the content up to the last token of this position; no content if the request ends before it."""
    last, chain = size_of(config, group) * position + size_of(config, group) - 1, config.chains[request]
    return group, chain[last // config.hash_size] if last < len(chain) * config.hash_size else NOTHING


def reads(config: Config, group: int, tokens: int) -> set[int]:
    """The positions that the token behind these reads, of those before it."""
    kind, span, size = config.kinds[group], span_of(config, group), size_of(config, group)
    if kind == CROSS:
        return set(range(blocks_for(config, group, span)))
    if kind == STATE:
        return {(tokens - 1) // size} if tokens > 0 else set()
    read = range(tokens)
    if kind == WINDOW:
        read = range(max(0, tokens - span + 1), tokens)
    elif kind == CHUNK:
        read = range(tokens - tokens % span, tokens)
    return {token // size for token in read}


def holds(config: Config, group: int, start: int, end: int) -> set[int]:
    """The positions with a block of a request that goes on behind `start`, and has slots up to `end`."""
    if config.kinds[group] == CROSS:
        return reads(config, group, start)
    last = blocks_for(config, group, end)
    if config.kinds[group] == STATE:
        return reads(config, group, start) | {last - 1}
    return reads(config, group, start) | set(range(start // size_of(config, group), last))


def is_findable(config: Config, view: View, request: int, tokens: int) -> bool:
    """Every group has what the token behind this prefix reads, and its draft layers have the block of that token."""
    known = dict(view.prefix_map)
    return all(
        key_at(config, request, group, position) in known
        for group in range(len(config.kinds))
        for position in reads(config, group, tokens)
    ) and is_proved(config, view, request, tokens)


def is_proved(config: Config, view: View, request: int, tokens: int) -> bool:
    """In each group with draft layers the block of the token behind this prefix is full of the prompt, and findable."""
    known = dict(view.prefix_map)
    for group, (kind, flag) in enumerate(zip(config.kinds, config.drafting, strict=False)):
        size = size_of(config, group)
        if flag == 1 and kind in (FULL, WINDOW):
            whole = tokens + size <= prompt_of(config, request)
            if not whole or key_at(config, request, group, tokens // size) not in known:
                return False
    return True


def reads_and_proofs(config: Config, group: int, tokens: int) -> set[int]:
    """The positions of which a hit of these tokens needs the blocks, that of the next token with draft layers."""
    proving = config.kinds[group] in (FULL, WINDOW) and dict(enumerate(config.drafting)).get(group) == 1
    return reads(config, group, tokens) | ({tokens // size_of(config, group)} if proving else set())


def ends_within(config: Config, group: int, tokens: int) -> int:
    """How many tokens a sequence must share for a hit of these tokens."""
    return max((position + 1 for position in reads_and_proofs(config, group, tokens)), default=0) * size_of(
        config, group
    )


def kept_prefixes(config: Config, request: int) -> set[int]:
    """The lengths of the prefixes whose windows and states are kept."""
    unit, prompt, length = alignment(config), prompt_of(config, request), config.lengths[request]
    shared = config.shared_prefixes[request] if config.shared_prefixes else 0
    ends = {
        tokens: max(tokens, *(ends_within(config, group, tokens) for group in groups(config)))
        for tokens in range(unit, length + 1, unit)
    }
    again = {tokens for tokens, end in ends.items() if end <= prompt and tokens < prompt}
    whole = {tokens for tokens in ends if tokens <= shared}
    proved = {tokens for tokens, end in ends.items() if end <= shared}
    last = {max(tokens) for tokens in (again, whole, proved) if tokens}
    return last | (
        set(range(config.retention, length + config.retention, config.retention)) if config.retention else set()
    )


def kept_positions(config: Config, request: int, group: int, within: int) -> set[int]:
    """The positions that hits at kept prefixes need, if a sequence shares `within` tokens. For windows and states."""
    return {
        position
        for tokens in kept_prefixes(config, request)
        if ends_within(config, group, tokens) <= within
        for position in reads_and_proofs(config, group, tokens)
    }


def is_thinned(config: Config, group: int) -> bool:
    """Not all of the group's blocks are kept."""
    return config.retention >= 0 and config.kinds[group] in (WINDOW, STATE)


def longest_prefix(config: Config, view: View, request: int) -> int:
    """Of all prefixes that end with a block in every group, but for the whole prompt."""
    if not caches(config):
        return 0
    prefixes = range(0, prompt_of(config, request), alignment(config))
    return max((tokens for tokens in prefixes if is_findable(config, view, request, tokens)), default=0)


def copy_of(view: View, key: Key) -> int:
    """The block that a look-up finds under this key; nothing if there is none."""
    return dict(view.prefix_map).get(key, (NOTHING,))[0]


def hits_of(config: Config, view: View, request: int, found: int, start: int) -> set[Entry]:
    """The blocks that a request adopts after a hit of `found` tokens, if it goes on behind `start`."""
    return {
        Entry(request, group, position, copy_of(view, key_at(config, request, group, position)))
        for group in range(len(config.kinds))
        for position in reads(config, group, start) & reads(config, group, found)
        if config.kinds[group] != CROSS and (position + 1) * size_of(config, group) <= found
    }


def wanted(config: Config, view: View, op: AllocateSlots) -> int:
    """The blocks that leave the free queue with this call, those that it gives back left out."""
    progress = dict(view.progress).get(op.request)
    if progress is not None:
        rows, end = dict(view.rows), scheduled(progress) + op.tokens
        return sum(grown(config, group, rows.get((op.request, group), NO_ROW).length, end) for group in groups(config))
    found = longest_prefix(config, view, op.request)
    start, end = found + op.external, found + op.external + op.tokens
    held = {block for block, _ in view.references}
    shared = sum(entry.block in held for entry in hits_of(config, view, op.request, found, start))
    return sum(len(holds(config, group, start, end)) for group in groups(config)) - shared


def grown(config: Config, group: int, length: int, end: int) -> int:
    """The blocks that a table of this length takes for the tokens before `end`."""
    more = len([position for position in holds(config, group, 0, end) if position >= length])
    return more if config.kinds[group] != CROSS else 0


def groups(config: Config) -> range:
    """All groups."""
    return range(len(config.kinds))


def fills(config: Config, view: View, request: int, progress: Progress, steps: int) -> set[tuple[int, Key]]:
    """The blocks that the request's next steps in flight fill, and with what; and the states behind them."""
    first = progress.found if progress.computed == progress.loaded else progress.computed
    ends = (*((progress.loaded,) if progress.loaded > first else ()), *progress.ends[:steps])
    filled: set[tuple[int, Key]] = set()
    for entry in entries(view):
        size, last = size_of(config, entry.group), (entry.position + 1) * size_of(config, entry.group)
        if entry.request != request or config.kinds[entry.group] == CROSS or not progress.ends[:steps]:
            continue
        state = config.kinds[entry.group] == STATE
        if last in ends if state else first // size * size < last <= ends[-1]:
            filled.add((entry.block, key_at(config, request, entry.group, entry.position)))
    return filled


def promised(config: Config, view: View) -> set[tuple[int, Key]]:
    """What blocks have, or will have when the steps in flight are executed."""
    coming = set(view.bytes)
    for request, progress in view.progress:
        coming |= fills(config, view, request, progress, len(progress.ends))
    return coming
