"""What must hold of every call: look-ups, allocations, copies, execution and releases."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.partial_hits.configuration import FULL, NOTHING, STATE, Config, Key, groups
from cachespec.partial_hits.expected import (
    Entry,
    after_step,
    entries,
    hits,
    is_tail_state,
    longest_prefix,
    prompt_tokens,
    reads_what_is_there,
    wanted,
)
from cachespec.partial_hits.operations import (
    AllocateSlots,
    Dispatch,
    Execute,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
)
from cachespec.partial_hits.state import Copy, Progress, View, Write


def is_new(before: View, op: Operation) -> bool:
    """Slots for a request without tables."""
    return isinstance(op, AllocateSlots) and op.request not in dict(before.progress)


def start_of(before: View, op: AllocateSlots, outcome: Outcome) -> int:
    """Behind how many tokens the new slots begin."""
    progress = dict(before.progress).get(op.request)
    return outcome.values[0] if progress is None else progress.scheduled


# What is read, and what can be found --------------------------------------------------------------------------------


def read_is_computed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Execute) or outcome.code is not Code.DONE:
        return True
    return all(reads_what_is_there(config, before, write) for write in before.writes if write.step == 0 and write.lives)


def steps_write(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Execute) or outcome.code is not Code.DONE:
        return before.bytes == after.bytes
    return dict(after.bytes) == after_step(config, before, dict(before.bytes), 0)


def executed_is_findable(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What the step has filled, the end of the prompt, the state behind the step; and copies for others."""
    if not isinstance(op, Execute) or outcome.code is not Code.DONE:
        return True
    expected = {(block, key) for block, keys in before.registered for key in keys}
    expected |= {(copy.target, copy.key) for copy in before.copies if copy.step == 0 and copy.key[1] != NOTHING}
    for write in before.writes:
        if write.step == 0 and write.lives:
            expected |= computed_by(config, before, write)
    return {(block, key) for block, keys in after.registered for key in keys} == expected


def computed_by(config: Config, before: View, write: Write) -> set[tuple[int, Key]]:
    """The blocks that can be found when this step of a request has run, with their keys."""
    chain, size = config.chains[write.request], config.block_size
    tail = max(range(0, prompt_tokens(config, write.request), config.hash_size))
    if write.group == STATE:
        block = write.blocks[(write.end - 1) // size]
        later = any(
            other.step > 0 and other.group == STATE and other.blocks[(other.end - 1) // size] == block
            for other in before.writes
        )
        kept = (write.end % size == 0 or write.end == tail) and not later
        return {(block, (STATE, chain[write.end - 1]))} if kept else set()
    ends = {end for end in range(1, write.end + 1) if (end % size == 0 and end > write.start) or end == tail}
    return {(write.blocks[(end - 1) // size], (FULL, chain[end - 1])) for end in ends}


def found_stays(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Keys go with a block that was free, or is given back now, and is allocated; or a copy brings them again."""
    if isinstance(op, ResetPrefixCache):
        return outcome.code is not Code.DONE or not after.registered
    taken = (set(before.free) | given_back(before, after)) - set(after.free)
    brought = {copy.key for copy in after.copies}
    known = dict(after.prefix_map)
    return all(key in known or key in brought or set(blocks) <= taken for key, blocks in before.prefix_map)


def given_back(before: View, after: View) -> set[int]:
    """The blocks that a table had and has no longer."""
    return {entry.block for entry in set(entries(before)) - set(entries(after))}


def only_executed_is_new(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """No other call makes a block findable."""
    if isinstance(op, Execute):
        return True
    return {key for key, _ in after.prefix_map} <= {key for key, _ in before.prefix_map}


# Look-ups and slots -------------------------------------------------------------------------------------------------


def prefix_is_the_longest(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, GetComputedBlocks | AllocateSlots):
        return True
    expected = longest_prefix(config, before, op.request)
    if isinstance(op, AllocateSlots):
        return outcome.code is not Code.DONE or not is_new(before, op) or outcome.values == (expected,)
    blocks = tuple(block for group in hits(config, before, op.request, expected) for block in group)
    return outcome == (Outcome(Code.HIT, (expected, *blocks)) if expected else Outcome(Code.MISS))


def all_or_none(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots):
        return True
    if outcome.code is Code.DONE:
        end = start_of(before, op, outcome) + op.tokens
        lengths = {group: len(blocks) for (request, group), blocks in after.tables if request == op.request}
        return lengths == dict.fromkeys(groups(config), -(-end // config.block_size))
    kept = before.copies == after.copies and before.writes == after.writes and before.registered == after.registered
    return outcome.code is not Code.FAILED and kept and set(before.free) <= set(after.free)


def refused_for_its_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots):
        return True
    too_few = wanted(config, before, op) > len(after.free)
    return outcome.code is not Code.REFUSED or op.tokens <= 0 or too_few


def tables_hold_what_is_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """The null block where nothing is read or written, and only there; full attention has none."""
    if not isinstance(op, AllocateSlots) or outcome.code is not Code.DONE:
        return True
    size = config.block_size
    progress = dict(after.progress)[op.request]
    needed = {(progress.computed - 1) // size, (progress.scheduled - 1) // size}
    needed |= {(write.end - 1) // size for write in after.writes if write.request == op.request and write.lives}
    mine = {entry.position for entry in entries(after) if entry[:2] == (op.request, STATE)}
    full = {entry.position for entry in entries(after) if entry[:2] == (op.request, FULL)}
    whole = set(range(-(-progress.scheduled // size)))
    return full == whole and (config.alone == 1 or mine == {at for at in needed if at >= 0})


def taken_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """If the call gives nothing back: the free queue loses hits anywhere, and other blocks from its front."""
    if not isinstance(op, AllocateSlots) or outcome.code is not Code.DONE:
        return True
    if not {block for block, _ in before.references} <= {block for block, _ in after.references}:
        return True
    found = hits(config, before, op.request, outcome.values[0]) if is_new(before, op) else ()
    adopted = {block for blocks in found for block in blocks}
    queue = [block for block in before.free if block not in adopted]
    return list(after.free) == queue[len(queue) - len(after.free) :]


def others_stay(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots | FreeRequest):
        return before.tables == after.tables

    def tables(view: View) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
        return [(name, blocks) for name, blocks in view.tables if name[0] != op.request]

    return tables(before) == tables(after)


# Copies -------------------------------------------------------------------------------------------------------------


def copies_are_those_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """For each group of a hit that ends within a block, and for the state behind a prompt; none else."""
    if not isinstance(op, AllocateSlots) or outcome.code is not Code.DONE:
        return isinstance(op, Execute | Dispatch) or before.copies == after.copies
    made = after.copies[len(before.copies) :]
    start, step = start_of(before, op, outcome), before.dispatched
    at, tables = (start - 1) // config.block_size, dict(after.tables)
    if is_new(before, op) and start % config.block_size:
        found = hits(config, before, op.request, start)
        return made == tuple(
            Copy(step, group, found[group][at], tables[op.request, group][at], (group, NOTHING))
            for group in groups(config)
        )
    if is_new(before, op) or not is_tail_state(config, op.request, start):
        return made == ()
    source = dict(before.tables)[op.request, STATE][at]
    one = [copy._replace(target=NOTHING, key=(STATE, NOTHING)) for copy in made]
    taken = {copy.target for copy in made} <= set(before.free) | given_back(before, after)
    return one == [Copy(step, STATE, source, NOTHING, (STATE, NOTHING))] and taken


def state_is_in_the_copy(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Only the copy can be found: the request overwrites the block."""
    if not isinstance(op, AllocateSlots) or outcome.code is not Code.DONE:
        return True
    found = dict(after.registered)
    return not any(
        key[0] == STATE
        for write in after.writes
        if write.group == STATE and write.lives and write.step == after.dispatched
        for key in found.get(write.blocks[(write.end - 1) // config.block_size], ())
        if key[1] != config.chains[write.request][write.end - 1]
    )


def dispatched_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Dispatch):
        return after.dispatched == before.dispatched - (1 if is_executed(op, outcome) else 0)
    planned = planned_copies(before)
    pairs = tuple(block for copy in planned for block in (copy.source, copy.target))
    kept = before.copies == after.copies and before.writes == after.writes and before.registered == after.registered
    return outcome == Outcome(Code.DONE, pairs) and after.dispatched == before.dispatched + 1 and kept


def planned_copies(view: View) -> list[Copy]:
    """The copies of the step being planned, those of the first group first."""
    return sorted((copy for copy in view.copies if copy.step == view.dispatched), key=lambda copy: copy.group)


def is_executed(op: Operation, outcome: Outcome) -> bool:
    """The oldest step has run."""
    return isinstance(op, Execute) and outcome.code is Code.DONE


def steps_move_up(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """The oldest step is gone, and every other one is one step nearer."""
    if not is_executed(op, outcome):
        return True
    copies = tuple(copy._replace(step=copy.step - 1) for copy in before.copies if copy.step)
    writes = tuple(write._replace(step=write.step - 1) for write in before.writes if write.step)
    return after.copies == copies and after.writes == writes


# Releases and answers -----------------------------------------------------------------------------------------------


def freed_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What cannot be found is at the front, what can be found at the end, where the end of a table comes first."""
    blocks = let_go(config, before, op, after)
    if not isinstance(op, FreeRequest | Dispatch | Execute) or outcome.code is not Code.DONE:
        return True
    known = dict(after.registered)
    front = [block for group in reversed(blocks) for block in group if block not in known]
    back = [block for group in blocks for block in group if block in known]
    return list(after.free) == [*front, *before.free, *back]


def let_go(config: Config, before: View, op: Operation, after: View) -> list[list[int]]:
    """The blocks that become free, those that go together in one list."""
    gone = {block for block, _ in before.references} - {block for block, _ in after.references}
    if isinstance(op, FreeRequest):
        tables = [blocks for (request, _), blocks in before.tables if request == op.request]
        return [[block for block in reversed(blocks) if block in gone] for blocks in tables]
    if isinstance(op, Dispatch):
        ends = [block for copy in planned_copies(before) for block in (copy.source, copy.target) if block in gone]
        return [[block for at, block in enumerate(ends) if block not in ends[at + 1 :]]]
    return [[copy.target for copy in before.copies if copy.step == 0 and copy.target in gone]]


def progress_is_as_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    known = dict(before.progress)
    if outcome.code is Code.DONE and isinstance(op, AllocateSlots):
        start = start_of(before, op, outcome)
        line = known.get(op.request, Progress(start, start, start))
        known[op.request] = line._replace(scheduled=start + op.tokens)
    elif is_executed(op, outcome):
        for write in before.writes:
            if write.step == 0 and write.lives:
                known[write.request] = known[write.request]._replace(computed=write.end)
    elif outcome.code is Code.DONE and isinstance(op, FreeRequest):
        del known[op.request]
    return dict(after.progress) == known


def writes_are_as_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What a call plans is behind what was planned; what a freed request had planned is not done."""
    if isinstance(op, AllocateSlots) and outcome.code is Code.DONE:
        start, tables = start_of(before, op, outcome), dict(after.tables)
        new = tuple(
            Write(before.dispatched, op.request, group, start, start + op.tokens, tables[op.request, group], 1)
            for group in groups(config)
        )
        return after.writes == (*before.writes, *new)
    if isinstance(op, FreeRequest) and outcome.code is Code.DONE:
        return after.writes == tuple(
            write._replace(lives=0 if write.request == op.request else write.lives)
            for write in before.writes
            if write.request != op.request or write.step != before.dispatched
        )
    return isinstance(op, Execute) or after.writes == before.writes


def turned_down_for_its_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    known = dict(before.progress)
    if isinstance(op, FreeRequest):
        return outcome.code is (Code.DONE if op.request in known else Code.ABSENT)
    if isinstance(op, Execute):
        return outcome.code is (Code.DONE if before.dispatched else Code.ABSENT)
    if isinstance(op, ResetPrefixCache):
        return outcome.code is (Code.REFUSED if before.references else Code.DONE)
    if not isinstance(op, AllocateSlots):
        return True
    line = known.get(op.request)
    start = longest_prefix(config, before, op.request) if line is None else line.scheduled
    too_large = start + op.tokens > len(config.chains[op.request])
    again = any(w.step == before.dispatched and w.request == op.request and w.lives for w in before.writes)
    return (outcome.code is Code.TOO_LARGE) == too_large and (outcome.code is Code.STALE) == (again and not too_large)


def adopted_entries(config: Config, before: View, op: AllocateSlots, found: int) -> set[Entry]:
    """The entries of a hit that the request keeps: all but those of blocks that are copied."""
    within = (found - 1) // config.block_size if found % config.block_size else NOTHING
    return {
        Entry(op.request, group, position, block)
        for group, blocks in enumerate(hits(config, before, op.request, found))
        for position, block in enumerate(blocks)
        if position != within and block != before.null
    }


def hits_are_adopted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots) or not is_new(before, op) or outcome.code is not Code.DONE:
        return True
    return adopted_entries(config, before, op, outcome.values[0]) <= set(entries(after))


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "PH-4/read",
        "a step reads only tokens and states of its request that were computed, or copied from where they were",
        read_is_computed,
        lambda c, b, op, o, a: isinstance(op, Execute) and any(w.step == 0 and w.start > 0 for w in b.writes),
    ),
    Step(
        "PH-4/written",
        "an executed step copies and writes what was planned, and no other call changes what blocks hold",
        steps_write,
        lambda c, b, op, o, a: isinstance(op, Execute) and any(copy.step == 0 for copy in b.copies),
    ),
    Step(
        "PH-4/executed",
        "when a step has run, its full blocks, the end of the prompt and its kept state can be found; nothing else",
        executed_is_findable,
        lambda c, b, op, o, a: isinstance(op, Execute) and len(a.registered) > len(b.registered),
    ),
    Step(
        "PH-4/new",
        "only an executed step makes prefixes findable",
        only_executed_is_new,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and o.code is Code.DONE,
    ),
    Step(
        "PH-5",
        "each table has just the blocks that are read or written, for all tokens with slots",
        tables_hold_what_is_needed,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and any(a.null in blocks for _, blocks in a.tables),
    ),
    Step(
        "PH-6",
        "a hit that ends within a block is copied in each group, and so is a state that its request overwrites",
        copies_are_those_needed,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and len(a.copies) > len(b.copies),
    ),
    Step(
        "PH-6/dispatched",
        "the end of planning returns all copies of the step, those of the first group first, and keeps their order",
        dispatched_in_order,
        lambda c, b, op, o, a: isinstance(op, Dispatch) and len(o.values) > 2,
    ),
    Step(
        "PH-6/next",
        "when a step has run, the next one is the oldest",
        steps_move_up,
        lambda c, b, op, o, a: isinstance(op, Execute) and b.dispatched > 0,
    ),
    Step(
        "PH-7",
        "a prefix that can be found is lost only with a block that is allocated, or until a copy brings it",
        found_stays,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and len(b.prefix_map) > 0,
    ),
    Step(
        "PH-7/copy",
        "a state that a planned step overwrites cannot be found in its block",
        state_is_in_the_copy,
        lambda c, b, op, o, a: (
            isinstance(op, AllocateSlots) and any(copy.key[1] != NOTHING for copy in a.copies[len(b.copies) :])
        ),
    ),
    Step(
        "PH-8",
        "a hit is the longest prefix that both groups have, one token left out",
        prefix_is_the_longest,
        lambda c, b, op, o, a: isinstance(op, GetComputedBlocks) and o.code is Code.HIT,
    ),
    Step(
        "PH-8/adopted",
        "a new request has the blocks of its hit, but for those that are copied",
        hits_are_adopted,
        lambda c, b, op, o, a: is_new(b, op) and o.code is Code.DONE and o.values[0] > 0,
    ),
    Step(
        "PH-9",
        "slots are granted in both groups or in neither",
        all_or_none,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and o.code is Code.REFUSED,
    ),
    Step(
        "PH-9/room",
        "slots are refused only if there are too few free blocks",
        refused_for_its_reason,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and o.code is Code.REFUSED,
    ),
    Step(
        "PH-9/answers",
        "calls are turned down for their reasons only",
        turned_down_for_its_reason,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and o.code is Code.DONE,
    ),
    Step(
        "PH-10",
        "blocks are taken from the front of the free queue",
        taken_in_order,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and len(a.free) < len(b.free),
    ),
    Step(
        "PH-10/freed",
        "of blocks that become free, those that cannot be found are allocated first, and the others last",
        freed_in_order,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.free) > len(b.free),
    ),
    Step(
        "PH-11",
        "requests come further as asked",
        progress_is_as_asked,
        lambda c, b, op, o, a: a.progress != b.progress,
    ),
    Step(
        "PH-11/planned",
        "steps compute what was asked, and nothing of a request that was freed while they were planned",
        writes_are_as_asked,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.writes) < len(b.writes),
    ),
    Step(
        "PH-11/others",
        "no call changes the tables of another request",
        others_stay,
        lambda c, b, op, o, a: len(b.tables) > len(a.tables) > 0,
    ),
)
