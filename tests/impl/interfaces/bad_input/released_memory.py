"""The ring and the object store of an era: what is refused in the normative ones is refused here."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Any

import torch
from tests.impl.interfaces.bad_input.shared_memory import KEY, RING, SAYS, WRITER, close, entered, ring
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, always, count, one_of

from cacheimpl.object_store import ReleasedObjectStorage, StoreEra
from cacheimpl.object_store.errors import (
    AlreadyStoredError,
    NoLockError,
    NotInEraError,
    NotStoredError,
    StaleHandleError,
    TooLargeError,
)
from cacheimpl.ring import ReleasedRingBuffer, RingEra
from cacheimpl.ring.errors import NotTheWriterError, RingError, UnknownAddressError

ERAS: Sort = one_of(None, "M1", 1, StoreEra.STORE_2025_10)
STORE_ERAS: Sort = one_of(None, "M1", 1, RingEra.RING_2025_10)


def released_ring(size: int = 400, era: RingEra = RingEra.RING_2026_11) -> ReleasedRingBuffer:
    return ReleasedRingBuffer(size, create=True, era=era, max_readers=2)


def with_chunks() -> Any:
    made = released_ring()
    made.allocate_buf(100)
    made.allocate_buf(80)
    return made


RELEASED_RING = Face(
    ReleasedRingBuffer,
    with_chunks,
    RingError,
    {
        **RING.calls,
        "__init__": Call(
            lambda made: {"data_buffer_size": 400, "create": True, "era": RingEra.RING_2025_10},
            {
                "data_buffer_size": count(9),
                "name": one_of(3, 1.5, "", "a/b", "..", "nul\0", "x" * 300),
                "era": ERAS,
                "id_modulus": count(1, most=2**31),
                "max_readers": count(1),
            },
            {"create": "a flag"},
            says=SAYS,
        ),
        "access_buf": Call(
            lambda made: {"address": 0},
            {"address": count(-(2**62))},
            misuse={"across the end": (UnknownAddressError, lambda made: entered(made.access_buf(395)))},
            says=SAYS,
        ),
    },
    RING.open,
    close,
)


def store(era: StoreEra = StoreEra.STORE_2026_11) -> Any:
    """`a` and `b` are there."""
    made: Any = ReleasedObjectStorage(1024, 1, released_ring(4096, RingEra(era.value)), reader_lock=Lock(), era=era)
    made.put("a", torch.ones(10))
    made.a = made.get_cached("a")
    if era is StoreEra.STORE_2026_11:
        made.a = (*made.a, made.get_signature("a"))
    made.put("b", torch.ones(10))
    return made


def handle_of(made: Any) -> dict[str, Any]:
    return dict(zip(("address", "monotonic_id", "signature"), made.a, strict=False))


SIGNATURE: Sort = {
    **one_of(None, 3, "text", [], [1] * 3, [None] * 32, [300] * 32, [1.5] * 32),
    "another byte": lambda good: [*good[:-1], good[-1] ^ 1],
}
NAMED: dict[str, Sort] = {
    "address": count(0),
    "monotonic_id": count(0),
    "signature": SIGNATURE,
    "key": KEY,
}

STORE = Face(
    ReleasedObjectStorage,
    store,
    RingError,
    {
        "__init__": Call(
            lambda made: {
                "max_object_size": 1024,
                "n_readers": 1,
                "ring_buffer": made.ring_buffer,
                "era": StoreEra.STORE_2026_11,
            },
            {
                **WRITER.calls["__init__"].bad,
                "ring_buffer": {**one_of(None, 3), "of another era": always(ring(4096))},
                "era": STORE_ERAS,
            },
            {"reader_lock": "a writer needs none"},
            works=False,
            says=(*SAYS, "ring_buffer"),
        ),
        **{name: WRITER.calls[name] for name in ("is_cached", "get_cached", "get_signature", "copy_to_buffer", "get")},
        "put": WRITER.calls["put"]._replace(
            misuse={
                "what is there": (AlreadyStoredError, lambda made: made.put("a", torch.ones(3))),
                "too large": (TooLargeError, lambda made: made.put("c", torch.ones(1000))),
            }
        ),
        "default_is_free_check": WRITER.calls["default_is_free_check"],
        "touch": Call(
            lambda made: {"key": "a", "address": 0, "monotonic_id": 0},
            {"key": one_of(None, 3, ["a"]), "address": count(-(2**62)), "monotonic_id": count(0)},
            {"signature": "the writer needs none"},
            says=SAYS,
        ),
        "verify_signature": Call(lambda made: {**handle_of(made), "key": "a"}, NAMED, says=SAYS),
        "create_from_handle": Call(
            lambda made: {"handle": made.handle()},
            {
                "handle": {
                    **one_of(None, 3, (1, 2)),
                    "of another size": lambda good: replace(good, ring_buffer_handle=(400, good.ring_buffer_handle[1])),
                    "for more readers": lambda good: replace(good, n_readers=2),
                    "without a lock": lambda good: replace(good, reader_lock=None),
                },
            },
            works=False,
            says=(*SAYS, "lock"),
        ),
    },
    dict.fromkeys(("free_unused", "release_touches", "clear", "close", "handle"), "takes nothing"),
    close,
)


def reader() -> Any:
    writer = store()
    made: Any = ReleasedObjectStorage.create_from_handle(writer.handle())
    made.others, made.a = (writer,), writer.a
    return made


def cleared() -> Any:
    """A handle from before a clearing, whose place another item has."""
    made = reader()
    (writer,) = made.others
    writer.clear()
    writer.put("c", torch.ones(20))
    return made


def without_lock(made: Any) -> Any:
    attached = ReleasedRingBuffer(*made.ring_buffer.handle(), era=RingEra.RING_2026_11)
    try:
        return ReleasedObjectStorage(1024, 1, attached, era=StoreEra.STORE_2026_11)
    finally:
        attached.close()


READER = Face(
    None,
    reader,
    RingError,
    {
        "get": Call(lambda made: {**handle_of(made), "key": "a"}, NAMED, says=SAYS),
        "touch": Call(lambda made: {**handle_of(made), "key": "a"}, NAMED, says=SAYS),
        "put": Call(
            lambda made: {},
            misuse={
                "by a reader": (NotTheWriterError, lambda made: made.put("c", torch.ones(3))),
                "a handle from a reader": (NotTheWriterError, lambda made: made.get_cached("a")),
                "freed by a reader": (NotTheWriterError, lambda made: made.free_unused()),
                "without a lock": (NoLockError, without_lock),
            },
            works=False,
        ),
    },
    {},
    close,
)


STALE = Face(
    None,
    cleared,
    RingError,
    {
        "get": Call(
            lambda made: {},
            misuse={
                "of an item that is gone": (StaleHandleError, lambda made: made.get(*made.a, "a")),
                "to touch it": (StaleHandleError, lambda made: made.touch("a", *made.a)),
            },
            works=False,
        )
    },
    {},
    close,
)

EARLY = Face(
    None,
    lambda: store(StoreEra.STORE_2025_10),
    RingError,
    {
        "touch": Call(
            lambda made: {},
            misuse={
                "no touch": (NotInEraError, lambda made: made.touch("a")),
                "no signatures": (NotInEraError, lambda made: made.get_signature("a")),
                "none to verify": (NotInEraError, lambda made: made.verify_signature("a", 0, 0, [1] * 32)),
                "no protection": (NotInEraError, lambda made: made.release_touches()),
                "no such item": (NotStoredError, lambda made: made.get(0, 7)),
            },
            works=False,
        )
    },
    {},
    close,
)

PHANTOM = Face(
    None,
    lambda: ReleasedObjectStorage(1024, 1, released_ring(4096, RingEra.RING_2025_10), era=StoreEra.STORE_2025_10),
    RingError,
    {
        "free_unused": Call(
            lambda made: {},
            misuse={"the chunk that is none": (NotStoredError, lambda made: made.free_unused())},
            works=False,
        )
    },
    {},
    close,
)

FACES = {
    "ReleasedRingBuffer": RELEASED_RING,
    "ReleasedObjectStorage": STORE,
    "ReleasedObjectStorage, reader": READER,
    "ReleasedObjectStorage, stale": STALE,
    "ReleasedObjectStorage, 0.11.0": EARLY,
    "ReleasedObjectStorage, 0.11.0, empty": PHANTOM,
}
