"""Our `MirrorSender` and `MirrorReceiver` as a target: `python:cacheproof.targets.tensor.mirror_classes:open_mirror`.

The target is what lies between and around them: rendered requests, the channel in both directions, faults. Every
message goes through its wire form. A join is asked and granted at once, as in the specification it is one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from cacheimpl.mirror import Answer, Grant, Message, MirrorReceiver, MirrorSender, Refusal, Verdict
from cacheimpl.mirror.errors import MissingPayloadError, NotJoinedError
from cacheimpl.mirror.messages import AnyMessage, from_plain, plain
from cacheproof.model.target import CallTable, TargetError, call_of, factory_of
from cachespec.kernel import ABSENT, DONE, FAILED, REFUSED, STALE, Code, Observation, Operation, Outcome
from cachespec.mirror import faults
from cachespec.mirror import operations as calls
from cachespec.mirror.configuration import Config, partitions
from cachespec.mirror.drafts import LOOKED_UP, PARTLY_SENT, RENDERED, Draft


@dataclass(slots=True)
class Link:
    """One sender, and what is between it and P1; messages as bytes."""

    sender: MirrorSender
    drafts: list[Draft] = field(default_factory=list)
    messages: deque[bytes] = field(default_factory=deque)
    answers: deque[bytes] = field(default_factory=deque)


def packed(message: AnyMessage) -> bytes:
    """As the message goes over the wire."""
    return msgspec.msgpack.encode(plain(message))


def unpacked(data: bytes) -> Any:
    """The message again."""
    return from_plain(msgspec.msgpack.decode(data))


def payload_of(content: int) -> bytes:
    """What is sent for a content: P1's answer tells from it which one came."""
    return b"pixels of %d" % content


def content_of(payload: bytes) -> int:
    """Back."""
    return int(payload.removeprefix(b"pixels of "))


class MirrorTarget:
    """Senders and a receiver in one configuration. An exception of theirs is the outcome that it stands for."""

    def __init__(self) -> None:
        self.config = Config(capacity=1, sizes=(0,))
        self.links: list[Link] = []
        self.receiver = MirrorReceiver(1)

    def reset(self, config: Config) -> None:
        self.config = config
        self.links = [Link(MirrorSender(str(name), config.capacity)) for name in range(config.senders)]
        self.receiver = self.new_receiver()

    def apply(self, operation: Operation) -> Outcome:
        return call_of(PERFORM, operation)(self, operation)

    def observe(self) -> Mapping[str, Observation]:
        shown: dict[str, Observation] = {}
        for name, link in enumerate(self.links):
            shown[f"p0_order_{name}"] = tuple(int(item.key) for item in link.sender.order)
            shown[f"p1_order_{name}"] = tuple(int(item.key) for item in self.receiver.order(str(name)))
            shown[f"messages_{name}"] = len(link.messages)
            shown[f"answers_{name}"] = len(link.answers)
            held = self.receiver.payloads(str(name))
            wrong = [key for key, payload in held.items() if payload != payload_of(int(key))]
            if wrong or {item.key for item in self.receiver.order(str(name))} != set(held):
                raise TargetError(f"the payloads of sender {name} are not those of its order: {held}")
        return shown

    def close(self) -> None:
        """Nothing is held."""

    def new_receiver(self) -> MirrorReceiver:
        """P1 as it starts."""
        return MirrorReceiver(self.config.capacity, partitions(self.config))

    def submitted(self, link: Link, contents: tuple[int, ...]) -> Outcome:
        """The message goes out at once, or waits."""
        items = [(str(content), self.config.sizes[content]) for content in contents]
        try:
            message = link.sender.submit(items, lambda place: payload_of(contents[place]))
        except NotJoinedError:
            return REFUSED
        return DONE if message is None else self.sent(link, message)

    def sent(self, link: Link, message: Message) -> Outcome:
        """On its way; for each item whether its payload is in it."""
        link.messages.append(packed(message))
        return Outcome(Code.DONE, tuple(int(payload is not None) for payload in message.payloads))


open_mirror = factory_of("mirror", MirrorTarget)
"""Both sides, normatively."""


# Calls --------------------------------------------------------------------------------------------------------------


def render(target: MirrorTarget, operation: Any) -> Outcome:
    """Rendering asks what is cached, and changes nothing."""
    link = target.links[operation.sender]
    for content in operation.items:
        link.sender.is_cached(str(content))
    link.drafts.append(Draft(operation.items))
    return DONE


def look_up(target: MirrorTarget, operation: Any) -> Outcome:
    """The items that are not cached now: the renderer would process them."""
    link = target.links[operation.sender]
    missing = tuple(int(not link.sender.is_cached(str(content))) for content in operation.items)
    link.drafts.append(Draft(operation.items, LOOKED_UP))
    return Outcome(Code.DONE, missing)


def process(target: MirrorTarget, operation: Any) -> Outcome:
    """What was looked up is rendered, or sent where these are one step."""
    link, which = target.links[operation.sender], operation.which
    if which >= len(link.drafts) or link.drafts[which].stage != LOOKED_UP:
        return ABSENT
    items = link.drafts[which].items
    if target.config.rendered > 0:
        link.drafts[which] = Draft(items)
        return DONE
    outcome = target.submitted(link, items)
    if outcome.code is not Code.REFUSED:
        del link.drafts[which]
    return outcome


def send(target: MirrorTarget, operation: Any) -> Outcome:
    """A rendered request is submitted, once for each of its messages."""
    link = target.links[operation.sender]
    if operation.which >= len(link.drafts) or link.drafts[operation.which].stage == LOOKED_UP:
        return ABSENT
    items, _, left = link.drafts[operation.which]
    outcome = target.submitted(link, items)
    if outcome.code is not Code.REFUSED:
        rest = [Draft(items, PARTLY_SENT, left - 1)] if left > 1 else []
        link.drafts[operation.which : operation.which + 1] = rest
    return outcome


def submit(target: MirrorTarget, operation: Any) -> Outcome:
    """Both at once."""
    return target.submitted(target.links[operation.sender], operation.items)


def fan_out(target: MirrorTarget, operation: Any) -> Outcome:
    """The first message of several."""
    link = target.links[operation.sender]
    outcome = target.submitted(link, operation.items)
    if outcome.code is not Code.REFUSED:
        link.drafts.append(Draft(operation.items, PARTLY_SENT, target.config.fan_out - 1))
    return outcome


def deliver(target: MirrorTarget, operation: Any) -> Outcome:
    """What P1 uses is told from the payloads."""
    link = target.links[operation.sender]
    if not link.messages:
        return ABSENT
    message = cast(Message, unpacked(link.messages[0]))
    try:
        answer, payloads = target.receiver.receive(message)
    except MissingPayloadError as error:
        return FAILED._replace(values=tuple(int(key) for key in error.keys))
    link.messages.popleft()
    link.answers.append(packed(answer))
    if payloads is not None:
        return Outcome(Code.HIT, tuple(content_of(payload) for payload in payloads))
    return {Verdict.STALE: STALE, Verdict.GAP: Outcome(Code.RETRY), Verdict.ACCEPTED: DONE}[answer.verdict]


def receive(target: MirrorTarget, operation: Any) -> Outcome:
    """Whatever it says, nothing fails."""
    link = target.links[operation.sender]
    if not link.answers:
        return ABSENT
    link.sender.receive(cast(Answer, unpacked(link.answers.popleft())))
    return DONE


def transmit(target: MirrorTarget, operation: Any) -> Outcome:
    """The next of the backlog."""
    link = target.links[operation.sender]
    message = link.sender.transmit()
    return ABSENT if message is None else target.sent(link, message)


def expire(target: MirrorTarget, operation: Any) -> Outcome:
    """A probe."""
    link = target.links[operation.sender]
    message = link.sender.expire()
    if message is None:
        return ABSENT
    target.sent(link, message)
    return DONE


def join(target: MirrorTarget, operation: Any) -> Outcome:
    """Asked until P1 grants it or has no room; a sender that does not know P1 yet is told in between."""
    sender = target.links[operation.sender].sender
    request = sender.ask()
    while request is not None:
        reply = cast(Grant | Refusal, unpacked(packed(target.receiver.admit(unpacked(packed(request))))))
        if isinstance(reply, Grant):
            return DONE if sender.take_grant(reply) else FAILED
        request = sender.take_refusal(reply)
    return REFUSED


def reject(target: MirrorTarget, operation: Any) -> Outcome:
    """The classes hear nothing of it."""
    link = target.links[operation.sender]
    if operation.which >= len(link.drafts) or link.drafts[operation.which].stage != RENDERED:
        return ABSENT
    del link.drafts[operation.which]
    return DONE


def cancel(target: MirrorTarget, operation: Any) -> Outcome:
    """Nor of this."""
    return lost(target.links[operation.sender].drafts, operation.which)


def submit_rejected(target: MirrorTarget, operation: Any) -> Outcome:
    """Likewise."""
    return DONE


def abort(target: MirrorTarget, operation: Any) -> Outcome:
    """The request goes on to P1 all the same."""
    sender = target.links[operation.sender].sender
    return DONE if operation.which < len(sender.unconfirmed) else ABSENT


def overtaken(queue: deque[bytes], which: int) -> Outcome:
    """The one after this one comes first."""
    if which + 1 >= len(queue):
        return ABSENT
    queue[which], queue[which + 1] = queue[which + 1], queue[which]
    return DONE


def doubled(queue: deque[bytes], which: int) -> Outcome:
    """The same again, right behind it."""
    if which >= len(queue):
        return ABSENT
    queue.insert(which, queue[which])
    return DONE


def lost(queue: MutableSequence[Any], which: int) -> Outcome:
    """One less."""
    if which >= len(queue):
        return ABSENT
    del queue[which]
    return DONE


def reset_sender(target: MirrorTarget, operation: Any) -> Outcome:
    """P0 forgets."""
    target.links[operation.sender].sender.reset()
    return DONE


def reset_receiver(target: MirrorTarget, operation: Any) -> Outcome:
    """P1 forgets, every sender."""
    target.receiver.reset()
    return DONE


def restart_receiver(target: MirrorTarget, operation: Any) -> Outcome:
    """Another P1, and nothing on its way."""
    target.receiver = target.new_receiver()
    for link in target.links:
        link.messages.clear()
        link.answers.clear()
    return DONE


PERFORM: CallTable = {
    calls.Render: render,
    calls.Send: send,
    calls.Submit: submit,
    calls.SubmitEmbeddings: submit,
    calls.FanOut: fan_out,
    calls.LookUp: look_up,
    calls.Process: process,
    calls.Deliver: deliver,
    calls.Receive: receive,
    calls.Transmit: transmit,
    calls.Expire: expire,
    calls.Join: join,
    faults.Reject: reject,
    faults.SubmitRejected: submit_rejected,
    faults.Abort: abort,
    faults.Cancel: cancel,
    faults.Reorder: lambda target, operation: overtaken(target.links[operation.sender].messages, operation.which),
    faults.ReorderAnswers: lambda target, operation: overtaken(target.links[operation.sender].answers, operation.which),
    faults.Drop: lambda target, operation: lost(target.links[operation.sender].messages, operation.which),
    faults.DropAnswer: lambda target, operation: lost(target.links[operation.sender].answers, operation.which),
    faults.Duplicate: lambda target, operation: doubled(target.links[operation.sender].messages, operation.which),
    faults.DuplicateAnswer: lambda target, operation: doubled(target.links[operation.sender].answers, operation.which),
    faults.ResetSender: reset_sender,
    faults.ResetReceiver: reset_receiver,
    faults.RestartReceiver: restart_receiver,
}
