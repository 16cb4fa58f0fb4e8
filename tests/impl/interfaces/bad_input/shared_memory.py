"""The ring and the object store in shared memory: the writer, a reader, handles, and the caches of the field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import torch
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, one_of

from cacheimpl.object_store import (
    MsgpackSerde,
    ShmObjectStorageHandle,
    SingleWriterShmObjectStorage,
)
from cacheimpl.object_store.errors import (
    AlreadyStoredError,
    ForgedHandleError,
    NoLockError,
    SerdeError,
    StaleHandleError,
    TooLargeError,
)
from cacheimpl.ring import SingleWriterShmRingBuffer, remove_stale
from cacheimpl.ring.errors import (
    NotTheWriterError,
    RingError,
    RingFullError,
    UnknownAddressError,
)

SMALL = {"max_readers": 2, "max_handles": 8}
SAYS = ("bytes", "chunk", "handle", "key", "item", "address", "signature", "segment", "reader", "header", "id")

# The ring -----------------------------------------------------------------------------------------------------------


def ring(size: int = 400, **more: Any) -> SingleWriterShmRingBuffer:
    return SingleWriterShmRingBuffer(size, create=True, **{**SMALL, **more})


def with_chunks() -> Any:
    made = ring()
    made.allocate_buf(100)
    made.allocate_buf(80)
    return made


def close(made: Any) -> None:
    for other in getattr(made, "others", ()):
        other.close()
    made.close()


def fresh_name() -> str:
    return f"bad_input_{uuid4().hex}"


RING = Face(
    SingleWriterShmRingBuffer,
    with_chunks,
    RingError,
    {
        "__init__": Call(
            lambda made: {"data_buffer_size": 400, "create": True, **SMALL},
            {
                "data_buffer_size": count(9),
                "name": one_of(3, 1.5, "", "a/b", "..", "nul\0", "x" * 300),
                "header_bytes": count(8),
                "id_modulus": count(1, most=2**31),
                "max_readers": count(1),
                "max_handles": count(1),
            },
            {"create": "a flag"},
            says=SAYS,
        ),
        "allocate_buf": Call(
            lambda made: {"size": 20},
            {"size": count(1, most=392)},
            misuse={"no room": (RingFullError, lambda made: made.allocate_buf(300))},
            says=SAYS,
        ),
        "access_buf": Call(
            lambda made: {"address": 0},
            {"address": count(0)},
            misuse={"across the end": (UnknownAddressError, lambda made: entered(made.access_buf(395)))},
            says=SAYS,
        ),
        "free_buf": Call(
            lambda made: {"is_free_fn": lambda identity, data: False, "nbytes": 10},
            {"is_free_fn": one_of(None, 3), "nbytes": count(0, optional=True)},
            says=SAYS,
        ),
        "clear": Call(lambda made: {"is_free_fn": lambda identity, data: False}, {"is_free_fn": one_of(3, "all")}),
        "strike_out": Call(
            lambda made: {"address": 0}, {"address": {**count(0), "where no chunk begins": always(50)}}, says=SAYS
        ),
        "int2byte": Call(lambda made: {"integer": 3}, {"integer": count(-(2**31), most=2**31 - 1)}),
        "byte2int": Call(lambda made: {"byte_data": b"1234"}, {"byte_data": one_of(None, 3, "text")}),
    },
    {"handle": "takes nothing", "close": "takes nothing", "drop_oldest": "takes nothing"},
    close,
)


def entered(context: Any) -> None:
    with context:
        pass


def attached() -> Any:
    """A reader's ring."""
    writer = with_chunks()
    made: Any = SingleWriterShmRingBuffer(*writer.handle())
    made.others = (writer,)
    return made


READERS_RING = Face(
    None,
    attached,
    RingError,
    {
        "allocate_buf": Call(
            lambda made: {},
            misuse={
                "by a reader": (NotTheWriterError, lambda made: made.allocate_buf(8)),
                "freeing": (NotTheWriterError, lambda made: made.free_buf(lambda identity, data: True)),
                "clearing": (NotTheWriterError, lambda made: made.clear()),
                "striking out": (NotTheWriterError, lambda made: made.strike_out(0)),
                "dropping": (NotTheWriterError, lambda made: made.drop_oldest()),
            },
            works=False,
        )
    },
    {},
    close,
)

EMPTY_RING = Face(
    None,
    ring,
    RingError,
    {
        "drop_oldest": Call(
            lambda made: {},
            misuse={"nothing is there": (UnknownAddressError, lambda made: made.drop_oldest())},
            works=False,
        )
    },
    {},
    close,
)

NO_NAMES: Sort = one_of(None, 3, "", "a/b", "..", "nul\0")
REMOVE = Face(
    remove_stale,
    lambda: remove_stale,
    RingError,
    {"__call__": Call(lambda made: {"name": fresh_name()}, {"name": NO_NAMES}, says=SAYS)},
)

# The store ----------------------------------------------------------------------------------------------------------


def store() -> Any:
    """`a` is there with one handle out, `b` with none; one handle was revoked."""
    made: Any = SingleWriterShmObjectStorage(1024, 1, ring(4096))
    made.put("a", torch.ones(10))
    made.a = (*made.get_cached("a"), made.get_signature("a"))
    made.put("b", torch.ones(10))
    made.revoked = (*made.get_cached("b"), made.get_signature("b"))
    made.revoke(*made.revoked, "b")
    made.foreign = elsewhere()
    return made


def elsewhere() -> Any:
    """A handle of another store, whose segment is gone."""
    other = SingleWriterShmObjectStorage(1024, 1, ring(4096))
    other.put("a", torch.ones(10))
    found = (*other.get_cached("a"), other.get_signature("a"))
    other.close()
    return found


def handle_of(made: Any) -> dict[str, Any]:
    return dict(zip(("address", "monotonic_id", "signature"), made.a, strict=True))


SIGNATURE: Sort = {
    **one_of(None, 3, "text", [], [1] * 3, [None] * 36, [300] * 36, [1.5] * 36),
    "another byte": lambda good: [*good[:-1], good[-1] ^ 1],
    "another cell": lambda good: [*good[:8], good[8] ^ 1, *good[9:]],
}
KEY: Sort = one_of(None, 3, ["a"], "z", "b")
NAMED: dict[str, Sort] = {"address": count(0), "monotonic_id": count(0), "signature": SIGNATURE, "key": KEY}


GONE = ShmObjectStorageHandle(9, 1, (400, fresh_name()), MsgpackSerde, None)


class NoSerde:
    """What is none."""


WRITER = Face(
    SingleWriterShmObjectStorage,
    store,
    RingError,
    {
        "__init__": Call(
            lambda made: {"max_object_size": 1024, "n_readers": 1, "ring_buffer": made.ring_buffer},
            {
                "max_object_size": count(1),
                "n_readers": count(1, most=2),
                "ring_buffer": one_of(None, 3),
                "serde_class": one_of(None, 3, NoSerde),
            },
            {"reader_lock": "kept and never taken", "reader": "a writer is none"},
            works=False,
            says=SAYS,
        ),
        "is_cached": Call(lambda made: {"key": "a"}, {"key": one_of(None, 3, ["a"])}, says=SAYS),
        "forget": Call(lambda made: {"key": "a"}, {"key": one_of(None, 3, ["a"])}, says=SAYS),
        "put": Call(
            lambda made: {"key": "c", "value": torch.ones(3)},
            {
                "key": one_of(None, 3, ["c"]),
                "value": {"a lambda": always(lambda: None), "of another device": always(torch.ones(3, device="meta"))},
            },
            misuse={
                "what is there": (AlreadyStoredError, lambda made: made.put("a", torch.ones(3))),
                "too large": (TooLargeError, lambda made: made.put("c", torch.ones(1000))),
                "no value": (SerdeError, lambda made: made.put("c", {"f": lambda: None})),
            },
            says=(*SAYS, "value"),
        ),
        "get_cached": Call(lambda made: {"key": "a"}, {"key": one_of(None, 3, ["a"], "z")}, says=SAYS),
        "get_signature": Call(lambda made: {"key": "a"}, {"key": one_of(None, 3, ["a"], "z")}, says=SAYS),
        "revoke": Call(
            lambda made: {**handle_of(made), "key": "a"},
            NAMED,
            misuse={
                "of another store": (ForgedHandleError, lambda made: made.revoke(*made.foreign, "a")),
            },
            says=SAYS,
        ),
        "default_is_free_check": Call(
            lambda made: {"id": 0, "buf": memoryview(b"")},
            {"id": {**count(0), "gone": always(99)}},
            {"buf": "not read"},
            says=SAYS,
        ),
        "copy_to_buffer": Call(
            lambda made: {
                "data": b"12",
                "data_bytes": 2,
                "metadata": b"3",
                "md_bytes": 1,
                "data_view": memoryview(bytearray(100)),
            },
            {
                "data": one_of(None, 3, b"1", [3]),
                "data_bytes": count(0),
                "metadata": one_of(None, 3, b"12"),
                "md_bytes": count(0),
                "data_view": one_of(None, 3, memoryview(b"read only"), memoryview(bytearray(3))),
            },
            says=(*SAYS, "data", "metadata"),
        ),
        "get": Call(
            lambda made: {"address": made.a[0], "monotonic_id": made.a[1]},
            {"address": {**count(0), "of nothing": always(8)}, "monotonic_id": {**count(0), "of nothing": always(99)}},
            {"signature": "the writer needs none", "key": "the writer needs none"},
            says=SAYS,
        ),
        "touch": Call(
            lambda made: {"key": "a"},
            {"key": one_of(None, 3, ["a"])},
            dict.fromkeys(("address", "monotonic_id", "signature"), "the writer needs none"),
            says=SAYS,
        ),
        "check_signature": Call(lambda made: {**handle_of(made), "key": "a"}, NAMED, says=SAYS),
        "verify_signature": Call(
            lambda made: {**handle_of(made), "key": "a"},
            NAMED,
            misuse={
                "a revoked handle": (ForgedHandleError, lambda made: verified(made, "revoked", "b")),
                "of another store": (ForgedHandleError, lambda made: verified(made, "foreign", "a")),
            },
            says=SAYS,
        ),
        "view": Call(
            lambda made: {**handle_of(made), "key": "a"},
            misuse={"by the writer": (NoLockError, lambda made: entered(made.view(*made.a, "a")))},
            free=dict.fromkeys(("address", "monotonic_id", "signature", "key"), "see the reader"),
            works=False,
        ),
        "create_from_handle": Call(
            lambda made: {"handle": made.handle(), "reader": 0},
            {
                "handle": {
                    **one_of(None, 3, (1, 2)),
                    "of a ring that is gone": always(
                        ShmObjectStorageHandle(9, 1, (400, fresh_name()), MsgpackSerde, None)
                    ),
                    "of another size": lambda good: replace(good, ring_buffer_handle=(400, good.ring_buffer_handle[1])),
                    "for more readers": lambda good: replace(good, n_readers=2),
                },
                "reader": {
                    **count(0, most=0, optional=True),
                },
            },
            works=False,
            says=(*SAYS, "lock"),
        ),
    },
    dict.fromkeys(("free_unused", "readers_alive", "release_touches", "clear", "close", "handle"), "takes nothing"),
    close,
)


def verified(made: Any, which: str, key: str) -> None:
    address, identity, signature = getattr(made, which)
    made.verify_signature(key, address, identity, signature)


def reader() -> Any:
    writer = store()
    made: Any = SingleWriterShmObjectStorage.create_from_handle(writer.handle(), reader=0)
    made.others, made.a, made.revoked, made.foreign = (writer,), writer.a, writer.revoked, writer.foreign
    gone = writer.put("gone", torch.ones(3))
    made.gone = (*gone, writer.get_signature("gone"))
    return made


READER = Face(
    None,
    reader,
    RingError,
    {
        "get": Call(
            lambda made: {**handle_of(made), "key": "a"},
            NAMED,
            misuse={"of another store": (StaleHandleError, lambda made: made.get(*made.foreign, "a"))},
            says=SAYS,
        ),
        "view": Call(
            lambda made: {**handle_of(made), "key": "a"},
            NAMED,
            misuse={"of another store": (StaleHandleError, lambda made: entered(made.view(*made.foreign, "a")))},
            says=SAYS,
        ),
        "touch": Call(lambda made: {**handle_of(made), "key": "a"}, NAMED, says=SAYS),
        "verify_signature": Call(lambda made: {**handle_of(made), "key": "a"}, NAMED, says=SAYS),
        "put": Call(
            lambda made: {},
            misuse={
                "by a reader": (NotTheWriterError, lambda made: made.put("c", torch.ones(3))),
                "a handle from a reader": (NotTheWriterError, lambda made: made.get_cached("a")),
                "revoked by a reader": (NotTheWriterError, lambda made: made.revoke(*made.a, "a")),
                "freed by a reader": (NotTheWriterError, lambda made: made.free_unused()),
            },
            works=False,
        ),
    },
    {},
    close,
)


FACES = {
    "SingleWriterShmRingBuffer": RING,
    "SingleWriterShmRingBuffer, reader": READERS_RING,
    "SingleWriterShmRingBuffer, empty": EMPTY_RING,
    "remove_stale": REMOVE,
    "SingleWriterShmObjectStorage": WRITER,
    "SingleWriterShmObjectStorage, reader": READER,
}
