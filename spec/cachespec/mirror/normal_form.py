"""Canonical form: drops fields that no later operation reads. The explorer keeps states in this form.

A message that P1 can only refuse is refused by its generation alone; an answer that P0 can only ignore, or only
confirm from, is as good as that; and a sender that has to join again decides everything anew. Each rule follows from
`protocol.py`, and a test steps every state of a scope beside its normal form: the same operations, the same outcomes,
and the same normal form afterwards.
"""

from __future__ import annotations

from cachespec.mirror.configuration import Config
from cachespec.mirror.normative_state import Link, State
from cachespec.mirror.protocol import ACCEPTED, GAP, NONE, STALE, Answer, Message, Partition, Sender

NOTHING = -1
"""Stands in the place of a content that is never read."""


def normal(config: Config, state: State) -> State:
    """The representative of this state."""
    return state._replace(links=tuple(normal_link(link, state) for link in state.links))


def normal_link(link: Link, state: State) -> Link:
    """Each side without what cannot matter any more."""
    return link._replace(
        sender=normal_sender(link.sender, state),
        messages=tuple(normal_message(link.partition, message) for message in link.messages),
        answers=tuple(normal_answer(link.sender, answer) for answer in link.answers),
    )


def normal_sender(sender: Sender, state: State) -> Sender:
    """A sender that has to join again will empty its cache and decide again which payloads to send."""
    if sender.joined == 1:
        return sender
    undecided = tuple(message._replace(payloads=(NOTHING,) * len(message.payloads)) for message in sender.log)
    return sender._replace(order=state.empty, log=undecided, sent=0)


def normal_message(partition: Partition, message: Message) -> Message:
    """P1 refuses a message of an older generation, and all of them until it has granted a newer one."""
    if partition.granted == 1 and message.generation >= partition.generation:
        return message
    unread = (NOTHING,) if message.items != () else ()
    return Message(message.generation, NONE, unread, unread)


def normal_answer(sender: Sender, answer: Answer) -> Answer:
    """A complaint about an older generation can only confirm, and what is confirmed cannot be confirmed again."""
    complains = answer.verdict in (GAP, STALE) and sender.joined == 1 and answer.generation == sender.generation
    if complains:
        return answer
    news = sender.log != () and answer.expected > sender.log[0].sequence
    return Answer(NONE, answer.expected if news else NONE, ACCEPTED)
