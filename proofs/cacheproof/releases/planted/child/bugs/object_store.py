"""Bugs in the object store in shared memory."""

from __future__ import annotations

from typing import Any

from .declaring import Place, meanwhile

STORE = Place("vllm.distributed.device_communicators.shm_object_storage:SingleWriterShmObjectStorage")
PROTECTING = "0.33.0"
"""From then on a touch protects and handles are signed; before, a touch counted as one more use."""


@STORE.broken("increment_reader_flag")
def reading_does_not_count(released: Any, store: Any, count: Any) -> Any:
    """A reader does not acknowledge."""


@STORE.broken("increment_reader_flag")
def reading_counts_twice(released: Any, store: Any, count: Any) -> Any:
    """A reader acknowledges twice, so an item can be freed before another reader has read it."""
    released(count)
    released(count)


@STORE.broken("increment_writer_flag")
def second_use_does_not_count(released: Any, store: Any, identity: int) -> Any:
    """An item that is used again is counted once."""
    if identity not in store.writer_flag:
        released(identity)


@STORE.broken("default_is_free_check")
def one_reader_is_enough(released: Any, store: Any, identity: int, payload: Any) -> Any:
    """An item may be freed once one of several readers has read it."""
    with meanwhile(store, n_readers=1):
        return released(identity, payload)


@STORE.broken("default_is_free_check")
def one_reading_more(released: Any, store: Any, identity: int, payload: Any) -> Any:
    """An item stays until it was read once more often than it was sent."""
    free = released(identity, payload)
    count = store.ring_buffer.byte2int(bytes(payload[: store.flag_bytes]))
    return free and count > store.writer_flag[identity] * store.n_readers


@STORE.broken("default_is_free_check", since=PROTECTING)
def protected_goes(released: Any, store: Any, identity: int, payload: Any) -> Any:
    """A touched item may be freed before it is looked up."""
    with meanwhile(store, _touched=set()):
        return released(identity, payload)


@STORE.broken("free_unused")
def freed_is_still_found(released: Any, store: Any) -> Any:
    """An item that was freed is still found under its key."""
    before = dict(store.key_index)
    released()
    store.key_index.update({key: place for key, place in before.items() if key not in store.key_index})


@STORE.broken("free_unused")
def half_is_freed(released: Any, store: Any) -> Any:
    """Room is made for half of the largest item."""
    with meanwhile(store, max_object_size=store.max_object_size // 4):
        released()


@STORE.broken("free_unused")
def all_is_freed(released: Any, store: Any) -> Any:
    """Making room frees every item that may be freed."""
    for _ in range(len(store.key_index) + 1):
        released()


@STORE.broken("put")
def no_item_is_too_large(released: Any, store: Any, key: str, value: Any) -> Any:
    """Items that are too large are taken."""
    with meanwhile(store, max_object_size=1 << 30):
        return released(key, value)


@STORE.broken("put")
def always_frees_first(released: Any, store: Any, key: str, value: Any) -> Any:
    """Every put frees items, even if there is room."""
    store.free_unused()
    return released(key, value)


@STORE.broken("copy_to_buffer")
def first_byte_is_left_out(
    released: Any, store: Any, data: Any, size: int, metadata: Any, metadata_size: int, into: Any
) -> Any:
    """The first byte of an item is not written."""
    before = bytes(into[: len(into) - size + 1])
    released(data, size, metadata, metadata_size, into)
    into[: len(before)] = before


@STORE.broken("get_cached", since=PROTECTING)
def protected_for_ever(released: Any, store: Any, key: str) -> Any:
    """A touched item stays protected after it is looked up."""
    touched = set(store._touched)
    place = released(key)
    store._touched.update(touched)
    return place


@STORE.broken("release_touches", since=PROTECTING)
def touches_stay(released: Any, store: Any) -> Any:
    """A touched item that is never looked up stays protected after the request."""


@STORE.broken("touch", since="0.20.2")
def touch_does_nothing(released: Any, store: Any, key: str, *given: Any, **named: Any) -> Any:
    """P0 does not protect what it touches."""
    return released(key, *given, **named) if not store.is_writer else None


@STORE.broken("_validate_monotonic_id", since=PROTECTING)
def any_id_is_right(released: Any, store: Any, *given: Any) -> Any:
    """Readers do not check whether another item has taken the place."""


@STORE.broken("_verify_reader_signature", since=PROTECTING)
def any_signature_is_right(released: Any, store: Any, *given: Any) -> Any:
    """A signature is never checked."""


@STORE.broken("verify_signature", since=PROTECTING)
def writer_takes_any_handle(released: Any, store: Any, *given: Any) -> Any:
    """P0 accepts a handle that it never issued."""
    return None if store.is_writer else released(*given)


@STORE.broken("clear")
def keys_stay(released: Any, store: Any) -> Any:
    """After a reset, items are still found under their keys."""
    keys = dict(store.key_index)
    released()
    store.key_index.update(keys)
