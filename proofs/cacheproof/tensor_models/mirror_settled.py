"""The settled state of the mirror, on tensors: unread fields are fixed, and numbers are dense within a link.

As the specification has it (`cachespec.mirror.normal_form`, rank compression): numbers that are neighbours stay so, and
every larger gap becomes two.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.mirror.messages import Verdict
from cacheimpl.mirror.tensors.line import of_rows
from cacheimpl.mirror.tensors.protocol import Sender, first_of
from cacheimpl.mirror.tensors.walk import NOTHING
from cacheimpl.recency import OUTSIDE
from cacheproof.tensor_models.mirror_links import Answers, Link, Messages, State, all_links, with_all_links

FAR = 1 << 40
"""Behind every number: in the place of none, while they are sorted."""


def settled(state: State) -> State:
    """The representative of one engine's state."""
    return with_all_links(state, torch.func.vmap(settled_link)(all_links(state)))


def settled_link(link: Link) -> Link:
    """Each side without what cannot matter any more; then the numbers."""
    return renumbered(
        link._replace(
            sender=settled_sender(link.sender), messages=settled_messages(link), answers=settled_answers(link)
        )
    )


def settled_sender(sender: Sender) -> Sender:
    """A sender that has to join again will empty its cache and decide again which payloads to send."""
    undecided = sender.log._replace(payloads=torch.full_like(sender.log.payloads, NOTHING))
    return sender._replace(
        ranks=torch.where(sender.joined, sender.ranks, OUTSIDE),
        log=sender.log._replace(payloads=torch.where(sender.joined, sender.log.payloads, undecided.payloads)),
        sent=torch.where(sender.joined, sender.sent, 0),
    )


def settled_messages(link: Link) -> Messages:
    """P1 refuses a message of an older generation, and all of them without a grant: it will not be read."""
    messages, partition = link.messages, link.partition
    read = partition.granted & (messages.generations >= partition.generation)
    return messages._replace(
        sequences=torch.where(read, messages.sequences, NOTHING),
        lengths=torch.where(read, messages.lengths, messages.lengths.clamp(max=1)),
        items=torch.where(of_rows(read, messages.items), messages.items, NOTHING),
        payloads=torch.where(of_rows(read, messages.payloads), messages.payloads, NOTHING),
    )


def settled_answers(link: Link) -> Answers:
    """A complaint about an older generation can only confirm, and a confirmed request cannot be confirmed again."""
    answers, sender = link.answers, link.sender
    there = torch.arange(answers.verdicts.shape[0], device=answers.rows.device) < answers.rows
    complains = (answers.verdicts == int(Verdict.GAP)) | (answers.verdicts == int(Verdict.STALE))
    heard = complains & sender.joined & (answers.generations == sender.generation)
    news = (sender.log.rows > 0) & (answers.expected > first_of(sender))
    return answers._replace(
        generations=torch.where(heard, answers.generations, NOTHING),
        expected=torch.where(heard | news, answers.expected, NOTHING),
        verdicts=torch.where(heard | ~there, answers.verdicts, int(Verdict.ACCEPTED)),
    )


def renumbered(link: Link) -> Link:
    """Generations and sequence numbers, each by themselves."""
    sender, partition, messages, answers = link.sender, link.partition, link.messages, link.answers
    rows = torch.arange(sender.log.lengths.shape[0], device=sender.next.device)
    logged = torch.where(rows < sender.log.rows, first_of(sender) + rows, NOTHING)
    generation, granted, of_messages, of_answers = dense(
        sender.generation, partition.generation, messages.generations, answers.generations
    )
    following, _, sequences, of_answer, expected, marked = dense(
        sender.next, logged, messages.sequences, answers.expected, partition.expected, link.marked
    )
    return link._replace(
        sender=sender._replace(generation=generation, next=following),
        partition=partition._replace(generation=granted, expected=expected),
        messages=messages._replace(generations=of_messages, sequences=sequences),
        answers=answers._replace(generations=of_answers, expected=of_answer),
        marked=marked,
    )


def dense(*parts: Tensor) -> list[Tensor]:
    """The least numbers from 0 that keep order and adjacency, over all parts ([] or [rows] each); -1 stays."""
    numbers = torch.cat([part.reshape(-1) for part in parts])
    places, order = torch.where(numbers < 0, FAR, numbers).sort()
    steps = (places[1:] - places[:-1]).clamp(max=2)
    counted = torch.cat((torch.zeros_like(steps[:1]), steps.cumsum(0)))
    after = torch.where(numbers < 0, numbers, torch.zeros_like(numbers).scatter(0, order, counted))
    split = after.split_with_sizes([part.numel() for part in parts])
    return [values.reshape(part.shape) for values, part in zip(split, parts, strict=True)]
