"""The state of the normative mirror, and the history that its properties need."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cachespec.kernel import Containers, IndexedBy, Queue, RankScope
from cachespec.mirror.configuration import UNLIMITED, Config, Key
from cachespec.mirror.drafts import Draft
from cachespec.mirror.protocol import NONE, Answer, Message, Partition, Sender, Sequence

ALLOWANCE = 2
"""Where the history of allowances stops counting: forgetting some makes MIR-10 stricter, never weaker."""


class Link(NamedTuple):
    """One sender, its partition, and what is between them. `allowance` and `marked` are history."""

    sender: Sender
    partition: Partition
    messages: tuple[Message, ...] = ()
    answers: tuple[Answer, ...] = ()
    drafts: tuple[Draft, ...] = ()
    allowance: int = 1
    """How many generations may still begin: one for the first join, and one for each fault on the request path."""
    marked: Sequence = NONE
    """What was next when a fault last hit the request path, or -1 once a request sent after it was answered."""


class State(NamedTuple):
    """Everything. `faults_left` bounds a run; `overspent` is history: a generation began that no fault accounts for."""

    links: Annotated[tuple[Annotated[Link, RankScope()], ...], IndexedBy("sender")]
    empty: Queue[Key]
    faults_left: int = UNLIMITED
    overspent: int = 0


def initial(config: Config, containers: Containers) -> State:
    """Every sender still has to join."""
    empty = containers.queue()
    link = Link(Sender(empty), Partition(empty))
    return State(links=(link,) * config.senders, empty=empty, faults_left=config.faults)


def with_link(state: State, name: int, link: Link) -> State:
    """One link replaced."""
    return state._replace(links=(*state.links[:name], link, *state.links[name + 1 :]))


# History ------------------------------------------------------------------------------------------------------------


def counted(state: State) -> State:
    """History: one fault less to come."""
    left = state.faults_left if state.faults_left == UNLIMITED else state.faults_left - 1
    return state._replace(faults_left=left)


def touched(link: Link) -> Link:
    """History: a fault on the request path; one more generation may begin, and MIR-1 is due again after it."""
    return link._replace(allowance=min(link.allowance + 1, ALLOWANCE), marked=link.sender.next)


def over(link: Link) -> Link:
    """History: a request sent after the last fault was answered; what that fault did is repaired."""
    return link._replace(allowance=0, marked=NONE)


def begun(state: State, name: int, before: Link, after: Link) -> State:
    """History: where a generation begins, or anything will go out again, it uses up one allowance (MIR-10)."""
    if before.sender.generation == after.sender.generation and not goes_out_again(before.sender, after.sender):
        return with_link(state, name, after)
    overspent = 1 if after.allowance == 0 else state.overspent
    spent = after._replace(allowance=max(after.allowance - 1, 0))
    return with_link(state, name, spent)._replace(overspent=overspent)


def goes_out_again(before: Sender, after: Sender) -> bool:
    """Whether a message that is out, and that no answer has confirmed, counts as one that has still to go out."""
    confirmed = len(before.log) - len(after.log)
    return after.sent < before.sent - confirmed
