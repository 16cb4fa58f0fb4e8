"""What must hold of requests whose KV is loaded from an external store, and of those whose blocks are sent to one."""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Safety, Step
from cachespec.scheduler.configuration import Config, final_length
from cachespec.scheduler.operations import FailLoad, FailStep, FinishLoad, FinishSend, Schedule, Update
from cachespec.scheduler.state import ABANDONED, LOADED, LOADING, LOADS_IN_STEP, SENDING, View
from cachespec.scheduler.view import holders_of_blocks, in_flight, in_phase, new_plan


def blocks_at(view: View, request: int, first: int) -> tuple[int, ...]:
    """The request's blocks from this position on."""
    return dict(view.kv.tables).get(request, ())[first:]


def computed_in_blocks(view: View, request: int) -> int:
    """The request's tokens that have their KV, as its manager counts them."""
    holdings = dict(view.kv.holdings)
    return holdings[request].computed if request in holdings else 0


def hit_tokens(view: View, request: int) -> int:
    """The request's tokens that came with hits: no load writes their blocks."""
    holdings = dict(view.kv.holdings)
    return holdings[request].cached_tokens if request in holdings else 0


def loading_is_waiting(config: Config, view: View) -> bool:
    loading, over = in_phase(view, (LOADING, LOADED)), in_phase(view, (ABANDONED, SENDING))
    return (
        set(loading) <= set(view.waiting)
        and set(in_phase(view, (LOADS_IN_STEP,))) <= set(view.running)
        and set(over) <= set(view.gone)
        and not any(in_flight(view, request) for request in loading)
        and all(in_flight(view, request) for request in in_phase(view, (LOADS_IN_STEP,)))
    )


def transfers_have_blocks(config: Config, view: View) -> bool:
    return {request for request, _ in view.transfers} <= holders_of_blocks(view)


def loading_is_not_found(config: Config, view: View) -> bool:
    registered = {block for block, _ in view.kv.registered}
    return not any(
        block in registered
        for request in in_phase(view, (LOADING, ABANDONED))
        for block in blocks_at(view, request, hit_tokens(view, request) // config.block_size)
    )


def holders_find_room(config: Config, view: View) -> bool:
    """As long as a waiting request has blocks, which nobody can take from it."""
    waiting = in_phase(view, (LOADING, LOADED))
    missing = (
        (final_length(config, request) - 2) // config.block_size + 1 - len(blocks_at(view, request, 0))
        for request in {*view.running, *waiting}
    )
    return not waiting or sum(max(0, blocks) for blocks in missing) <= len(view.kv.free)


def loads_are_not_overwritten(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    begun = set(in_phase(after, (LOADING,))) - set(in_phase(before, (LOADING,)))
    return not begun or not any(part.void for plan in before.plans for part in plan.scheduled)


def late_loads_are_awaited(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Of the requests that a round admits: what is not loaded yet is in hits, or is computed."""
    return all(
        part.start <= hit_tokens(after, part.request)
        for part in new_plan(before, op, after).scheduled
        if part.request in before.waiting and config.loads_later and config.loads_later[part.request]
        if part.request not in in_phase(before, (LOADED,))
    )


def loads_arrive(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A load ends by itself, or with its request; the request's tokens count then, and not before."""
    was, now = dict(before.transfers), dict(after.transfers)
    if isinstance(op, FinishLoad):
        ends = op.request in in_phase(before, (LOADING, ABANDONED))
        if outcome.code is not (Code.DONE if ends else Code.ABSENT):
            return False
        if op.request in in_phase(before, (LOADING,)):
            done = was[op.request]._replace(phase=LOADED)
            return now.get(op.request) == done and computed_in_blocks(after, op.request) == done.tokens
        return not ends or op.request not in now
    return all(
        now.get(request) == was[request] or isinstance(op, FailLoad) or request in after.gone
        for request in in_phase(before, (LOADING,))
    )


def whole(config: Config, before: View, op: FailLoad | FailStep) -> int:
    """The tokens that stay computed when this load fails."""
    loaded = dict(before.transfers)[op.request].tokens
    return max(computed_in_blocks(before, op.request), min(loaded, op.blocks * config.block_size))


def failures_go_back(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FailLoad | FailStep):
        return True
    could = LOADING if isinstance(op, FailLoad) else LOADS_IN_STEP
    if outcome.code is not Code.DONE:
        return before == after and not (outcome.code is Code.ABSENT and is_failing(before, op))
    if op.request not in in_phase(before, (could,)) or in_flight(after, op.request):
        return False
    if config.failed_loads_end:
        return op.request in after.gone and op.request not in holders_of_blocks(after)
    tokens = whole(config, before, op)
    counts = (
        dict(after.computed).get(op.request) if isinstance(op, FailStep) else dict(after.transfers)[op.request].tokens
    )
    return counts == tokens == computed_in_blocks(after, op.request)


def is_failing(view: View, op: FailLoad | FailStep) -> bool:
    """There is such a load: the request waits for it, or the oldest step has it."""
    if isinstance(op, FailLoad):
        return op.request in in_phase(view, (LOADING,))
    oldest = {part.request for plan in view.plans[:1] for part in plan.scheduled if not part.void}
    return op.request in oldest and op.request in in_phase(view, (LOADS_IN_STEP,))


def failures_are_not_found(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FailLoad | FailStep) or outcome.code is not Code.DONE:
        return True
    lost = blocks_at(before, op.request, whole(config, before, op) // config.block_size)
    there = {block for block, _ in (*after.kv.registered, *after.worker.memory)}
    return not any(block in there for block in lost)


def blocks_are_kept(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """While a transfer reads or writes them, whatever becomes of the request."""
    tables, ending = dict(before.kv.tables), op.request if isinstance(op, FinishLoad | FailLoad | FinishSend) else -1
    return all(
        dict(after.kv.tables).get(request) == tables.get(request)
        for request in in_phase(before, (LOADING, ABANDONED, SENDING))
        if request != ending
    )


def blocks_are_freed_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """When the transfer of a request that is gone ends, each of its blocks loses one reference."""
    if not isinstance(op, FinishLoad | FinishSend):
        return True
    if op.request not in in_phase(before, (ABANDONED if isinstance(op, FinishLoad) else SENDING,)):
        return isinstance(op, FinishLoad) or (outcome.code is Code.ABSENT and before == after)
    counts, left = dict(before.kv.references), dict(after.kv.references)
    blocks = blocks_at(before, op.request, 0)
    freed = all(left.get(block, 0) == counts[block] - 1 for block in blocks)
    return outcome.code is Code.DONE and freed and op.request not in holders_of_blocks(after)


def finished_blocks_are_sent(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Of the requests that an output finishes, and of no others."""
    begun = set(in_phase(after, (SENDING,))) - set(in_phase(before, (SENDING,)))
    ended = set(outcome.values) if isinstance(op, Update | FailStep) and outcome.code is Code.DONE else set[int]()
    failed = {op.request} if isinstance(op, FailStep) else set[int]()
    return begun == {request for request in ended - failed if config.sends and config.sends[request]}


TRANSFERS: tuple[Safety[Config, View], ...] = (
    Safety(
        "SCH-14",
        "a request waits while its KV is loaded, and no step in flight counts for it",
        loading_is_waiting,
        lambda c, v: bool(in_phase(v, (LOADING,))) and bool(v.plans),
    ),
    Safety(
        "SCH-14/blocks",
        "a request holds blocks as long as a transfer reads or writes them",
        transfers_have_blocks,
        lambda c, v: bool(in_phase(v, (LOADING,))) and bool(in_phase(v, (ABANDONED,))),
    ),
    Safety(
        "SCH-14/room",
        "while a waiting request holds blocks, the free ones suffice for all requests that hold blocks",
        holders_find_room,
        lambda c, v: bool(in_phase(v, (LOADING, LOADED))) and bool(v.running),
    ),
    Safety(
        "KV-7/loading",
        "no block that a load still writes can be found",
        loading_is_not_found,
        lambda c, v: any(computed_in_blocks(v, request) for request in in_phase(v, (LOADING,))),
    ),
)

TRANSFER_STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SCH-14/fence",
        "a load begins only when no step in flight may still write to blocks that were given back",
        loads_are_not_overwritten,
        lambda c, b, op, o, a: (
            isinstance(op, Schedule)
            and any(part.void for plan in b.plans for part in plan.scheduled)
            and any(c.loads_later and c.loads_later[request] for request in b.waiting)
        ),
    ),
    Step(
        "SCH-14/awaited",
        "a request that waits for its KV is admitted with hits and loaded KV only",
        late_loads_are_awaited,
        lambda c, b, op, o, a: any(part.request in in_phase(b, (LOADED,)) for part in new_plan(b, op, a).scheduled),
    ),
    Step(
        "SCH-14/arrived",
        "loaded tokens count when their load is done, and a load ends only by itself or with its request",
        loads_arrive,
        lambda c, b, op, o, a: isinstance(op, FinishLoad) and op.request in a.waiting,
    ),
    Step(
        "SCH-14/back",
        "after any failed load, its request goes on behind the whole blocks, or ends, and output in flight is dropped",
        failures_go_back,
        lambda c, b, op, o, a: isinstance(op, FailStep) and o.code is Code.DONE and op.blocks > 0,
    ),
    Step(
        "KV-7/failed",
        "no block of a failed load can be found or counts as written",
        failures_are_not_found,
        lambda c, b, op, o, a: isinstance(op, FailStep) and o.code is Code.DONE and bool(a.kv.registered),
    ),
    Step(
        "SCH-15",
        "blocks stay in the table of their request while a transfer reads or writes them",
        blocks_are_kept,
        lambda c, b, op, o, a: isinstance(op, Schedule) and bool(in_phase(b, (SENDING,))) and b.kv.free != a.kv.free,
    ),
    Step(
        "SCH-15/once",
        "the blocks of a request that is gone are freed when its transfer ends, once",
        blocks_are_freed_once,
        lambda c, b, op, o, a: isinstance(op, FinishSend) and any(n > 1 for _, n in b.kv.references),
    ),
    Step(
        "SCH-15/finished",
        "the blocks of a request are sent if it is finished by its output, and not otherwise",
        finished_blocks_are_sent,
        lambda c, b, op, o, a: isinstance(op, Update) and bool(in_phase(a, (SENDING,))),
    ),
)
