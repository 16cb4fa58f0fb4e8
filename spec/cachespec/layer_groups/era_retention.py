"""Which blocks of windows and which states 0.33.0 registers."""

from __future__ import annotations

from cachespec.layer_groups.configuration import (
    STATE,
    WINDOW,
    Config,
    Group,
    Position,
    Request,
    alignment,
    blocks_for,
    is_drafting,
    prompt_of,
    proofs_of,
    shared_prefix_of,
    size_of,
    span_of,
)
from cachespec.layer_groups.era_drafts import has_drafts


def is_reachable(config: Config, request: Request, group: Group, position: Position) -> bool:
    """Whether a hit can need this block. Hits end at the alignment; with a retention interval, few of them count."""
    if config.kinds[group] != WINDOW and (config.kinds[group] != STATE or config.retention < 0):
        return True
    if config.retention != 0 and ends_a_segment(config, group, position):
        return True
    return config.retention >= 0 and is_before_a_boundary(config, request, group, position)


def needed_by_hit(config: Config, group: Group) -> int:
    """The blocks in a row that a hit needs. With draft layers a window needs one block more, behind its end."""
    if config.kinds[group] == STATE:
        return 1
    return blocks_for(config, group, span_of(config, group) - 1) + proofs_of(config, group)


def ends_a_segment(config: Config, group: Group, position: Position) -> bool:
    """The block is one of the last of a segment: of the interval, or of what ends with a block of every group."""
    segment = config.retention if config.retention > 0 else alignment(config)
    length, need, drop = segment // size_of(config, group), needed_by_hit(config, group), proofs_of(config, group)
    if need >= length:
        return True
    return position >= drop and (position - drop) % length >= length - need


def is_before_a_boundary(config: Config, request: Request, group: Group, position: Position) -> bool:
    """A hit at the end of the prompt or of the shared prefix needs the block.

    With draft layers anywhere, the end of the prompt counts as one alignment earlier, whichever blocks these layers
    have; and the end of a shared prefix as one block earlier too, in groups with draft layers only (C-KV-35).
    """
    shared = shared_prefix_of(config, request)
    if shared > 0 and is_of_tail(config, group, position, shared):
        return True
    earlier = shared - size_of(config, group)
    if shared > 0 and is_drafting(config, group) and is_of_tail(config, group, position, earlier):
        return True
    return is_of_replay(config, request, group, position)


def is_of_replay(config: Config, request: Request, group: Group, position: Position) -> bool:
    """A hit of the same prompt needs the block, or one of a longer prompt."""
    prompt, unit = prompt_of(config, request), alignment(config)
    if not has_drafts(config):
        return is_of_tail(config, group, position, prompt - 1)
    again, longer = max(0, (prompt - 1) // unit * unit - unit), max(0, prompt // unit * unit - unit)
    return is_of_tail(config, group, position, again) or is_of_tail(config, group, position, longer)


def is_of_tail(config: Config, group: Group, position: Position, tokens: int) -> bool:
    """The block is one of those that end with this prefix, shortened to a block of every group."""
    unit = alignment(config)
    last = tokens // unit * unit // size_of(config, group) + proofs_of(config, group)
    return last - needed_by_hit(config, group) <= position < last
