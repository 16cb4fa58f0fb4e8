"""What must hold of the groups in every state. What must hold of every step is in `steps`."""

from __future__ import annotations

from collections import Counter

from cachespec.kernel import Safety, Step
from cachespec.layer_groups.configuration import CROSS, STATE, WINDOW, Config, blocks_for, size_of, span_of
from cachespec.layer_groups.expected import (
    Entry,
    entries,
    is_thinned,
    kept_positions,
    key_at,
    promised,
    reads,
)
from cachespec.layer_groups.state import NO_PROGRESS, Progress, View, scheduled
from cachespec.layer_groups.steps import STEPS as STEPS_OF_CALLS

STEPS: tuple[Step[Config, View], ...] = STEPS_OF_CALLS


def references_are_places(config: Config, view: View) -> bool:
    return dict(view.references) == Counter(entry.block for entry in entries(view))


def blocks_are_conserved(config: Config, view: View) -> bool:
    held = [block for block, _ in view.references]
    return sorted([*view.free, *held, view.null]) == list(range(config.blocks))


def groups_are_apart(config: Config, view: View) -> bool:
    owners = {(entry.block, entry.group) for entry in entries(view)}
    return len(owners) == len({block for block, _ in owners})


def map_has_both_sides(config: Config, view: View) -> bool:
    listed = [(key, block) for key, blocks in view.prefix_map for block in blocks]
    return sorted(listed) == sorted((key, block) for block, key in view.registered)


def is_written_by(config: Config, view: View, entry: Entry) -> bool:
    """The request has still to write into this block."""
    computed = dict(view.progress).get(entry.request, NO_PROGRESS).computed
    return config.kinds[entry.group] == CROSS or (entry.position + 1) * size_of(config, entry.group) > computed


def one_writer(config: Config, view: View) -> bool:
    writers = Counter(entry.block for entry in entries(view) if is_written_by(config, view, entry))
    return max(writers.values(), default=0) <= 1


def windows_are_kept(config: Config, view: View) -> bool:
    there = {(entry.request, entry.group, entry.position) for entry in entries(view)}
    return all(
        (request, group, position) in there
        for request, progress in view.progress
        for group in range(len(config.kinds))
        for position in reads(config, group, progress.computed)
    )


def registered_is_the_place(config: Config, view: View) -> bool:
    registered = dict(view.registered)
    return all(
        registered.get(entry.block, key) == key
        for entry in entries(view)
        for key in (key_at(config, entry.request, entry.group, entry.position),)
    )


def reads_are_computed(config: Config, view: View) -> bool:
    known, progress = promised(config, view), dict(view.progress)
    return all(
        (entry.block, key_at(config, entry.request, entry.group, entry.position)) in known
        for entry in entries(view)
        if config.kinds[entry.group] != CROSS
        and not is_written_by(config, view, entry)
        and entry.position in reads(config, entry.group, progress.get(entry.request, NO_PROGRESS).computed)
    )


def findable_is_computed(config: Config, view: View) -> bool:
    return set(view.registered) <= promised(config, view)


def findable_is_executed(config: Config, view: View) -> bool:
    return set(view.registered) <= set(view.bytes)


def null_is_not_found(config: Config, view: View) -> bool:
    return view.null not in {*dict(view.registered), *dict(view.references), *view.free}


def tables_fit(config: Config, view: View) -> bool:
    progress = dict(view.progress)
    lengths = {name: row.length for name, row in view.rows}
    expected = {
        (request, group): blocks_for(config, group, span_of(config, group) if kind == CROSS else scheduled(line))
        for request, line in progress.items()
        for group, kind in enumerate(config.kinds)
    }
    return lengths == expected


def entries_are_of_tables(config: Config, view: View) -> bool:
    return list(view.positions) == [
        (request, group, position) for (request, group), row in view.rows for position in range(row.length)
    ]


def retained_is_findable(config: Config, view: View) -> bool:
    findable, written, lines = dict(view.registered), dict(view.bytes), dict(view.progress)
    computed = {request: line.computed for request, line in view.progress}
    return all(
        entry.block in findable
        for entry in entries(view)
        if is_thinned(config, entry.group)
        and not is_loaded_state(config, lines.get(entry.request, NO_PROGRESS), entry)
        and written.get(entry.block) == key_at(config, entry.request, entry.group, entry.position)
        and entry.position in kept_positions(config, entry.request, entry.group, computed.get(entry.request, 0))
    )


def is_loaded_state(config: Config, line: Progress, entry: Entry) -> bool:
    """The state came from outside: LG-7 lets requests find states behind steps only."""
    end = (entry.position + 1) * size_of(config, entry.group)
    return config.kinds[entry.group] == STATE and line.found < line.loaded and line.loaded == end


def leaves_out(config: Config, view: View) -> bool:
    """A written block in a table cannot be found, and another one can."""
    findable, known = dict(view.registered), dict(view.bytes)
    written = {entry.block for entry in entries(view) if is_thinned(config, entry.group) and entry.block in known}
    return any(block in findable for block in written) and any(block not in findable for block in written)


def shares(view: View) -> bool:
    """A block is in two tables."""
    return any(count > 1 for _, count in view.references)


def has_null(view: View) -> bool:
    """A table has the null block somewhere."""
    return any(view.null in blocks for _, blocks in view.tables)


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "LG-1",
        "the reference count of a block equals the number of table entries of all groups that name it",
        references_are_places,
        lambda c, v: shares(v) and has_null(v),
    ),
    Safety(
        "LG-2",
        "every block is exactly one of free, held, or the null block, and the free queue lists each free block once",
        blocks_are_conserved,
        lambda c, v: bool(v.free) and bool(v.references),
    ),
    Safety(
        "LG-2/groups",
        "a block is in tables of one group only",
        groups_are_apart,
        lambda c, v: shares(v) and len({group for (_, group), _ in v.tables}) > 1,
    ),
    Safety(
        "LG-2/null",
        "the null block is never free, counted or findable",
        null_is_not_found,
        lambda c, v: has_null(v) and bool(v.registered),
    ),
    Safety(
        "LG-3",
        "the prefix map lists a block under a key if and only if the block is registered for that group and content",
        map_has_both_sides,
        lambda c, v: any(len(blocks) > 1 for _, blocks in v.prefix_map),
    ),
    Safety(
        "LG-4",
        "at most one request writes to a block",
        one_writer,
        lambda c, v: shares(v) and len(v.progress) > 1,
    ),
    Safety(
        "LG-5/kept",
        "a table has every block that the next token to compute reads, as its group's kind reads them",
        windows_are_kept,
        lambda c, v: has_null(v) and any(line.ends for _, line in v.progress) and WINDOW in c.kinds,
    ),
    Safety(
        "LG-6",
        "a findable block in a table is registered for its group and for the content at its position",
        registered_is_the_place,
        lambda c, v: shares(v),
    ),
    Safety(
        "LG-7",
        "the blocks that the next token reads have their KV or state, or a step already scheduled will write it",
        reads_are_computed,
        lambda c, v: any(line.found > 0 for _, line in v.progress) and STATE in c.kinds,
    ),
    Safety(
        "LG-7/found",
        "a findable block has its KV or state, or a step already scheduled will write it",
        findable_is_computed,
        lambda c, v: bool(v.registered) and any(line.ends for _, line in v.progress),
    ),
    Safety(
        "LG-7/executed",
        "a findable block has been written",
        findable_is_executed,
        lambda c, v: bool(v.registered) and any(line.ends for _, line in v.progress),
    ),
    Safety(
        "LG-10",
        "each table has just the positions that the scheduled tokens need, or the encoder's tokens",
        tables_fit,
        lambda c, v: CROSS in c.kinds and bool(v.progress),
    ),
    Safety(
        "LG-10/entries",
        "every position of a table has an entry, and nothing is left of a table that is gone",
        entries_are_of_tables,
        lambda c, v: len(v.rows) > 1,
    ),
    Safety(
        "LG-15",
        "with a retention interval, a block that a step has written is findable while it is held if a hit at a retained"
        " prefix needs it",
        retained_is_findable,
        leaves_out,
    ),
)
