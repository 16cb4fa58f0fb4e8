"""What our object stores have in common as targets, whatever they count.

One writer, and readers that have its segment attached, all in this process. What is around a store is played here:
which handles a request has, and what each worker was sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from cacheimpl.object_store import ReleasedObjectStorage, SingleWriterShmObjectStorage
from cacheimpl.object_store.errors import StoreFullError, TooLargeError
from cacheimpl.object_store.serde import Serialized
from cacheproof.model.target import ByOperation, once_reset
from cachespec.kernel import ABSENT, DONE, REFUSED, TOO_LARGE, Code, Observation, Operation, Outcome
from cachespec.object_store import operations as calls
from cachespec.object_store.configuration import Config, content_of

MARK = 0xA0
"""The bytes of content 0; of content 1 they are one more. Four of them are no count: as a number they are negative."""


class ContentSerde:
    """A content as so many bytes, all alike."""

    sizes: ClassVar[tuple[int, ...]]
    """Bytes of each content, with what the store writes before it itself."""
    flag_bytes: ClassVar[int]
    mark: ClassVar[int]

    def serialize(self, value: Any) -> Serialized:
        size = self.sizes[value] - self.flag_bytes
        return bytes([self.mark + value]) * size, size, b"", 0

    def deserialize(self, data_view: memoryview) -> int:
        """The content whose bytes these are; -1: of no single content."""
        found = set(bytes(data_view))
        return found.pop() - self.mark if len(found) == 1 else -1


def serde_of(sizes: tuple[int, ...], flag_bytes: int, mark: int = MARK) -> type[ContentSerde]:
    """A class of its own for each configuration: a store makes its serde of a class, without arguments."""
    return type("ContentSerde", (ContentSerde,), {"sizes": sizes, "flag_bytes": flag_bytes, "mark": mark})


class Handle(NamedTuple):
    """What P0 sends in the place of an item."""

    address: int
    identity: int
    signature: list[int]
    """Empty where an era signs nothing."""
    key: str


class Delivery(NamedTuple):
    """One thing that a worker has to do."""

    request: int
    position: int
    handle: Handle


class Payload(Protocol):
    """What the first step of reading finds."""

    @property
    def payload(self) -> memoryview:
        """Description and data, as they lie in the memory."""
        ...


S = TypeVar("S", SingleWriterShmObjectStorage, ReleasedObjectStorage)
L = TypeVar("L", bound=Payload)
W = TypeVar("W", bound="Worker[Any, Any]")


@dataclass
class Worker(Generic[S, L]):
    """What a worker process has beside the store."""

    store: S
    inbox: list[Delivery] = field(default_factory=list)
    looked: L | None = None
    copied: bytes | None = None

    def done(self) -> Delivery:
        """With what it was sent first."""
        self.looked = self.copied = None
        return self.inbox.pop(0)


class ObjectStoreTarget(ByOperation, ABC, Generic[S, W]):
    """One store in one configuration. An exception of the store is the outcome that it stands for."""

    def __init__(self) -> None:
        self._config: Config | None = None
        self._writer: S | None = None
        self.workers: list[W] = []
        self.handles: dict[int, list[tuple[int, Handle]]] = {}
        """What each request has, with the positions in it."""
        self.unit = 1
        """Bytes of a unit of the specification."""

    @abstractmethod
    def unit_of(self, config: Config) -> int:
        """Bytes of a unit. Raises `InputError` for a configuration that the store cannot be driven in."""

    @abstractmethod
    def opened(self, config: Config) -> S:
        """P0's side, with a new segment."""

    @abstractmethod
    def attached(self, reader: int) -> W:
        """A worker that begins, with its side of the store."""

    @abstractmethod
    def counts(self, identity: int) -> tuple[int, int]:
        """How many handles to a chunk were issued and still count, and how often it was acknowledged."""

    def signature_of(self, key: str) -> list[int]:
        """Of the handle that was issued last."""
        return self.writer.get_signature(key)

    @property
    def config(self) -> Config:
        """Raises `TargetError` before `reset`."""
        return once_reset(self._config)

    @property
    def writer(self) -> S:
        """P0's side. Raises `TargetError` before `reset`."""
        return once_reset(self._writer)

    def reset(self, config: Config) -> None:
        unit = self.unit_of(config)
        self.close()
        self.unit, self.handles = unit, {}
        self._writer = self.opened(config)
        self.workers = [self.attached(reader) for reader in range(config.readers)]
        self._config = config

    def observe(self) -> Mapping[str, Observation]:
        ring, books = self.writer.ring_buffer, self.writer.writer
        listed = sorted((int(key), identity) for key, (_, identity) in books.key_index.items())
        live = sorted(ring.metadata, key=lambda one: (one - ring.monotonic_id_start) % ring.ID_MAX)
        counts = [self.counts(identity) for identity in live]
        return {
            "contents": tuple(content for content, _ in listed),
            "ids": tuple(identity for _, identity in listed),
            "live": tuple(live),
            "places": tuple(ring.metadata[identity] % ring.data_buffer_size // self.unit for identity in live),
            "issued": tuple(issued for issued, _ in counts),
            "acknowledged": tuple(acknowledged for _, acknowledged in counts),
            "protected": tuple(identity for identity in live if identity in books.protected),
            "id_start": ring.monotonic_id_start,
            "id_end": ring.monotonic_id_end,
            "start": ring.data_buffer_start // self.unit,
            "end": ring.data_buffer_end // self.unit,
        }

    def close(self) -> None:
        for worker in self.workers:
            worker.store.close()
        if self._writer is not None:
            self._writer.close()
        self._writer, self._config, self.workers = None, None, []

    def key_of(self, operation: Any) -> str:
        """The content's name in the store."""
        return str(content_of(self.config, operation.request, operation.position))

    def has_to_do(self, request: int) -> bool:
        """Whether some worker has something left to do for the request."""
        return any(delivery.request == request for worker in self.workers for delivery in worker.inbox)

    def issued(self, operation: Any, code: Code, address: int, identity: int) -> Outcome:
        """The request has the handle."""
        key = self.key_of(operation)
        handle = Handle(address, identity, self.signature_of(key), key)
        self.handles[operation.request].append((operation.position, handle))
        return Outcome(code, (address // self.unit, identity))

    def deliver(self, request: int) -> None:
        """Every worker is sent each handle."""
        for worker in self.workers:
            worker.inbox += [Delivery(request, position, handle) for position, handle in self.handles[request]]

    # P0 -------------------------------------------------------------------------------------------------------------

    def _render(self, operation: calls.Render) -> Outcome:
        """Whether each item is there."""
        self.handles[operation.request] = []
        found = (self.writer.is_cached(str(content)) for content in self.config.requests[operation.request])
        return Outcome(Code.DONE, tuple(map(int, found)))

    def _touch(self, operation: calls.Touch) -> Outcome:
        """The call says nothing: whether the item was there is asked."""
        key = self.key_of(operation)
        self.writer.touch(key)
        return DONE if self.writer.is_cached(key) else ABSENT

    def _get_cached(self, operation: calls.GetCached) -> Outcome:
        """A hit."""
        return self.issued(operation, Code.HIT, *self.writer.get_cached(self.key_of(operation)))

    def _put(self, operation: calls.Put) -> Outcome:
        """Stored, no room, or too large."""
        key = self.key_of(operation)
        try:
            return self.issued(operation, Code.DONE, *self.writer.put(key, int(key)))
        except StoreFullError:
            return REFUSED
        except TooLargeError:
            return TOO_LARGE

    def _release(self, _: calls.Release) -> None:
        """Nothing is returned."""
        self.writer.release_touches()

    def _free_unused(self, _: calls.FreeUnused) -> Outcome:
        """Ids."""
        return Outcome(Code.DONE, self.writer.free_unused())

    def _clear(self, _: calls.Clear) -> None:
        """Nothing is returned."""
        self.writer.clear()

    # P1 and workers -------------------------------------------------------------------------------------------------

    def _nothing(self, _: Operation) -> Outcome:
        """Nobody tells the store."""
        return DONE

    _send = _abort = _nothing

    def _schedule(self, operation: calls.Schedule | calls.Repeat | calls.Resume) -> None:
        """Whatever is covered, every handle is sent."""
        self.deliver(operation.request)

    _repeat = _schedule

    def _when_done(self, operation: Any) -> Outcome:
        """Where a worker has something left to do for the request, P1 waits."""
        return ABSENT if self.has_to_do(operation.request) else DONE

    _preempt = _finish = _when_done

    def _copy(self, operation: calls.Copy) -> None:
        """The second step of reading."""
        worker = self.workers[operation.reader]
        assert worker.looked is not None
        worker.copied = bytes(worker.looked.payload)


def used(content: int) -> Outcome:
    """The bytes of one content, or of none in particular."""
    return Outcome(Code.HIT, (content,) if content >= 0 else ())
