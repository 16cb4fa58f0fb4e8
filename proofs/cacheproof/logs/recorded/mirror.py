"""The recordings of a mirror in several processes as one run of the specification.

Each process records what happens to it, in its order, and messages by name. What came first between two processes
follows from that alone, and no clock is compared: a message is taken after it was sent, and a partition is granted
after it was asked for. What the network did is not recorded and follows as well: a message that nobody took was lost,
and one that was taken before an older one has overtaken it. A join takes place where P1 grants it. A grant that its
sender never took is one that it forgot (`ResetSender`), and a core that starts again is one that has forgotten
everything (`ResetReceiver`): what was on its way to the old one may reach the new one.

A channel may lose and reorder whatever it likes, so nothing that is filled in here can make a wrong receiver right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import json_of
from cacheproof.logs.recorded.run import Recorded, RecordedRun, lines_of
from cacheproof.model.finding import Subject
from cacheproof.model.registry import component_named
from cachespec.kernel import DONE, Code, Observation, Operation, Outcome
from cachespec.mirror.configuration import Config
from cachespec.mirror.faults import Drop, DropAnswer, Reorder, ReorderAnswers, ResetReceiver, ResetSender
from cachespec.mirror.operations import Deliver, Expire, Join, Receive, Submit, Transmit

FORMAT, VERSION = "cacheproof-mirror-recording", "0.1"
RECEIVER = "P1"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a recording, and where it is."""

    fields: Mapping[str, Any]
    source: str

    @property
    def op(self) -> str:
        """What happened."""
        return self.text("op")

    def text(self, key: str) -> str:
        """A field that is a name."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            raise InputError(f"{self.source}: '{key}' must be a text, not {value!r}")
        return value

    def epoch(self) -> tuple[int, int]:
        """Which join it is about."""
        found = tuple(self.fields.get(key) for key in ("incarnation", "generation"))
        match found:
            case (int() as incarnation, int() as generation):
                return incarnation, generation
        raise InputError(f"{self.source}: incarnation and generation must be integers, not {found}")

    def numbers(self, key: str) -> tuple[int, ...]:
        """A field that is an array of integers."""
        value = self.fields.get(key, [])
        if not isinstance(value, list) or not all(isinstance(number, int) for number in value):
            raise InputError(f"{self.source}: '{key}' must be an array of integers, not {value!r}")
        return tuple(value)


@dataclass(slots=True)
class Side:
    """A sender as far as the run has come: its events to come, what is between it and P1, and its joins."""

    name: int
    events: deque[Event]
    messages: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    asked: set[tuple[int, int]] = field(default_factory=set)
    joined: tuple[int, int] | None = None
    """The last join that P1 has granted."""
    taken: bool = True
    """Whether the sender knows of it."""


class Merging:
    """Puts the events in an order in which they can have happened, as operations of the specification."""

    def __init__(self, keys: Mapping[str, int], sides: dict[str, Side], receiver: deque[Event]) -> None:
        self.keys, self.sides, self.receiver = keys, sides, receiver
        self.steps: list[Recorded] = []
        self.delivered = {event.text("message") for event in receiver if event.op == "deliver"}
        self.received = {
            event.text("answer") for side in sides.values() for event in side.events if event.op == "receive"
        }
        self._sender: Mapping[str, Callable[[Side, Event], bool]] = {
            "submit": self._submit,
            "transmit": self._transmit,
            "expire": self._expire,
            "receive": self._receive,
            "reset_sender": self._reset_sender,
            "asked": self._asked,
            "joined": self._joined,
            "ended": lambda side, event: True,
        }
        self._receiver: Mapping[str, Callable[[Event], bool]] = {
            "deliver": self._deliver,
            "join": self._join,
            "reset_receiver": self._reset_receiver,
            "ended": lambda event: True,
        }

    def merge(self) -> str:
        """All events, as far as they go; where they do not, why."""
        moved = True
        while moved:
            moved = self._move_receiver()
            for side in self.sides.values():
                while side.events and self._known(self._sender, side.events[0])(side, side.events[0]):
                    side.events.popleft()
                    moved = True
        waiting = [queue[0] for queue in (self.receiver, *(side.events for side in self.sides.values())) if queue]
        return "; ".join(f"{event.source}: {self._reason(event)}" for event in waiting)

    def _move_receiver(self) -> bool:
        moved = False
        while self.receiver and self._known(self._receiver, self.receiver[0])(self.receiver[0]):
            self.receiver.popleft()
            moved = True
        return moved

    @staticmethod
    def _known(table: Mapping[str, Any], event: Event) -> Any:
        if event.op not in table:
            raise InputError(f"{event.source}: unknown event '{event.op}'")
        return table[event.op]

    @staticmethod
    def _reason(event: Event) -> str:
        if event.op == "deliver":
            return f"message {event.text('message')} is taken, and is not on its way"
        if event.op == "receive":
            return f"answer {event.text('answer')} is taken, and is not on its way"
        return f"'{event.op}' of a join that was not {'granted' if event.op == 'joined' else 'asked for'}"

    # Senders --------------------------------------------------------------------------------------------------------

    def _submit(self, side: Side, event: Event) -> bool:
        operation = Submit(side.name, self._contents(event, "items"))
        self._sent(side, event, operation, Outcome(Code.DONE, event.numbers("sent")))
        return True

    def _transmit(self, side: Side, event: Event) -> bool:
        self._sent(side, event, Transmit(side.name), Outcome(Code.DONE, event.numbers("sent")))
        return True

    def _expire(self, side: Side, event: Event) -> bool:
        self._sent(side, event, Expire(side.name), DONE)
        return True

    def _sent(self, side: Side, event: Event, operation: Operation, outcome: Outcome) -> None:
        """The operation; the message is on its way, or lost at once if nobody takes it."""
        self._step(operation, outcome, event, {f"p0_order_{side.name}": self._contents(event, "order")})
        if "message" not in event.fields:
            return
        if event.text("message") in self.delivered:
            side.messages.append(event.text("message"))
        else:
            self._step(Drop(side.name, len(side.messages)), DONE, event)

    def _receive(self, side: Side, event: Event) -> bool:
        if not self._first(side.name, side.answers, ReorderAnswers, event.text("answer"), event):
            return False
        shown = {f"p0_order_{side.name}": self._contents(event, "order")}
        self._step(Receive(side.name), DONE, event, shown)
        return True

    def _reset_sender(self, side: Side, event: Event) -> bool:
        self._step(ResetSender(side.name), DONE, event)
        return True

    def _asked(self, side: Side, event: Event) -> bool:
        side.asked.add(event.epoch())
        return True

    def _joined(self, side: Side, event: Event) -> bool:
        if side.joined != event.epoch() or side.taken:
            return False
        side.taken = True
        return True

    # P1 -------------------------------------------------------------------------------------------------------------

    def _deliver(self, event: Event) -> bool:
        side = self._side(event)
        number = side.name
        if not self._first(number, side.messages, Reorder, event.text("message"), event):
            return False
        outcome = Outcome(Code(event.text("code")), self._contents(event, "values"))
        shown = {f"p1_order_{number}": self._contents(event, "order")} if "order" in event.fields else {}
        self._step(Deliver(number), outcome, event, shown)
        if outcome.code is not Code.FAILED:
            if event.text("answer") in self.received:
                side.answers.append(event.text("answer"))
            else:
                self._step(DropAnswer(number, len(side.answers)), DONE, event)
        return True

    def _join(self, event: Event) -> bool:
        """The sender's order after it took the grant equals its order at the join: it does nothing in between."""
        side = self._side(event)
        number = side.name
        if event.epoch() not in side.asked:
            return False
        outcome = Outcome(Code(event.text("code")))
        if outcome.code is not Code.DONE:
            self._step(Join(number), outcome, event)
            return True
        if not side.taken:
            self._step(ResetSender(number), DONE, event)
        shown = {f"p1_order_{number}": self._contents(event, "order")}
        for following in side.events:
            if following.op == "joined" and following.epoch() == event.epoch():
                shown[f"p0_order_{number}"] = self._contents(following, "order")
        side.joined, side.taken = event.epoch(), False
        self._step(Join(number), DONE, event, shown)
        return True

    def _reset_receiver(self, event: Event) -> bool:
        self._step(ResetReceiver(), DONE, event)
        return True

    # Inside ---------------------------------------------------------------------------------------------------------

    def _first(
        self, sender: int, queue: list[str], overtakes: Callable[[int, int], Operation], wanted: str, event: Event
    ) -> bool:
        """What is wanted leaves the queue, after it has overtaken all that is before it."""
        if wanted not in queue:
            return False
        for place in reversed(range(queue.index(wanted))):
            self._step(overtakes(sender, place), DONE, event)
        queue.remove(wanted)
        return True

    def _step(
        self, operation: Operation, outcome: Outcome, event: Event, shown: Mapping[str, Observation] | None = None
    ) -> None:
        self.steps.append(Recorded(operation, outcome, shown or {}, event.source))

    def _side(self, event: Event) -> Side:
        name = event.text("sender")
        if name not in self.sides:
            raise InputError(f"{event.source}: there is no recording of the sender '{name}'")
        return self.sides[name]

    def _contents(self, event: Event, key: str) -> tuple[int, ...]:
        """Keys as the numbers that the configuration gives them."""
        names = event.fields.get(key, [])
        strange = [name for name in names if not isinstance(name, str) or name not in self.keys]
        if strange:
            raise InputError(f"{event.source}: {key} has unknown contents: {strange}")
        return tuple(self.keys[name] for name in names)


def read_folder(folder: Path) -> RecordedRun:
    """The run that the processes have recorded in a folder: `run.json`, `P0.NAME.ndjson`, `P1.LIFE.ndjson`."""
    try:
        described = json_of((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder / 'run.json'}: {error}") from None
    if not isinstance(described, dict) or (described.get("format"), described.get("version")) != (FORMAT, VERSION):
        raise InputError(f"{folder / 'run.json'}: not of format {FORMAT} {VERSION}")
    sizes = described["sizes"]
    sides = {
        path.name.removeprefix("P0.").removesuffix(".ndjson"): Side(number, deque(_events(path)))
        for number, path in enumerate(sorted(folder.glob("P0.*.ndjson")))
    }
    if not sides:
        raise InputError(f"{folder}: there is no recording of a sender")
    component = component_named("mirror")
    config = Config(
        capacity=described["capacity"],
        sizes=tuple(sizes.values()),
        senders=len(sides),
        partitions=described["partitions"],
    )
    if (wrong := component.invalid(config)) is not None:
        raise InputError(f"{folder / 'run.json'}: {wrong}")
    merging = Merging({key: number for number, key in enumerate(sizes)}, sides, _lives(folder))
    trouble = merging.merge()
    return RecordedRun(Subject(component, component.normative, config), tuple(merging.steps), trouble)


def _lives(folder: Path) -> deque[Event]:
    """What P1 has recorded, one process after the other; each but the first begins with nothing."""
    paths = sorted(folder.glob(f"{RECEIVER}.*.ndjson"), key=lambda path: int(path.name.split(".")[1]))
    events: deque[Event] = deque()
    for place, path in enumerate(paths):
        events += [Event({"op": "reset_receiver"}, path.name)] if place > 0 else []
        events += _events(path)
    return events


def _events(path: Path) -> list[Event]:
    if path.stat().st_size == 0:
        return []  # killed before anything happened
    return [Event(fields, f"{path.name}:{number}") for number, fields in enumerate(lines_of(path), start=1)]
