"""What blocks hold, counted token by token: the properties' own account, apart from that of the transitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cachespec.partial_hits.configuration import FULL, NOTHING, STATE, Config, Key, groups, known_of
from cachespec.partial_hits.operations import AllocateSlots
from cachespec.partial_hits.state import Copy, View, Write

Held = Mapping[int, tuple[Key, ...]]
"""For each block what it holds: of full attention the content at each slot, or one state."""


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


def holds_of_copies(view: View) -> list[int]:
    """The blocks that copies hold: both until they are dispatched, and until they have run what others will find."""
    sources = [copy.source for copy in view.copies if copy.step == view.dispatched]
    targets = [copy.target for copy in view.copies if copy.step == view.dispatched or copy.key[1] != NOTHING]
    return [*sources, *targets]


# What blocks hold ---------------------------------------------------------------------------------------------------


def after_copies(held: Held, copies: Iterable[Copy]) -> dict[int, tuple[Key, ...]]:
    """All copies of a step at once."""
    return {**held, **{copy.target: held.get(copy.source, ()) for copy in copies}}


def after_write(config: Config, held: Held, write: Write) -> dict[int, tuple[Key, ...]]:
    """Token by token: a slot of full attention, or the state, which the next one replaces in its block."""
    now = dict(held)
    for token in range(write.start, write.end):
        block, slot = write.blocks[token // config.block_size], token % config.block_size
        content = config.chains[write.request][token]
        if write.group == FULL:
            slots = [*now.get(block, ()), *[(FULL, NOTHING)] * config.block_size]
            slots[slot] = (FULL, content)
            now[block] = tuple(slots[: max(len(now.get(block, ())), slot + 1)])
        elif token == write.end - 1:
            now[block] = ((STATE, content),)
    return now


def after_step(config: Config, view: View, held: Held, step: int) -> dict[int, tuple[Key, ...]]:
    """The copies of a step, then what it computes."""
    now = after_copies(held, [copy for copy in view.copies if copy.step == step])
    for write in view.writes:
        if write.step == step:
            now = after_write(config, now, write)
    return now


def after_all(config: Config, view: View) -> Held:
    """When the worker has run all steps, the one being planned included."""
    held: Held = dict(view.bytes)
    for step in range(view.dispatched + 1):
        held = after_step(config, view, held, step)
    return held


def holds(config: Config, held: Held, block: int, key: Key) -> bool:
    """The block has the KV of the prefix from its first slot on, or the state behind it."""
    group, content = key
    if group == STATE:
        return held.get(block, ()) == (key,)
    chain = next(chain for chain in config.chains if content in chain)
    last = chain.index(content)
    first = last - last % config.block_size
    return held.get(block, ())[: last - first + 1] == tuple((FULL, chain[at]) for at in range(first, last + 1))


def reads_what_is_there(config: Config, view: View, write: Write) -> bool:
    """What the request has before this step is in its blocks, when the copies of the step have run.

    Attention also reads what the same step writes, in its own block or in one that it shares; a state is read before.
    """
    copies = [copy for copy in view.copies if copy.step == 0]
    before, chain = after_copies(dict(view.bytes), copies), config.chains[write.request]
    if write.group == STATE:
        block = write.blocks[(write.start - 1) // config.block_size]
        return write.start == 0 or before.get(block, ()) == ((STATE, chain[write.start - 1]),)
    now = after_step(config, view, dict(view.bytes), 0)
    return all(
        now.get(write.blocks[token // config.block_size], ())[token % config.block_size :][:1]
        == ((FULL, chain[token]),)
        for token in range(write.start)
    )


# What is found ------------------------------------------------------------------------------------------------------


def findable(config: Config, view: View, request: int, tokens: int) -> bool:
    """Both groups have the prefix: its whole blocks, and a prefix as long as what is left, within one block."""
    known, chain, size = dict(view.prefix_map), config.chains[request], config.block_size
    whole = all((FULL, chain[end - 1]) in known for end in range(size, tokens + 1, size))
    block_end = min((tokens // size + 1) * size, known_of(config, request) - 1)
    rest = tokens % size == 0 or any((FULL, chain[end - 1]) in known for end in range(tokens, block_end + 1))
    return whole and rest and (config.alone == 1 or (STATE, chain[tokens - 1]) in known)


def longest_prefix(config: Config, view: View, request: int) -> int:
    """Of all prefixes that end with a hash block, but for all tokens."""
    ends = range(config.hash_size, known_of(config, request), config.hash_size)
    return max((tokens for tokens in ends if findable(config, view, request, tokens)), default=0)


def hits(config: Config, view: View, request: int, found: int) -> tuple[tuple[int, ...], ...]:
    """The blocks of a hit of `found` tokens, group by group."""
    known, chain, size = dict(view.prefix_map), config.chains[request], config.block_size
    if found == 0:
        return tuple(() for _ in groups(config))
    last = min((found + size - 1) // size * size, known_of(config, request) - 1)
    longest = max(end for end in range(found, last + 1) if (FULL, chain[end - 1]) in known)
    full = tuple(known[FULL, chain[end - 1]][0] for end in (*range(size, found, size), longest))
    state = known.get((STATE, chain[found - 1]), (NOTHING,))[0]
    return (full, (*(view.null for _ in full[1:]), state))[: len(groups(config))]


def wanted(config: Config, view: View, op: AllocateSlots) -> int:
    """The blocks that leave the free queue with this call, those that it gives back left out."""
    progress, size = dict(view.progress).get(op.request), config.block_size
    found = longest_prefix(config, view, op.request) if progress is None else 0
    start = found if progress is None else progress.scheduled
    positions = range(-(-start // size), -(-(start + op.tokens) // size))
    new = len(positions) + (min(1, len(positions)) if len(groups(config)) > 1 else 0)
    if progress is not None:
        return new + (1 if is_tail_state(config, op.request, start) else 0)
    held = {block for block, _ in view.references} | {view.null}
    adopted = {block for blocks in hits(config, view, op.request, found) for block in blocks}
    return new + len(adopted - held) + (len(groups(config)) if found % size else 0)


def prompt_tokens(config: Config, request: int) -> int:
    """What `prompt_of` says, said once more: the transitions' own helper would hide its faults."""
    return len(config.chains[request]) if config.prompts == () else config.prompts[request]


def is_tail_state(config: Config, request: int, start: int) -> bool:
    """Behind this token is the last state that an equal prompt can find, and it is not that of a whole block."""
    last = max(range(0, prompt_tokens(config, request), config.hash_size))
    return len(groups(config)) > 1 and start == last and start % config.block_size > 0
