"""P0 as a process: it makes requests, sends them, and does what the answers ask for."""

from __future__ import annotations

import random
import time

import zmq

from cacheimpl.mirror import Answer, Grant, MirrorSender, Refusal
from cacheimpl.mirror.example.recording import Recorder, keys
from cacheimpl.mirror.example.settings import Settings, payload_of
from cacheimpl.mirror.example.transport import FaultyChannel, unpacked
from cacheimpl.mirror.messages import JoinRequest, Message

POLL_MILLISECONDS = 2
CORE = ""


class Frontend:
    """One sender, its socket, and what it still has to ask for."""

    def __init__(self, settings: Settings, name: str, requests: int) -> None:
        self.settings, self.left = settings, requests
        self.sender = MirrorSender(name, settings.capacity)
        self.source = random.Random(f"{settings.seed}/{name}/requests")  # noqa: S311  # a workload, not a secret
        self.sizes = settings.sizes()
        self.recorder = Recorder(settings.recording(f"P0.{name}"))
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, name.encode())
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(settings.endpoint)
        self.channel = FaultyChannel(settings, name, lambda _, data: self.socket.send(data))
        self.quiet_since = time.monotonic()

    def run(self) -> None:
        """Until every request is confirmed."""
        while self.left > 0 or self.sender.unconfirmed:
            while self.socket.poll(POLL_MILLISECONDS):
                self.take(self.socket.recv())
            self.act()
            self.channel.deliver_what_is_due()
        self.recorder.note("ended", order=keys(self.sender.order), lost=self.channel.lost, late=self.channel.late)
        self.recorder.close()

    def act(self) -> None:
        """The next thing that a sender may do."""
        sender = self.sender
        if not sender.joined:
            if self.is_impatient():
                self.ask(sender.ask())
            return
        while (message := sender.transmit()) is not None:
            self.post("transmit", message)
        if self.left > 0 and len(sender.unconfirmed) < self.settings.outstanding:
            self.submit()
        elif self.is_impatient() and (probe := sender.expire()) is not None:
            self.post("expire", probe)

    def is_impatient(self) -> bool:
        """Whether nothing was heard for so long that it is time to ask; then waiting begins anew."""
        late = time.monotonic() - self.quiet_since > self.settings.patience
        if late:
            self.quiet_since = time.monotonic()
        return late

    def submit(self) -> None:
        """One more request, of contents of which the first are the most popular."""
        if self.source.random() < self.settings.frontend_resets:
            self.recorder.note("reset_sender")
            self.sender.reset()
            return
        weights = [1 / (rank + 1) for rank in range(len(self.sizes))]
        chosen = self.source.choices(list(self.sizes), weights, k=self.source.choice((1, 1, 2, 3)))
        items = [(key, self.sizes[key]) for key in chosen]
        message = self.sender.submit(items, lambda place: payload_of(*items[place]))
        self.left -= 1
        if message is None:
            self.recorder.note("submit", items=chosen, order=keys(self.sender.order))
        else:
            self.post("submit", message, items=chosen)

    def post(self, operation: str, message: Message, **fields: object) -> None:
        """Recorded first."""
        envelope = self.channel.named(message)
        sent = [int(payload is not None) for payload in message.payloads]
        self.recorder.note(operation, **fields, sent=sent, message=envelope.name, order=keys(self.sender.order))
        self.channel.post(CORE, envelope)

    def ask(self, request: JoinRequest | None) -> None:
        """A question for a partition."""
        if request is not None:
            self.recorder.note("asked", generation=request.generation, incarnation=request.incarnation)
            self.channel.post(CORE, self.channel.named(request))

    def take(self, data: bytes) -> None:
        """What the core says."""
        name, message = unpacked(data)
        self.quiet_since = time.monotonic()
        if isinstance(message, Grant) and self.sender.take_grant(message):
            order = keys(self.sender.order)
            self.recorder.note("joined", generation=message.generation, incarnation=message.incarnation, order=order)
        elif isinstance(message, Refusal):
            self.ask(self.sender.take_refusal(message))
        elif isinstance(message, Answer) and not self.sender.waits_for_grant:
            self.sender.receive(message)
            self.recorder.note("receive", answer=name, order=keys(self.sender.order))


def run_frontend(settings: Settings, name: str, requests: int) -> None:
    """The process."""
    Frontend(settings, name, requests).run()
