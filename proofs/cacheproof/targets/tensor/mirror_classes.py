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
from cacheproof.model.target import ByOperation, TargetError, factory_of
from cachespec.kernel import ABSENT, DONE, FAILED, REFUSED, STALE, Code, Observation, Outcome
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


class MirrorTarget(ByOperation):
    """Senders and a receiver in one configuration. An exception of theirs is the outcome that it stands for."""

    def __init__(self) -> None:
        self.config = Config(capacity=1, sizes=(0,))
        self.links: list[Link] = []
        self.receiver = MirrorReceiver(1)

    def reset(self, config: Config) -> None:
        self.config = config
        self.links = [Link(MirrorSender(str(name), config.capacity)) for name in range(config.senders)]
        self.receiver = self.new_receiver()

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

    def _render(self, operation: calls.Render) -> None:
        """Rendering asks what is cached, and changes nothing."""
        link = self.links[operation.sender]
        for content in operation.items:
            link.sender.is_cached(str(content))
        link.drafts.append(Draft(operation.items))

    def _look_up(self, operation: calls.LookUp) -> Outcome:
        """The items that are not cached now: the renderer would process them."""
        link = self.links[operation.sender]
        missing = tuple(int(not link.sender.is_cached(str(content))) for content in operation.items)
        link.drafts.append(Draft(operation.items, LOOKED_UP))
        return Outcome(Code.DONE, missing)

    def _process(self, operation: calls.Process) -> Outcome:
        """What was looked up is rendered, or sent where these are one step."""
        link, which = self.links[operation.sender], operation.which
        if which >= len(link.drafts) or link.drafts[which].stage != LOOKED_UP:
            return ABSENT
        items = link.drafts[which].items
        if self.config.rendered > 0:
            link.drafts[which] = Draft(items)
            return DONE
        outcome = self.submitted(link, items)
        if outcome.code is not Code.REFUSED:
            del link.drafts[which]
        return outcome

    def _send(self, operation: calls.Send) -> Outcome:
        """A rendered request is submitted, once for each of its messages."""
        link = self.links[operation.sender]
        if operation.which >= len(link.drafts) or link.drafts[operation.which].stage == LOOKED_UP:
            return ABSENT
        items, _, left = link.drafts[operation.which]
        outcome = self.submitted(link, items)
        if outcome.code is not Code.REFUSED:
            rest = [Draft(items, PARTLY_SENT, left - 1)] if left > 1 else []
            link.drafts[operation.which : operation.which + 1] = rest
        return outcome

    def _submit(self, operation: calls.Submit) -> Outcome:
        """Both at once."""
        return self.submitted(self.links[operation.sender], operation.items)

    _submit_embeddings = _submit

    def _fan_out(self, operation: calls.FanOut) -> Outcome:
        """The first message of several."""
        link = self.links[operation.sender]
        outcome = self.submitted(link, operation.items)
        if outcome.code is not Code.REFUSED:
            link.drafts.append(Draft(operation.items, PARTLY_SENT, self.config.fan_out - 1))
        return outcome

    def _deliver(self, operation: calls.Deliver) -> Outcome:
        """What P1 uses is told from the payloads."""
        link = self.links[operation.sender]
        if not link.messages:
            return ABSENT
        message = cast(Message, unpacked(link.messages[0]))
        try:
            answer, payloads = self.receiver.receive(message)
        except MissingPayloadError as error:
            return FAILED._replace(values=tuple(int(key) for key in error.keys))
        link.messages.popleft()
        link.answers.append(packed(answer))
        if payloads is not None:
            return Outcome(Code.HIT, tuple(content_of(payload) for payload in payloads))
        return {Verdict.STALE: STALE, Verdict.GAP: Outcome(Code.RETRY), Verdict.ACCEPTED: DONE}[answer.verdict]

    def _receive(self, operation: calls.Receive) -> Outcome:
        """Whatever it says, nothing fails."""
        link = self.links[operation.sender]
        if not link.answers:
            return ABSENT
        link.sender.receive(cast(Answer, unpacked(link.answers.popleft())))
        return DONE

    def _transmit(self, operation: calls.Transmit) -> Outcome:
        """The next of the backlog."""
        link = self.links[operation.sender]
        message = link.sender.transmit()
        return ABSENT if message is None else self.sent(link, message)

    def _expire(self, operation: calls.Expire) -> Outcome:
        """A probe."""
        link = self.links[operation.sender]
        message = link.sender.expire()
        if message is None:
            return ABSENT
        self.sent(link, message)
        return DONE

    def _join(self, operation: calls.Join) -> Outcome:
        """Asked until P1 grants it or has no room; a sender that does not know P1 yet is told in between."""
        sender = self.links[operation.sender].sender
        request = sender.ask()
        while request is not None:
            reply = cast(Grant | Refusal, unpacked(packed(self.receiver.admit(unpacked(packed(request))))))
            if isinstance(reply, Grant):
                return DONE if sender.take_grant(reply) else FAILED
            request = sender.take_refusal(reply)
        return REFUSED

    def _reject(self, operation: faults.Reject) -> Outcome:
        """The classes hear nothing of it."""
        link = self.links[operation.sender]
        if operation.which >= len(link.drafts) or link.drafts[operation.which].stage != RENDERED:
            return ABSENT
        del link.drafts[operation.which]
        return DONE

    def _cancel(self, operation: faults.Cancel) -> Outcome:
        """Nor of this."""
        return lost(self.links[operation.sender].drafts, operation.which)

    def _submit_rejected(self, _: faults.SubmitRejected) -> Outcome:
        """Likewise."""
        return DONE

    def _abort(self, operation: faults.Abort) -> Outcome:
        """The request goes on to P1 all the same."""
        sender = self.links[operation.sender].sender
        return DONE if operation.which < len(sender.unconfirmed) else ABSENT

    def _reset_sender(self, operation: faults.ResetSender) -> None:
        """P0 forgets."""
        self.links[operation.sender].sender.reset()

    def _reset_receiver(self, _: faults.ResetReceiver) -> None:
        """P1 forgets, every sender."""
        self.receiver.reset()

    def _restart_receiver(self, _: faults.RestartReceiver) -> None:
        """Another P1, and nothing on its way."""
        self.receiver = self.new_receiver()
        for link in self.links:
            link.messages.clear()
            link.answers.clear()

    def _reorder(self, operation: faults.Reorder) -> Outcome:
        return overtaken(self.links[operation.sender].messages, operation.which)

    def _reorder_answers(self, operation: faults.ReorderAnswers) -> Outcome:
        return overtaken(self.links[operation.sender].answers, operation.which)

    def _drop(self, operation: faults.Drop) -> Outcome:
        return lost(self.links[operation.sender].messages, operation.which)

    def _drop_answer(self, operation: faults.DropAnswer) -> Outcome:
        return lost(self.links[operation.sender].answers, operation.which)

    def _duplicate(self, operation: faults.Duplicate) -> Outcome:
        return doubled(self.links[operation.sender].messages, operation.which)

    def _duplicate_answer(self, operation: faults.DuplicateAnswer) -> Outcome:
        return doubled(self.links[operation.sender].answers, operation.which)


open_mirror = factory_of("mirror", MirrorTarget)
"""Both sides, normatively."""
