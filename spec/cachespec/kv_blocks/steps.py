"""Step properties of the KV blocks."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.kv_blocks.configuration import NOTHING, Config, blocks_for, content_of, limit_of
from cachespec.kv_blocks.operations import (
    AllocateGroups,
    AllocateSlots,
    AppendSlots,
    Commit,
    CommonPrefix,
    EvictBlock,
    FreeRequest,
    GetComputedBlocks,
    ResetPrefixCache,
    RollBack,
    Withdraw,
)
from cachespec.kv_blocks.state import NO_TABLE, View

Blocks = tuple[int, ...]


def is_allocation(op: Operation, outcome: Outcome, code: Code = Code.DONE) -> bool:
    """Slots were asked for, with this answer."""
    return isinstance(op, AllocateSlots | AllocateGroups | AppendSlots) and outcome.code is code


def is_release(op: Operation, outcome: Outcome) -> bool:
    """A request gave its table back."""
    return isinstance(op, FreeRequest | Withdraw) and outcome.code is Code.DONE


def hits_of(op: Operation) -> Blocks:
    """What a request brings along."""
    if isinstance(op, AllocateGroups):
        return (*op.hits, *op.other_hits)
    return op.hits if isinstance(op, AllocateSlots) else ()


def freed(before: View, after: View) -> Blocks:
    """Blocks that have become free, in the order in which they will be taken."""
    return tuple(block for block in after.free if block not in before.free)


def pending(config: Config, view: View) -> set[tuple[int, int]]:
    """Blocks and the contents that steps in flight will fill them with; drafts behind the last token fill none."""
    tables, size = dict(view.tables), config.block_size
    return {
        (tables[request][position], content_of(config, request, position))
        for request, holding in view.holdings
        for last in [min(holding.scheduled, config.lengths[request])]
        for position in range(holding.computed // size, min(holding.blocks, last // size))
        if position * size >= holding.cached_tokens
    }


def tables_only_grow(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, FreeRequest | Withdraw):
        return op.request not in dict(after.tables) and without(before, op.request) == without(after, op.request)
    later = dict(after.tables)
    return all(later.get(request, ())[: len(blocks)] == blocks for request, blocks in before.tables)


def without(view: View, request: int) -> dict[int, Blocks]:
    """The tables of the others."""
    return {other: blocks for other, blocks in view.tables if other != request}


def found_is_written(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, GetComputedBlocks):
        return True
    known = set(before.bytes) | pending(config, before)
    return all(
        (block, content_of(config, op.request, position)) in known for position, block in enumerate(outcome.values)
    )


def longest_is_found(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, GetComputedBlocks):
        return True
    count, most = len(outcome.values), (op.tokens - 1) // config.block_size
    if (outcome.code is Code.HIT) != (count > 0):
        return False
    contents = {content for _, content in before.registered}
    return count >= most or content_of(config, op.request, count) not in contents


def first_copy_is_found(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, GetComputedBlocks):
        return True
    registered = dict(before.registered)
    copies = [tuple(block for block in blocks) for _, blocks in before.prefix_map]
    return all(
        next(copy for copy in blocks if registered.get(copy) == registered.get(block)) == block
        for block in outcome.values
        for blocks in copies
        if block in blocks
    )


def copies_keep_their_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A block that is taken and registered again in one step is a new copy; a failed assertion leaves half a step."""
    if outcome.code is Code.FAILED:
        return True
    findable, taken = dict(after.registered), set(outcome.values) if is_allocation(op, outcome) else set()
    later = dict(after.prefix_map)
    for hash_, blocks in before.prefix_map:
        kept = tuple(block for block in blocks if block in findable and block not in taken)
        if later.get(hash_, ())[: len(kept)] != kept:
            return False
    return True


def a_token_is_left(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Without a hit there is nothing to leave: a request may have no tokens at all."""
    if not isinstance(op, GetComputedBlocks) or not outcome.values:
        return True
    return len(outcome.values) * config.block_size < op.tokens


def failure_changes_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return outcome.code is Code.DONE or before == after


def no_call_fails(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return outcome.code is not Code.FAILED


def refused_for_lack_of_room(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, AllocateGroups):
        return groups_are_refused_for_a_reason(config, before, op, outcome)
    if not isinstance(op, AllocateSlots | AppendSlots) or op.tokens == 0:
        return True
    hits, size = hits_of(op), config.block_size
    end = op.computed + len(hits) * size + op.tokens
    if outcome.code is Code.TOO_LARGE:
        return end > limit_of(config)
    if outcome.code is not Code.REFUSED:
        return True
    owned = dict(before.holdings).get(op.request, NO_TABLE).blocks + len(hits)
    return blocks_for(config, end) - owned > len([block for block in before.free if block not in hits])


def groups_are_refused_for_a_reason(config: Config, view: View, op: AllocateGroups, outcome: Outcome) -> bool:
    """Both tables need blocks up to the same end, beside their hits."""
    hits = hits_of(op)
    end = len(op.hits) * config.block_size + op.external + op.tokens
    if outcome.code is Code.TOO_LARGE:
        return end > limit_of(config)
    lacks_room = 2 * blocks_for(config, end) - len(hits) > len(set(view.free) - set(hits))
    return outcome.code is not Code.REFUSED or op.tokens <= 0 or lacks_room


def hits_are_touched_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not is_allocation(op, outcome):
        return True
    hits, held = hits_of(op), {block for block, _ in before.references}
    fresh = set(outcome.values)
    return len(fresh) == len(outcome.values) and not fresh & {*hits, *held}


def answer_is_the_table(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, AllocateSlots | AllocateGroups | AppendSlots) or outcome.code is not Code.DONE:
        return True
    tables = dict(after.tables)
    if isinstance(op, AllocateGroups):
        rows = tables[op.request][: len(op.hits)], tables[op.other][: len(op.other_hits)]
        fresh = (*tables[op.request][len(op.hits) :], *tables[op.other][len(op.other_hits) :])
        return rows == (op.hits, op.other_hits) and fresh == outcome.values
    earlier = dict(before.tables).get(op.request, ())
    return tables[op.request] == (*earlier, *hits_of(op), *outcome.values)


def the_first_are_taken(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not is_allocation(op, outcome):
        return True
    waiting = tuple(block for block in before.free if block not in hits_of(op))
    taken, left = waiting[: len(outcome.values)], waiting[len(outcome.values) :]
    in_order = outcome.values == taken or isinstance(op, AllocateGroups)
    return in_order and sorted(outcome.values) == sorted(taken) and after.free == left


def ends_are_evicted_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FreeRequest | Withdraw) or not is_release(op, outcome):
        return True
    table, registered = dict(before.tables)[op.request], dict(before.registered)
    kept = tuple(block for block in freed(before, after) if block in registered)
    expected = tuple(block for block in reversed(table) if block in kept)
    return kept == expected and after.free[len(after.free) - len(kept) :] == kept


def useless_blocks_come_first(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not is_release(op, outcome):
        return True
    registered = dict(after.registered)
    useless = tuple(block for block in freed(before, after) if block not in registered)
    return after.free[: len(useless)] == useless


def common_is_everybodys(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, CommonPrefix) or outcome.code is not Code.DONE:
        return True
    return outcome.values[0] <= common_blocks(before, op)


def common_is_all(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, CommonPrefix) or outcome.code is not Code.DONE:
        return True
    return outcome.values[0] >= common_blocks(before, op)


def common_blocks(view: View, op: CommonPrefix) -> int:
    """The leading blocks that all running requests have."""
    tables = dict(view.tables)
    rows = [tables.get(request, ()) for request in (op.request, *op.running)]
    count = 0
    for column in zip(*rows, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count


def written_is_found(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Where nothing is taken out of the map by number."""
    if not isinstance(op, Commit) or outcome.code is not Code.DONE or config.evictions:
        return True
    registered, table = dict(after.registered), dict(after.tables)[op.request]
    return all(block in registered for block in table[: op.computed // config.block_size])


def only_execution_registers(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return isinstance(op, Commit) or set(after.registered) <= set(before.registered)


def reset_forgets_all(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, ResetPrefixCache):
        return True
    if before.tables:
        return outcome.code is Code.REFUSED
    return outcome.code is Code.DONE and after.registered == () and after.free == before.free


def evicted_is_not_found(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, EvictBlock) or op.block not in dict(after.registered)


def again(config: Config, view: View, op: RollBack) -> Blocks:
    """The blocks of the tokens that are computed again."""
    return dict(view.tables).get(op.request, ())[op.computed // config.block_size :]


def computed_again_is_not_found(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, RollBack) or outcome.code is not Code.DONE:
        return True
    blocks = set(again(config, before, op))
    return not blocks & set(dict(after.registered)) and not blocks & set(dict(after.bytes))


def evicted_with(config: Config, view: View, block: int) -> set[int]:
    """A block, and what stands behind its content in any table."""
    content = dict(view.registered).get(block, NOTHING)
    return {block} | {
        other
        for request, blocks in view.tables
        for position, other in enumerate(blocks)
        if content in config.chains[request][:position]
    }


def forgotten_for_a_reason(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A block leaves the map when it is taken, computed again, or taken out by number, or all of them are."""
    lost = set(dict(before.registered)) - set(dict(after.registered))
    if isinstance(op, RollBack):
        return lost <= set(again(config, before, op))
    if isinstance(op, EvictBlock):
        return lost <= evicted_with(config, before, op.block)
    if isinstance(op, ResetPrefixCache):
        return True
    return lost <= (set(outcome.values) if is_allocation(op, outcome) else set())


STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "KV-3/first",
        "a look-up returns the copy of a content that was registered first",
        first_copy_is_found,
        lambda c, b, op, o, a: (
            isinstance(op, GetComputedBlocks)
            and any(len(blocks) > 1 and blocks[0] in o.values for _, blocks in b.prefix_map)
        ),
    ),
    Step(
        "KV-3/order",
        "a block is registered behind the other blocks with its hash",
        copies_keep_their_order,
        lambda c, b, op, o, a: (
            len(a.registered) > len(b.registered) and any(len(blocks) > 1 for _, blocks in a.prefix_map)
        ),
    ),
    Step(
        "KV-3/kept",
        "a registered block stays findable until it is reallocated, computed again, evicted by number or with a block "
        "before it, or the cache is reset",
        forgotten_for_a_reason,
        lambda c, b, op, o, a: is_allocation(op, o) and len(a.registered) < len(b.registered),
    ),
    Step(
        "KV-3/evicted",
        "a block evicted by number is not findable",
        evicted_is_not_found,
        lambda c, b, op, o, a: isinstance(op, EvictBlock) and bool(b.references),
    ),
    Step(
        "KV-5",
        "a block table only grows until its request is freed",
        tables_only_grow,
        lambda c, b, op, o, a: is_allocation(op, o) and len(a.tables) == len(b.tables) and bool(o.values),
    ),
    Step(
        "KV-6/written",
        "the full, executed blocks of a request are findable",
        written_is_found,
        lambda c, b, op, o, a: isinstance(op, Commit) and len(a.registered) > len(b.registered) > 0,
    ),
    Step(
        "KV-7/found",
        "every block returned by a look-up has the KV of the content, or a step already scheduled will write it",
        found_is_written,
        lambda c, b, op, o, a: isinstance(op, GetComputedBlocks) and o.code is Code.HIT,
    ),
    Step(
        "KV-7/longest",
        "a look-up returns the longest cached prefix that leaves at least one token to compute",
        longest_is_found,
        lambda c, b, op, o, a: isinstance(op, GetComputedBlocks) and len(o.values) > 1,
    ),
    Step(
        "KV-7/executed",
        "a block is registered only when its step is executed, not before",
        only_execution_registers,
        lambda c, b, op, o, a: is_allocation(op, o) and bool(a.registered) and bool(o.values),
    ),
    Step(
        "KV-7/again",
        "blocks of tokens that are computed again have no KV that counts, and are not findable until then",
        computed_again_is_not_found,
        lambda c, b, op, o, a: isinstance(op, RollBack) and len(a.registered) < len(b.registered),
    ),
    Step(
        "KV-7/reset",
        "a prefix-cache reset succeeds if and only if no request holds a block, and leaves no block findable",
        reset_forgets_all,
        lambda c, b, op, o, a: isinstance(op, ResetPrefixCache) and len(b.registered) > len(a.registered),
    ),
    Step(
        "KV-8",
        "a call that is not done changes nothing",
        failure_changes_nothing,
        lambda c, b, op, o, a: is_allocation(op, o, Code.REFUSED) and bool(hits_of(op)),
    ),
    Step(
        "KV-8/answered",
        "no scheduler call ends in a failed assertion",
        no_call_fails,
        lambda c, b, op, o, a: is_allocation(op, o, Code.TOO_LARGE),
    ),
    Step(
        "KV-8/reasons",
        "slots are refused only if the free blocks, not counting the hits, are too few",
        refused_for_lack_of_room,
        lambda c, b, op, o, a: is_allocation(op, o, Code.REFUSED) and bool(b.free),
    ),
    Step(
        "KV-9",
        "no allocation takes a block that is a hit of the same request or held by any request",
        hits_are_touched_first,
        lambda c, b, op, o, a: is_allocation(op, o) and any(block in b.free for block in hits_of(op)),
    ),
    Step(
        "KV-9/table",
        "an allocation appends first the hits, then the new blocks, to the table",
        answer_is_the_table,
        lambda c, b, op, o, a: is_allocation(op, o) and bool(hits_of(op)) and bool(o.values),
    ),
    Step(
        "KV-11",
        "freed findable blocks are queued behind all other free blocks, the end of the sequence first",
        ends_are_evicted_first,
        lambda c, b, op, o, a: is_release(op, o) and len(freed(b, a)) > 1 and len(a.free) > len(freed(b, a)),
    ),
    Step(
        "KV-11/useless",
        "freed blocks that are not findable are queued before all other free blocks",
        useless_blocks_come_first,
        lambda c, b, op, o, a: is_release(op, o) and len(a.free) > len(a.registered) > 0,
    ),
    Step(
        "KV-11/first",
        "an allocation takes blocks from the front of the free queue, in order",
        the_first_are_taken,
        lambda c, b, op, o, a: is_allocation(op, o) and len(o.values) > 0 and bool(a.free),
    ),
    Step(
        "KV-12",
        "a prefix hit leaves at least one token to compute",
        a_token_is_left,
        lambda c, b, op, o, a: (
            isinstance(op, GetComputedBlocks)
            and len(o.values) == (op.tokens - 1) // c.block_size > 0
            and op.tokens % c.block_size == 0
        ),
    ),
    Step(
        "KV-13",
        "the common prefix counts only blocks in the tables of all running requests",
        common_is_everybodys,
        lambda c, b, op, o, a: isinstance(op, CommonPrefix) and o.values > (0,) and len(op.running) > 1,
    ),
    Step(
        "KV-13/all",
        "the common prefix counts every leading block that all running requests share",
        common_is_all,
        lambda c, b, op, o, a: isinstance(op, CommonPrefix) and o.values > (0,) and len(op.running) < len(b.tables),
    ),
)
