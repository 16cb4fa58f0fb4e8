"""That every answer says what happened, and that an operation changes only the request, handle and bytes that it names.

The transitions and their helpers decide this. The properties here decide it again from what can be seen before and
after a step, so that a fault in a helper cannot hide itself.
"""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Safety, Step
from cachespec.object_store.configuration import UNLIMITED, Config, Request, content_of
from cachespec.object_store.operations import (
    Abort,
    Acknowledge,
    Clear,
    Copy,
    Die,
    End,
    Finish,
    Forge,
    FreeUnused,
    GetCached,
    Look,
    Preempt,
    Put,
    Read,
    Reject,
    Release,
    Render,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Send,
    Touch,
)
from cachespec.object_store.operations import Store as StorePart
from cachespec.object_store.state import ABSENT, ENDED, PREEMPTED, RENDERING, RUNNING, WAITING
from cachespec.object_store.view import Chunk, View

NONE = -1
"""No phase."""

# Of a state ---------------------------------------------------------------------------------------------------------


def few_are_rendered(config: Config, view: View) -> bool:
    return view.phases.count(RENDERING) <= config.concurrent


def cells_are_of_the_sent(config: Config, view: View) -> bool:
    sent = (RUNNING, PREEMPTED, ENDED)
    return all(view.phases[request] in sent for cell in view.cells for request, _ in cell)


def parts_appear_one_by_one(config: Config, view: View) -> bool:
    if view.writing == ():
        return True
    place, header, data = view.writing[0]
    bytes_there = any(block[0] == place and block[4] >= 0 for block in view.blocks)
    return config.stores == 1 and header + data < 2 and not (header == 1 and bytes_there)


ANSWERED_STATES: tuple[Safety[Config, View], ...] = (
    Safety(
        "SHM-7/concurrent",
        "P0 renders at most as many requests at a time as the configuration says",
        few_are_rendered,
        lambda c, v: v.phases.count(RENDERING) == c.concurrent,
    ),
    Safety(
        "SHM-3/early",
        "a worker has acknowledged no handle of a request that was not sent to the workers",
        cells_are_of_the_sent,
        lambda c, v: any(v.cells),
    ),
    Safety(
        "SHM-10/parts",
        "while header and data become visible one by one, no reader finds the bytes before the store of the data",
        parts_appear_one_by_one,
        lambda c, v: v.writing != () and v.writing[0][1] == 1,
    ),
)

# Of a step: P0 ------------------------------------------------------------------------------------------------------


def is_listed(view: View, content: int) -> bool:
    return any(listed == content for listed, _ in view.listed)


def look_up_is_answered(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, Render) and outcome.code is Code.DONE:
        answer = tuple([1 if is_listed(before, content) else 0 for content in config.requests[op.request]])
        return outcome.values == answer and after.skipped[op.request] == answer
    if isinstance(op, Touch) and after.touched != before.touched:
        return (outcome.code is Code.DONE) == is_listed(before, content_of(config, op.request, op.position))
    return True


def nothing_was_left_of_the_name(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Render) or outcome.code is not Code.DONE:
        return True
    return is_unused(before, op.request)


def is_unused(view: View, request: Request) -> bool:
    awaited = any(delivery.request == request for inbox in view.inboxes for delivery in inbox)
    return view.phases[request] == ABSENT and not awaited


def renders_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Render) or outcome.code is not Code.DONE or config.renders == UNLIMITED:
        return after.renders_left == before.renders_left
    return after.renders_left == before.renders_left - 1


def is_walking(config: Config, view: View, request: Request) -> bool:
    begun = view.touched[request] + view.walked[request] > 0
    return view.phases[request] == RENDERING and begun and view.walked[request] < len(config.requests[request])


def walks_any(config: Config, view: View) -> bool:
    return any(is_walking(config, view, request) for request in range(len(config.requests)))


def release_comes_between(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, Release) or (outcome.code is Code.DONE) != walks_any(config, before)


def nothing_is_left_protected(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    begins = isinstance(op, Render) and outcome.code is Code.DONE
    walks = isinstance(op, Touch | Put | GetCached) and is_walking(config, after, op.request)
    if not (begins or walks) or walks_any(config, before):
        return True
    return not any(chunk.protected for chunk in before.chunks)


def is_handed_out(op: Operation, outcome: Outcome) -> bool:
    return (isinstance(op, Put) and outcome.code is Code.DONE) or (
        isinstance(op, GetCached) and outcome.code is Code.HIT
    )


def answer_names_the_chunk(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Put | GetCached) or not is_handed_out(op, outcome):
        return True
    content = content_of(config, op.request, op.position)
    named = [chunk for chunk in after.chunks if outcome.values[1:] == (chunk.identity,) and chunk.content == content]
    return any(outcome.values[0] % config.capacity == chunk.place for chunk in named)


def handed_out_is_unprotected(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not is_handed_out(op, outcome):
        return True
    return not any(chunk.protected and outcome.values[1:] == (chunk.identity,) for chunk in after.chunks)


def own_items_stay(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, Clear | Restart):
        return True
    there = [(chunk.identity, chunk.epoch) for chunk in after.chunks]
    return all(
        (chunk.identity, chunk.epoch) in there
        for chunk in before.chunks
        if chunk.protected and is_still_awaited(config, after, chunk)
    )


def is_still_awaited(config: Config, view: View, chunk: Chunk) -> bool:
    return any(
        view.phases[request] == RENDERING and chunk.content in contents[view.walked[request] : view.touched[request]]
        for request, contents in enumerate(config.requests)
    )


def freed_by(before: View, after: View, more: int) -> tuple[Chunk, ...]:
    return before.chunks[: len(before.chunks) + more - len(after.chunks)]


def frees_what_it_needs(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Put) or outcome.code is not Code.DONE:
        return True
    freed, new = freed_by(before, after, 1), after.chunks[-1]
    if freed == ():
        return True
    last = freed[-1]
    begin = before.start + (last.place - before.start) % config.capacity
    end = before.end + (new.place - before.end) % config.capacity + new.total
    return end - begin > config.capacity or last.identity == new.identity


def freed_are_reported(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, FreeUnused) or outcome.code is not Code.DONE:
        return True
    return outcome.values == tuple([chunk.identity for chunk in freed_by(before, after, 0)])


def parts_are_stored_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, StorePart) or before.writing == ():
        return True
    _, header, data = before.writing[0]
    visible = header if op.part == 0 else data
    if outcome.code is Code.DONE:
        return visible == 0
    return visible == 1 or (op.part == 1 and header == 0)


# Of a step: requests and workers ------------------------------------------------------------------------------------


def phase_after(op: Operation, request: Request, phase: int) -> int:
    """Where the operation moves a request that is in this phase; -1 if it must not move it."""
    if isinstance(op, Die):
        return ENDED if phase in (RUNNING, PREEMPTED) else NONE
    if isinstance(op, Restart):
        return ABSENT if phase == RENDERING else NONE
    if isinstance(op, Finish | Abort):
        of_workers = phase == RUNNING if isinstance(op, Finish) else phase in (WAITING, RUNNING, PREEMPTED)
        return ENDED if op.request == request and of_workers else NONE
    if isinstance(op, Render):
        return RENDERING if op.request == request and phase == ABSENT else NONE
    if isinstance(op, Send | Forge):
        return WAITING if op.request == request and phase == (ABSENT if isinstance(op, Forge) else RENDERING) else NONE
    if isinstance(op, Schedule | Resume):
        was = PREEMPTED if isinstance(op, Resume) else WAITING
        return RUNNING if op.request == request and phase == was else NONE
    if isinstance(op, Preempt):
        return PREEMPTED if op.request == request and phase == RUNNING else NONE
    if isinstance(op, Reject | End):
        was = ENDED if isinstance(op, End) else RENDERING
        return ABSENT if op.request == request and phase == was else NONE
    return NONE


def phases_follow(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if outcome.code is Code.FAILED:
        return True
    return all(
        now == was or now == phase_after(op, request, was)
        for request, (was, now) in enumerate(zip(before.phases, after.phases, strict=True))
    )


def may_be_rendered(config: Config, view: View, request: Request) -> bool:
    left = any(chunk.protected for chunk in view.chunks) and not walks_any(config, view)
    busy = view.phases.count(RENDERING) >= config.concurrent or view.renders_left == 0
    return is_unused(view, request) and not (left or busy)


def what_fits_is_done(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, Render):
        return (outcome.code is Code.DONE) == may_be_rendered(config, before, op.request)
    if isinstance(op, Repeat):
        return (outcome.code is Code.DONE) == (before.phases[op.request] == RUNNING)
    if isinstance(op, Schedule | Resume | End):
        moves = phase_after(op, op.request, before.phases[op.request]) != NONE
        return (outcome.code is Code.DONE) == moves
    return True


def deliveries_are_marked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Schedule | Resume | Repeat):
        return True
    again = 0 if isinstance(op, Schedule) else 1 if isinstance(op, Resume) else 2
    return all(
        delivery.again == again
        for had, has in zip(before.inboxes, after.inboxes, strict=True)
        for delivery in has[len(had) :]
    )


def only_its_handles_are_revoked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Reject | End):
        return True
    return all(
        now.handle.standing == was.handle.standing
        for had, has in zip(before.inboxes, after.inboxes, strict=True)
        for was, now in zip(had, has, strict=True)
        if was.request != op.request
    )


def worker_goes_on(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Read | Look | Copy | Acknowledge) or outcome.code is Code.ABSENT:
        return True
    had, has = before.inboxes[op.reader], after.inboxes[op.reader]
    if outcome.code in (Code.HIT, Code.STALE):
        return has == had[1:]
    return has == had and isinstance(op, Look | Copy)


ANSWERED_STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "SHM-7/answers",
        "a look-up and a touch answer whether each item is handed out",
        look_up_is_answered,
        lambda c, b, o, r, a: type(o) is Render and 1 in r.values,
    ),
    Step(
        "SHM-3/reused",
        "a request's name is used again only when no worker has anything left of its former life",
        nothing_was_left_of_the_name,
        lambda c, b, o, r, a: type(o) is Render and any(b.inboxes),
    ),
    Step(
        "SHM-7/counted",
        "each rendered request, and nothing else, counts against the scope's number of requests",
        renders_are_counted,
        lambda c, b, o, r, a: type(o) is Render and r.code is Code.DONE,
    ),
    Step(
        "SHM-7/between",
        "protection is released whenever P0 asks for it between walks, and never during a walk",
        release_comes_between,
        lambda c, b, o, r, a: type(o) is Release and r.code is Code.DONE,
    ),
    Step(
        "SHM-8/left",
        "no request and no walk begins while an item is still protected for a walk that was given up",
        nothing_is_left_protected,
        lambda c, b, o, r, a: type(o) is Touch and any(chunk.protected for chunk in a.chunks),
    ),
    Step(
        "SHM-2/named",
        "the answer of a put or a look-up names the live chunk of its item",
        answer_names_the_chunk,
        lambda c, b, o, r, a: is_handed_out(o, r),
    ),
    Step(
        "SHM-7/handed",
        "an item that is handed out needs no protection any more",
        handed_out_is_unprotected,
        lambda c, b, o, r, a: type(o) is GetCached and any(chunk.protected for chunk in b.chunks),
    ),
    Step(
        "SHM-7/own",
        "a walk does not free an item that it has touched and not reached",
        own_items_stay,
        lambda c, b, o, r, a: type(o) is Put and any(chunk.protected for chunk in b.chunks),
    ),
    Step(
        "SHM-6/needed",
        "a put that stores its item frees no more chunks than the item needs",
        frees_what_it_needs,
        lambda c, b, o, r, a: type(o) is Put and r.code is Code.DONE and len(a.chunks) <= len(b.chunks),
    ),
    Step(
        "SHM-6/reported",
        "a freeing of unused chunks answers with the ids of those that it freed, the oldest first",
        freed_are_reported,
        lambda c, b, o, r, a: type(o) is FreeUnused and len(a.chunks) < len(b.chunks),
    ),
    Step(
        "SHM-10/stores",
        "the header and the data of a chunk become visible once each",
        parts_are_stored_once,
        lambda c, b, o, r, a: type(o) is StorePart and o.part == 1 and r.code is Code.DONE,
    ),
    Step(
        "SHM-8/phases",
        "unless P0 fails on an item, a request changes its phase only by an operation of that phase",
        phases_follow,
        lambda c, b, o, r, a: type(o) is End and b.phases != a.phases,
    ),
    Step(
        "SHM-8/moved",
        "a request is rendered, scheduled, resumed, repeated or reported as ended whenever it may be",
        what_fits_is_done,
        lambda c, b, o, r, a: type(o) is Schedule and r.code is Code.DONE,
    ),
    Step(
        "SHM-8/marked",
        "each item that is sent to a worker is marked as new, as resumed, or as a copy",
        deliveries_are_marked,
        lambda c, b, o, r, a: type(o) is Resume and a.inboxes != b.inboxes,
    ),
    Step(
        "SHM-8/revoked",
        "the end of a request revokes its own handles only",
        only_its_handles_are_revoked,
        lambda c, b, o, r, a: type(o) is End and any(a.inboxes),
    ),
    Step(
        "SHM-8/passed",
        "a worker that has read an item, or has given it up, says so and goes on to the next",
        worker_goes_on,
        lambda c, b, o, r, a: type(o) in (Read, Acknowledge) and r.code is Code.HIT,
    ),
)
