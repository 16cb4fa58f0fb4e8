"""What must hold in every state. What must hold of every call is in `steps`."""

from __future__ import annotations

from collections import Counter

from cachespec.kernel import Safety, Step
from cachespec.partial_hits.configuration import STATE, Config
from cachespec.partial_hits.expected import after_all, entries, holds, holds_of_copies
from cachespec.partial_hits.state import View, Write
from cachespec.partial_hits.steps import STEPS as STEPS_OF_CALLS

STEPS: tuple[Step[Config, View], ...] = STEPS_OF_CALLS


def references_are_places(config: Config, view: View) -> bool:
    return dict(view.references) == Counter([*(entry.block for entry in entries(view)), *holds_of_copies(view)])


def blocks_are_conserved(config: Config, view: View) -> bool:
    return sorted([*view.free, *(block for block, _ in view.references), view.null]) == list(range(config.blocks))


def groups_are_apart(config: Config, view: View) -> bool:
    owners = {(entry.block, entry.group) for entry in entries(view)}
    return len(owners) == len({block for block, _ in owners})


def map_has_both_sides(config: Config, view: View) -> bool:
    listed = [(key, block) for key, blocks in view.prefix_map for block in blocks]
    once = len(set(listed)) == len(listed)
    return once and sorted(listed) == sorted((key, block) for block, keys in view.registered for key in keys)


def found_is_computed(config: Config, view: View) -> bool:
    held = dict(view.bytes)
    return all(holds(config, held, block, key) for block, keys in view.registered for key in keys)


def found_stays_computed(config: Config, view: View) -> bool:
    held = after_all(config, view)
    return all(holds(config, held, block, key) for block, keys in view.registered for key in keys)


def writes_into(config: Config, write: Write) -> set[int]:
    """The blocks that change."""
    last = (write.end - 1) // config.block_size
    first = last if write.group == STATE else write.start // config.block_size
    return set(write.blocks[first : last + 1])


def written_is_own(config: Config, view: View) -> bool:
    places = Counter(entry.block for entry in entries(view))
    return all(places[block] == 1 for write in view.writes if write.lives == 1 for block in writes_into(config, write))


def copies_are_apart(config: Config, view: View) -> bool:
    for step in range(view.dispatched + 1):
        copies = [copy for copy in view.copies if copy.step == step]
        targets = {copy.target for copy in copies}
        if len(targets) < len(copies) or targets & {copy.source for copy in copies}:
            return False
    return True


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "PH-1",
        "the reference count of a block is the number of table entries that name it, and of copies that hold it",
        references_are_places,
        lambda c, v: len(v.copies) > 0 and any(count > 1 for _, count in v.references),
    ),
    Safety(
        "PH-2",
        "free blocks, held blocks and the null block are all blocks, each once",
        blocks_are_conserved,
        lambda c, v: len(v.references) > 0 and len(v.free) > 0,
    ),
    Safety(
        "PH-2/apart",
        "no block is in tables of two groups",
        groups_are_apart,
        lambda c, v: len({group for (_, group), _ in v.tables}) > 1,
    ),
    Safety(
        "PH-3",
        "the prefix map and the keys of the blocks name each other, one by one",
        map_has_both_sides,
        lambda c, v: any(len(keys) > 1 for _, keys in v.registered),
    ),
    Safety(
        "PH-4/found",
        "a block that can be found holds what its keys name",
        found_is_computed,
        lambda c, v: len(v.registered) > 1,
    ),
    Safety(
        "PH-4/stays",
        "a block that can be found holds what its keys name when all planned steps have run",
        found_stays_computed,
        lambda c, v: len(v.registered) > 0 and len(v.writes) > 0,
    ),
    Safety(
        "PH-4/own",
        "a block that a step writes is at one place of one table only",
        written_is_own,
        lambda c, v: len({write.request for write in v.writes}) > 1,
    ),
    Safety(
        "PH-6/apart",
        "the copies of one step have different targets, and none is the source of another",
        copies_are_apart,
        lambda c, v: len(v.copies) > 1,
    ),
)
