"""What the object stores have in common, whatever they count: arguments, items as bytes, indices."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from cacheimpl.counts import whole
from cacheimpl.object_store.errors import InvalidArgumentError, NoLockError, SerdeError
from cacheimpl.object_store.serde import Buffer, MsgpackSerde, ObjectSerde, Serialized
from cacheimpl.object_store.writing import Copy
from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.errors import NotTheWriterError


class Books(Protocol):
    """What a writer keeps."""

    key_index: dict[str, tuple[int, int]]
    id_index: dict[int, str]
    issued: dict[int, int]

    def put(self, key: str, item: Serialized, copy: Copy) -> tuple[int, int]:
        """Store an item and issue a handle: its address and id."""
        ...

    def refuse_twice(self, key: str) -> None:
        """Raises `AlreadyStoredError`."""
        ...


W = TypeVar("W", bound=Books)
R = TypeVar("R")


class ObjectStorage(Generic[W, R]):
    """A store as one process has it: with books where it writes, and a side that reads elsewhere."""

    flag_bytes: int
    """Bytes before metadata and data, for what the store writes there itself."""

    def __init__(
        self,
        max_object_size: int,
        n_readers: int,
        ring_buffer: SingleWriterShmRingBuffer,
        serde_class: type[ObjectSerde] = MsgpackSerde,
        reader_lock: Any = None,
    ) -> None:
        """`max_object_size` in bytes. Raises `InvalidArgumentError`."""
        if not isinstance(ring_buffer, SingleWriterShmRingBuffer):
            raise InvalidArgumentError(f"ring_buffer must be a ring, not {type(ring_buffer).__name__}")
        if not all(callable(getattr(serde_class, name, None)) for name in ("serialize", "deserialize")):
            raise InvalidArgumentError(f"serde_class must have serialize and deserialize, not {serde_class!r}")
        if not isinstance(serde_class, type):
            raise InvalidArgumentError(f"serde_class must be a class, not {serde_class!r}")
        self.max_object_size = whole("max_object_size", max_object_size, InvalidArgumentError, least=1)
        self.n_readers = whole("n_readers", n_readers, InvalidArgumentError, least=1)
        self.serde_class, self.ser_de = serde_class, serde_class()
        self.ring_buffer, self.is_writer = ring_buffer, ring_buffer.is_writer
        self._reader_lock = reader_lock
        self._writer: W | None = None
        self._reader: R | None = None

    # What the field's tests and callers read

    @property
    def key_index(self) -> dict[str, tuple[int, int]]:
        """What is handed out: key to address and id."""
        return self.writer.key_index

    @property
    def id_index(self) -> dict[int, str]:
        """Live chunks, and the key of each."""
        return self.writer.id_index

    @property
    def writer_flag(self) -> dict[int, int]:
        """Live chunks, and how many handles to each are counted."""
        return self.writer.issued

    @property
    def writer(self) -> W:
        """The books. Raises `NotTheWriterError`."""
        if self._writer is None:
            raise NotTheWriterError("only the writer of the store can do this")
        return self._writer

    @property
    def reader(self) -> R:
        """The side that reads. Raises `NoLockError` at the writer."""
        if self._reader is None:
            raise NoLockError("the writer is none of the readers")
        return self._reader

    # The writer

    def is_cached(self, key: str) -> bool:
        """Whether a handle to this item can be issued. Changes nothing."""
        return checked_key(key) in self.writer.key_index

    def put(self, key: str, value: Any) -> tuple[int, int]:
        """Store an item and issue the first handle: address and id; its signature is `get_signature(key)`.

        Raises `AlreadyStoredError` and `TooLargeError` (`ValueError`), `StoreFullError` (`MemoryError`).
        """
        writer = self.writer
        if type(key) is not str:
            checked_key(key)
        if key in writer.key_index:
            writer.refuse_twice(key)
        return writer.put(key, self.ser_de.serialize(value), self.copy_to_buffer)

    def copy_to_buffer(
        self,
        data: Buffer | list[Buffer],
        data_bytes: int,
        metadata: bytes,
        md_bytes: int,
        data_view: memoryview,
    ) -> None:
        """Metadata behind the first `flag_bytes`, and the data behind that."""
        parts = data if isinstance(data, list) else [data]
        check_parts(parts, data_bytes, metadata, md_bytes)
        given: Any = data_view
        if type(given) is not memoryview or given.readonly:
            raise SerdeError(f"data_view must be a memoryview that can be written, not {type(data_view).__name__}")
        at = self.flag_bytes
        if len(data_view) < at + md_bytes + data_bytes:
            raise SerdeError(f"data_view has {len(data_view)} bytes, which are too few for {data_bytes} of data")
        for part in (metadata, *parts):
            behind = at + len(part)
            data_view[at:behind] = part
            at = behind


def checked_key(key: object) -> str:
    """A key. Raises `InvalidArgumentError` for what is no text."""
    if not isinstance(key, str):
        raise InvalidArgumentError(f"the key of an item must be a text, not {key!r}")
    return key


def no_item_there(address: int, identity: int) -> str:
    """What a caller hears that looks for an item where none is."""
    return f"Data for address:id '{address}:{identity}' has been modified or is invalid: no item is there under this id"


BYTES = (bytes, bytearray, memoryview)


def check_parts(parts: list[Any], data_bytes: int, metadata: Any, md_bytes: int) -> None:
    """Raises `SerdeError` unless data and metadata are bytes, and as many as the arguments name."""
    if type(data_bytes) is not int or type(md_bytes) is not int:
        data_bytes = whole("data_bytes", data_bytes, SerdeError, least=0)
        md_bytes = whole("md_bytes", md_bytes, SerdeError, least=0)
    given = 0
    for part in parts:
        if not isinstance(part, BYTES):
            raise SerdeError(f"data must be bytes, as `serialize` gives them, not {type(part).__name__}")
        given += len(part)
    if not isinstance(metadata, BYTES):
        raise SerdeError(f"metadata must be bytes, as `serialize` gives them, not {type(metadata).__name__}")
    if given != data_bytes or len(metadata) != md_bytes:
        raise SerdeError(f"data and metadata must have {data_bytes} and {md_bytes} bytes, as was said")
