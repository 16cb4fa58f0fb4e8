"""What the properties read of the normative mirror."""

from __future__ import annotations

from cachespec.mirror.configuration import Config, partitions
from cachespec.mirror.normative_state import Link, State
from cachespec.mirror.protocol import NONE, Message
from cachespec.mirror.view import InFlight, LinkView, View


def view(config: Config, state: State) -> View:
    """What the properties read."""
    return View(
        links=tuple(link_view(config, link) for link in state.links),
        overspent=state.overspent == 1,
        held_bytes=sum(link.partition.order.total for link in state.links),
        receiver_capacity=config.capacity * partitions(config),
        hung=False,
        faults_left=state.faults_left,
    )


def link_view(config: Config, link: Link) -> LinkView:
    """One sender and its partition."""
    sender, partition = link.sender, link.partition
    same_epoch = partition.granted == 1 and sender.joined == 1
    idle = link.messages == () and link.answers == () and sender.log == ()
    return LinkView(
        sent_order=tuple(sender.order.items()),
        held_order=tuple(partition.order.items()),
        capacity=config.capacity,
        granted=partition.granted == 1,
        settled=same_epoch and partition.expected == sender.next,
        rendered=(False,) * len(link.drafts),
        messages=tuple(in_flight(link, message) for message in link.messages),
        answers=len(link.answers),
        unanswered=len(sender.log) + is_forgotten(link),
        updates=sender.next,
        quiet=idle and sender.joined == 1 and link.marked == NONE,
        drafts=link.drafts,
        kept=tuple(message.items for message in sender.log),
        backlog=len(sender.log) - sender.sent,
        answering=tuple((answer.generation, answer.expected, answer.verdict) for answer in link.answers),
        abortable=len(sender.log),
        joined=sender.joined == 1,
        generation=sender.generation,
        allowance=link.allowance,
        marked=link.marked,
    )


def is_forgotten(link: Link) -> bool:
    """Whether P1 lacks an update of this epoch that P0 does not keep: its request can never be answered."""
    sender, partition = link.sender, link.partition
    if partition.granted == 0 or sender.joined == 0 or partition.expected == sender.next:
        return False
    return sender.log == () or sender.log[0].sequence > partition.expected


def in_flight(link: Link, message: Message) -> InFlight:
    """A message as the properties see it. P0's next update is the first one of its log that P1 has not applied."""
    partition = link.partition
    current = partition.granted == 1 and message.generation >= partition.generation
    updates = {entry.sequence: entry.items for entry in link.sender.log}
    return InFlight(
        items=message.items,
        payloads=message.payloads,
        walked=message.items,
        current=current,
        following=current and message.sequence == partition.expected and updates.get(message.sequence) == message.items,
        stamp=(message.generation, message.sequence),
    )
