"""What an engine's tests ask of the ring and of the object store in shared memory; `api` has ours, or a release's.

Standard library only. A ring has 400 bytes and a store 4,096 where nothing else is said; an item is bytes; a store has
two readers in the same process.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def call(api: Any, owner: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """A method that some releases lack."""
    return getattr(owner, name, api.absent)(*arguments, **named)


def written(ring: Any, content: bytes) -> tuple[int, int]:
    address, identity = ring.allocate_buf(len(content))
    with ring.access_buf(address) as (data, _):
        data[:] = content
    return int(address), int(identity)


def error_of(run: Any) -> type[Exception] | None:
    try:
        run()
    except Exception as error:  # noqa: BLE001  # which one is the question
        return type(error)
    return None


def anything(identity: int, data: Any) -> bool:
    return True


def full(api: Any, store: Any) -> list[Any]:
    """Items are put until there is no room; their handles."""
    handles: list[Any] = []
    with suppress(MemoryError):
        while len(handles) < 100:
            key = f"item {len(handles)}"
            handles.append(api.handle(store.writer, key, *store.writer.put(key, bytes(700))))
    return handles


# The ring -----------------------------------------------------------------------------------------------------------


def case_a_new_ring_has_no_chunk(api: Any) -> None:
    ring = api.ring()
    assert ring.metadata == {}
    assert (ring.data_buffer_start, ring.data_buffer_end) == (0, 0)
    assert (ring.monotonic_id_start, ring.monotonic_id_end) == (0, 0)
    assert ring.is_writer


def case_what_is_written_is_read_where_the_segment_is_attached(api: Any) -> None:
    ring = api.ring()
    reader = api.attached(ring)
    address, identity = written(ring, b"first")
    other, following = written(ring, b"second")
    with reader.access_buf(address) as (data, (found, size)):
        assert (bytes(data), found, size) == (b"first", identity, 5 + ring.MD_SIZE)
    with reader.access_buf(other) as (data, (found, _)):
        assert (bytes(data), found) == (b"second", following)
    assert (identity, following, other - address) == (0, 1, 5 + ring.MD_SIZE)
    assert not reader.is_writer


def case_a_handle_says_how_to_attach(api: Any) -> None:
    ring = api.ring()
    size, name = ring.handle()
    assert (size, name) == (400, ring.shared_memory.name)


def case_what_has_no_room_is_an_error_of_memory(api: Any) -> None:
    ring = api.ring()
    written(ring, bytes(300))
    assert error_of(lambda: ring.allocate_buf(200)) in api.NO_ROOM
    assert len([one for one in ring.metadata if one == 0]) == 1


def case_more_than_the_ring_has_is_an_error(api: Any) -> None:
    assert error_of(lambda: api.ring().allocate_buf(1000)) is not None


def case_chunks_are_freed_from_the_oldest_on(api: Any) -> None:
    ring = api.ring()
    ids = [written(ring, bytes(40))[1] for _ in range(4)]
    asked: list[int] = []

    def until_the_third(identity: int, data: Any) -> bool:
        asked.append(identity)
        return identity != ids[2]

    assert list(ring.free_buf(until_the_third)) == ids[:2]
    assert asked == ids[:3]
    assert sorted(ring.metadata) == ids[2:]


def case_no_more_is_freed_than_is_asked_for(api: Any) -> None:
    ring = api.ring()
    ids = [written(ring, bytes(40))[1] for _ in range(4)]
    assert list(ring.free_buf(anything, 40 + ring.MD_SIZE)) == ids[:1]
    assert list(ring.free_buf(anything, 50 + ring.MD_SIZE)) == ids[1:3]


def case_a_ring_goes_round_for_ever(api: Any) -> None:
    """Chunks of several sizes, three in the ring at a time, over many laps."""
    ring, live = api.ring(), []
    for number in range(200):
        content = bytes([number % 251]) * (20 + number * 7 % 60)
        live.append((*written(ring, content), content))
        for address, identity, expected in live:
            with ring.access_buf(address) as (data, (found, _)):
                assert (bytes(data), found) == (expected, identity)
        if len(live) == 3:
            gone = live.pop(0)
            assert list(ring.free_buf(lambda identity, data, oldest=gone[1]: identity == oldest)) == [gone[1]]


def case_an_emptied_ring_is_as_good_as_new(api: Any) -> None:
    ring = api.ring()
    for _ in range(5):
        written(ring, bytes(300))
        ring.free_buf(anything)
        assert ring.metadata == {}


def case_clearing_leaves_no_chunk(api: Any) -> None:
    ring = api.ring()
    written(ring, bytes(40))
    written(ring, bytes(40))
    ring.clear()
    assert ring.metadata == {}
    assert (ring.data_buffer_start, ring.data_buffer_end) == (0, 0)
    written(ring, bytes(300))


def case_ids_go_on_after_clearing(api: Any) -> None:
    ring = api.ring()
    _, before = written(ring, bytes(40))
    ring.clear()
    assert written(ring, bytes(40))[1] == before + 1


def case_numbers_are_four_bytes(api: Any) -> None:
    ring = api.ring()
    for number in (0, 1, 2**31 - 1):
        assert ring.byte2int(ring.int2byte(number)) == number
    assert len(ring.int2byte(7)) == ring.ID_NBYTES == ring.SIZE_NBYTES == 4


# The store ----------------------------------------------------------------------------------------------------------


def case_what_is_put_is_read_by_everybody(api: Any) -> None:
    store = api.store()
    address, identity = store.writer.put("a", b"some bytes")
    assert store.writer.is_cached("a")
    assert not store.writer.is_cached("b")
    assert store.writer.key_index == {"a": (address, identity)}
    assert store.writer.id_index == {identity: "a"}
    assert store.writer.get(address, identity) == b"some bytes"
    for reader in store.readers:
        assert reader.get(*api.handle(store.writer, "a", address, identity)) == b"some bytes"


def case_a_hit_leads_to_the_same_chunk(api: Any) -> None:
    store = api.store()
    put = store.writer.put("a", b"some bytes")
    assert store.writer.get_cached("a") == put
    assert issubclass(error_of(lambda: store.writer.get_cached("b")) or object, KeyError)


def case_a_key_is_put_once(api: Any) -> None:
    store = api.store()
    store.writer.put("a", b"some bytes")
    assert issubclass(error_of(lambda: store.writer.put("a", b"others")) or object, ValueError)
    assert store.writer.get(*store.writer.key_index["a"]) == b"some bytes"


def case_what_is_too_large_is_refused(api: Any) -> None:
    store = api.store()
    assert issubclass(error_of(lambda: store.writer.put("a", bytes(3000))) or object, ValueError)
    assert not store.writer.is_cached("a")
    assert store.writer.key_index == {}


def case_a_full_store_refuses_and_keeps_what_it_has(api: Any) -> None:
    store = api.store()
    handles = full(api, store)
    assert 3 <= len(handles) <= 5
    for handle in handles:
        assert store.readers[0].get(*handle) == bytes(700)


def case_what_all_have_read_makes_room(api: Any) -> None:
    store = api.store()
    for handle in full(api, store):
        for reader in store.readers:
            reader.get(*handle)
    store.writer.put("another", bytes(700))
    assert store.writer.is_cached("another")
    assert not store.writer.is_cached("item 0")


def case_what_one_has_read_stays(api: Any) -> None:
    store = api.store()
    address, identity = store.writer.put("a", b"some bytes")
    store.readers[0].get(*api.handle(store.writer, "a", address, identity))
    store.writer.free_unused()
    assert store.writer.is_cached("a")


def case_an_id_that_is_not_there_is_an_error(api: Any) -> None:
    store = api.store()
    address, identity = store.writer.put("a", b"some bytes")
    handle = list(api.handle(store.writer, "a", address, identity))
    handle[1] += 5
    assert issubclass(error_of(lambda: store.readers[0].get(*handle)) or object, ValueError)


def case_clearing_forgets_every_item(api: Any) -> None:
    store = api.store()
    store.writer.put("a", b"some bytes")
    store.writer.clear()
    assert not store.writer.is_cached("a")
    assert store.writer.key_index == {}
    store.writer.put("a", b"others")
    assert store.writer.get(*store.writer.key_index["a"]) == b"others"


def case_a_handle_makes_a_reader(api: Any) -> None:
    store = api.store()
    handle = store.writer.handle()
    assert (handle.max_object_size, handle.n_readers) == (2048, 2)
    assert handle.ring_buffer_handle == store.writer.ring_buffer.handle()


def case_a_reader_needs_a_lock(api: Any) -> None:
    store = api.store()
    assert issubclass(error_of(lambda: api.reader_without_lock(store)) or object, ValueError)


# Where released stores differ ---------------------------------------------------------------------------------------


def case_a_handle_is_good_after_clearing(api: Any) -> None:
    store = api.store()
    handle = api.handle(store.writer, "a", *store.writer.put("a", b"some bytes"))
    store.writer.clear()
    with suppress(MemoryError):
        store.writer.put("b", b"otherwise.")
    assert store.readers[0].get(*handle) == b"some bytes"


def case_a_request_that_is_lost_keeps_no_chunk(api: Any) -> None:
    store = api.store()
    address, identity = store.writer.put("a", b"some bytes")
    if hasattr(store.writer, "revoke"):
        store.writer.revoke(*api.handle(store.writer, "a", address, identity))
    store.writer.free_unused()
    assert not store.writer.is_cached("a")


def case_counts_go_down(api: Any) -> None:
    store = api.store()
    address, identity = store.writer.put("a", b"some bytes")
    store.writer.put("b", b"some bytes")
    handle = api.handle(store.writer, "a", address, identity)
    for _ in range(3):
        for reader in store.readers:
            reader.get(*handle)
        handle = api.handle(store.writer, "a", *store.writer.get_cached("a"))
    store.writer.free_unused()
    assert store.writer.writer_flag[identity] == 1


def case_everything_that_may_go_goes(api: Any) -> None:
    store = api.store(largest=250)
    for number in range(8):
        handle = api.handle(store.writer, str(number), *store.writer.put(str(number), bytes(150)))
        for reader in store.readers:
            reader.get(*handle)
    store.writer.free_unused()
    assert store.writer.key_index == {}


def case_a_touch_keeps_an_item_that_all_have_read(api: Any) -> None:
    store = api.store()
    handle = api.handle(store.writer, "a", *store.writer.put("a", b"some bytes"))
    for reader in store.readers:
        reader.get(*handle)
    call(api, store.writer, "touch", "a")
    store.writer.free_unused()
    assert store.writer.is_cached("a")


def case_a_touch_is_released_with_the_walk(api: Any) -> None:
    store = api.store()
    handle = api.handle(store.writer, "a", *store.writer.put("a", b"some bytes"))
    for reader in store.readers:
        reader.get(*handle)
    call(api, store.writer, "touch", "a")
    call(api, store.writer, "release_touches")
    store.writer.free_unused()
    assert not store.writer.is_cached("a")


def case_a_made_up_signature_is_refused(api: Any) -> None:
    store = api.store()
    address, identity = store.writer.put("a", b"some bytes")
    signature = call(api, store.writer, "get_signature", "a")
    wrong = [*signature[:-1], signature[-1] ^ 1]
    assert issubclass(error_of(lambda: store.readers[0].get(address, identity, wrong, "a")) or object, ValueError)
    assert store.readers[0].get(address, identity, signature, "a") == b"some bytes"
