"""What a fault does, and what the history of repeated sends counts.

Both are said once more here. A fault that did less than its name says would make every other property weaker, and
MIR-10 is as true as the history that it reads.
"""

from __future__ import annotations

from cachespec.kernel import Code, Kind, Operation, Outcome, Step
from cachespec.mirror.configuration import UNLIMITED, Config
from cachespec.mirror.declaration import ANSWERS, MESSAGES, MirrorOperation
from cachespec.mirror.normative_state import ALLOWANCE
from cachespec.mirror.operations import Deliver, Receive
from cachespec.mirror.protocol import GAP, NONE
from cachespec.mirror.view import LinkView, View

NOBODY = -1

Carried = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The stamp of a message, its items and its payloads."""


def sender_of(op: Operation) -> int:
    """The sender that an operation names, or none."""
    sender: int = getattr(op, "sender", NOBODY)
    return sender


def is_done(op: Operation, outcome: Outcome) -> bool:
    """Whether a fault of the mirror has happened in this step."""
    return isinstance(op, MirrorOperation) and op.kind is Kind.FAULT and outcome.code is Code.DONE


# What a fault does --------------------------------------------------------------------------------------------------


def carried(link: LinkView) -> tuple[Carried, ...]:
    """The messages in flight, whatever P1 would make of them now."""
    return tuple((message.stamp, message.items, message.payloads) for message in link.messages)


def messages_as_named(op: MirrorOperation, name: int, before: LinkView) -> tuple[Carried, ...]:
    """The messages of a sender that are in flight after a fault."""
    messages = carried(before)
    if op.loses:
        return ()
    if op.flow != MESSAGES or name != sender_of(op):
        return messages
    return tuple(messages[place] for place in op.places(len(messages)))


def answers_as_named(op: MirrorOperation, name: int, before: LinkView) -> tuple[tuple[int, ...], ...]:
    """The answers to a sender that are in flight after a fault."""
    answers = before.answering
    if op.loses:
        return ()
    if op.flow != ANSWERS or name != sender_of(op):
        return answers
    return tuple(answers[place] for place in op.places(len(answers)))


def channel_is_as_named(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, MirrorOperation) or not is_done(op, outcome):
        return True
    return all(
        carried(a) == messages_as_named(op, name, b) and a.answering == answers_as_named(op, name, b)
        for name, (b, a) in enumerate(zip(before.links, after.links, strict=True))
    )


def faults_happen(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """Those that name a draft are in MIR-6/drafts."""
    if not isinstance(op, MirrorOperation) or op.kind is not Kind.FAULT or op.takes != ():
        return True
    refused, sender = outcome.code in (Code.ABSENT, Code.REFUSED), sender_of(op)
    if sender == NOBODY:
        return not refused
    link = before.links[sender]
    return refused is not op.befalls(link.abortable, len(link.messages), link.answers)


def faults_are_counted(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if config.faults == UNLIMITED or not isinstance(op, MirrorOperation):
        return after.faults_left == before.faults_left
    happens = op.kind is Kind.FAULT and outcome.code not in (Code.ABSENT, Code.REFUSED)
    return after.faults_left == before.faults_left - (1 if happens else 0) and after.faults_left >= 0


# What is taken ------------------------------------------------------------------------------------------------------


def oldest_is_taken(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A process that dies or spins may have taken half a step."""
    if not isinstance(op, Deliver | Receive) or outcome.code in (Code.ABSENT, Code.FAILED, Code.DIVERGED):
        return True
    was, now = before.links[op.sender], after.links[op.sender]
    if isinstance(op, Receive):
        return carried(now) == carried(was) and now.answering == was.answering[1:]
    answered = len(now.answering) == len(was.answering) + 1
    return answered and carried(now) == carried(was)[1:] and now.answering[: len(was.answering)] == was.answering


# What the history counts --------------------------------------------------------------------------------------------


def is_harmed(op: Operation, outcome: Outcome, name: int) -> bool:
    """Whether a fault has hit this sender's requests: a fault that names no sender hits those of all."""
    if not isinstance(op, MirrorOperation) or not is_done(op, outcome):
        return False
    return op.harms and sender_of(op) in (NOBODY, name)


def is_repaired(op: Operation, name: int, before: LinkView) -> bool:
    """Whether an answer arrives to a request that was sent after the last fault."""
    if not isinstance(op, Receive) or op.sender != name or before.answering == ():
        return False
    return before.answering[0][1] > before.marked


def is_repeated(before: LinkView, after: LinkView) -> bool:
    """Whether a generation begins, or messages that are out and not confirmed have to go out again."""
    confirmed = max(len(before.kept) - len(after.kept), 0)
    out, still_out = len(before.kept) - before.backlog, len(after.kept) - after.backlog
    return after.generation != before.generation or still_out < out - confirmed


def repeats_allowed(op: Operation, outcome: Outcome, name: int, before: LinkView) -> int:
    """How many repeats the faults so far account for, before those of this step."""
    if is_repaired(op, name, before):
        return 0
    return min(before.allowance + 1, ALLOWANCE) if is_harmed(op, outcome, name) else before.allowance


def last_harm(op: Operation, outcome: Outcome, name: int, before: LinkView) -> int:
    """The number that was next at the last fault, unless it is repaired."""
    if is_repaired(op, name, before):
        return NONE
    return before.updates if is_harmed(op, outcome, name) else before.marked


def history_is_true(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    overspent = before.overspent
    for name, (b, a) in enumerate(zip(before.links, after.links, strict=True)):
        allowed, repeats = repeats_allowed(op, outcome, name, b), is_repeated(b, a)
        overspent = overspent or (repeats and allowed == 0)
        left = max(allowed - 1, 0) if repeats else allowed
        if (a.allowance, a.marked) != (left, last_harm(op, outcome, name, b)):
            return False
    return after.overspent == overspent


def goes_back(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    """A complaint of P1 begins a generation."""
    if not isinstance(op, Receive):
        return False
    return after.links[op.sender].generation > before.links[op.sender].generation


# What faults make necessary -----------------------------------------------------------------------------------------


def complains(before: LinkView, after: LinkView) -> bool:
    """The oldest answer reports a gap of this generation, before the oldest request that nothing confirms."""
    if before.answering == () or not before.joined or after.kept == ():
        return False
    generation, expected, verdict = before.answering[0]
    return (generation, expected, verdict) == (before.generation, after.updates - len(after.kept), GAP)


def goes_back_for_a_gap(config: Config, before: View, op: Operation, outcome: Outcome, after: View) -> bool:
    if not isinstance(op, Receive):
        return True
    was, now = before.links[op.sender], after.links[op.sender]
    return (now.generation != was.generation) is complains(was, now)


FAULTY: tuple[Step[Config, View], ...] = (
    Step(
        "MIR-7/channel",
        "a fault reorders, loses or repeats just the message or answer it names, and a restart loses all in flight",
        channel_is_as_named,
        lambda c, b, op, o, a: isinstance(op, MirrorOperation) and op.flow == MESSAGES and is_done(op, o),
    ),
    Step(
        "MIR-7/happens",
        "a fault happens if and only if the message, answer or request that it names is there",
        faults_happen,
        lambda c, b, op, o, a: isinstance(op, MirrorOperation) and op.flow == ANSWERS and is_done(op, o),
    ),
    Step(
        "MIR-7/taken",
        "P1 takes and answers one message at a time, and P0 takes one answer at a time, each the oldest",
        oldest_is_taken,
        lambda c, b, op, o, a: isinstance(op, Receive) and len(b.links[op.sender].answering) > 1,
    ),
    Step(
        "MIR-10/gap",
        "P0 goes back if and only if an answer of its generation complains of the oldest request without an answer",
        goes_back_for_a_gap,
        goes_back,
    ),
    Step(
        "MIR-10/counted",
        "each fault is counted once, and no more faults happen than the scope allows",
        faults_are_counted,
        lambda c, b, op, o, a: b.faults_left == 1 and a.faults_left == 0,
    ),
    Step(
        "MIR-10/history",
        "the first join, and each fault on the request path until it is repaired, account for one repeated send",
        history_is_true,
        goes_back,
    ),
)
