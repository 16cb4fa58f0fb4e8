"""The mirror behind a hostile network, with frontends and cores that are killed: a seed makes the same run every time.

The network drops, doubles, reorders and corrupts what it carries. A killed frontend begins again under its old name, a
killed core begins again without anything. Frames have a checksum, as those of every transport: what fails it is lost,
but its bytes are given to `unpacked` and to a copy of the core first, which may refuse them and must not fail.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

from cacheimpl.mirror import Answer, Grant, JoinRequest, Message, MirrorReceiver, MirrorSender, Refusal
from cacheimpl.mirror.errors import BadMessageError, MirrorError
from cacheimpl.mirror.example.settings import key_of, payload_of
from cacheimpl.mirror.example.transport import Envelope, packed, unpacked

NAMES = ("front-0", "front-1")
CAPACITY = 60
SIZES = {f"image-{number}": 5 + 3 * number for number in range(12)} | {"panorama": CAPACITY + 1}
MARKER_BYTES = 30
CHECKSUM = 8
OUTSTANDING = 5
CALM_ROUNDS = 400
"""Rounds without faults after which every request must be confirmed."""


class Rates(NamedTuple):
    """How often each fault happens, of 1."""

    drop: float = 0.1
    double: float = 0.1
    corrupt: float = 0.1
    kill: float = 0.02
    reset: float = 0.01


CALM = Rates(0, 0, 0, 0, 0)


class Counts:
    """What happened in a run."""

    def __init__(self) -> None:
        self.messages = self.delivered = self.confirmed = self.corrupted = self.refused = self.kills = 0


class Attack:
    """One run. `failure` says what went wrong, and is empty if nothing did."""

    def __init__(self, seed: int, rates: Rates = Rates()) -> None:  # noqa: B008  # of numbers
        self.choose, self.rates, self.counts = random.Random(seed), rates, Counts()
        self.core = MirrorReceiver(CAPACITY, len(NAMES))
        self.fronts = {name: self.begun(name) for name in NAMES}
        self.network: list[tuple[str, bytes]] = []
        """Frames under way: where to, a frontend's name or nothing for the core, and the bytes."""
        self.delivered: set[str] = set()
        self.applied: dict[int, list[str]] = {}
        """By partition, which is kept so that its number is its own: the markers of requests applied there."""
        self.kept: list[object] = []
        self.requests = 0

    def run(self, rounds: int) -> Counts:
        """So many rounds with faults, and then calm ones. Raises AssertionError, or whatever either side raises."""
        for _ in range(rounds):
            self.round(submits=True)
        self.rates = CALM
        for _ in range(CALM_ROUNDS):
            self.round(submits=False)
        for name, front in self.fronts.items():
            assert front.joined, f"{name} has no partition"
            assert not front.unconfirmed, f"{name} waits for {len(front.unconfirmed)} confirmations"
            assert self.core.order(name) == tuple(front.order), f"P1 holds something else for {name}"
        return self.counts

    def round(self, *, submits: bool) -> None:
        """Each frontend does one thing, the network delivers some frames, and each process may be killed."""
        for name, front in tuple(self.fronts.items()):
            if self.happens(self.rates.kill):
                self.counts.kills += 1
                self.fronts[name] = self.begun(name)
            elif self.happens(self.rates.reset):
                front.reset()
            else:
                self.act(front, submits=submits)
        if self.happens(self.rates.kill):
            self.counts.kills += 1
            self.core = MirrorReceiver(CAPACITY, len(NAMES))
        elif self.happens(self.rates.reset):
            self.core.reset()
        elif self.happens(self.rates.reset):
            self.core.forget(self.choose.choice(NAMES))
        for _ in range(self.choose.randrange(6)):
            if self.network:
                self.carry(*self.network.pop(self.choose.randrange(len(self.network))))

    def begun(self, name: str) -> MirrorSender:
        """A frontend that begins, with a session of this seed."""
        front = MirrorSender(name, CAPACITY)
        front.session = self.choose.getrandbits(62)
        return front

    def act(self, front: MirrorSender, *, submits: bool) -> None:
        """Ask for a partition, send again, send anew, or probe."""
        if not front.joined:
            if self.happens(0.3):
                self.send("", front.ask())
        elif front.backlog:
            self.send("", front.transmit())
        elif submits and len(front.unconfirmed) < OUTSTANDING:
            self.send("", self.request(front))
        elif self.happens(0.3):
            self.send("", front.expire())

    def request(self, front: MirrorSender) -> Message | None:
        """A request of one to three images, and of one item that no other request has."""
        self.requests += 1
        marker = f"{front.name}/{front.session}/{self.requests}"
        chosen = [(marker, MARKER_BYTES)]
        chosen += [(key, SIZES[key]) for key in self.choose.choices(list(SIZES), k=self.choose.randint(1, 3))]
        return front.submit(chosen, lambda position: payload_of(*chosen[position]), marker)

    def happens(self, rate: float) -> bool:
        return self.choose.random() < rate

    # The network

    def send(self, destination: str, message: Any) -> None:
        """A frame is lost, goes out, or goes out twice; later ones may overtake it."""
        if message is None or self.happens(self.rates.drop):
            return
        body = packed(Envelope("", message))
        frame = blake2b(body, digest_size=CHECKSUM).digest() + body
        for _ in range(2 if self.happens(self.rates.double) else 1):
            self.network.append((destination, self.corrupted(frame) if self.happens(self.rates.corrupt) else frame))

    def corrupted(self, frame: bytes) -> bytes:
        """Other bytes, fewer, or more."""
        position, kind = self.choose.randrange(len(frame)), self.choose.randrange(3)
        if kind == 0:
            return frame[:position]
        inserted = self.choose.randbytes(self.choose.randint(1, 9))
        return frame[:position] + inserted + frame[position + (len(inserted) if kind == 1 else 0) :]

    def carry(self, destination: str, frame: bytes) -> None:
        """One frame arrives."""
        self.counts.messages += 1
        body = frame[CHECKSUM:]
        if blake2b(body, digest_size=CHECKSUM).digest() != frame[:CHECKSUM]:
            self.counts.corrupted += 1
            self.refuse(body)
        elif destination:
            self.take(self.fronts[destination], unpacked(body).message)
        else:
            self.deliver(unpacked(body).message)

    def refuse(self, body: bytes) -> None:
        """Bytes that are none of ours make nothing fail but the call itself."""
        core, front = copy.deepcopy(self.core), MirrorSender(NAMES[0], CAPACITY)
        try:
            message = unpacked(body).message
            calls: dict[type, Callable[[Any], Any]] = {
                Message: core.receive,
                JoinRequest: core.admit,
                Answer: front.receive,
                Grant: front.take_grant,
                Refusal: front.take_refusal,
            }
            calls[type(message)](message)
        except (BadMessageError, MirrorError):
            self.counts.refused += 1

    # Both sides

    def take(self, front: MirrorSender, message: Any) -> None:
        """What a frontend hears."""
        if isinstance(message, Grant):
            front.take_grant(message)
        elif isinstance(message, Refusal):
            self.send("", front.take_refusal(message))
        else:
            for marker in front.receive(message):
                self.counts.confirmed += 1
                assert marker in self.delivered, f"{marker} is confirmed and was never delivered"

    def deliver(self, message: Any) -> None:
        """What the core hears."""
        if isinstance(message, JoinRequest):
            self.send(message.sender, self.core.admit(message))
            return
        delivery = self.core.receive(message)
        self.send(message.sender, delivery.answer)
        if delivery.payloads is None:
            return
        self.counts.delivered += 1
        marker, partition = message.items[0].key, self.core._partitions[message.sender]
        self.kept.append(partition)
        keys = [key_of(payload) for payload in delivery.payloads]
        assert keys == [item.key for item in message.items], f"{marker} was given {keys}"
        before = self.applied.setdefault(id(partition), [])
        session = marker.split("/")[1]
        assert all(one.split("/")[1] == session for one in before), f"{marker} came after another life of its sender"
        assert all(int(one.split("/")[2]) < int(marker.split("/")[2]) for one in before), f"{marker} is late or twice"
        before.append(marker)
        self.delivered.add(marker)
