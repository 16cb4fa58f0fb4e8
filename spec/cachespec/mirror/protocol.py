"""The normative mirror: a frontend that decides at send, and a receiver that replays.

The reasoning is in docs/mirror.md. In short: P0 runs the walk when it *sends*, in the order of its sequence numbers,
and puts into the message exactly what P1 will need when it runs the same walk on the same order. P1 applies the next
message of its epoch and no other. P0 keeps what is not yet confirmed, and sends it again when P1 says that something
is missing; it never sends a payload again merely because an answer is late: it asks first. An epoch begins when P1
grants a partition, and at no other time; both sides are empty then.

Every function here is total, and takes the walk as an argument: the proofs hold for any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from cachespec.kernel import Queue, Rank
from cachespec.mirror.configuration import Key

Epoch = Annotated[int, Rank("epoch")]
Sequence = Annotated[int, Rank("sequence")]
Round = Annotated[int, Rank("round")]

NONE = -1
ACCEPTED, GAP, STALE = 0, 1, 2

Walk = Callable[[Any, Any], tuple[Any, Any]]
"""`(order, items) -> (order, needed)`; see recency.py."""


class Message(NamedTuple):
    """A request on its way to P1. Without items it is a probe: it asks how far P1 has come."""

    epoch: Epoch
    round: Round
    sequence: Sequence
    items: tuple[Key, ...]
    payloads: tuple[int, ...]
    """For each item 1 where its payload is in the message."""


class Answer(NamedTuple):
    """What P1 says to one message: a verdict, and the sequence number that it expects next.

    The round comes back with a `GAP` only, which alone asks for a repair.
    """

    epoch: Epoch
    round: Round
    expected: Sequence
    verdict: int


class Sender(NamedTuple):
    """P0. `log` holds the messages that no answer has confirmed; the first `sent` of them are out in this round."""

    order: Queue[Key]
    joined: int = 0
    epoch: Epoch = NONE
    round: Round = 0
    next: Sequence = 0
    log: tuple[Message, ...] = ()
    sent: int = 0


class Partition(NamedTuple):
    """A sender's part of P1."""

    order: Queue[Key]
    granted: int = 0
    epoch: Epoch = NONE
    expected: Sequence = NONE


def commit(walk: Walk, sender: Sender, items: tuple[int, ...]) -> Sender:
    """MIR-4: the update of P0 and the message that carries it are one step. Its round comes when it is transmitted."""
    order, needed = walk(sender.order, items)
    message = Message(sender.epoch, NONE, sender.next, items, needed)
    return sender._replace(order=order, next=sender.next + 1, log=(*sender.log, message))


def receive(walk: Walk, partition: Partition, message: Message) -> tuple[Partition, Answer, bool]:
    """MIR-2, MIR-3, MIR-8, MIR-12: only the next message of the current epoch is applied; nothing else is read.

    The last part says whether the message was applied now.
    """
    if partition.granted == 0 or message.epoch != partition.epoch:
        return partition, Answer(message.epoch, NONE, NONE, STALE), False
    if message.sequence > partition.expected:
        return partition, Answer(message.epoch, message.round, partition.expected, GAP), False
    if message.sequence < partition.expected or message.items == ():
        return partition, Answer(message.epoch, NONE, partition.expected, ACCEPTED), False
    order, _ = walk(partition.order, message.items)
    after = partition._replace(order=order, expected=partition.expected + 1)
    return after, Answer(message.epoch, NONE, after.expected, ACCEPTED), True


def confirm(sender: Sender, expected: int) -> Sender:
    """What P1 has applied needs no further care."""
    while sender.log != () and sender.log[0].sequence < expected:
        sender = sender._replace(log=sender.log[1:], sent=max(sender.sent - 1, 0))
    return sender


def go_back(sender: Sender) -> Sender:
    """A new round: everything unconfirmed goes out again, in order."""
    return sender._replace(round=sender.round + 1, sent=0)


def answered(sender: Sender, answer: Answer) -> Sender:
    """MIR-7, MIR-10: one repair for a round, however many answers complain; what is late or foreign changes nothing."""
    if sender.joined == 0 or answer.epoch != sender.epoch:
        return sender
    if answer.verdict == STALE:
        return sender._replace(joined=0)
    confirmed = confirm(sender, answer.expected)
    if answer.verdict == GAP and answer.round == sender.round and confirmed.log != ():
        return go_back(confirmed)
    return confirmed


def transmit(sender: Sender) -> tuple[Sender, Message]:
    """The next unconfirmed message, unchanged but for the round."""
    message = sender.log[sender.sent]._replace(round=sender.round)
    return sender._replace(sent=sender.sent + 1), message


def probe(sender: Sender) -> Message:
    """MIR-10: a late answer costs a question, never a payload."""
    return Message(sender.epoch, sender.round, sender.next, (), ())


def join(walk: Walk, sender: Sender, epoch: int, empty: Queue[int]) -> tuple[Sender, Partition]:
    """MIR-8: both sides are empty and agree on the number to come; what is unanswered is decided anew."""
    unanswered = sender.log
    fresh = sender._replace(order=empty, joined=1, epoch=epoch, round=sender.round + 1, log=(), sent=0)
    partition = Partition(order=empty, granted=1, epoch=epoch, expected=fresh.next)
    for message in unanswered:
        fresh = commit(walk, fresh, message.items)
    return fresh, partition


def revoked(partition: Partition, empty: Queue[int]) -> Partition:
    """P1 forgets the partition: nothing is held, and messages are refused until the sender joins again."""
    return Partition(order=empty)
