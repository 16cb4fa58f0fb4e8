"""Bugs in the shared-memory ring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .declaring import Place

RING = Place("vllm.distributed.device_communicators.shm_object_storage:SingleWriterShmRingBuffer")
ZEROED = "0.20.2"
"""From then on, a ring that is empty begins again at its start."""


@RING.broken("allocate_buf")
def one_byte_overlaps(released: Any, ring: Any, size: int) -> Any:
    """A chunk may overlap the oldest one by a byte."""
    ring.data_buffer_start += 1
    try:
        return released(size)
    finally:
        ring.data_buffer_start -= 1


@RING.broken("allocate_buf")
def last_byte_is_not_used(released: Any, ring: Any, size: int) -> Any:
    """A chunk that would end exactly at the end of the memory begins at its start instead."""
    lap = ring.data_buffer_size
    if (ring.data_buffer_end + size + ring.MD_SIZE) % lap == 0 and size + ring.MD_SIZE < lap:
        before, ring.data_buffer_end = ring.data_buffer_end, (ring.data_buffer_end // lap + 1) * lap
        try:
            return released(size)
        except MemoryError:
            ring.data_buffer_end = before
            raise
    return released(size)


@RING.broken("allocate_buf")
def ids_go_on(released: Any, ring: Any, size: int) -> Any:
    """Ids do not wrap around."""
    place = released(size)
    ring.monotonic_id_end = ring.monotonic_id_end or ring.ID_MAX
    return place


@RING.broken("allocate_buf")
def id_is_used_twice(released: Any, ring: Any, size: int) -> Any:
    """Every second chunk gets the id of the previous chunk."""
    address, identity = released(size)
    if identity % 2 == 0:
        ring.monotonic_id_end = identity
    return address, identity


@RING.broken("allocate_buf")
def refusal_moves_the_end(released: Any, ring: Any, size: int) -> Any:
    """A refused allocation still moves the end."""
    try:
        return released(size)
    except MemoryError:
        ring.data_buffer_end += size
        raise


@RING.broken("byte2int")
def greatest_byte_first(released: Any, ring: Any, given: Any) -> Any:
    """Readers use the wrong byte order."""
    return released(bytes(given) if ring.is_writer else bytes(reversed(bytes(given))))


@RING.broken("access_buf")
def last_byte_is_not_read(released: Any, ring: Any, address: int) -> Any:
    """Readers get all but the last byte."""

    @contextmanager
    def shorter() -> Iterator[Any]:
        with released(address) as (payload, header):
            yield payload[: len(payload) - (not ring.is_writer)], header

    return shorter()


@RING.broken("access_buf")
def readers_do_not_wrap(released: Any, ring: Any, address: int) -> Any:
    """A reader always reads the chunk at the start of the memory."""
    return released(address if ring.is_writer else 0)


@RING.broken("free_buf")
def nobody_is_asked(released: Any, ring: Any, is_free: Callable[..., bool], want: Any = None) -> Any:
    """Chunks are freed while they are read."""
    return released(lambda identity, payload: True, want)


@RING.broken("free_buf")
def one_byte_more_is_freed(released: Any, ring: Any, is_free: Callable[..., bool], want: Any = None) -> Any:
    """A free takes one byte more than requested, which can free another chunk."""
    return released(is_free, None if want is None else want + 1)


@RING.broken("free_buf")
def only_one_is_freed(released: Any, ring: Any, is_free: Callable[..., bool], want: Any = None) -> Any:
    """A free takes one chunk, whatever the request."""
    return released(is_free, 1)


@RING.broken("free_buf")
def freed_is_not_told(released: Any, ring: Any, is_free: Callable[..., bool], want: Any = None) -> Any:
    """The freed ids are not returned."""
    released(is_free, want)
    return range(0)


@RING.broken("free_buf")
def start_stays(released: Any, ring: Any, is_free: Callable[..., bool], want: Any = None) -> Any:
    """A free does not move the start."""
    before = ring.data_buffer_start
    freed = released(is_free, want)
    ring.data_buffer_start = min(before, ring.data_buffer_end)
    return freed


@RING.broken("free_buf", since=ZEROED)
def empty_goes_on(released: Any, ring: Any, is_free: Callable[..., bool], want: Any = None) -> Any:
    """An emptied ring continues at its last position instead of the start of its memory."""
    before = ring.data_buffer_end
    freed = released(is_free, want)
    if not ring.metadata:
        ring.data_buffer_start = ring.data_buffer_end = before % ring.data_buffer_size
    return freed


@RING.broken("clear", since="0.33.0")
def ids_begin_again(released: Any, ring: Any) -> Any:
    """After a reset ids restart, so an old handle can name another chunk."""
    released()
    ring.monotonic_id_start = ring.monotonic_id_end = 0


@RING.broken("clear")
def end_stays(released: Any, ring: Any) -> Any:
    """A reset does not move the end."""
    before = ring.data_buffer_end
    released()
    ring.data_buffer_end = before
