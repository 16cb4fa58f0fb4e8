"""P1 as a process: it takes messages, keeps payloads, and answers."""

from __future__ import annotations

import random
import signal
from types import FrameType

import zmq

from cacheimpl.mirror import Grant, JoinRequest, Message, MirrorReceiver, Refusal, Verdict
from cacheimpl.mirror.errors import MissingPayloadError
from cacheimpl.mirror.example.recording import Recorder, keys
from cacheimpl.mirror.example.settings import Settings, key_of
from cacheimpl.mirror.example.transport import Envelope, FaultyChannel, unpacked
from cacheimpl.mirror.messages import Reason

POLL_MILLISECONDS = 2
RESETS_WITHIN = 100
"""Messages of one process among which it forgets everything so and so often."""
WORDS = {Verdict.STALE: "stale", Verdict.GAP: "retry", Verdict.ACCEPTED: "done"}
"""How the specification calls what became of a message that was not applied."""


class Core:
    """One receiver, and its socket."""

    def __init__(self, settings: Settings, life: int) -> None:
        self.settings = settings
        self.receiver = MirrorReceiver(settings.capacity, settings.names)
        self.granted: dict[str, int] = {}
        """Generations that were granted: a grant that is only said again is not recorded again."""
        process = f"P1.{life}"
        source = random.Random(f"{settings.seed}/{process}/resets")  # noqa: S311  # faults, not a secret
        self.resets = sorted(source.randrange(RESETS_WITHIN) for _ in range(settings.core_resets))
        self.taken = 0
        self.recorder = Recorder(settings.recording(process))
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(settings.endpoint)
        self.channel = FaultyChannel(settings, process, self.send)
        self.over = False

    def send(self, destination: str, data: bytes) -> None:
        """To a sender by its name; one that is gone hears nothing."""
        self.socket.send_multipart([destination.encode(), data])

    def run(self) -> None:
        """Until it is told to end."""
        while not self.over:
            while self.socket.poll(POLL_MILLISECONDS) and not self.over:
                _, data = self.socket.recv_multipart()
                self.take(unpacked(data))
            self.channel.deliver_what_is_due()
        self.recorder.note("ended", lost=self.channel.lost, late=self.channel.late)
        self.recorder.close()

    def take(self, envelope: Envelope) -> None:
        """A message, or a question for a partition."""
        message = envelope.message
        if isinstance(message, Message):
            self.deliver(envelope.name, message)
        elif isinstance(message, JoinRequest):
            self.admit(message)

    def deliver(self, name: str, message: Message) -> None:
        """Applied or refused; recorded, and then answered."""
        self.taken += 1
        if self.resets and self.taken > self.resets[0]:
            del self.resets[0]
            self.recorder.note("reset_receiver")
            self.receiver.reset()
            self.granted.clear()
        try:
            answer, payloads = self.receiver.receive(message)
        except MissingPayloadError as error:
            self.recorder.note("deliver", sender=message.sender, message=name, code="failed", values=list(error.keys))
            raise
        code = "hit" if payloads is not None else WORDS[answer.verdict]
        used = [key_of(payload) for payload in payloads or ()]
        reply, order = self.channel.named(answer), keys(self.receiver.order(message.sender))
        self.recorder.note(
            "deliver", sender=message.sender, message=name, answer=reply.name, code=code, values=used, order=order
        )
        self.channel.post(message.sender, reply)

    def admit(self, request: JoinRequest) -> None:
        """Granted or refused; what changed nothing is not recorded."""
        reply = self.receiver.admit(request)
        fields = {"sender": request.sender, "generation": request.generation, "incarnation": request.incarnation}
        if isinstance(reply, Grant) and self.granted.get(request.sender) != request.generation:
            self.granted[request.sender] = request.generation
            self.recorder.note("join", **fields, code="done", order=keys(self.receiver.order(request.sender)))
        elif isinstance(reply, Refusal) and reply.reason is Reason.FULL:
            self.recorder.note("join", **fields, code="refused")
        self.channel.post(request.sender, self.channel.named(reply))


def run_core(settings: Settings, life: int) -> None:
    """The process; SIGTERM ends it in peace."""
    core = Core(settings, life)

    def end(number: int, frame: FrameType | None) -> None:
        core.over = True

    signal.signal(signal.SIGTERM, end)
    core.run()
