"""The object store and its ring in one process: calls as the field's tests make them, and bad input."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Lock
from typing import Any
from uuid import uuid4

import pytest
import torch
from tests.impl.object_stores import LARGEST, RING, Handle, Stores, filled

from cacheimpl.object_store import SingleWriterShmObjectStorage
from cacheimpl.object_store.errors import (
    AlreadyStoredError,
    ForgedHandleError,
    NoLockError,
    NotStoredError,
    StaleHandleError,
    TooLargeError,
)
from cacheimpl.ring import SingleWriterShmRingBuffer, remove_stale, segment, stale_segments
from cacheimpl.ring.errors import ClosedError, InvalidSizeError, NoSpaceError, NotTheWriterError, ReaderTakenError

torch.set_num_threads(1)


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    yield made
    made.close()


# As the field's tests are written ------------------------------------------------------------------------------------


def test_the_ring_gives_and_takes_chunks() -> None:
    ring = SingleWriterShmRingBuffer(200, create=True)
    reader = SingleWriterShmRingBuffer(*ring.handle())
    first, second = ring.allocate_buf(80), ring.allocate_buf(80)
    assert (first, second) == ((0, 0), (80 + ring.MD_SIZE, 1))
    with pytest.raises(MemoryError):
        ring.allocate_buf(80)
    with ring.access_buf(first[0]) as (data, _):
        data[:5] = b"hello"
    with reader.access_buf(first[0]) as (data, metadata):
        assert bytes(data[:5]) == b"hello"
        assert metadata == (0, 80 + ring.MD_SIZE)
        assert len(data) == 80
    assert ring.byte2int(ring.int2byte(-7)) == -7
    assert list(ring.free_buf(lambda identity, data: identity == 0)) == [0]
    assert ring.metadata == {1: 88}
    assert (ring.monotonic_id_start, ring.monotonic_id_end) == (1, 2)
    assert (ring.data_buffer_start, ring.data_buffer_end) == (88, 176)
    assert ring.allocate_buf(80) == (200, 2)
    ring.clear()
    assert (ring.metadata, ring.monotonic_id_start, ring.monotonic_id_end) == ({}, 3, 3)
    assert (ring.data_buffer_start, ring.data_buffer_end) == (0, 0)
    with pytest.raises(NotTheWriterError):
        reader.allocate_buf(1)
    reader.close()
    ring.close()
    with pytest.raises(NotTheWriterError):
        ring.allocate_buf(1)
    with pytest.raises(ClosedError), reader.access_buf(0):
        pass


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(12.0).reshape(3, 4),
        torch.tensor(3, dtype=torch.bfloat16),
        torch.empty(0, 3),
        {"pixels": torch.ones(5, dtype=torch.bool), "grid": (1, 2, 3), "path": [None, 1.5, "é", b"\0"]},
        "text",
    ],
)
def test_what_is_put_is_got(stores: Stores, value: Any) -> None:
    handle = stores.put("key", value)
    assert stores.writer.is_cached("key")
    assert repr(stores.writer.get(*handle[:2])) == repr(value)
    for reader in stores.readers:
        assert repr(reader.get(*handle)) == repr(value)
    assert stores.writer.default_is_free_check(handle[1], memoryview(b""))


def test_a_key_is_any_text(stores: Stores) -> None:
    for key in ("", "é" * 300, "half a pair \ud800"):
        handle = stores.put(key, [7])
        assert stores.readers[0].get(*handle) == [7]
        with pytest.raises(ForgedHandleError):
            stores.readers[0].get(*handle[:3], f"{key} ")


def test_a_chunk_is_no_larger_than_its_size_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bytes with a sign; nothing is written to the memory and nothing reserved, so it takes none."""
    monkeypatch.setattr(segment, "reserve", lambda descriptor, first, nbytes: None)
    try:
        ring = SingleWriterShmRingBuffer(2**31 + 4096, create=True)
    except NoSpaceError:
        pytest.skip("there is no room for a ring of two GiB")
    store = SingleWriterShmObjectStorage(2**32, 1, ring)
    with pytest.raises(InvalidSizeError):
        ring.allocate_buf(2**31 - ring.MD_SIZE)
    with pytest.raises(TooLargeError):
        store.writer.put("key", (b"", 2**31, b"", 0), store.copy_to_buffer)
    assert (ring.metadata, ring.monotonic_id_end, ring.data_buffer_end) == ({}, 0, 0)
    store.close()


class Item(UserDict[str, torch.Tensor]):
    """An object of a class, as an engine has them."""


def test_tensors_of_an_object_lie_beside_it(stores: Stores) -> None:
    pixels = torch.randn(8, 8)
    handle = stores.put("key", Item(pixels=pixels))
    with stores.readers[0].view(*handle) as found:
        inside = found["pixels"]
        assert torch.equal(inside, pixels)
        base = torch.frombuffer(stores.readers[0].ring_buffer.segment.memory, dtype=torch.uint8)
        assert 0 <= inside.data_ptr() - base.data_ptr() < len(base)
        assert inside.data_ptr() % 64 == 0
    assert stores.readers[1].get(*handle)["pixels"].data_ptr() - base.data_ptr() not in range(len(base))


def test_the_errors_of_the_field(stores: Stores) -> None:
    stores.put("key")
    with pytest.raises(ValueError, match="already exists"):
        stores.writer.put("key", filled("key"))
    with pytest.raises(ValueError, match=f"exceeds max object size .* {LARGEST} bytes"):
        stores.writer.put("large", filled("large", LARGEST))
    with pytest.raises(KeyError):
        stores.writer.get_cached("nothing")
    handle = stores.writer.handle()
    with pytest.raises(ValueError, match="lock"):
        SingleWriterShmObjectStorage.create_from_handle(handle)
    with pytest.raises(NotTheWriterError):
        stores.readers[0].put("other", filled("other"))
    with pytest.raises(NoLockError):
        _ = stores.writer.reader


def test_a_lock_is_kept_and_never_taken(stores: Stores) -> None:
    handle = stores.put("key")
    stores.readers[0].close()
    lock = Lock()
    lock.acquire()
    described = stores.writer.handle()
    described.reader_lock = lock  # as the field's tests do
    reader = SingleWriterShmObjectStorage.create_from_handle(described)
    assert torch.equal(reader.get(*handle), filled("key"))
    assert reader.handle().reader_lock is lock
    reader.close()


def test_readers_are_numbered(stores: Stores) -> None:
    described = stores.writer.handle()
    assert stores.writer.readers_alive() == (True, True)
    with pytest.raises(ReaderTakenError):
        SingleWriterShmObjectStorage.create_from_handle(described, reader=1)
    with pytest.raises(ReaderTakenError, match="waits for 2"):
        SingleWriterShmObjectStorage.create_from_handle(replace(described, n_readers=3), reader=2)
    stores.readers[0].close()
    assert stores.writer.readers_alive() == (False, True)


def test_a_reader_goes_on_with_the_next_writer() -> None:
    """And with the one after that; what the writer before last issued is gone."""
    name = f"cacheproof-test-{uuid4().hex[:12]}"
    attach, handles = SingleWriterShmObjectStorage.create_from_handle, []
    readers: list[SingleWriterShmObjectStorage] = []
    for number in range(3):
        ring = SingleWriterShmRingBuffer(RING, name, create=True)
        writer = SingleWriterShmObjectStorage(LARGEST, 1, ring)
        readers = readers or [attach(writer.handle(), reader=0)]
        (reader,) = readers
        key = "abc"[number]
        handles.append((*writer.put(key, filled(key)), writer.get_signature(key), key))
        if number > 0:
            other = attach(writer.handle(), reader=0)
            with pytest.raises(ReaderTakenError):
                reader.get(*handles[-1])
            other.close()
        assert torch.equal(reader.get(*handles[-1]), filled(key))
        assert writer.free_unused() == (0,)
        ring.segment._locks.close()  # as if its process were killed
    with pytest.raises(StaleHandleError, match="another writer"):
        reader.get(*handles[0])
    assert torch.equal(reader.get(*handles[1]), filled("b"))
    assert name in stale_segments()
    remove_stale(name)
    with pytest.raises(StaleHandleError, match="is gone"):
        reader.get(*handles[0])
    reader.close()


# Bad input ----------------------------------------------------------------------------------------------------------


BAD: dict[str, Callable[[Handle], tuple[Any, ...]]] = {
    "no signature": lambda handle: (*handle[:2], None, handle[3]),
    "no key": lambda handle: (*handle[:3], None),
    "another key": lambda handle: (*handle[:3], "other"),
    "another address": lambda handle: (handle[0] + 64, *handle[1:]),
    "another lap": lambda handle: (handle[0] + RING, *handle[1:]),
    "a negative address": lambda handle: (-1, *handle[1:]),
    "an address that is no integer": lambda handle: ("0", *handle[1:]),
    "a huge address": lambda handle: (2**80, *handle[1:]),
    "another id": lambda handle: (handle[0], handle[1] + 1, *handle[2:]),
    "a short signature": lambda handle: (*handle[:2], handle[2][:-1], handle[3]),
    "a signature of no bytes": lambda handle: (*handle[:2], [300, *handle[2][1:]], handle[3]),
    "another seal": lambda handle: (*handle[:2], [*handle[2][:-1], handle[2][-1] ^ 1], handle[3]),
    "another number": lambda handle: (*handle[:2], [*handle[2][:12], handle[2][12] ^ 1, *handle[2][13:]], handle[3]),
    "another generation": lambda handle: (*handle[:2], [*handle[2][:4], handle[2][4] ^ 1, *handle[2][5:]], handle[3]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_handle_that_was_made_up_is_refused(stores: Stores, name: str) -> None:
    handle = stores.put("key")
    bad, before = BAD[name](handle), stores.books()
    cells = bytes(stores.ring.segment.cells(0))
    with pytest.raises((ForgedHandleError, StaleHandleError)):
        stores.readers[0].get(*bad)
    with pytest.raises(ForgedHandleError):
        stores.writer.verify_signature(bad[3], *bad[:3])
    with pytest.raises(ForgedHandleError):
        stores.writer.revoke(*bad)
    assert stores.books() == before
    assert bytes(stores.ring.segment.cells(0)) == cells
    assert torch.equal(stores.readers[0].get(*handle), filled("key"))


def test_a_handle_that_is_not_out_passes_no_more(stores: Stores) -> None:
    handle = stores.put("key")
    stores.writer.verify_signature(handle[3], *handle[:3])
    stores.end(handle)
    with pytest.raises(ForgedHandleError):
        stores.writer.verify_signature(handle[3], *handle[:3])


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "8"])
def test_a_size_is_a_positive_integer(stores: Stores, size: Any) -> None:
    before = stores.books()
    with pytest.raises(ValueError, match="size, the bytes of a chunk"):
        stores.ring.allocate_buf(size)
    assert stores.books() == before


def test_other_bad_calls_change_nothing(stores: Stores) -> None:
    stores.put("key")
    before = stores.books()
    for error, call in (
        (AlreadyStoredError, lambda: stores.writer.put("key", 1)),
        (TooLargeError, lambda: stores.writer.put("large", filled("x", 5000))),
        (NotStoredError, lambda: stores.writer.get_signature("other")),
        (NotStoredError, lambda: stores.writer.get(0, 7)),
    ):
        with pytest.raises(error):
            call()
    assert stores.books() == before
    stores.writer.touch("other")
    assert stores.books() == before
