"""The mirrored processor cache of a release: its senders and its receiver, with a channel of our own between them.

The caches, the order in which they are touched and updated, the miss error and the pending invalidations are the
release's. Ours is what the engine does around them: messages wait in order, and an error ends what it ends in that
release (the request; the thread that takes messages; the engine).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .calls import ABSENT, DONE, UNSUPPORTED, Calls, DriverError, Reply, integer
from .sides import Frontend, Item, Message, Receiver, Release


@dataclass(slots=True)
class Link:
    """One sender and what is between it and P1."""

    frontend: Frontend
    rendered: list[Message] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    answers: list[tuple[Message, list[str]]] = field(default_factory=list)
    """The request that each answer is about, and what it missed."""


class MirrorDriver:
    """All senders and the one receiver of a configuration."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._release = Release()
        self._config: Mapping[str, Any] = {}
        self._links: list[Link] = []
        self._receiver: Receiver = self._release.receiver(1)
        self._hung = False
        self.operations: dict[str, Callable[[Mapping[str, Any]], Reply]] = {
            "render": self._render,
            "send": self._send,
            "submit": self._submit,
            "deliver": self._deliver,
            "receive": self._receive,
            "reject": self._reject,
            "submit_rejected": self._submit_rejected,
            "abort": self._abort,
            "reorder": self._reorder,
            "drop": self._drop,
            "reset_sender": self._reset_sender,
            "reset_receiver": self._reset_receiver,
        }

    def reset(self, config: Mapping[str, Any]) -> None:
        """New caches; nothing is in flight."""
        self._config = config
        capacity = integer(config, "capacity")
        self._links = [Link(self._release.frontend(capacity)) for _ in range(integer(config, "senders"))]
        self._receiver = self._release.receiver(capacity)
        self._hung = False

    def observe(self) -> dict[str, Any]:
        """Both orders of every sender, ghosts included, and what is in flight. All senders share one P1."""
        shown: dict[str, Any] = {}
        for name, link in enumerate(self._links):
            shown[f"p0_order_{name}"] = link.frontend.order()
            shown[f"p1_order_{name}"] = self._receiver.order()
            shown[f"messages_{name}"] = len(link.messages)
            shown[f"answers_{name}"] = len(link.answers)
        return shown

    # Frontend -------------------------------------------------------------------------------------------------------

    def _render(self, message: Mapping[str, Any]) -> Reply:
        link, items = self._link(message), self._items(message)
        return self._calls.done(lambda: link.rendered.append(link.frontend.render(items)))

    def _send(self, message: Mapping[str, Any]) -> Reply:
        link, which = self._link(message), integer(message, "which")
        if which >= len(link.rendered):
            return ABSENT
        return self._sent(link, link.rendered.pop(which))

    def _submit(self, message: Mapping[str, Any]) -> Reply:
        link, items = self._link(message), self._items(message)
        return self._calls.perform(lambda: self._sent(link, link.frontend.render(items)))

    def _submit_rejected(self, message: Mapping[str, Any]) -> Reply:
        link, items = self._link(message), self._items(message)
        return self._calls.done(lambda: link.frontend.render(items))

    def _reject(self, message: Mapping[str, Any]) -> Reply:
        link, which = self._link(message), integer(message, "which")
        return _without(link.rendered, which)

    def _sent(self, link: Link, request: Message) -> Reply:
        link.messages.append(request)
        return Reply("done", request.payloads)

    # Channel and receiver -------------------------------------------------------------------------------------------

    def _reorder(self, message: Mapping[str, Any]) -> Reply:
        link, which = self._link(message), integer(message, "which")
        if which + 1 >= len(link.messages):
            return ABSENT
        link.messages[which : which + 2] = reversed(link.messages[which : which + 2])
        return DONE

    def _drop(self, message: Mapping[str, Any]) -> Reply:
        link, which = self._link(message), integer(message, "which")
        return _without(link.messages, which)

    def _deliver(self, message: Mapping[str, Any]) -> Reply:
        link = self._link(message)
        if not link.messages:
            return ABSENT
        request = link.messages.pop(0)
        reply = self._calls.perform(lambda: self._taken(link, request))
        if reply.code == "failed":
            self._hung = self._release.dies
        return reply

    def _taken(self, link: Link, request: Message) -> Reply:
        """A miss that the release tells is an answer; any other error is its outcome."""
        try:
            used = self._receiver.deliver(request)
        except RuntimeError as error:
            missed = self._release.missed(error)
            if missed is None:
                raise
            link.answers.append((request, missed))
            return Reply("retry", tuple(int(key) for key in missed))
        link.answers.append((request, []))
        return Reply("hit", used)

    def _receive(self, message: Mapping[str, Any]) -> Reply:
        link = self._link(message)
        if not link.answers:
            return ABSENT
        _, missed = link.answers.pop(0)
        return self._calls.done(lambda: link.frontend.take_misses(missed))

    def _abort(self, message: Mapping[str, Any]) -> Reply:
        """The scheduler's business; no release does anything about its caches."""
        return DONE

    # Resets ---------------------------------------------------------------------------------------------------------

    def _reset_sender(self, message: Mapping[str, Any]) -> Reply:
        link = self._link(message)
        if not self._release.resets:
            return UNSUPPORTED
        return self._calls.done(link.frontend.clear)

    def _reset_receiver(self, message: Mapping[str, Any]) -> Reply:
        if not self._release.resets:
            return UNSUPPORTED
        return self._calls.done(self._receiver.clear)

    # What messages name ---------------------------------------------------------------------------------------------

    def _link(self, message: Mapping[str, Any]) -> Link:
        number = integer(message, "sender")
        if not 0 <= number < len(self._links):
            raise DriverError(f"there is no sender {number}")
        return self._links[number]

    def _items(self, message: Mapping[str, Any]) -> tuple[Item, ...]:
        config = self._config
        identities, modalities = config.get("identities") or (), config.get("modalities") or ()
        return tuple(
            Item(
                content=content,
                identity=identities[content] if identities else content,
                modality=modalities[content] if modalities else 0,
                size=config["sizes"][content],
            )
            for content in message["items"]
        )


def _without(waiting: list[Message], which: int) -> Reply:
    if which >= len(waiting):
        return ABSENT
    waiting.pop(which)
    return DONE
