"""What can happen: P0's calls on the store, the life of a request, the workers' reads, and faults.

Three processes: P0 renders requests and is the only writer; P1 schedules them; the workers are the readers. The calls
of the released store are `Render` (is it cached?), `Touch`, `GetCached`, `Put`, `Release`, `FreeUnused`, `Clear`,
`ReaderTouch` and `Read`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.object_store.configuration import Config, Content, Position, Reader, Request

STORE = ("P0", "store")


@dataclass(frozen=True, slots=True)
class Render(Operation):
    """P0 starts rendering a request; returns 1 for each item that is in the store."""

    lane: ClassVar[tuple[str, str]] = STORE
    request: Request


@dataclass(frozen=True, slots=True)
class Touch(Operation):
    """P0 touches an item before it walks the request, so that the walk does not free it."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    setting: ClassVar[str] = "touches"
    request: Request
    position: Position


@dataclass(frozen=True, slots=True)
class GetCached(Operation):
    """P0 finds the item in the store and issues a handle. Returns address and id."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    returns: ClassVar[tuple[str, ...]] = ("address", "id")
    request: Request
    position: Position


@dataclass(frozen=True, slots=True)
class Put(Operation):
    """P0 stores the item and issues a handle, or sends it outside the store. Returns address and id."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    returns: ClassVar[tuple[str, ...]] = ("address", "id")
    request: Request
    position: Position


@dataclass(frozen=True, slots=True)
class Store(Operation):
    """A memory store of the item being written becomes visible: the header (0) or the data (1)."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P0", "memory")
    setting: ClassVar[str] = "stores"
    part: int
    """0: the header; 1: the data behind it."""


@dataclass(frozen=True, slots=True)
class Release(Operation):
    """After its walks, P0 ends the protection of items touched and not looked up. ABSENT during a walk."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    setting: ClassVar[str] = "touches"


@dataclass(frozen=True, slots=True)
class Send(Operation):
    """P0 sends the request, with its handles, to P1."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P0", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class Reject(Operation):
    """P0 drops the request before sending it: it is invalid, the queue is full, or the client has disconnected."""

    lane: ClassVar[tuple[str, str]] = ("client", "P0")
    setting: ClassVar[str] = "rejects"
    request: Request


@dataclass(frozen=True, slots=True)
class Forge(Operation):
    """A client sends a request whose first item has a forged handle to another content's chunk."""

    lane: ClassVar[tuple[str, str]] = ("client", "P1")
    setting: ClassVar[str] = "forges"
    request: Request
    content: Content


@dataclass(frozen=True, slots=True)
class Schedule(Operation):
    """P1 sends the request to all workers."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "workers")
    request: Request
    covered: int
    """Items, from the first on, that lie in the prefix that is cached already."""


@dataclass(frozen=True, slots=True)
class Repeat(Operation):
    """The message that sent a request to the workers reaches each of them a second time."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("fault", "workers")
    setting: ClassVar[str] = "repeats"
    request: Request


@dataclass(frozen=True, slots=True)
class Preempt(Operation):
    """P1 preempts a running request; it loses its blocks and waits again."""

    lane: ClassVar[tuple[str, str]] = ("P1", "P1")
    setting: ClassVar[str] = "preempts"
    request: Request


@dataclass(frozen=True, slots=True)
class Resume(Operation):
    """P1 sends a preempted request to all workers again."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "workers")
    setting: ClassVar[str] = "preempts"
    request: Request


@dataclass(frozen=True, slots=True)
class Finish(Operation):
    """P1 finishes a running request after every worker has executed it."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    """P1 aborts a request in any state."""

    lane: ClassVar[tuple[str, str]] = ("client", "P1")
    setting: ClassVar[str] = "aborts"
    request: Request


@dataclass(frozen=True, slots=True)
class End(Operation):
    """P0 learns that a request has finished or was aborted; every request is reported once."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "P0")
    request: Request


@dataclass(frozen=True, slots=True)
class ReaderTouch(Operation):
    """A worker touches the next item of a request before it reads any item of that request."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "store")
    setting: ClassVar[str] = "touches"
    reader: Reader


@dataclass(frozen=True, slots=True)
class Read(Operation):
    """A worker reads its next item in one step. Returns the content whose bytes it got."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "store")
    returns: ClassVar[tuple[str, ...]] = ("content",)
    reader: Reader

    @classmethod
    def ruled_out(cls, config: Config) -> str:
        return "stepwise = 1: reading is three steps" if config.stepwise else ""


@dataclass(frozen=True, slots=True)
class Look(Operation):
    """A worker starts to read: it checks that the chunk is the one that the handle names."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "memory")
    setting: ClassVar[str] = "stepwise"
    reader: Reader


@dataclass(frozen=True, slots=True)
class Copy(Operation):
    """A worker copies the bytes of the chunk."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "memory")
    setting: ClassVar[str] = "stepwise"
    reader: Reader


@dataclass(frozen=True, slots=True)
class Acknowledge(Operation):
    """A worker acknowledges the handle and uses what it copied. Returns the content whose bytes it got."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "memory")
    returns: ClassVar[tuple[str, ...]] = ("content",)
    setting: ClassVar[str] = "stepwise"
    reader: Reader


@dataclass(frozen=True, slots=True)
class FreeUnused(Operation):
    """P0 frees the oldest chunks without outstanding handles. Returns their ids."""

    lane: ClassVar[tuple[str, str]] = STORE
    returns: ClassVar[tuple[str, ...]] = ("id",)
    setting: ClassVar[str] = "reclaims"


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """P0 forgets every item, even if handles are in flight."""

    lane: ClassVar[tuple[str, str]] = STORE
    setting: ClassVar[str] = "clears"


@dataclass(frozen=True, slots=True)
class Die(Operation):
    """A worker dies with its unread items; a new worker replaces it, and P1 starts over."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("fault", "worker")
    setting: ClassVar[str] = "deaths"
    reader: Reader


@dataclass(frozen=True, slots=True)
class Restart(Operation):
    """P0 dies and loses its private state; shared memory and sent messages remain."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("fault", "P0")
    setting: ClassVar[str] = "restarts"


OPERATIONS: tuple[type[Operation], ...] = (
    Render,
    Touch,
    GetCached,
    Put,
    Store,
    Release,
    Send,
    Reject,
    Forge,
    Schedule,
    Repeat,
    Preempt,
    Resume,
    Finish,
    Abort,
    End,
    ReaderTouch,
    Read,
    Look,
    Copy,
    Acknowledge,
    FreeUnused,
    Clear,
    Die,
    Restart,
)
