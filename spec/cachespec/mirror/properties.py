"""MIR-1 to MIR-12, per sender and its partition, in an environment with faults."""

from __future__ import annotations

from cachespec.kernel import Code, FrozenQueue, Kind, Operation, Outcome, Progress, Safety, Step
from cachespec.mirror.configuration import Config, identity
from cachespec.mirror.declaration import FRONTEND, RECEIVER, MirrorOperation, Requests
from cachespec.mirror.fault_properties import FAULTY, NOBODY, sender_of
from cachespec.mirror.faults import ResetReceiver
from cachespec.mirror.operations import Deliver, FanOut, Join, LookUp, Process, Receive, Retry, Send, Submit, Transmit
from cachespec.mirror.recency import walk
from cachespec.mirror.view import LinkView, View
from cachespec.mirror.walk_properties import WALKS, head, is_applied

REFUSALS = (Code.STALE, Code.REFUSED)


def orders_agree(link: LinkView) -> bool:
    return link.sent_order == link.held_order


# Safety -------------------------------------------------------------------------------------------------------------


def settled_means_equal(config: Config, view: View) -> bool:
    return all(orders_agree(link) for link in view.links if link.settled)


def quiet_means_equal(config: Config, view: View) -> bool:
    return all(orders_agree(link) for link in view.links if link.quiet)


def mended_means_equal(config: Config, view: View) -> bool:
    return all(orders_agree(link) for link in view.links if link.quiet and link.mended)


def bytes_within_capacity(config: Config, view: View) -> bool:
    parts = all(sum(size for _, size in link.held_order) <= link.capacity for link in view.links)
    return parts and view.held_bytes <= view.receiver_capacity


# Steps --------------------------------------------------------------------------------------------------------------


def none_hits_or_is_reported(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return type(op) is not Deliver or outcome.code not in (Code.FAILED, Code.DIVERGED)


def applied_in_order(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    message = head(before, op)
    return message is None or not is_applied(before, op, outcome) or message.following


def update_has_message(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """P0 changes when a message is made, or loses the update's request while it is still without effect."""
    if not isinstance(op, MirrorOperation):
        return True
    if op.withdraws and updated_draft(before, op):
        return False
    unchanged = all(b.sent_order == a.sent_order for b, a in zip(before.links, after.links, strict=True))
    if op.kind is Kind.FAULT:
        return unchanged or op.clears != ""
    makes_message = op.frontend and outcome.code is Code.DONE
    return makes_message or type(op) in (Join, Retry) or unchanged


def each_message_is_an_update(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, MirrorOperation) or not op.sends(config) or outcome.code is not Code.DONE:
        return True
    return after.links[sender_of(op)].updates == before.links[sender_of(op)].updates + 1


def leaves_at_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Behind a backlog a message waits, and the answer names no payload."""
    if not isinstance(op, MirrorOperation) or not op.sends(config) or outcome.code is not Code.DONE:
        return True
    was, now = before.links[sender_of(op)], after.links[sender_of(op)]
    if was.backlog > 0:
        return len(now.messages) == len(was.messages) and outcome.values == ()
    return len(now.messages) == len(was.messages) + 1 and now.messages[-1].payloads == outcome.values


def updated_draft(before: View, op: Operation) -> bool:
    """Whether P0 was updated for the draft that this operation names."""
    updated = before.links[sender_of(op)].rendered
    return position_of(op) < len(updated) and updated[position_of(op)]


def walks_agree(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    message = head(before, op)
    if message is None or not is_applied(before, op, outcome):
        return True
    keys = tuple(identity(config, content) for content in message.walked)
    return keys == tuple(identity(config, content) for content in outcome.values)


def uses_what_was_rendered(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    message = head(before, op)
    if message is None or not is_applied(before, op, outcome):
        return True
    return sorted(outcome.values) == sorted(message.items)


def nobody_dies(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return after.hung <= before.hung


def requests_are_kept(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Only an answer ends a request, or the fault by which its client learns that it is lost; a join doubles none."""
    if op.kind is Kind.FAULT or isinstance(op, Receive):
        return True
    sends = isinstance(op, MirrorOperation) and outcome.code is Code.DONE and op.sends(config)
    sender = sender_of(op) if sends else NOBODY
    links = tuple(enumerate(zip(before.links, after.links, strict=True)))
    if isinstance(op, Join):
        return all(a.unanswered == b.unanswered for _, (b, a) in links)
    return all(a.unanswered >= b.unanswered + (name == sender) for name, (b, a) in links)


def as_asked(config: Config, name: int, before: Requests, op: Operation, outcome: Outcome) -> Requests:
    """What has become of one sender's requests in this step, answers aside: the operation itself declares it."""
    if not isinstance(op, MirrorOperation) or sender_of(op) != name or outcome.code is not Code.DONE:
        return before
    return op.moved(config, before)


def requests_are_as_asked(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """With MIR-3, which takes what P0 keeps for its updates, and MIR-6: P1 uses what the client has asked for."""
    if len(after.links) != len(before.links):
        return False
    for name, (b, a) in enumerate(zip(before.links, after.links, strict=True)):
        confirmed = len(b.kept) - len(a.kept) if isinstance(op, Receive) and op.sender == name else 0
        if confirmed < 0:
            return False
        expected = as_asked(config, name, Requests(b.drafts, b.kept[confirmed:]), op, outcome)
        if (a.drafts, a.kept) != expected:
            return False
    return True


def drafts_are_there(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, MirrorOperation) or op.takes == ():
        return True
    drafts, which = before.links[sender_of(op)].drafts, position_of(op)
    there = which < len(drafts) and drafts[which].stage in op.takes
    return (outcome.code is Code.ABSENT) is not there


def position_of(op: Operation) -> int:
    """The position that an operation names; 0 if it names none."""
    which: int = getattr(op, "which", 0)
    return which


def old_epochs_are_void(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    message = head(before, op)
    if message is None or message.current:
        return True
    unchanged = all(b.held_order == a.held_order for b, a in zip(before.links, after.links, strict=True))
    return outcome.code in REFUSALS and unchanged


def resets_empty(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if outcome.code is not Code.DONE or not isinstance(op, MirrorOperation):
        return True
    if op.clears == FRONTEND:
        return after.links[sender_of(op)].sent_order == ()
    return op.clears != RECEIVER or all(link.held_order == () for link in after.links)


def refusals_change_nothing(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return outcome.code not in (Code.REFUSED, Code.ABSENT) or before == after


def frontend_never_fails(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    serves = isinstance(op, MirrorOperation) and op.frontend
    return not serves or outcome.code not in (Code.FAILED, Code.DIVERGED)


def look_up_is_true(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Where two contents are named alike, variants look up different keys."""
    if not isinstance(op, LookUp) or outcome.code is not Code.DONE or config.identities:
        return True
    held = {key for key, _ in after.links[op.sender].sent_order}
    return outcome.values == tuple(int(content not in held) for content in op.items)


def hit_is_sent_all_the_same(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """An item that P0 held when the request came was evicted by the request's other items before its turn."""
    if not isinstance(op, Submit):
        return False
    held = {key for key, _ in before.links[op.sender].sent_order}
    return any(key in held and sent == 1 for key, sent in zip(op.items, outcome.values, strict=False))


def repeats_need_a_fault(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    return after.overspent <= before.overspent


def payloads_are_needed(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """What P1 applies carries exactly the payloads that its own walk asks for."""
    message = head(before, op)
    if message is None or not isinstance(op, Deliver) or not is_applied(before, op, outcome):
        return True
    held = FrozenQueue(before.links[op.sender].held_order)
    return walk(config, held, message.items)[1] == message.payloads


def goes_out_once(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Transmit) or outcome.code is not Code.DONE:
        return True
    return after.links[op.sender].backlog < before.links[op.sender].backlog


def strangers_are_refused(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Deliver) or before.links[op.sender].granted or head(before, op) is None:
        return True
    return outcome.code in REFUSALS and all(
        b.held_order == a.held_order for b, a in zip(before.links, after.links, strict=True)
    )


SAFETY: tuple[Safety[Config, View], ...] = (
    Safety(
        "MIR-1",
        "once P1 has applied every message of the epoch, P0 and P1 have equal orders, sizes included",
        settled_means_equal,
        lambda c, v: any(link.settled and link.sent_order for link in v.links),
    ),
    Safety(
        "MIR-1/again",
        "after the last fault, once another request is answered and nothing is in flight, P0 and P1 have equal orders",
        quiet_means_equal,
        lambda c, v: any(link.quiet and link.sent_order for link in v.links),
    ),
    Safety(
        "MIR-1/mended",
        "after a fault, once a miss is repaired and nothing is in flight, P0 and P1 have equal orders",
        mended_means_equal,
        lambda c, v: any(link.quiet and link.mended and link.sent_order for link in v.links),
    ),
    Safety(
        "MIR-11",
        "the bytes in P1's cache never exceed its capacity, and those of a partition never exceed the partition",
        bytes_within_capacity,
        lambda c, v: any(sum(size for _, size in link.held_order) == link.capacity for link in v.links),
    ),
)

STEPS: tuple[Step[Config, View], ...] = (
    Step(
        "MIR-2",
        "an item sent without payload is found at P1, or P1 reports the miss",
        none_hits_or_is_reported,
        lambda c, b, op, o, a: is_applied(b, op, o) and (message := head(b, op)) is not None and 0 in message.payloads,
    ),
    Step(
        "MIR-3",
        "the messages that P1 accepts in an epoch are a prefix of P0's updates, in P0's order",
        applied_in_order,
        lambda c, b, op, o, a: isinstance(op, Deliver) and is_applied(b, op, o) and b.links[op.sender].held_order != (),
    ),
    Step(
        "MIR-4",
        "P0 updates its cache for a request only together with creating the message to P1",
        update_has_message,
        lambda c, b, op, o, a: isinstance(op, MirrorOperation) and op.sends(c) and o.code is Code.DONE,
    ),
    Step(
        "MIR-4/each",
        "each message of a request is an update of P0 of its own",
        each_message_is_an_update,
        lambda c, b, op, o, a: isinstance(op, FanOut) and o.code is Code.DONE and 1 in o.values,
    ),
    Step(
        "MIR-4/at-once",
        "a request's message leaves in the step that creates it, unless earlier messages of its frontend still wait",
        leaves_at_once,
        lambda c, b, op, o, a: (
            isinstance(op, MirrorOperation)
            and op.sends(c)
            and o.code is Code.DONE
            and b.links[sender_of(op)].backlog > 0
        ),
    ),
    Step(
        "MIR-5",
        "P0 and P1 apply the items of a request in the same order",
        walks_agree,
        lambda c, b, op, o, a: is_applied(b, op, o) and len(set(o.values)) > 1,
    ),
    Step(
        "MIR-6",
        "P1 uses exactly the contents that were rendered",
        uses_what_was_rendered,
        lambda c, b, op, o, a: is_applied(b, op, o) and bool(o.values),
    ),
    Step(
        "MIR-6/kept",
        "P0 keeps each request as its client sent it, in order, until an answer confirms it",
        requests_are_as_asked,
        lambda c, b, op, o, a: (
            isinstance(op, Send) and o.code is Code.DONE and op.which > 0 and len(set(b.links[op.sender].drafts)) > 1
        ),
    ),
    Step(
        "MIR-6/drafts",
        "an operation on a draft is absent if and only if no draft of its stage is at that position",
        drafts_are_there,
        lambda c, b, op, o, a: isinstance(op, Process) and o.code is Code.DONE and 1 in o.values,
    ),
    Step(
        "MIR-7",
        "no process of the engine dies or hangs",
        nobody_dies,
        lambda c, b, op, o, a: type(op) is Deliver and o.code is not Code.HIT,
    ),
    Step(
        "MIR-7/kept",
        "a sent request stays unanswered until P0 receives an answer, across every reset and restart",
        requests_are_kept,
        lambda c, b, op, o, a: isinstance(op, Join) and b.links[op.sender].unanswered > 0,
    ),
    Step(
        "MIR-8",
        "a message of an earlier epoch reads and changes nothing",
        old_epochs_are_void,
        lambda c, b, op, o, a: (message := head(b, op)) is not None and not message.current,
    ),
    Step(
        "MIR-8/cleared",
        "a reset or restart empties the cache: at P1 for every sender, at P0 for its own",
        resets_empty,
        lambda c, b, op, o, a: isinstance(op, ResetReceiver) and b.held_bytes > 0,
    ),
    Step(
        "MIR-8/refused",
        "a refused operation, or one that names an absent message, changes nothing on either side",
        refusals_change_nothing,
        lambda c, b, op, o, a: isinstance(op, Join) and o.code is Code.REFUSED,
    ),
    Step(
        "MIR-9",
        "a request is served even if its own items evict one another",
        frontend_never_fails,
        hit_is_sent_all_the_same,
    ),
    Step(
        "MIR-9/looked-up",
        "a look-up reports exactly the items that P0's cache lacks",
        look_up_is_true,
        lambda c, b, op, o, a: isinstance(op, LookUp) and 0 in o.values,
    ),
    Step(
        "MIR-10",
        "a payload is sent once per residency, and each repeated send of an item is due to one fault",
        repeats_need_a_fault,
        lambda c, b, op, o, a: type(op) is Transmit and 1 in o.values,
    ),
    Step(
        "MIR-10/needed",
        "an applied message has a payload exactly for the items that P1 lacks at their turn",
        payloads_are_needed,
        lambda c, b, op, o, a: is_applied(b, op, o) and 1 in (head(b, op) or b.links[0].messages[0]).payloads,
    ),
    Step(
        "MIR-10/once",
        "each message is transmitted at most once per generation",
        goes_out_once,
        lambda c, b, op, o, a: type(op) is Transmit and 1 in o.values,
    ),
    Step(
        "MIR-12",
        "a message from a sender without a partition is refused",
        strangers_are_refused,
        lambda c, b, op, o, a: isinstance(op, Deliver) and not b.links[op.sender].granted and head(b, op) is not None,
    ),
    *FAULTY,
    *WALKS,
)

PROGRESS: tuple[Progress[Config, View], ...] = (
    Progress(
        "MIR-7/served",
        "every request that was sent is eventually answered",
        lambda c, v: any(link.unanswered > 0 for link in v.links),
    ),
)
