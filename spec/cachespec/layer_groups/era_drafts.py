"""How the released managers look up a prefix if some layers are those of a draft model.

They look up groups of one sort together, full attention first. Each group with draft layers drops the last block of
what it has found, and the shortest prefix wins. Without draft layers the result is that of the normative manager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cachespec.kernel import MISS, Code, Outcome, Transition
from cachespec.layer_groups.configuration import (
    FULL,
    STATE,
    WINDOW,
    Block,
    Config,
    Group,
    Position,
    Request,
    alignment,
    blocks_for,
    is_drafting,
    key_of,
    prompt_of,
    size_of,
    span_of,
)
from cachespec.layer_groups.operations import AllocateSlots, GetComputedBlocks
from cachespec.layer_groups.prefixes import cached_tokens, first_copy, hit_blocks
from cachespec.layer_groups.state import Pool, Result

Hits = tuple[tuple[Block, ...], ...]
"""For each group, the blocks of a hit."""


class Found(NamedTuple):
    """What a look-up hands to the allocation."""

    tokens: int
    hits: Hits


class Match(NamedTuple):
    """What one sort of groups has found."""

    tokens: int
    """-1: not looked up yet."""
    first: Position
    """The first position with a block; the null block is before it."""


LookUp = Callable[[Config, Pool, Request], Found]

# Sorts of groups ----------------------------------------------------------------------------------------------------


def are_alike(config: Config, group: Group, other: Group) -> bool:
    """The groups are of one sort, so they are looked up together."""
    if config.kinds[group] != config.kinds[other] or size_of(config, group) != size_of(config, other):
        return False
    return span_of(config, group) == span_of(config, other)


def is_first(config: Config, group: Group) -> bool:
    """No group before this one is of its sort."""
    alike = 0
    for other in range(group):
        alike = alike + (1 if are_alike(config, group, other) else 0)
    return alike == 0


def first_groups(config: Config) -> tuple[Group, ...]:
    """The first group of each sort, full attention before the others."""
    full: tuple[Group, ...] = ()
    others: tuple[Group, ...] = ()
    for group in range(len(config.kinds)):
        if is_first(config, group):
            full = (*full, group) if config.kinds[group] == FULL else full
            others = others if config.kinds[group] == FULL else (*others, group)
    return (*full, *others)


def has_block(config: Config, pool: Pool, request: Request, group: Group, position: Position) -> bool:
    """All groups of this sort have the block."""
    lacking = 0
    for other in range(len(config.kinds)):
        if are_alike(config, group, other):
            lacking = lacking + (1 if first_copy(pool, key_of(config, request, other, position)) < 0 else 0)
    return lacking == 0


# One sort -----------------------------------------------------------------------------------------------------------


def without_last(tokens: int, size: int, unit: int, drop: int) -> int:
    """The last block is dropped, and the rest ends with a block of every group."""
    return max(0, tokens - drop * size) // unit * unit


def match_full(config: Config, pool: Pool, request: Request, group: Group, most: int, drop: int, unit: int) -> Match:
    """The blocks from the first on."""
    size, count = size_of(config, group), 0
    while count < most // size and has_block(config, pool, request, group, count):
        count = count + 1
    return Match(without_last(count * size, size, unit, drop), 0)


def match_window(config: Config, pool: Pool, request: Request, group: Group, most: int, drop: int, unit: int) -> Match:
    """From the end: as many blocks in a row as the window needs, and one more to drop."""
    size, row = size_of(config, group), 0
    for turn in range(most // size):
        position = most // size - 1 - turn
        if not has_block(config, pool, request, group, position):
            row = 0
        elif row > 0 or (position + 1 - drop) * size % unit == 0:
            row = row + 1
            if row >= blocks_for(config, group, span_of(config, group) - 1) + drop:
                return Match(without_last((position + row) * size, size, unit, drop), position)
    return Match(without_last(row * size // unit * unit, size, unit, drop), 0)


def match_state(config: Config, pool: Pool, request: Request, group: Group, most: int, unit: int) -> Match:
    """The last state; it is not dropped."""
    size = size_of(config, group)
    for turn in range(most // size):
        position = most // size - 1 - turn
        if (position + 1) * size % unit == 0 and has_block(config, pool, request, group, position):
            return Match((position + 1) * size, position)
    return Match(0, 0)


def match_of(config: Config, pool: Pool, request: Request, group: Group, most: int, drop: int) -> Match:
    """What this sort has of the first `most` tokens."""
    unit = alignment(config)
    if config.kinds[group] == STATE:
        return match_state(config, pool, request, group, most, unit)
    if config.kinds[group] == WINDOW:
        return match_window(config, pool, request, group, most, drop, unit)
    return match_full(config, pool, request, group, most, drop, unit)


# All sorts ----------------------------------------------------------------------------------------------------------


def has_drafts(config: Config) -> bool:
    """A group has draft layers."""
    flagged = 0
    for group in range(len(config.kinds)):
        flagged = flagged + (1 if is_drafting(config, group) else 0)
    return flagged > 0


def blocks_of(config: Config, pool: Pool, request: Request, group: Group, match: Match) -> tuple[Block, ...]:
    """The group's blocks of what its sort has found."""
    blocks: tuple[Block, ...] = ()
    for position in range(match.tokens // size_of(config, group)):
        copy = first_copy(pool, key_of(config, request, group, position))
        blocks = (*blocks, copy if position >= match.first else pool.null)
    return blocks


def found_of(config: Config, pool: Pool, request: Request, tokens: int, matches: tuple[Match, ...]) -> Found:
    """The hit, after what each sort has found; of full attention no more than the hit needs."""
    hits: Hits = ()
    firsts = first_groups(config)
    for group in range(len(config.kinds)):
        match = Match(0, 0)
        for index in range(len(firsts)):
            match = matches[index] if are_alike(config, firsts[index], group) else match
        if config.kinds[group] == FULL:
            match = match._replace(tokens=min(match.tokens, tokens))
        hits = (*hits, blocks_of(config, pool, request, group, match))
    return Found(tokens, hits)


def longest(config: Config, pool: Pool, request: Request) -> Found:
    """As the normative manager."""
    tokens = cached_tokens(config, pool, request)
    return Found(tokens, tuple(hit_blocks(config, pool, request, group, tokens) for group in range(len(config.kinds))))


def most_of(config: Config, request: Request) -> int:
    """One token is left to compute, beside the dropped block (C-KV-27)."""
    return max(0, prompt_of(config, request) - 1)


class EarlyRules(NamedTuple):
    """What a mended look-up of 0.11.0 does otherwise."""

    begin: Callable[[Config, Request], int]
    """How far the first sort is looked up."""
    behind: Callable[[Config, Group, int], int]
    """How far the second sort is looked up, behind the prefix of the first one."""


def finding_once(rules: EarlyRules) -> LookUp:
    """A look-up of 0.11.0: full attention, then the other sort; states are never found, so with them nothing is.

    0.11.0 does not start with more than two sorts. They are looked up here as without draft layers.
    """

    def found(config: Config, pool: Pool, request: Request) -> Found:
        if STATE in config.kinds:
            return Found(0, no_hits(config))
        firsts = first_groups(config)
        if not has_drafts(config) or len(firsts) > 2:
            return longest(config, pool, request)
        match = match_of(config, pool, request, firsts[0], rules.begin(config, request), 1)
        if len(firsts) == 1:
            return found_of(config, pool, request, match.tokens, (match,))
        other = match_of(config, pool, request, firsts[1], rules.behind(config, firsts[1], match.tokens), 1)
        return found_of(config, pool, request, other.tokens, (match, other))

    return found


def no_hits(config: Config) -> Hits:
    """For each group, no block."""
    hits: Hits = ()
    for _ in range(len(config.kinds)):
        hits = (*hits, ())
    return hits


def within(config: Config, group: Group, tokens: int) -> int:
    """The second sort looks within what the first one has left, and drops another block (C-KV-25)."""
    return tokens


found_in_0_11 = finding_once(EarlyRules(most_of, within))


class Rules(NamedTuple):
    """In what the later look-ups differ."""

    limit: Callable[[Config, Request, Group, int], int]
    """How far a group is looked up that drops its last block."""
    trimmed: Callable[[Config, Group, Match, int], int]
    """What full attention says of a shorter prefix."""
    drops: Callable[[Config, Group], bool]
    """Whether a sort counts as one that has dropped its last block."""


class Search(NamedTuple):
    """How far a look-up has come."""

    tokens: int
    matches: tuple[Match, ...]
    dropped: tuple[int, ...]
    """For each sort, 1 if it has dropped a block of the current prefix."""


def with_match(search: Search, index: int, match: Match, drop: int, *, forgets: bool) -> Search:
    """One sort has been looked up."""
    dropped: tuple[int, ...] = ()
    matches: tuple[Match, ...] = ()
    for other in range(len(search.matches)):
        flag = 0 if forgets else search.dropped[other]
        dropped = (*dropped, 1 if other == index and drop == 1 else flag)
        matches = (*matches, match if other == index else search.matches[other])
    return Search(match.tokens, matches, dropped)


def looked_up(
    config: Config, pool: Pool, request: Request, rules: Rules, search: Search, index: int, group: Group
) -> Search:
    """One sort accepts the current prefix, or shortens it."""
    if config.kinds[group] == FULL and search.matches[index].tokens >= 0:
        return search._replace(tokens=rules.trimmed(config, group, search.matches[index], search.tokens))
    drop = 1 if rules.drops(config, group) and search.dropped[index] == 0 else 0
    most = rules.limit(config, request, group, search.tokens) if drop == 1 else search.tokens
    match = match_of(config, pool, request, group, most, drop)
    return with_match(search, index, match, drop, forgets=drop == 0 and match.tokens < search.tokens)


def begun_search(config: Config, request: Request) -> Search:
    """Before the first group is looked up."""
    firsts = first_groups(config)
    return Search(most_of(config, request), tuple(Match(-1, 0) for _ in firsts), tuple(0 for _ in firsts))


def finding(rules: Rules) -> LookUp:
    """A look-up by these rules: the sorts in turn, until none shortens the prefix; two sorts are asked once."""

    def found(config: Config, pool: Pool, request: Request) -> Found:
        if not has_drafts(config):
            return longest(config, pool, request)
        firsts, search = first_groups(config), begun_search(config, request)
        once = len(firsts) == 1 or (len(firsts) == 2 and config.kinds[firsts[0]] == FULL)
        tokens, going = search.tokens, True
        while going:
            for index in range(len(firsts)):
                search = looked_up(config, pool, request, rules, search, index, firsts[index])
            going = search.tokens < tokens and not once
            tokens = min(tokens, search.tokens)
            search = search._replace(tokens=tokens)
        return found_of(config, pool, request, tokens, search.matches)

    return found


def one_block_more(config: Config, request: Request, group: Group, tokens: int) -> int:
    """0.20.2: also a state is looked up behind the prefix, where full attention has nothing (C-KV-26)."""
    return min(tokens + size_of(config, group), most_of(config, request))


def one_block_to_drop(config: Config, request: Request, group: Group, tokens: int) -> int:
    """0.33.0: a block more of the prompt, and none for a state. One group leaves a token beside it (C-KV-27)."""
    if len(config.kinds) == 1 or config.kinds[group] == STATE:
        return tokens
    return min(tokens + size_of(config, group), prompt_of(config, request) // config.hash_size * config.hash_size)


def to_whole_blocks(config: Config, group: Group, match: Match, tokens: int) -> int:
    """0.20.2: full attention does not compare the prefix with what it has (C-KV-26)."""
    return tokens // size_of(config, group) * size_of(config, group)


def to_its_own(config: Config, group: Group, match: Match, tokens: int) -> int:
    """0.33.0: no more than it has."""
    return min(tokens, match.tokens)


IN_0_20 = Rules(one_block_more, to_whole_blocks, is_drafting)
IN_0_33 = Rules(one_block_to_drop, to_its_own, is_drafting)
found_in_0_20 = finding(IN_0_20)
found_in_0_33 = finding(IN_0_33)


def answering(look_up: LookUp) -> Transition[Config, Pool, GetComputedBlocks]:
    """`get_computed_blocks` with this look-up."""

    def get_computed_blocks(config: Config, pool: Pool, op: GetComputedBlocks) -> Result:
        found = look_up(config, pool, op.request)
        return pool, answer(found)

    return get_computed_blocks


def answer(found: Found) -> Outcome:
    """The tokens, and the blocks of each group."""
    if found.tokens == 0:
        return MISS
    values: tuple[int, ...] = (found.tokens,)
    for blocks in found.hits:
        values = (*values, *blocks)
    return Outcome(Code.HIT, values)


def found_for(config: Config, pool: Pool, op: AllocateSlots, look_up: LookUp) -> Found:
    """A request without tables is looked up."""
    if pool.progress.has(op.request):
        return Found(0, no_hits(config))
    return look_up(config, pool, op.request)
