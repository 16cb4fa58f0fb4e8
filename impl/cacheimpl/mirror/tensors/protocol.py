"""Both sides of the mirror for one sender, as branch-free functions over a few tensors.

What the classes do with dictionaries and the specification with tuples: commit, transmit, probe, take an answer, join,
and P1's receive. Nothing is changed in place, and no value is read back. A join decides every unconfirmed request anew,
and each decision rests on those before it, so it is unrolled over the rows that the log has room for; everything else
is without a loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from cacheimpl.mirror.messages import Verdict
from cacheimpl.mirror.tensors.line import appended, nothing_of, row_of, without_first
from cacheimpl.mirror.tensors.walk import NOTHING, Config, walk
from cacheimpl.recency import OUTSIDE

Part = TypeVar("Part", bound=tuple[Any, ...])


class Message(NamedTuple):
    """A request on its way to P1; without items it is a probe."""

    generation: Tensor
    """[] int64"""
    sequence: Tensor
    """[] int64"""
    length: Tensor
    """[] int64: how many items"""
    items: Tensor
    """[most items] int64, keys; -1 beyond the length"""
    payloads: Tensor
    """[most items] int64: 1 where the payload is in it; -1 beyond the length"""


class Reply(NamedTuple):
    """P1's answer to a message: all [] int64."""

    generation: Tensor
    expected: Tensor
    verdict: Tensor


class Log(NamedTuple):
    """What no answer has confirmed; numbers are consecutive and end before the sender's next."""

    lengths: Tensor
    """[log] int64"""
    items: Tensor
    """[log, most items] int64"""
    payloads: Tensor
    """[log, most items] int64"""
    rows: Tensor
    """[] int64"""


class Sender(NamedTuple):
    """P0."""

    ranks: Tensor
    """[keys] int32: the order that P1 will have"""
    joined: Tensor
    """[] bool"""
    generation: Tensor
    """[] int64"""
    next: Tensor
    """[] int64: sequence number of the next request"""
    log: Log
    sent: Tensor
    """[] int64: how many rows of the log are out in this generation"""


class Partition(NamedTuple):
    """The sender's part of P1."""

    ranks: Tensor
    """[keys] int32"""
    granted: Tensor
    """[] bool"""
    generation: Tensor
    """[] int64, -1 without a grant"""
    expected: Tensor
    """[] int64, -1 without a grant"""


class Receipt(NamedTuple):
    """What P1 says, whether it has applied the message now, and which items were nowhere ([most items] bool)."""

    reply: Reply
    applied: Tensor
    missing: Tensor


def chosen(condition: Tensor, met: Part, unmet: Part) -> Part:
    """Field by field the one where the condition ([] bool) holds; fields may be NamedTuples themselves."""
    pairs = zip(met, unmet, strict=True)
    return type(met)(
        *(chosen(condition, a, b) if isinstance(a, tuple) else torch.where(condition, a, b) for a, b in pairs)
    )


def commit(config: Config, sender: Sender, items: Tensor, length: Tensor) -> Sender:
    """MIR-4: the update of P0 and the message that carries it are one step."""
    ranks, needed = walk(config, sender.ranks, items, length)
    return sender._replace(ranks=ranks, next=sender.next + 1, log=appended(sender.log, (length, items, needed)))


def transmit(sender: Sender) -> tuple[Sender, Message]:
    """The next unconfirmed message, which is there, in this generation."""
    length, items, payloads = row_of(sender.log, sender.sent)
    sequence = first_of(sender) + sender.sent
    message = Message(sender.generation, sequence, length, items, payloads)
    return sender._replace(sent=sender.sent + 1), message


def first_of(sender: Sender) -> Tensor:
    """[] int64: the sequence number of the log's first row, or the next one."""
    return sender.next - sender.log.rows


def probe(sender: Sender) -> Message:
    """MIR-10: how far is P1?"""
    nothing = torch.full_like(sender.log.items[0], NOTHING)
    return Message(sender.generation, sender.next, torch.zeros_like(sender.next), nothing, nothing)


def answered(sender: Sender, reply: Reply) -> Sender:
    """MIR-7, MIR-10: what P1 expects confirms all before it; a complaint about this generation is answered once."""
    leaving = torch.minimum((reply.expected - first_of(sender)).clamp(min=0), sender.log.rows)
    after = sender._replace(log=without_first(sender.log, leaving), sent=(sender.sent - leaving).clamp(min=0))
    concerned = sender.joined & (reply.generation == sender.generation)
    refused = concerned & (reply.verdict == int(Verdict.STALE))
    gap = concerned & (reply.verdict == int(Verdict.GAP))
    going_back = gap & (after.log.rows > 0) & (reply.expected == first_of(after))
    return after._replace(
        joined=sender.joined & ~refused,
        generation=sender.generation + going_back,
        sent=torch.where(going_back, 0, after.sent),
    )


def join(config: Config, sender: Sender) -> tuple[Sender, Partition]:
    """MIR-8: both sides are empty and agree on the number to come; what is unanswered is decided anew."""
    nothing = torch.full_like(sender.ranks, OUTSIDE)
    unanswered, generation = sender.log, sender.generation + 1
    fresh = Sender(
        ranks=nothing,
        joined=torch.ones_like(sender.joined),
        generation=generation,
        next=sender.next,
        log=nothing_of(sender.log),
        sent=torch.zeros_like(sender.sent),
    )
    partition = Partition(nothing, torch.ones_like(sender.joined), generation, sender.next)
    for place in range(unanswered.items.shape[0]):
        again = commit(config, fresh, unanswered.items[place], unanswered.lengths[place])
        fresh = chosen(place < unanswered.rows, again, fresh)
    return fresh, partition


def revoked(partition: Partition) -> Partition:
    """P1 forgets: messages are refused until the sender joins again."""
    nothing = torch.full_like(partition.expected, NOTHING)
    return Partition(torch.full_like(partition.ranks, OUTSIDE), torch.zeros_like(partition.granted), nothing, nothing)


def receive(config: Config, partition: Partition, message: Message) -> tuple[Partition, Receipt]:
    """MIR-2, MIR-3, MIR-8, MIR-12: only the next message of the newest generation is applied; nothing else is read."""
    stale = ~partition.granted | (message.generation < partition.generation)
    gap = ~stale & (message.sequence > partition.expected)
    applied = ~stale & (message.sequence == partition.expected) & (message.length > 0)
    ranks, needed = walk(config, partition.ranks, message.items, message.length)
    after = Partition(
        ranks=torch.where(applied, ranks, partition.ranks),
        granted=partition.granted,
        generation=torch.where(stale, partition.generation, message.generation),
        expected=partition.expected + applied,
    )
    verdict = torch.where(stale, int(Verdict.STALE), torch.where(gap, int(Verdict.GAP), int(Verdict.ACCEPTED)))
    reply = Reply(
        generation=torch.where(stale | gap, message.generation, NOTHING),
        expected=torch.where(stale, NOTHING, after.expected),
        verdict=verdict,
    )
    return after, Receipt(reply, applied, applied & (needed > message.payloads))
