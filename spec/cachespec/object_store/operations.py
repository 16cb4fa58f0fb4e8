"""What can happen: P0's calls on the store, the life of a request, the workers' reads, and faults.

Three processes: P0 renders requests and is the only writer; P1 schedules them; the workers are the readers. The calls
of the released store are `Render` (is it cached?), `Touch`, `GetCached`, `Put`, `Release`, `FreeUnused`, `Clear`,
`ReaderTouch` and `Read`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.kernel import Kind, Operation
from cachespec.object_store.configuration import Content, Position, Reader, Request

STORE = ("P0", "store")


@dataclass(frozen=True, slots=True)
class Render(Operation):
    """P0 begins with a request: returns for each item 1 where it is in the store."""

    lane: ClassVar[tuple[str, str]] = STORE
    request: Request


@dataclass(frozen=True, slots=True)
class Touch(Operation):
    """P0 touches the item before it walks the request, so that the walk itself does not free it."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    request: Request
    position: Position


@dataclass(frozen=True, slots=True)
class GetCached(Operation):
    """P0 walks: the item is in the store, and a handle to it is issued. Returns its address and id."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    request: Request
    position: Position


@dataclass(frozen=True, slots=True)
class Put(Operation):
    """P0 walks: the item is stored and a handle issued, or it is sent without the store. Returns address and id."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE
    request: Request
    position: Position


@dataclass(frozen=True, slots=True)
class Store(Operation):
    """One store of the item that P0 is writing becomes visible: the header (0) or the data behind it (1)."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P0", "memory")
    part: int


@dataclass(frozen=True, slots=True)
class Release(Operation):
    """The walk was given up: what was touched and not looked up is not protected any longer."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = STORE


@dataclass(frozen=True, slots=True)
class Send(Operation):
    """P0 sends the request, with its handles, to P1."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P0", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class Reject(Operation):
    """P0 gives the request up before it was sent: it is invalid, there are too many, or the client has gone."""

    lane: ClassVar[tuple[str, str]] = ("client", "P0")
    request: Request


@dataclass(frozen=True, slots=True)
class Forge(Operation):
    """A client sends a request whose first item has a handle that it made up, to the chunk of another content."""

    lane: ClassVar[tuple[str, str]] = ("client", "P1")
    request: Request
    content: Content


@dataclass(frozen=True, slots=True)
class Schedule(Operation):
    """P1 sends the request to all workers; its first `covered` items lie in the prefix that is cached already."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "workers")
    request: Request
    covered: int


@dataclass(frozen=True, slots=True)
class Preempt(Operation):
    """P1 takes a running request's blocks away; it waits again."""

    lane: ClassVar[tuple[str, str]] = ("P1", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class Resume(Operation):
    """P1 sends a preempted request to all workers once more."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "workers")
    request: Request


@dataclass(frozen=True, slots=True)
class Finish(Operation):
    """P1 is done with a running request; every worker had executed it."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    """P1 gives a request up, wherever it is."""

    lane: ClassVar[tuple[str, str]] = ("client", "P1")
    request: Request


@dataclass(frozen=True, slots=True)
class End(Operation):
    """P0 hears that a request has finished or was aborted, as it does of every request."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("P1", "P0")
    request: Request


@dataclass(frozen=True, slots=True)
class ReaderTouch(Operation):
    """A worker touches the next item that it was sent, before it reads any item of that request."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "store")
    reader: Reader


@dataclass(frozen=True, slots=True)
class Read(Operation):
    """A worker reads the next item that it was sent, in one step. Returns the content whose bytes it got."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "store")
    reader: Reader


@dataclass(frozen=True, slots=True)
class Look(Operation):
    """A worker begins to read: is this the chunk that the handle means?"""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "memory")
    reader: Reader


@dataclass(frozen=True, slots=True)
class Copy(Operation):
    """A worker copies the bytes that are there."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "memory")
    reader: Reader


@dataclass(frozen=True, slots=True)
class Acknowledge(Operation):
    """A worker acknowledges the handle and uses what it copied. Returns the content whose bytes it got."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    lane: ClassVar[tuple[str, str]] = ("worker", "memory")
    reader: Reader


@dataclass(frozen=True, slots=True)
class FreeUnused(Operation):
    """P0 frees the oldest chunks as far as nobody has a handle to them. Returns their ids."""

    lane: ClassVar[tuple[str, str]] = STORE


@dataclass(frozen=True, slots=True)
class Clear(Operation):
    """P0 forgets every item, whatever is on its way."""

    lane: ClassVar[tuple[str, str]] = STORE


@dataclass(frozen=True, slots=True)
class Die(Operation):
    """A worker dies, with what it was sent and has not read; another starts in its place, and P1 starts over."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("fault", "worker")
    reader: Reader


@dataclass(frozen=True, slots=True)
class Restart(Operation):
    """P0 dies, with everything that only it knew; shared memory stays, and what P1 and workers were sent."""

    kind: ClassVar[Kind] = Kind.FAULT
    lane: ClassVar[tuple[str, str]] = ("fault", "P0")


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
