"""The mirrored processor cache of a release: its senders and its receiver, with a channel of our own between them.

The caches, the order in which they are touched and updated, the miss error and the pending invalidations are the
release's. Ours is what is around them: messages and answers wait in order, a client tries again what it was told to try
again, and an error ends what it ends in that release: the request, the thread that takes messages, or the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .calls import ABSENT, DONE, Calls, DriverError, Reply, integer, operations_of
from .sides import Frontend, Item, LookedUp, Message, Receiver, Release

CODES: Mapping[type[Exception], str] = {ValueError: "too_large"}
"""What an item that never fits raises; any other error is a failure."""


@dataclass(slots=True)
class Answer:
    """What P1 reports of one request."""

    request: Message
    missed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Draft:
    """A request that the frontend is at work on."""

    items: tuple[Item, ...]
    looked_up: LookedUp | None = None
    """What the look-up left, until the items are processed."""
    message: Message | None = None
    """What is sent, once the items are processed."""
    left: int = 1
    """Messages that have still to leave."""
    partly_sent: bool = False


@dataclass(slots=True)
class Link:
    """One sender and what is between it and P1."""

    frontend: Frontend
    drafts: list[Draft] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    retries: list[tuple[Item, ...]] = field(default_factory=list)
    """What the client will ask for again, where the release tells it to."""


class MirrorDriver:
    """All senders and the one receiver of a configuration."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._release = Release()
        self._config: Mapping[str, Any] = {}
        self._links: list[Link] = []
        self._receiver: Receiver = self._release.receiver(1)
        self._dead = False
        release = self._release
        self.operations = operations_of(
            self,
            calls,
            *((name, not release.two_steps) for name in ("look_up", "process")),
            ("fan_out", not release.fans_out),
            ("submit_embeddings", not release.passes_by),
            ("retry", not release.repairs),
            *((name, release.checks_first) for name in ("reject", "submit_rejected")),
            *((name, not release.resets) for name in ("reset_sender", "reset_receiver")),
        )

    def reset(self, config: Mapping[str, Any]) -> None:
        """New caches; nothing is in flight."""
        self._config = config
        capacity = integer(config, "capacity")
        self._links = [Link(self._release.frontend(capacity)) for _ in range(integer(config, "senders"))]
        self._receiver = self._release.receiver(capacity)
        self._dead = False

    def observe(self) -> dict[str, Any]:
        """Both orders of every sender and what is in flight. All senders share one P1."""
        shown: dict[str, Any] = {}
        for name, link in enumerate(self._links):
            shown[f"p0_order_{name}"] = link.frontend.order()
            shown[f"p1_order_{name}"] = self._receiver.order()
            shown[f"messages_{name}"] = len(link.messages)
            shown[f"answers_{name}"] = len(link.answers)
        return shown

    @property
    def is_deaf(self) -> bool:
        """Whether P1 takes no more messages: an error has ended its thread."""
        return self._dead

    def repeated(self, sender: int) -> int:
        """How many requests of a frontend its clients will send again."""
        return len(self._links[sender].retries)

    def give_up_newest(self, sender: int) -> None:
        """The client of the newest of these has gone away."""
        self._links[sender].retries.pop()

    # Frontend and client --------------------------------------------------------------------------------------------

    def do_render(self, sender: int, items: tuple[int, ...]) -> Reply:
        return self._rendered(self._link(sender), self._items(items))

    def _rendered(self, link: Link, items: tuple[Item, ...]) -> Reply:
        """The release's own rendering; the request waits to be sent. Returns which items have their data with them."""

        def whole() -> Reply:
            message = link.frontend.render(items)
            link.drafts.append(Draft(items, message=message))
            return Reply("done", message.payloads)

        return self._calls.perform(whole, CODES)

    def do_look_up(self, sender: int, items: tuple[int, ...]) -> Reply:
        """The first half of the release's rendering. Returns which items will be processed."""
        link, named = self._link(sender), self._items(items)

        def whole() -> Reply:
            looked_up = link.frontend.look_up(named)
            link.drafts.append(Draft(named, looked_up))
            return Reply("done", looked_up.missing)

        return self._calls.perform(whole, CODES)

    def do_process(self, sender: int, which: int) -> Reply:
        """The second half. A client whose request fails while it is sent tries again where it is told to."""
        link = self._link(sender)
        looked_up = link.drafts[which].looked_up if which < len(link.drafts) else None
        if looked_up is None:
            return ABSENT
        draft, sends = link.drafts[which], not integer(self._config, "rendered")

        def whole() -> Reply:
            draft.looked_up, draft.message = None, link.frontend.process(looked_up)
            return Reply("done", draft.message.payloads)

        reply = self._calls.perform(whole, CODES)
        if reply.code != "done":
            link.drafts.pop(which)
            if reply.code == "failed" and sends and self._release.repairs:
                link.retries.append(draft.items)
        elif sends:
            self._leave(link, which)
        return reply

    def do_send(self, sender: int, which: int) -> Reply:
        link = self._link(sender)
        if which >= len(link.drafts) or link.drafts[which].message is None:
            return ABSENT
        self._leave(link, which)
        return DONE

    @staticmethod
    def _leave(link: Link, which: int) -> None:
        """The next message of a draft is on its way; all of them are alike."""
        draft = link.drafts[which]
        if draft.message is not None:
            link.messages.append(draft.message)
        draft.left, draft.partly_sent = draft.left - 1, True
        if draft.left == 0:
            link.drafts.pop(which)

    def do_submit(self, sender: int, items: tuple[int, ...]) -> Reply:
        link, named = self._link(sender), self._items(items)
        reply = self._rendered(link, named)
        if reply.code == "done":
            self._leave(link, len(link.drafts) - 1)
        elif reply.code == "failed" and self._release.repairs:
            link.retries.append(named)
        return reply

    def do_fan_out(self, sender: int, items: tuple[int, ...]) -> Reply:
        link = self._link(sender)
        reply = self._rendered(link, self._items(items))
        if reply.code == "done":
            link.drafts[-1].left = integer(self._config, "fan_out")
            self._leave(link, len(link.drafts) - 1)
        return reply

    def do_submit_embeddings(self, sender: int, items: tuple[int, ...]) -> Reply:
        link, named = self._link(sender), self._items(items)

        def whole() -> Reply:
            link.messages.append(link.frontend.embed(named))
            return Reply("done", link.messages[-1].payloads)

        return self._calls.perform(whole, CODES)

    def do_retry(self, sender: int) -> Reply:
        link = self._link(sender)
        if not link.retries:
            return ABSENT
        reply = self._rendered(link, link.retries[0])
        if reply.code == "done":
            link.retries.pop(0)
            self._leave(link, len(link.drafts) - 1)
        return reply

    def do_reject(self, sender: int, which: int) -> Reply:
        link = self._link(sender)
        if which >= len(link.drafts) or link.drafts[which].message is None or link.drafts[which].partly_sent:
            return ABSENT
        return _without(link.drafts, which)

    def do_submit_rejected(self, sender: int, items: tuple[int, ...]) -> Reply:
        link = self._link(sender)
        reply = self._rendered(link, self._items(items))
        if reply.code == "done":
            link.drafts.pop()
        return reply

    def do_abort(self, sender: int, which: int) -> Reply:
        """The scheduler's business: no release does anything about these caches."""
        return DONE if which < len(self._link(sender).messages) else ABSENT

    def do_receive(self, sender: int) -> Reply:
        link = self._link(sender)
        if not link.answers:
            return ABSENT
        answer = link.answers.pop(0)
        if answer.missed:
            link.retries.append(answer.request.wanted)
        link.frontend.take_misses(answer.missed)
        return DONE

    # Receiver -------------------------------------------------------------------------------------------------------

    def do_deliver(self, sender: int) -> Reply:
        link = self._link(sender)
        if not link.messages or self._dead:
            return ABSENT
        answer = Answer(link.messages.pop(0))
        reply = self._calls.perform(lambda: self._taken(answer), CODES)
        self._dead = reply.code == "failed" and self._release.dies
        if not self._dead:
            link.answers.append(answer)
        return reply

    def _taken(self, answer: Answer) -> Reply:
        """A miss that the release reports is an answer; any other error is its outcome."""
        try:
            return Reply("hit", self._receiver.deliver(answer.request))
        except RuntimeError as error:
            missed = self._release.missed(error)
            if missed is None:
                raise
            answer.missed = missed
            return Reply("retry", answer.request.contents_missed(missed))

    # Faults ---------------------------------------------------------------------------------------------------------

    def do_cancel(self, sender: int, which: int) -> Reply:
        return _without(self._link(sender).drafts, which)

    def do_reorder(self, sender: int, which: int) -> Reply:
        return _swapped(self._link(sender).messages, which)

    def do_reorder_answers(self, sender: int, which: int) -> Reply:
        return _swapped(self._link(sender).answers, which)

    def do_drop(self, sender: int, which: int) -> Reply:
        return _without(self._link(sender).messages, which)

    def do_drop_answer(self, sender: int, which: int) -> Reply:
        return _without(self._link(sender).answers, which)

    def do_reset_sender(self, sender: int) -> None:
        self._link(sender).frontend.clear()

    def do_reset_receiver(self) -> None:
        self._receiver.clear()

    def do_restart_receiver(self) -> None:
        """A new P1; what was in flight is lost, and the frontends keep what they have."""
        self._receiver = self._release.receiver(integer(self._config, "capacity"))
        self._dead = False
        for link in self._links:
            link.messages.clear()
            link.answers.clear()

    # What messages name ---------------------------------------------------------------------------------------------

    def _link(self, number: int) -> Link:
        if not 0 <= number < len(self._links):
            raise DriverError(f"there is no sender {number}")
        return self._links[number]

    def _items(self, contents: tuple[int, ...]) -> tuple[Item, ...]:
        config = self._config
        identities, modalities = config.get("identities") or (), config.get("modalities") or ()
        return tuple(
            Item(
                content=content,
                identity=identities[content] if identities else content,
                modality=modalities[content] if modalities else 0,
                size=config["sizes"][content],
            )
            for content in contents
        )


def _without(waiting: list[Any], which: int) -> Reply:
    if which >= len(waiting):
        return ABSENT
    waiting.pop(which)
    return DONE


def _swapped(waiting: list[Any], which: int) -> Reply:
    if which + 1 >= len(waiting):
        return ABSENT
    waiting[which : which + 2] = reversed(waiting[which : which + 2])
    return DONE
