"""Bugs in the faults of the mirror, and in what they make necessary."""

from __future__ import annotations

from cachespec.kernel import ABSENT, DONE, REFUSED, Outcome
from cachespec.mirror.configuration import Config
from cachespec.mirror.faults import Abort, Drop, DropAnswer, Reorder, ResetReceiver, ResetSender, RestartReceiver
from cachespec.mirror.normative import receive_answer
from cachespec.mirror.normative_faults import drop, drop_answer, reset_receiver, restart_receiver
from cachespec.mirror.normative_state import State, touched, with_link
from cachespec.mirror.operations import Receive
from cachespec.mirror.protocol import ACCEPTED

Result = tuple[State, Outcome]


def reset_the_first_only(config: Config, state: State, op: ResetReceiver) -> Result:
    """The partitions of the other senders stay as they are."""
    after, outcome = reset_receiver(config, state, op)
    return after._replace(links=(after.links[0], *map(touched, state.links[1:]))), outcome


def reset_nothing(config: Config, state: State, op: ResetSender) -> Result:
    """P0 says that it was cleared, and keeps what it has."""
    return with_link(state, op.sender, touched(state.links[op.sender])), DONE


def reset_and_deny(config: Config, state: State, op: ResetReceiver) -> Result:
    """P1 says that it was not reset."""
    after, _ = reset_receiver(config, state, op)
    return after, REFUSED


def repeat_the_first(config: Config, state: State, op: Reorder) -> Result:
    """The channel delivers a message twice."""
    link = state.links[op.sender]
    return with_link(state, op.sender, touched(link)._replace(messages=(link.messages[0], *link.messages))), DONE


def lose_nothing(config: Config, state: State, op: DropAnswer) -> Result:
    """The channel says that it has lost an answer, and delivers it."""
    return state, DONE


def restart_beside_the_channel(config: Config, state: State, op: RestartReceiver) -> Result:
    """P1 starts again, and finds the answers that it has sent."""
    after, outcome = restart_receiver(config, state, op)
    links = tuple(now._replace(answers=was.answers) for was, now in zip(state.links, after.links, strict=True))
    return after._replace(links=links), outcome


def drop_uncounted(config: Config, state: State, op: Drop) -> Result:
    """One more loss than the scope allows may follow."""
    after, outcome = drop(config, state, op)
    return after._replace(faults_left=state.faults_left), outcome


def allow_one_more(config: Config, state: State, op: DropAnswer) -> Result:
    """A lost answer accounts for a payload."""
    after, outcome = drop_answer(config, state, op)
    return with_link(after, op.sender, touched(after.links[op.sender])), outcome


def keep_the_allowance(config: Config, state: State, op: Receive) -> Result:
    """A fault that is repaired still accounts for a payload."""
    after, outcome = receive_answer(config, state, op)
    link = after.links[op.sender]
    return with_link(after, op.sender, link._replace(allowance=max(link.allowance, 1))), outcome


def abort_on_its_way(config: Config, state: State, op: Abort) -> Result:
    """MIR-1/again: the request is taken out of the channel, and its update stays at P0."""
    link = state.links[op.sender]
    sender = link.sender._replace(log=(), sent=0)
    return with_link(state, op.sender, link._replace(sender=sender, messages=())), DONE


def keep_grant(config: Config, state: State, op: ResetReceiver) -> Result:
    """MIR-1: P1 is cleared, and takes the next message all the same."""
    after, _ = reset_receiver(config, state, op)
    for name, link in enumerate(state.links):
        kept = link.partition._replace(order=state.empty)
        after = with_link(after, name, after.links[name]._replace(partition=kept))
    return after, DONE


def abort_nothing(config: Config, state: State, op: Abort) -> Result:
    """P0 says that it does not know the request that its client aborts."""
    return state, ABSENT


def take_two(config: Config, state: State, op: Receive) -> Result:
    """P0 takes the next answer for a copy of this one."""
    after, outcome = receive_answer(config, state, op)
    link = after.links[op.sender]
    return with_link(after, op.sender, link._replace(answers=link.answers[1:])), outcome


def ignore_complaints(config: Config, state: State, op: Receive) -> Result:
    """P0 takes every answer for a confirmation."""
    link = state.links[op.sender]
    answers = tuple(answer._replace(verdict=ACCEPTED) for answer in link.answers)
    return receive_answer(config, with_link(state, op.sender, link._replace(answers=answers)), op)
