"""What must hold of the KV blocks of every state. What must hold of every step is in `steps` and `answers`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cachespec.kernel import Safety, Step
from cachespec.kv_blocks.answers import STEPS as ANSWERS
from cachespec.kv_blocks.configuration import Config, blocks_for, content_of, limit_of
from cachespec.kv_blocks.state import Holding, View
from cachespec.kv_blocks.steps import STEPS as TABLES

STEPS: tuple[Step[Config, View], ...] = (*TABLES, *ANSWERS)


class TableEntry(NamedTuple):
    """One place of one table, and what the request makes of it."""

    request: int
    position: int
    block: int
    content: int
    holding: Holding


def table_entries(config: Config, view: View) -> Iterator[TableEntry]:
    """Every place of every table."""
    holdings = dict(view.holdings)
    for request, blocks in view.tables:
        for position, block in enumerate(blocks):
            yield TableEntry(request, position, block, content_of(config, request, position), holdings[request])


def is_relied_on(config: Config, entry: TableEntry) -> bool:
    """The request counts the whole block as computed: it came as a hit, or was executed."""
    return (entry.position + 1) * config.block_size <= entry.holding.computed


def is_written_by(config: Config, entry: TableEntry) -> bool:
    """The request has still to write into this block."""
    return entry.position >= entry.holding.computed // config.block_size


def will_be_full(config: Config, entry: TableEntry) -> bool:
    """Steps in flight will fill this block."""
    full = (entry.position + 1) * config.block_size <= entry.holding.scheduled
    return full and is_written_by(config, entry) and entry.position * config.block_size >= entry.holding.cached_tokens


def promised(config: Config, view: View) -> set[tuple[int, int]]:
    """Blocks with the content that they have, or will have before any step that is scheduled from now on."""
    coming = {(entry.block, entry.content) for entry in table_entries(config, view) if will_be_full(config, entry)}
    return coming | set(view.bytes)


def references_are_places(config: Config, view: View) -> bool:
    return dict(view.references) == Counter(block for _, blocks in view.tables for block in blocks)


def blocks_are_conserved(config: Config, view: View) -> bool:
    held = [block for block, _ in view.references]
    aside = [view.null] if view.null >= 0 else []
    return sorted([*view.free, *held, *aside]) == list(range(config.blocks))


def count_is_the_length(config: Config, view: View) -> bool:
    return view.free_count == len(view.free)


def hash_named(config: Config, content: int) -> int:
    """The hash of a content. Transitions have their own function: no bug of it hides."""
    return config.hashes[content] if config.hashes else content


def map_has_both_sides(config: Config, view: View) -> bool:
    listed = [(hash_, block) for hash_, blocks in view.prefix_map for block in blocks]
    return sorted(listed) == sorted((hash_named(config, content), block) for block, content in view.registered)


def every_hash_has_a_block(config: Config, view: View) -> bool:
    return all(len(blocks) > 0 for _, blocks in view.prefix_map)


def one_writer(config: Config, view: View) -> bool:
    writers = Counter(entry.block for entry in table_entries(config, view) if is_written_by(config, entry))
    return max(writers.values(), default=0) <= 1


def registered_is_immutable(config: Config, view: View) -> bool:
    """A block that has the KV of the content it carries, or that another request relies on, has no writer any more.

    Who writes it for the first time is not meant: a hit may be promised before it is written.
    """
    written = {block for block, _ in set(view.registered) & set(view.bytes)}
    return not any(entry.block in written and is_written_by(config, entry) for entry in table_entries(config, view))


def registered_is_a_prefix(config: Config, view: View) -> bool:
    registered = dict(view.registered)
    for _, blocks in view.tables:
        findable = [block in registered for block in blocks]
        if findable != sorted(findable, reverse=True):
            return False
    return True


def registered_is_the_chain(config: Config, view: View) -> bool:
    registered = dict(view.registered)
    return all(registered.get(entry.block, entry.content) == entry.content for entry in table_entries(config, view))


def hits_are_written(config: Config, view: View) -> bool:
    known = promised(config, view)
    return all(
        (entry.block, entry.content) in known for entry in table_entries(config, view) if is_relied_on(config, entry)
    )


def tables_fit(config: Config, view: View) -> bool:
    return all(len(blocks) <= blocks_for(config, limit_of(config)) for _, blocks in view.tables)


def tables_cover(config: Config, view: View) -> bool:
    lengths = {request: len(blocks) for request, blocks in view.tables}
    return all(lengths[request] * config.block_size >= holding.scheduled for request, holding in view.holdings)


def shares(view: View) -> bool:
    """A block is in two tables."""
    return any(count > 1 for _, count in view.references)


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "KV-1",
        "the reference count of a block equals the number of table entries that name it",
        references_are_places,
        lambda c, v: shares(v),
    ),
    Safety(
        "KV-2",
        "every block is exactly one of free, held, or the null block, and the free queue lists each free block once",
        blocks_are_conserved,
        lambda c, v: bool(v.free) and bool(v.references),
    ),
    Safety(
        "KV-2/counted",
        "the number of free blocks equals the length of the free queue",
        count_is_the_length,
        lambda c, v: bool(v.free) and bool(v.references),
    ),
    Safety(
        "KV-3",
        "the prefix map lists a block under a hash if and only if the block is registered for a content with that hash",
        map_has_both_sides,
        lambda c, v: any(len(blocks) > 1 for _, blocks in v.prefix_map),
    ),
    Safety(
        "KV-3/listed",
        "the prefix map keeps no hash without a block",
        every_hash_has_a_block,
        lambda c, v: len(v.prefix_map) > 1,
    ),
    Safety(
        "KV-4",
        "at most one request writes to a block",
        one_writer,
        lambda c, v: shares(v) and len(v.tables) > 1,
    ),
    Safety(
        "KV-4/immutable",
        "no request writes to a findable block whose KV is present",
        registered_is_immutable,
        lambda c, v: bool(set(v.registered) & set(v.bytes)) and any(h.scheduled > h.computed for _, h in v.holdings),
    ),
    Safety(
        "KV-6",
        "the findable blocks of a request form a prefix of its table",
        registered_is_a_prefix,
        lambda c, v: any(0 < h.cached_blocks < h.blocks for _, h in v.holdings),
    ),
    Safety(
        "KV-6/chain",
        "a findable block in a table is registered for the content that the request has at that position",
        registered_is_the_chain,
        lambda c, v: shares(v),
    ),
    Safety(
        "KV-7",
        "a block counted as computed has its KV, or a step already scheduled will write it",
        hits_are_written,
        lambda c, v: any(h.cached_tokens > 0 for _, h in v.holdings),
    ),
    Safety(
        "KV-10",
        "no table is longer than the longest request needs",
        tables_fit,
        lambda c, v: any(len(blocks) == blocks_for(c, limit_of(c)) for _, blocks in v.tables),
    ),
    Safety(
        "KV-10/covers",
        "a table has slots for all scheduled tokens of its request",
        tables_cover,
        lambda c, v: any(h.scheduled == h.blocks * c.block_size for _, h in v.holdings),
    ),
)
