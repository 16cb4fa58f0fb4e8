"""What must hold of every call: look-ups, allocations, execution and releases."""

from __future__ import annotations

from functools import partial

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.layer_groups.configuration import CROSS, STATE, Config, size_of
from cachespec.layer_groups.expected import (
    Entry,
    entries,
    fills,
    groups,
    hits_of,
    is_proved,
    is_thinned,
    kept_positions,
    key_at,
    longest_prefix,
    reads,
    wanted,
)
from cachespec.layer_groups.operations import (
    AllocateSlots,
    Commit,
    FreeRequest,
    GetComputedBlocks,
    NewStep,
    ResetPrefixCache,
)
from cachespec.layer_groups.state import Progress, View, scheduled


def is_new(before: View, op: Operation) -> bool:
    """Slots for a request without tables."""
    return isinstance(op, AllocateSlots) and op.request not in dict(before.progress)


def is_done(op: Operation, outcome: Outcome) -> bool:
    """Slots were granted."""
    return isinstance(op, AllocateSlots) and outcome.code is Code.DONE


def adopted(config: Config, before: View, op: AllocateSlots, outcome: Outcome) -> set[Entry]:
    """The hits that a new request had to adopt, after what the call said that it has found."""
    found = outcome.values[0]
    return hits_of(config, before, op.request, found, found + op.external)


def behind_goes_back(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    progress = dict(before.progress)
    if not isinstance(op, AllocateSlots) or op.request not in progress or outcome.code in (Code.STALE, Code.TOO_LARGE):
        return True
    computed = progress[op.request].computed
    return not any(
        entry.position not in reads(config, entry.group, computed)
        for entry in entries(after)
        if entry.request == op.request and entry.position < computed // size_of(config, entry.group)
    )


def all_or_none(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots):
        return True
    if outcome.code is Code.DONE:
        mine = {group for (request, group), _ in after.rows if request == op.request}
        return mine == set(groups(config))
    kept = before.rows == after.rows and before.progress == after.progress and before.registered == after.registered
    return outcome.code is not Code.FAILED and kept and set(before.free) <= set(after.free)


def others_stay(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots | Commit | FreeRequest):
        return before.tables == after.tables

    def tables(view: View) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
        return [(name, blocks) for name, blocks in view.tables if name[0] != op.request]

    return tables(before) == tables(after)


def refused_for_its_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots) or outcome.code not in (Code.DONE, Code.REFUSED):
        return True
    given_back = sum(count for _, count in before.references) - sum(count for _, count in after.references)
    if outcome.code is Code.DONE:
        return op.tokens > 0
    too_few = wanted(config, before, op) > len(after.free)
    return given_back >= 0 and (op.tokens <= 0 or too_few or reads_this_step(config, before, op))


def reads_this_step(config: Config, before: View, op: AllocateSlots) -> bool:
    """The longest prefix ends with a state that the current step computes."""
    found = longest_prefix(config, before, op.request)
    return is_new(before, op) and any(
        key_at(config, op.request, group, position) in before.this_step
        for group in groups(config)
        if config.kinds[group] == STATE
        for position in reads(config, group, found)
    )


def hits_are_adopted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots) or not is_new(before, op) or outcome.code is not Code.DONE:
        return True
    return adopted(config, before, op, outcome) <= set(entries(after))


def no_state_of_this_step(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots) or not is_new(before, op) or outcome.code is not Code.DONE:
        return True
    return not any(
        key in before.this_step and (block, key) not in before.bytes
        for _, group, position, block in adopted(config, before, op, outcome)
        for key in (key_at(config, op.request, group, position),)
        if config.kinds[group] == STATE
    )


def prefix_is_the_longest(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, GetComputedBlocks | AllocateSlots) or outcome.code not in (Code.HIT, Code.MISS, Code.DONE):
        return True
    expected = 0
    if isinstance(op, GetComputedBlocks) or is_new(before, op):
        expected = longest_prefix(config, before, op.request)
    return (outcome.values[0] if outcome.values else 0) == expected and (outcome.code is Code.HIT) == (
        isinstance(op, GetComputedBlocks) and expected > 0
    )


def drafts_are_proved(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    found = hit_of(before, op, outcome)
    if not isinstance(op, GetComputedBlocks | AllocateSlots) or found == 0:
        return True
    return is_proved(config, before, op.request, found)


def draft_layers_cost_a_block(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Without states, which the first releases do not find."""
    if not any(config.drafting) or STATE in config.kinds:
        return True
    return prefix_is_the_longest(config, before, op, outcome, after)


def hit_of(before: View, op: Operation, outcome: Outcome) -> int:
    """The tokens of a look-up, or of the hit that a new request has adopted; 0 for other calls."""
    if isinstance(op, GetComputedBlocks) and outcome.code is Code.HIT:
        return outcome.values[0]
    return outcome.values[0] if is_new(before, op) and is_done(op, outcome) else 0


def found_is_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, GetComputedBlocks) or outcome.code is not Code.HIT:
        return True
    found = outcome.values[0]
    hits = {(entry.group, entry.position): entry.block for entry in hits_of(config, before, op.request, found, found)}
    places = [(group, at) for group in groups(config) for at in range(found // size_of(config, group))]
    return outcome.values[1:] == tuple(hits.get(place, before.null) for place in places)


def taken_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """If the call gives nothing back: the free queue loses hits anywhere, and other blocks from its front."""
    if not isinstance(op, AllocateSlots) or outcome.code is not Code.DONE:
        return True
    if not {block for block, _ in before.references} <= {block for block, _ in after.references}:
        return True
    hits = {block for *_, block in adopted(config, before, op, outcome)} if is_new(before, op) else set()
    queue = [block for block in before.free if block not in hits]
    return list(after.free) == queue[len(queue) - len(after.free) :]


def freed(before: View, op: FreeRequest, after: View) -> list[Entry]:
    """The request's blocks that no other request holds, each group from its end."""
    still_held = {block for block, _ in after.references}
    mine = [entry for entry in entries(before) if entry.request == op.request and entry.block not in still_held]
    return sorted(mine, key=lambda entry: (entry.group, -entry.position))


def released_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FreeRequest) or outcome.code is not Code.DONE:
        return True
    mine, findable = freed(before, op, after), dict(after.registered)
    useless = {entry.block for entry in mine if entry.block not in findable}
    kept = [entry.block for entry in mine if entry.block in findable]
    return [block for block in after.free if block not in useless] == [*before.free, *kept]


def useless_come_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FreeRequest) or outcome.code is not Code.DONE:
        return True
    useless = [entry for entry in freed(before, op, after) if entry.block not in dict(after.registered)]
    last_group_first = sorted(useless, key=lambda entry: (-entry.group, -entry.position))
    return list(after.free[: len(useless)]) == [entry.block for entry in last_group_first]


def progress_is_as_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    known = dict(before.progress)
    if outcome.code is Code.DONE and isinstance(op, AllocateSlots):
        found = outcome.values[0]
        start = found + op.external
        line = known.get(op.request, Progress(found, start, start, ()))
        known[op.request] = line._replace(ends=(*line.ends, scheduled(line) + op.tokens))
    elif outcome.code is Code.DONE and isinstance(op, Commit):
        line = known[op.request]
        known[op.request] = line._replace(computed=line.ends[0], ends=line.ends[1:])
    elif outcome.code is Code.DONE and isinstance(op, FreeRequest):
        del known[op.request]
    return dict(after.progress) == known


def turned_down_for_its_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    line = dict(before.progress).get(getattr(op, "request", -1))
    if isinstance(op, Commit | FreeRequest):
        idle = isinstance(op, Commit) and line is not None and not line.ends
        return outcome.code is (Code.ABSENT if line is None else Code.STALE if idle else Code.DONE)
    if isinstance(op, ResetPrefixCache):
        return outcome.code is (Code.REFUSED if before.references else Code.DONE)
    if isinstance(op, NewStep):
        return outcome.code is Code.DONE
    if not isinstance(op, AllocateSlots):
        return True
    found = outcome.values[0] if outcome.values else longest_prefix(config, before, op.request)
    end = (scheduled(line) if line is not None else found + op.external) + op.tokens
    too_large, again = end > config.lengths[op.request], line is not None and op.external > 0
    return (outcome.code is Code.TOO_LARGE) == too_large and (outcome.code is Code.STALE) == (again and not too_large)


def steps_write(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Commit | FreeRequest) or outcome.code is not Code.DONE:
        return not isinstance(op, Commit | FreeRequest) or before.bytes == after.bytes
    line = dict(before.progress)[op.request]
    steps = 1 if isinstance(op, Commit) else len(line.ends)
    return set(after.bytes) == set(before.bytes) | fills(config, before, op.request, line, steps)


def taken_is_unwritten(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots):
        return True
    hits = (
        {block for *_, block in adopted(config, before, op, outcome)} if is_new(before, op) and outcome.values else ()
    )
    taken = {entry.block for entry in set(entries(after)) - set(entries(before))} - set(hits)
    kept = {pair for pair in before.bytes if pair[0] not in taken}
    return kept <= set(after.bytes) and not taken & set(dict(after.bytes))


def executed_is_findable(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """With prefix caching, each retained block that a step fills and that is still in its table; no other block."""
    if isinstance(op, AllocateSlots | ResetPrefixCache) or outcome.code is not Code.DONE:
        return isinstance(op, AllocateSlots | ResetPrefixCache) or before.registered == after.registered
    if not isinstance(op, Commit):
        return before.registered == after.registered
    line = dict(before.progress)[op.request]
    filled = {(block, key) for block, key in fills(config, before, op.request, line, 1) if CROSS not in config.kinds}
    loaded = {pair for pair in filled if state_inside(config, before, op.request, pair[0], line.ends[0])}
    thinned = {pair for pair in filled if is_left_out(config, before, op.request, pair[0])}
    return set(after.registered) == set(before.registered) | (filled - loaded - thinned)


def is_left_out(config: Config, before: View, request: int, block: int) -> bool:
    """No hit at a kept prefix needs the request's block."""
    farthest = config.lengths[request] + max(0, config.retention) + max(map(partial(size_of, config), groups(config)))
    return any(
        entry.position not in kept_positions(config, request, entry.group, farthest)
        for entry in entries(before)
        if (entry.request, entry.block) == (request, block) and is_thinned(config, entry.group)
    )


def state_inside(config: Config, before: View, request: int, block: int, end: int) -> bool:
    """The block has a loaded state, and the step goes on behind it."""
    return any(
        entry.request == request and entry.block == block and config.kinds[entry.group] == STATE
        for entry in entries(before)
        if (entry.position + 1) * size_of(config, entry.group) != end
    )


def reset_forgets(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, ResetPrefixCache) or outcome.code is not Code.DONE or not after.registered


def steps_are_apart(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """The states that the current step computes, as the history has them."""
    known = set(before.this_step)
    if isinstance(op, NewStep):
        return not after.this_step
    if isinstance(op, Commit) and outcome.code is Code.DONE:
        end = dict(before.progress)[op.request].ends[0]
        return set(after.this_step) == known - states_behind(config, op.request, end)
    if isinstance(op, AllocateSlots) and outcome.code is Code.DONE:
        end = scheduled(dict(after.progress)[op.request])
        return set(after.this_step) == known | states_behind(config, op.request, end)
    return set(after.this_step) == known


def states_behind(config: Config, request: int, end: int) -> set[tuple[int, int]]:
    """The keys of the states behind this token, if a block ends there."""
    return {
        key_at(config, request, group, end // size_of(config, group) - 1)
        for group in groups(config)
        if config.kinds[group] == STATE and end % size_of(config, group) == 0 and CROSS not in config.kinds
    }


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "LG-5/behind",
        "before a request gets more slots, the blocks that no later token reads go back to the pool",
        behind_goes_back,
        lambda c, b, op, o, a: (
            isinstance(op, AllocateSlots)
            and any(b.null not in x for _, x in b.tables)
            and a.null in {block for _, x in a.tables for block in x}
        ),
    ),
    Step(
        "LG-7/written",
        "an executed step writes the blocks that it fills and the states behind it, and nothing else",
        steps_write,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.bytes) > len(b.bytes),
    ),
    Step(
        "LG-7/taken",
        "a reallocated block has no KV of its former content",
        taken_is_unwritten,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and len(a.bytes) < len(b.bytes),
    ),
    Step(
        "LG-7/registered",
        "a step makes findable the blocks that it fills and that are retained, and a state only behind its last token",
        executed_is_findable,
        lambda c, b, op, o, a: isinstance(op, Commit) and len(a.registered) > len(b.registered) and STATE in c.kinds,
    ),
    Step(
        "LG-8",
        "slots are allocated for all groups or for none, and a call that lacks blocks is refused and does not fail",
        all_or_none,
        lambda c, b, op, o, a: isinstance(op, AllocateSlots) and o.code is Code.REFUSED and len(b.free) > 0,
    ),
    Step(
        "LG-8/others",
        "a call changes no table of another request",
        others_stay,
        lambda c, b, op, o, a: is_done(op, o) and len(b.progress) > 0,
    ),
    Step(
        "LG-8/room",
        "slots are refused only if all groups together need more blocks than are free",
        refused_for_its_reason,
        lambda c, b, op, o, a: is_new(b, op) and o.code is Code.REFUSED and len(b.free) > 0,
    ),
    Step(
        "LG-8/turned-down",
        "a call is turned down only for its reason: no table, no step in flight, no token left, or blocks in use",
        turned_down_for_its_reason,
        lambda c, b, op, o, a: isinstance(op, Commit) and o.code is Code.STALE,
    ),
    Step(
        "LG-9",
        "a new request holds the blocks of its hit that each group needs, and no other group has taken one of them",
        hits_are_adopted,
        lambda c, b, op, o, a: is_new(b, op) and is_done(op, o) and o.values[0] > 0 and len(c.kinds) > 1,
    ),
    Step(
        "LG-9/step",
        "no request reads a state that the step which schedules it computes",
        no_state_of_this_step,
        lambda c, b, op, o, a: is_new(b, op) and is_done(op, o) and o.values[0] > 0 and bool(b.this_step),
    ),
    Step(
        "LG-9/begun",
        "the states that a step computes are known until they are written or the next step starts",
        steps_are_apart,
        lambda c, b, op, o, a: isinstance(op, NewStep) and bool(b.this_step),
    ),
    Step(
        "LG-10/counted",
        "a request is scheduled up to the end of its slots and computed up to the end of its last executed step",
        progress_is_as_asked,
        lambda c, b, op, o, a: isinstance(op, Commit) and len(b.progress) > 1,
    ),
    Step(
        "LG-11",
        "a freed request's findable blocks come behind all free blocks, each group from its end",
        released_in_order,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.free) - len(b.free) > 2,
    ),
    Step(
        "LG-11/useless",
        "a freed request's unfindable blocks come before all free blocks, each group from its end",
        useless_come_first,
        lambda c, b, op, o, a: isinstance(op, FreeRequest) and len(a.free) - len(b.free) > 2,
    ),
    Step(
        "LG-11/taken",
        "new blocks are the first ones of the free queue that are no hits",
        taken_in_order,
        lambda c, b, op, o, a: is_new(b, op) and is_done(op, o) and o.values[0] > 0,
    ),
    Step(
        "LG-12",
        "a look-up returns the longest prefix of which every group has what the next token and draft layers need",
        prefix_is_the_longest,
        lambda c, b, op, o, a: isinstance(op, GetComputedBlocks) and o.code is Code.HIT and len(c.kinds) > 1,
    ),
    Step(
        "LG-12/once",
        "draft layers cost a hit one block at most: the longest prefix with one findable block behind it is found",
        draft_layers_cost_a_block,
        lambda c, b, op, o, a: any(c.drafting) and isinstance(op, GetComputedBlocks) and o.code is Code.HIT,
    ),
    Step(
        "LG-12/drafts",
        "behind a hit, each group with draft layers has one more findable block of the prompt",
        drafts_are_proved,
        lambda c, b, op, o, a: any(c.drafting) and is_new(b, op) and hit_of(b, op, o) > 0,
    ),
    Step(
        "LG-12/needed",
        "a look-up returns the blocks of each group that its next token reads, and the null block for the others",
        found_is_needed,
        lambda c, b, op, o, a: isinstance(op, GetComputedBlocks) and b.null in o.values[1:],
    ),
    Step(
        "LG-14",
        "after a reset nothing can be found",
        reset_forgets,
        lambda c, b, op, o, a: isinstance(op, ResetPrefixCache) and len(b.registered) > 0 and not a.registered,
    ),
)
