"""The faults of the normative mirror: of clients and frontends, of the channel, and of either side's memory."""

from __future__ import annotations

from types import MappingProxyType

from cachespec.kernel import ABSENT, DONE, Outcome, Queue, Transitions
from cachespec.mirror import protocol
from cachespec.mirror.channel import doubled, overtaken
from cachespec.mirror.configuration import Config, Key
from cachespec.mirror.drafts import RENDERED, without
from cachespec.mirror.faults import (
    Abort,
    Cancel,
    Drop,
    DropAnswer,
    Duplicate,
    DuplicateAnswer,
    Reject,
    Reorder,
    ReorderAnswers,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
    SubmitRejected,
)
from cachespec.mirror.normative_state import Link, State, counted, touched, with_link

Result = tuple[State, Outcome]


# Clients and frontends ----------------------------------------------------------------------------------------------


def reject(config: Config, state: State, op: Reject) -> Result:
    """MIR-4: a request that is never sent has left no trace in P0's cache (C-MIR-3, C-MIR-4)."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts) or link.drafts[op.which].stage != RENDERED:
        return state, ABSENT
    drafts = without(link.drafts, op.which)
    return counted(with_link(state, op.sender, link._replace(drafts=drafts))), DONE


def submit_rejected(config: Config, state: State, op: SubmitRejected) -> Result:
    """As `Render` and then `Reject`."""
    return counted(state), DONE


def abort(config: Config, state: State, op: Abort) -> Result:
    """X-3: the request's update goes on to P1 all the same; only its result is not wanted any more."""
    link = state.links[op.sender]
    if op.which >= len(link.sender.log):
        return state, ABSENT
    return counted(state), DONE


def cancel(config: Config, state: State, op: Cancel) -> Result:
    """MIR-4: what is not sent has left no trace in P0's cache; messages that have left are updates as any other."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts):
        return state, ABSENT
    drafts = without(link.drafts, op.which)
    return counted(with_link(state, op.sender, link._replace(drafts=drafts))), DONE


# Channel ------------------------------------------------------------------------------------------------------------


def reorder(config: Config, state: State, op: Reorder) -> Result:
    """The channel delivers a message before the one that was sent before it."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.messages):
        return state, ABSENT
    messages = overtaken(link.messages, op.which)
    return counted(with_link(state, op.sender, touched(link)._replace(messages=messages))), DONE


def reorder_answers(config: Config, state: State, op: ReorderAnswers) -> Result:
    """MIR-10: a fault on the answer path costs no payload, so it adds no allowance."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.answers):
        return state, ABSENT
    answers = overtaken(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


def drop(config: Config, state: State, op: Drop) -> Result:
    """The channel loses a message."""
    link = state.links[op.sender]
    if op.which >= len(link.messages):
        return state, ABSENT
    after = touched(link)._replace(messages=without(link.messages, op.which))
    return counted(with_link(state, op.sender, after)), DONE


def drop_answer(config: Config, state: State, op: DropAnswer) -> Result:
    """MIR-10: likewise; the question that follows costs none either."""
    link = state.links[op.sender]
    if op.which >= len(link.answers):
        return state, ABSENT
    answers = without(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


def duplicate(config: Config, state: State, op: Duplicate) -> Result:
    """MIR-3, MIR-10: P1 applies a number once, so the copy costs an answer: no payload, and no allowance."""
    link = state.links[op.sender]
    if op.which >= len(link.messages):
        return state, ABSENT
    messages = doubled(link.messages, op.which)
    return counted(with_link(state, op.sender, link._replace(messages=messages))), DONE


def duplicate_answer(config: Config, state: State, op: DuplicateAnswer) -> Result:
    """MIR-10: one repair for a generation, however often its complaint arrives."""
    link = state.links[op.sender]
    if op.which >= len(link.answers):
        return state, ABSENT
    answers = doubled(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


# Memory -------------------------------------------------------------------------------------------------------------


def reset_sender(config: Config, state: State, op: ResetSender) -> Result:
    """MIR-8: a frontend that forgets has to join again before it sends."""
    link = state.links[op.sender]
    sender = link.sender._replace(order=state.empty, joined=0)
    return counted(with_link(state, op.sender, touched(link)._replace(sender=sender))), DONE


def reset_receiver(config: Config, state: State, op: ResetReceiver) -> Result:
    """MIR-8: what P1 forgets, it revokes: no message of before can be taken for one of after."""
    links = tuple(touched(forgotten(link, state.empty)) for link in state.links)
    return counted(state._replace(links=links)), DONE


def restart_receiver(config: Config, state: State, op: RestartReceiver) -> Result:
    """As a reset, and everything in flight is lost."""
    links = tuple(touched(forgotten(link, state.empty))._replace(messages=(), answers=()) for link in state.links)
    return counted(state._replace(links=links)), DONE


def forgotten(link: Link, empty: Queue[Key]) -> Link:
    """MIR-8: P1's side of the link holds nothing, and is not granted."""
    return link._replace(partition=protocol.revoked(empty))


FAULTS: Transitions[Config, State] = MappingProxyType(
    {
        Reject: reject,
        SubmitRejected: submit_rejected,
        Abort: abort,
        Cancel: cancel,
        Reorder: reorder,
        ReorderAnswers: reorder_answers,
        Drop: drop,
        DropAnswer: drop_answer,
        Duplicate: duplicate,
        DuplicateAnswer: duplicate_answer,
        ResetSender: reset_sender,
        ResetReceiver: reset_receiver,
        RestartReceiver: restart_receiver,
    }
)
