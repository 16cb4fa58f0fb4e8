"""That each call does all that it is there for: half a call breaks no invariant, but a process would wait for ever.

A walk goes on item by item, a request is sent with every handle to every worker, what P0 need not keep goes, and
whoever dies takes along what it had.
"""

from __future__ import annotations

from cachespec.kernel import Code, Operation, Outcome, Step
from cachespec.object_store.configuration import Config, Request
from cachespec.object_store.operations import (
    Clear,
    Die,
    End,
    Finish,
    FreeUnused,
    GetCached,
    Preempt,
    Put,
    Reject,
    Release,
    Repeat,
    Restart,
    Resume,
    Schedule,
    Touch,
)
from cachespec.object_store.state import IDLE, PREEMPTED, READING, RENDERING, RUNNING, Delivery, Slot
from cachespec.object_store.view import View

WALKED = (Code.DONE, Code.HIT, Code.REFUSED, Code.TOO_LARGE)
"""How a look-up or a put ends that P0 goes on from."""


def walk_goes_on(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if isinstance(op, Touch):
        return after.touched[op.request] == before.touched[op.request] + 1
    if isinstance(op, Put | GetCached) and outcome.code in WALKED:
        one_more = after.walked[op.request] == before.walked[op.request] + 1
        return one_more and len(after.handles[op.request]) == after.walked[op.request]
    return True


def everything_is_sent(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return not isinstance(op, Schedule | Repeat) or is_sent(before, op.request, outcome, after)


def everything_is_sent_again(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return type(op) is not Resume or is_sent(before, op.request, outcome, after)


def is_sent(before: View, request: Request, outcome: Outcome, after: View) -> bool:
    """Whether every worker got all handles of the request; a call that does nothing sends none."""
    expected = to_send(after, request) if outcome.code is Code.DONE else []
    had = [len(to_read(inbox)) for inbox in before.inboxes]
    return all(to_read(inbox)[was:] == expected for was, inbox in zip(had, after.inboxes, strict=True))


def to_send(view: View, request: Request) -> list[Slot]:
    """What the request has handles for."""
    return [(request, position) for position, content in enumerate(view.handles[request]) if content >= 0]


def to_read(inbox: tuple[Delivery, ...]) -> list[Slot]:
    """What a worker was sent to read."""
    return [(delivery.request, delivery.position) for delivery in inbox if delivery.task == READING]


def everything_was_executed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Preempt | Finish) or outcome.code is not Code.DONE:
        return True
    return not any(delivery.request == op.request for inbox in before.inboxes for delivery in inbox)


def nothing_is_protected(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    ends = type(op) in (Release, Clear) and outcome.code is Code.DONE
    return not ends or not any(chunk.protected for chunk in after.chunks)


def oldest_is_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) not in (Clear, FreeUnused) or after.chunks == ():
        return True
    return after.chunks[0].outstanding > 0 or after.chunks[0].protected


def worker_is_gone(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Die):
        return True
    idle = after.inboxes[op.reader] == () and after.doing[op.reader] == IDLE
    return idle and not any(phase in (RUNNING, PREEMPTED) for phase in after.phases)


def cells_forget_the_request(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Reject | End) or outcome.code is not Code.DONE:
        return True
    return not any(request == op.request for cell in after.cells for request, _ in cell)


def refusals_change_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A refused put may have freed chunks (SHM-7). A touch answers whether the item is there, and goes on."""
    return isinstance(op, Put | Touch) or outcome.code not in (Code.REFUSED, Code.ABSENT) or before == after


def everything_begins_anew(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if type(op) is not Restart:
        return True
    forgotten = after.chunks == () and after.tickets == () and after.outstanding == ()
    return forgotten and after.writing == () and RENDERING not in after.phases


COMPLETENESS: tuple[Step[Config, View], ...] = (
    Step(
        "SHM-7/further",
        "P0 touches and walks each item of a request once, in order",
        walk_goes_on,
        lambda c, b, o, r, a: type(o) is Put and r.code is Code.REFUSED,
    ),
    Step(
        "SHM-8/sent",
        "a request that is scheduled or repeated is sent to every worker with all its handles",
        everything_is_sent,
        lambda c, b, o, r, a: type(o) is Repeat and a.inboxes != b.inboxes,
    ),
    Step(
        "SHM-8/resent",
        "a request that is resumed is sent to every worker again, with all its handles",
        everything_is_sent_again,
        lambda c, b, o, r, a: type(o) is Resume and a.inboxes != b.inboxes,
    ),
    Step(
        "SHM-8/executed",
        "a request is preempted or finished only after every worker has executed all that it was sent for it",
        everything_was_executed,
        lambda c, b, o, r, a: type(o) is Finish and r.code is Code.DONE,
    ),
    Step(
        "SHM-8/released",
        "after a release or a clear, no chunk is protected",
        nothing_is_protected,
        lambda c, b, o, r, a: type(o) is Release and any(chunk.protected for chunk in b.chunks),
    ),
    Step(
        "SHM-8/freed",
        "after a clear or a freeing of unused chunks, the oldest remaining chunk is still needed",
        oldest_is_needed,
        lambda c, b, o, r, a: type(o) is FreeUnused and len(a.chunks) < len(b.chunks),
    ),
    Step(
        "SHM-8/died",
        "a dead worker has an empty inbox, and no request is left at any worker",
        worker_is_gone,
        lambda c, b, o, r, a: type(o) is Die and b.inboxes[o.reader] != (),
    ),
    Step(
        "SHM-7/refused",
        "an operation that is refused or absent changes nothing, except for a put and a touch",
        refusals_change_nothing,
        lambda c, b, o, r, a: type(o) is not Put and r.code is Code.REFUSED,
    ),
    Step(
        "SHM-3/forgotten",
        "once P0 learns that a request ended, no acknowledgement of it counts for a later request of its name",
        cells_forget_the_request,
        lambda c, b, o, r, a: type(o) is End and any(b.cells),
    ),
    Step(
        "SHM-5/restarted",
        "a restarted P0 knows no chunk, and no earlier handle is valid",
        everything_begins_anew,
        lambda c, b, o, r, a: type(o) is Restart and bool(b.outstanding),
    ),
)
