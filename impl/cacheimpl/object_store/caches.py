"""`ShmObjectStoreSenderCache` and `ShmObjectStoreReceiverCache`: the store with the methods of the processor caches.

P0 has the first: it gives an item and its prompt updates, and gets back a handle in the place of the item. Every worker
has the second: it gives what it was sent, and gets the item. Requests and configurations are whatever has the
attributes. Normatively P0 is told of the end of every request: `release_items` revokes the handles that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import finalize

from cacheimpl.counts import amount, whole
from cacheimpl.object_store.common import checked_key
from cacheimpl.object_store.counting import RINGS
from cacheimpl.object_store.eras import ReleasedObjectStorage, StoreEra
from cacheimpl.object_store.errors import (
    InvalidArgumentError,
    NotInEraError,
    NotStoredError,
    StoreFullError,
    TooLargeError,
)
from cacheimpl.object_store.handle_items import handle_of, item_of
from cacheimpl.object_store.names import give_back, readers_name, writers_name
from cacheimpl.object_store.storage import SingleWriterShmObjectStorage
from cacheimpl.ring.buffer import SingleWriterShmRingBuffer
from cacheimpl.ring.eras import ReleasedRingBuffer

GIB, MIB = 2**30, 2**20

Storage = SingleWriterShmObjectStorage | ReleasedObjectStorage


class CacheInfo(NamedTuple):
    """Look-ups that were counted, and how many found their item."""

    hits: int
    total: int

    @property
    def hit_ratio(self) -> float:
        """0 where nothing was looked up."""
        return self.hits / self.total if self.total else 0.0

    def __sub__(self, other: CacheInfo) -> CacheInfo:
        """What was counted since `other`."""
        return CacheInfo(self.hits - other.hits, self.total - other.total)


def check_alike(mm_items: Any, mm_hashes: Any) -> None:
    """Raises `InvalidArgumentError` unless there are as many items as hashes, which are texts."""
    for what, given in (("mm_items", mm_items), ("mm_hashes", mm_hashes)):
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidArgumentError(f"{what} must be several, in a list, not {given!r:.80}")
    if wrong := [mm_hash for mm_hash in mm_hashes if not isinstance(mm_hash, str)]:
        raise InvalidArgumentError(f"mm_hashes must be texts, and {wrong[0]!r} is none")
    if len(mm_items) != len(mm_hashes):
        raise InvalidArgumentError(f"{len(mm_items)} mm_items are given, and {len(mm_hashes)} mm_hashes")


def check_pair(mm_item: Any, mm_hash: Any) -> None:
    """Raises `InvalidArgumentError` for what is neither an item with its prompt updates nor None."""
    if mm_item is not None and (not isinstance(mm_item, tuple | list) or len(mm_item) != 2):
        raise InvalidArgumentError(f"the item of {mm_hash!r} must be a pair, with its prompt updates")


def key_of(feature: Any) -> str:
    """Under what a feature was stored. Raises `InvalidArgumentError` for what is no feature."""
    key = getattr(feature, "mm_hash", None) or getattr(feature, "identifier", None)
    if not isinstance(key, str) or not hasattr(feature, "data"):
        raise InvalidArgumentError(f"a feature in mm_features has data and an identifier, and {feature!r:.80} has not")
    return key


def storage_from_config(
    vllm_config: Any, *, create: bool, reader_lock: Any = None, era: StoreEra | None = None
) -> Storage:
    """The store as the configuration has it: its size in GiB, the largest item in MiB, a reader for each worker."""
    if era not in (None, StoreEra.STORE_2026_11):
        raise InvalidArgumentError(f"era must be None or StoreEra.STORE_2026_11, whose handles are signed, not {era!r}")
    try:
        mm_config = vllm_config.model_config.get_multimodal_config()
        gigabytes, megabytes = mm_config.mm_processor_cache_gb, mm_config.mm_shm_cache_max_object_size_mb
        readers = vllm_config.parallel_config.world_size
    except AttributeError as error:
        raise InvalidArgumentError(f"vllm_config must have model_config and parallel_config, whole: {error}") from None
    size = int(amount("mm_processor_cache_gb", gigabytes, InvalidArgumentError) * GIB)
    largest = int(amount("mm_shm_cache_max_object_size_mb", megabytes, InvalidArgumentError) * MIB)
    whole("world_size", readers, InvalidArgumentError, least=1)
    name = writers_name() if create else readers_name()
    try:
        return storage_on(size, name, create, largest, readers, reader_lock, era)
    except BaseException:
        if create:
            give_back(name)
        raise


def storage_on(
    size: int,
    name: str,
    create: bool,  # noqa: FBT001  # as the ring has it
    largest: int,
    readers: int,
    reader_lock: Any,
    era: StoreEra | None,
) -> Storage:
    """A store on a ring of its own, which is closed if there can be no store."""
    if era is None:
        ring = SingleWriterShmRingBuffer(size, name, create)
    else:
        ring = ReleasedRingBuffer(size, name, create, era=RINGS[era.value])
    try:
        if isinstance(ring, ReleasedRingBuffer) and era is not None:
            return ReleasedObjectStorage(largest, readers, ring, reader_lock=reader_lock, era=era)
        return SingleWriterShmObjectStorage(largest, readers, ring, reader_lock=reader_lock)
    except BaseException:
        ring.close()
        raise


class ShmObjectStoreSenderCache:
    """P0's side, the writer."""

    def __init__(self, vllm_config: Any, *, era: StoreEra | None = None) -> None:
        """Makes the segment. Raises `WriterAliveError` where another process writes under this name.

        The environment variable `names.NAME_VARIABLE` has the name. If it is not set, it is set to a new name, so that
        processes that start later find the segment. With the era `STORE_2026_11` the store has the rules of 0.33.0, and
        their faults; every worker must have them too. Raises `InvalidArgumentError` for another era.
        """
        self._shm_cache = storage_from_config(vllm_config, create=True, era=era)
        self._name = self._shm_cache.ring_buffer.segment.name
        finalize(self, give_back, self._name)
        self.world_size: int = self._shm_cache.n_readers
        self._p0_cache: dict[str, Any] = {}
        self._hits = self._total = 0
        self._last_info = CacheInfo(0, 0)

    def is_cached_item(self, mm_hash: str) -> bool:
        """Whether the item is in the store. Changes nothing."""
        return self._shm_cache.is_cached(mm_hash)

    def is_cached(self, mm_hashes: Sequence[str]) -> list[bool]:
        """The same for several."""
        check_alike(mm_hashes, mm_hashes)
        return [self.is_cached_item(mm_hash) for mm_hash in mm_hashes]

    def get_and_update_item(self, mm_item: tuple[Any, Any] | None, mm_hash: str) -> tuple[Any, Any]:
        """A handle and the prompt updates; or the item as it came, where the store has no room for it.

        `mm_item` is the item and its prompt updates, or None for what is in the store already. Raises `NotStoredError`
        where it is not there any more and was not given: P0 processes it then, and asks again (C-SHM-17).
        """
        check_pair(mm_item, mm_hash)
        if self._shm_cache.is_cached(mm_hash):
            try:
                handle = self._shm_cache.get_cached(mm_hash)
            except StoreFullError:
                return self._sent_raw(mm_item, mm_hash)
            self._hits, self._total = self._hits + 1, self._total + 1
            return self._handle_item(mm_hash, handle), self._p0_cache[mm_hash]
        if mm_item is None:
            raise NotStoredError(f"the item of {mm_hash} is not in the store and was not given")
        item, prompt_updates = mm_item
        try:
            handle = self._shm_cache.put(mm_hash, item)
        except (TooLargeError, StoreFullError):
            self._total += 1
            self.remove_dangling_items()
            return mm_item
        self._total += 1
        self._p0_cache[mm_hash] = prompt_updates
        self.remove_dangling_items()
        return self._handle_item(mm_hash, handle), prompt_updates

    def get_and_update(
        self, mm_items: Sequence[tuple[Any, Any] | None], mm_hashes: Sequence[str]
    ) -> list[tuple[Any, Any]]:
        """Several in their order.

        Raises as `get_and_update_item`, and then those before it are stored; `InvalidArgumentError`, and none is.
        """
        check_alike(mm_items, mm_hashes)
        for item, mm_hash in zip(mm_items, mm_hashes, strict=True):
            check_pair(item, mm_hash)
        return [self.get_and_update_item(item, mm_hash) for item, mm_hash in zip(mm_items, mm_hashes, strict=True)]

    def _sent_raw(self, mm_item: tuple[Any, Any] | None, mm_hash: str) -> tuple[Any, Any]:
        """As many handles are out as there are cells."""
        if mm_item is None:
            raise NotStoredError(f"no more handles can be out, and the item of {mm_hash} was not given")
        self._total += 1
        return mm_item

    def touch_sender_cache_item(self, mm_hash: str) -> None:
        """What is in the store stays there until it is looked up or released."""
        self._shm_cache.touch(mm_hash)

    def release_sender_touches(self) -> None:
        """What was touched and not looked up is not protected any longer: the walk was given up."""
        self._shm_cache.release_touches()

    def release_items(self, mm_items: Sequence[Any], mm_hashes: Sequence[str]) -> int:
        """The request is over that these were sent for, as `get_and_update_item` returned them, and their hashes.

        Returns how many handles were still out. To be called for every request, however it ends (SHM-8, C-SHM-4).
        Raises `NotInEraError` under the rules of a release, which revoke nothing.
        """
        if isinstance(self._shm_cache, ReleasedObjectStorage):
            raise NotInEraError(
                f"the store of {self._shm_cache.era.name} revokes no handles, so it has no release_items"
            )
        check_alike(mm_items, mm_hashes)
        handles = [(handle_of(item), mm_hash) for item, mm_hash in zip(mm_items, mm_hashes, strict=True)]
        given = [(handle, mm_hash) for handle, mm_hash in handles if handle is not None]
        for handle, mm_hash in given:
            self._shm_cache.check_signature(mm_hash, *handle)
        return sum(self._shm_cache.revoke(*handle, mm_hash) for handle, mm_hash in given)

    def validate_input_item(self, mm_item: Any, mm_hash: str) -> None:
        """Raises `ForgedHandleError` where a client sends a handle that is not out for this hash (C-SHM-9)."""
        if (handle := handle_of(mm_item)) is not None:
            self._shm_cache.verify_signature(mm_hash, handle.address, handle.monotonic_id, handle.signature)

    def invalidate(self, mm_hash: str) -> None:
        """A worker has reported that it lacks this item: it is stored again when it comes again.

        The rules of a release do nothing here, as released.
        """
        if isinstance(self._shm_cache, ReleasedObjectStorage):
            checked_key(mm_hash)
            return
        self._shm_cache.forget(mm_hash)
        self._p0_cache.pop(mm_hash, None)

    def remove_dangling_items(self) -> None:
        """Prompt updates go of what is not handed out any more."""
        stored = self._shm_cache.key_index
        if len(self._p0_cache) > len(stored):
            for mm_hash in self._p0_cache.keys() - stored.keys():
                del self._p0_cache[mm_hash]

    def _handle_item(self, mm_hash: str, handle: tuple[int, int]) -> Any:
        return self.address_as_item(*handle, self._shm_cache.get_signature(mm_hash))

    def address_as_item(self, address: int, monotonic_id: int, signature: Sequence[int]) -> Any:
        """A handle in the place of an item, which the engine's serialiser takes and gives back.

        Raises `InvalidArgumentError` for what can be no handle.
        """
        return item_of(address, monotonic_id, signature)

    def make_stats(self, *, delta: bool = False) -> CacheInfo:
        """What was counted, in all or since it was asked for with `delta`."""
        info = CacheInfo(self._hits, self._total)
        if not delta:
            return info
        last, self._last_info = self._last_info, info
        return info - last

    def clear_cache(self) -> None:
        """Nothing is found any more, and what is on its way can still be read (X-4)."""
        self._shm_cache.clear()
        self._p0_cache.clear()
        self._hits = self._total = 0
        self._last_info = CacheInfo(0, 0)

    def close(self) -> None:
        """Remove the segment."""
        give_back(self._name)
        self._shm_cache.close()


class ShmObjectStoreReceiverCache:
    """A worker's side, one of the readers."""

    def __init__(self, vllm_config: Any, shared_worker_lock: Any, *, era: StoreEra | None = None) -> None:
        """`shared_worker_lock` is kept and never taken: what is shared with a process that may die can hang the others.

        With the era `STORE_2026_11`, which the cache of P0 must have too, it is taken to count, as released. Raises
        `InvalidArgumentError` for another era.

        Raises `NoWriterYetError` before P0 has made the segment, `NoNameError` if nothing names it.
        """
        self._shm_cache = storage_from_config(vllm_config, create=False, reader_lock=shared_worker_lock, era=era)
        self.world_size: int = self._shm_cache.n_readers

    def get_and_update_item(self, mm_item: Any, mm_hash: str) -> Any:
        """The item that a handle names, which is acknowledged; or the item as it came.

        Raises `StaleHandleError`, `ForgedHandleError` (`ValueError`), `NotStoredError` where there is nothing.
        """
        if mm_item is None:
            raise NotStoredError(f"nothing was sent for {mm_hash}")
        if (handle := handle_of(mm_item)) is None:
            return mm_item
        return self._shm_cache.get(handle.address, handle.monotonic_id, handle.signature, mm_hash)

    def get_and_update(self, mm_items: Sequence[Any], mm_hashes: Sequence[str]) -> list[Any]:
        """Several in their order. Raises as `get_and_update_item`, and then those before it are acknowledged."""
        check_alike(mm_items, mm_hashes)
        return [self.get_and_update_item(item, mm_hash) for item, mm_hash in zip(mm_items, mm_hashes, strict=True)]

    def get_and_update_features(self, mm_features: list[Any]) -> list[Any]:
        """The `data` of every feature that has some is replaced by its item, in their order; returns the list.

        A feature whose data was taken away, as the cached prefix covers it, was sent without the store. Every handle is
        looked at before one is acknowledged, so a request with one that is forged or stale acknowledges none.
        """
        if not isinstance(mm_features, list | tuple):
            raise InvalidArgumentError(f"mm_features must be a list of features, not {mm_features!r:.80}")
        keyed = [(feature, key_of(feature)) for feature in mm_features]
        there = [(feature, key) for feature, key in keyed if feature.data is not None]
        for feature, key in there:
            self.touch_receiver_cache_item(key, feature.data)
        for feature, key in there:
            feature.data = self.get_and_update_item(feature.data, key)
        return mm_features

    def touch_receiver_cache_item(self, mm_hash: str, mm_item: Any = None) -> None:
        """Whether the handle is good; nothing is acknowledged (C-SHM-2, C-SHM-10). Raises as `get_and_update_item`."""
        if mm_item is None:
            raise NotStoredError(f"nothing was sent for {mm_hash}")
        if (handle := handle_of(mm_item)) is not None:
            self._shm_cache.touch(mm_hash, handle.address, handle.monotonic_id, handle.signature)

    def clear_cache(self) -> None:
        """A reader has nothing to clear."""

    def close(self) -> None:
        """Leave the segment."""
        self._shm_cache.close()
