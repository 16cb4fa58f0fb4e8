"""The normative mirror: a frontend that decides at send, and a receiver that replays.

The reasoning is in docs/mirror.md. In short: P0 runs the walk when it *sends*, in the order of its sequence numbers,
and puts into the message exactly what P1 will need when it runs the same walk on the same order. P1 applies the next
message and no other. P0 keeps what is not yet confirmed, and sends it again when P1 says that something is missing; it
never sends a payload again merely because an answer is late: it asks first.

One number, the *generation*, tells old messages from new ones. It grows when the sender joins (an epoch begins, both
sides are empty) and when the sender goes back to what P1 has not applied (both sides keep what they agree on). P1 takes
the highest generation that it has seen; whatever is older is void.

Every function here is total, and takes the walk as an argument: the proofs hold for any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from cachespec.kernel import Queue, Rank
from cachespec.mirror.configuration import Key

Generation = Annotated[int, Rank("generation")]
Sequence = Annotated[int, Rank("sequence")]

NONE = -1
ACCEPTED, GAP, STALE = 0, 1, 2

Walk = Callable[[Any, Any], tuple[Any, Any]]
"""`(order, items) -> (order, needed)`; see recency.py."""


class Message(NamedTuple):
    """A request on its way to P1. Without items it is a probe: it asks how far P1 has come."""

    generation: Generation
    sequence: Sequence
    items: tuple[Key, ...]
    payloads: tuple[int, ...]
    """For each item 1 where its payload is in the message."""


class Answer(NamedTuple):
    """What P1 says to one message: a verdict, and the sequence number that it expects next.

    A confirmation is good for ever and needs no generation; a complaint is about one.
    """

    generation: Generation
    expected: Sequence
    verdict: int


class Sender(NamedTuple):
    """P0. `log` holds the messages that no answer has confirmed; the first `sent` of them are out in this generation.

    Sequence numbers go on growing from one epoch to the next, so an answer of any age may confirm.
    """

    order: Queue[Key]
    joined: int = 0
    generation: Generation = 0
    next: Sequence = 0
    log: tuple[Message, ...] = ()
    sent: int = 0


class Partition(NamedTuple):
    """A sender's part of P1."""

    order: Queue[Key]
    granted: int = 0
    generation: Generation = NONE
    expected: Sequence = NONE


def commit(walk: Walk, sender: Sender, items: tuple[int, ...]) -> Sender:
    """MIR-4: the update of P0 and the message that carries it are one step; its generation comes when it goes out."""
    order, needed = walk(sender.order, items)
    message = Message(NONE, sender.next, items, needed)
    return sender._replace(order=order, next=sender.next + 1, log=(*sender.log, message))


def receive(walk: Walk, partition: Partition, message: Message) -> tuple[Partition, Answer, bool]:
    """MIR-2, MIR-3, MIR-8, MIR-12: only the next message of the newest generation is applied; nothing else is read.

    The last part says whether the message was applied now.
    """
    if partition.granted == 0 or message.generation < partition.generation:
        return partition, Answer(message.generation, NONE, STALE), False
    current = partition._replace(generation=message.generation)
    if message.sequence > partition.expected:
        return current, Answer(message.generation, partition.expected, GAP), False
    if message.sequence < partition.expected or message.items == ():
        return current, Answer(NONE, partition.expected, ACCEPTED), False
    order, _ = walk(partition.order, message.items)
    after = current._replace(order=order, expected=partition.expected + 1)
    return after, Answer(NONE, after.expected, ACCEPTED), True


def confirm(sender: Sender, expected: int) -> Sender:
    """What P1 has applied needs no further care."""
    while sender.log != () and sender.log[0].sequence < expected:
        sender = sender._replace(log=sender.log[1:], sent=max(sender.sent - 1, 0))
    return sender


def go_back(sender: Sender) -> Sender:
    """A new generation of the same epoch: everything unconfirmed goes out again, in order."""
    return sender._replace(generation=sender.generation + 1, sent=0)


def answered(sender: Sender, answer: Answer) -> Sender:
    """MIR-7, MIR-10: one repair for a generation, however many answers complain; what is late can only confirm.

    A gap before what is confirmed already has been closed since.
    """
    confirmed = confirm(sender, answer.expected)
    if sender.joined == 0 or answer.generation != sender.generation:
        return confirmed
    if answer.verdict == STALE:
        return confirmed._replace(joined=0)
    if answer.verdict == GAP and confirmed.log != () and answer.expected == confirmed.log[0].sequence:
        return go_back(confirmed)
    return confirmed


def transmit(sender: Sender) -> tuple[Sender, Message]:
    """The next unconfirmed message, unchanged but for the generation."""
    message = sender.log[sender.sent]._replace(generation=sender.generation)
    return sender._replace(sent=sender.sent + 1), message


def probe(sender: Sender) -> Message:
    """MIR-10: a late answer costs a question, never a payload."""
    return Message(sender.generation, sender.next, (), ())


def join(walk: Walk, sender: Sender, empty: Queue[int]) -> tuple[Sender, Partition]:
    """MIR-8: both sides are empty and agree on the number to come; what is unanswered is decided anew."""
    unanswered = sender.log
    generation = sender.generation + 1
    fresh = sender._replace(order=empty, joined=1, generation=generation, log=(), sent=0)
    partition = Partition(order=empty, granted=1, generation=generation, expected=fresh.next)
    for message in unanswered:
        fresh = commit(walk, fresh, message.items)
    return fresh, partition


def revoked(empty: Queue[int]) -> Partition:
    """P1 forgets the partition: nothing is held, and messages are refused until the sender joins again."""
    return Partition(order=empty)
