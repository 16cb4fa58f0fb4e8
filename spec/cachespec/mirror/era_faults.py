"""The faults of the eras: of clients and frontends, of the channel, and of either side's memory."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from cachespec.kernel import ABSENT, DONE, Code, Outcome, Transition, Transitions
from cachespec.mirror.channel import overtaken
from cachespec.mirror.configuration import UNLIMITED, Config
from cachespec.mirror.drafts import RENDERED, without
from cachespec.mirror.era_state import Cache, Link, State, with_link
from cachespec.mirror.faults import (
    Abort,
    Cancel,
    Drop,
    DropAnswer,
    Reject,
    Reorder,
    ReorderAnswers,
    ResetReceiver,
    ResetSender,
    RestartReceiver,
)

Result = tuple[State, Outcome]
Clear = Callable[[Cache, Cache], tuple[Cache, Outcome]]


# History ------------------------------------------------------------------------------------------------------------


def counted(state: State) -> State:
    """History: one fault less to come."""
    left = state.faults_left if state.faults_left == UNLIMITED else state.faults_left - 1
    return state._replace(faults_left=left)


def touched(link: Link) -> Link:
    """History: MIR-1 is due again once a request that is yet to come has been answered."""
    return link._replace(marked=link.updates, missed=0)


# Clients and frontends ----------------------------------------------------------------------------------------------


def reject(config: Config, state: State, op: Reject) -> Result:
    """C-MIR-3, C-MIR-4: the request is not sent; P0 keeps its update."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts) or link.drafts[op.which].stage != RENDERED:
        return state, ABSENT
    return counted(with_link(state, op.sender, withdrawn(link, op.which))), DONE


def withdrawn(link: Link, which: int) -> Link:
    """A draft is gone. If P0 was updated for it and no message has left, P1 will never apply that update."""
    left = without(link.drafts, which)
    if link.drafts[which].stage != RENDERED:
        return link._replace(drafts=left)
    return touched(link)._replace(drafts=left, lost=1)


def cancel(config: Config, state: State, op: Cancel) -> Result:
    """C-MIR-3: as `Reject`, for a draft of any stage: nothing that is not sent reaches P1."""
    link = state.links[op.sender]
    if op.which >= len(link.drafts):
        return state, ABSENT
    return counted(with_link(state, op.sender, withdrawn(link, op.which))), DONE


def abort(config: Config, state: State, op: Abort) -> Result:
    """An abort in flight reaches the scheduler only."""
    if op.which >= len(state.links[op.sender].messages):
        return state, ABSENT
    return counted(state), DONE


# Channel ------------------------------------------------------------------------------------------------------------


def reorder(config: Config, state: State, op: Reorder) -> Result:
    """C-MIR-5: a message is taken before the one that was sent before it."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.messages):
        return state, ABSENT
    messages = overtaken(link.messages, op.which)
    return counted(with_link(state, op.sender, touched(link)._replace(messages=messages))), DONE


def reorder_answers(config: Config, state: State, op: ReorderAnswers) -> Result:
    """Answers belong to requests; their order means nothing."""
    link = state.links[op.sender]
    if op.which + 1 >= len(link.answers):
        return state, ABSENT
    answers = overtaken(link.answers, op.which)
    return counted(with_link(state, op.sender, link._replace(answers=answers))), DONE


def drop(config: Config, state: State, op: Drop) -> Result:
    """The request is gone between P0 and P1 (a duplicate id, a client that went away); the client knows."""
    link = state.links[op.sender]
    if op.which >= len(link.messages):
        return state, ABSENT
    lost = 1 if link.messages[op.which].epoch == link.epoch else link.lost
    messages = without(link.messages, op.which)
    after = touched(link)._replace(messages=messages, lost=lost, waiting=link.waiting - 1)
    return counted(with_link(state, op.sender, after)), DONE


def drop_answer(config: Config, state: State, op: DropAnswer) -> Result:
    """The client is gone before its answer; a miss that the answer reports is not heard of."""
    link = state.links[op.sender]
    if op.which >= len(link.answers):
        return state, ABSENT
    answers = without(link.answers, op.which)
    after = touched(link)._replace(answers=answers, waiting=link.waiting - 1)
    return counted(with_link(state, op.sender, after)), DONE


# Memory -------------------------------------------------------------------------------------------------------------


def begun(link: Link) -> Link:
    """History: an epoch begins."""
    return touched(link)._replace(epoch=link.epoch + 1, lost=0)


def reset_sender(clear: Clear) -> Transition[Config, State, ResetSender]:
    """C-MIR-12: P0 is cleared, P1 keeps what it has."""

    def transition(config: Config, state: State, op: ResetSender) -> Result:
        link = state.links[op.sender]
        cache, outcome = clear(link.cache, state.empty)
        hung = 1 if outcome.code is Code.DIVERGED else 0
        return counted(with_link(state, op.sender, begun(link)._replace(cache=cache, hung=hung))), outcome

    return transition


def reset_receiver(clear: Clear) -> Transition[Config, State, ResetReceiver]:
    """C-MIR-12: P1 is cleared, P0 keeps its keys; nothing waits for what is in flight."""

    def transition(config: Config, state: State, op: ResetReceiver) -> Result:
        cache, outcome = clear(state.receiver, state.empty)
        links = tuple(begun(link) for link in state.links)
        dead = 1 if outcome.code is Code.DIVERGED else state.dead
        return counted(state._replace(links=links, receiver=cache, dead=dead)), outcome

    return transition


def restart_receiver(config: Config, state: State, op: RestartReceiver) -> Result:
    """P1 starts again with nothing; P0 is not notified. Clients whose requests were in flight are."""
    links = tuple(begun(link)._replace(messages=(), answers=(), waiting=0) for link in state.links)
    return counted(state._replace(links=links, receiver=state.empty, dead=0)), DONE


FAULTS: Transitions[Config, State] = MappingProxyType(
    {
        Reject: reject,
        Abort: abort,
        Cancel: cancel,
        Reorder: reorder,
        ReorderAnswers: reorder_answers,
        Drop: drop,
        DropAnswer: drop_answer,
        RestartReceiver: restart_receiver,
    }
)
"""Those that are the same in every era. No release's transport delivers a message twice."""


def clearing(clear: Clear) -> Transitions[Config, State]:
    """The resets of an era that clears its caches in this way."""
    return {ResetSender: reset_sender(clear), ResetReceiver: reset_receiver(clear)}
