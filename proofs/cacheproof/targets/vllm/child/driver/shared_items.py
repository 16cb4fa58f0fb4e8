"""Items by way of shared memory: the release's sender and receiver caches, P0 and every worker with its own.

The release decides what is stored, freed, sent and read. Given is the memory: chunks of units of four bytes, so that a
released header has two units, and few ids, so that they come round. An item is bytes that repeat one value,
behind the count that readers keep there.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

from .calls import Calls, Reply
from .configured import released
from .modules import module_if_there
from .object_store import COUNT_BYTES, Bytes, shown
from .readers import forget_name, readers_of
from .sides import GIBIBYTE, Item, Release, WeighingFrontend

MODULES = ("vllm.multimodal.cache.shm", "vllm.multimodal.cache")
"""Where the caches are, the newest place first."""
ADDRESS = "address"
"""The field of an item that is a handle."""
NAME = "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME"
MEBIBYTE = 1 << 20
UNIT, HEADER, IDS = 4, 2, 8
"""Bytes of a unit, units before an item and ids, as an engine has them in the specification."""
IN_UNITS = ("places", "start", "end")
WRONG, STALE = "wrong", "stale"
"""How a worker's reading ends where it does not have all items: with those of others, or not at all."""


class Content(Bytes):
    """Serialises an item as its size in equal bytes, without metadata."""

    def serialize(self, item: Any) -> tuple[Any, int, bytes, int]:
        """An item of one unit is its count and no bytes. A release takes those as a list only, of no parts."""
        data, size, metadata, more = super().serialize(item.content)
        return data if size else [], size, metadata, more

    @classmethod
    def is_empty(cls, content: int) -> bool:
        """Whether nothing but the count is there to be read."""
        return cls.sizes[content] == COUNT_BYTES


class SharedItems:
    """P0's cache and those of the workers."""

    def __init__(self, calls: Calls, release: Release) -> None:
        self._calls, self._release = calls, release
        self._readers = readers_of(calls)
        self._sender: Any = None
        self._frontend: Any = None
        self._memories = 0
        self._room = 0
        """Bytes of the memory."""
        self._written: dict[int, int] = {}
        """The content that was put last, by the address of its chunk in memory."""

    def reset(self, capacity: int, sizes: Sequence[int], workers: int) -> None:
        """A new memory of `capacity` units, and a new cache for each process."""
        Content.sizes = [size * UNIT for size in sizes]
        largest = max(Content.sizes, default=UNIT)
        room = max(capacity * UNIT, largest + HEADER * UNIT)
        self._readers.detach()
        if self._sender is not None:
            del self._sender._shm_cache.put  # it holds the store, which would stay until garbage is collected
        self._sender = self._frontend = None
        self._memories += 1
        given = (f"cacheproof_{os.getpid()}_{self._memories}", room, largest, workers)
        self._sender = made("ShmObjectStoreSenderCache", *given)
        self._readers.attach(workers, attached, *given)
        storage = self._sender._shm_cache
        storage.ring_buffer.ID_MAX = IDS
        forget_name(storage.ring_buffer)
        self._remember_puts(storage)
        self._frontend = WeighingFrontend(self._release, self._sender)

    def _remember_puts(self, storage: Any) -> None:
        """An item without bytes is not known by them when it is read: what was put there last is noted."""
        self._room = storage.ring_buffer.data_buffer_size
        self._written = {}

        def noted(key: str, item: Any) -> tuple[int, int]:
            address, identity = type(storage).put(storage, key, item)
            self._written[address % self._room] = item.content
            return address, identity

        storage.put = noted

    def observe(self) -> dict[str, Any]:
        """As of the store alone, in units."""
        seen = shown(self._sender._shm_cache)
        for name in IN_UNITS:
            seen[name] = [each // UNIT for each in seen[name]] if name == "places" else seen[name] // UNIT
        return seen

    def render(self, contents: Sequence[int]) -> tuple[Reply, tuple[Any, ...]]:
        """P0 looks the items up, touches and walks them, as the release does. Gives what it sends for each."""
        items = tuple(Item(content, content, 0, 1) for content in contents)
        sent: list[Any] = []

        def whole() -> Reply:
            sent.extend(self._frontend.render(items).data)
            return Reply("done")

        return self._calls.perform(whole), tuple(sent)

    def clear(self) -> Reply:
        """What the release does when the cache is reset."""
        return self._calls.done(self._sender.clear_cache)

    def read(self, worker: int, requests: Sequence[Sequence[Any]], wanted: Sequence[bool]) -> str:
        """One worker gets the items of a step. Each worker has its own copy, and a stale handle is an error."""
        found = ""
        for features, needed in zip(requests, wanted, strict=True):
            own = [copy.copy(feature) for feature in features]
            reply = self._readers.perform(worker, taken, own, codes={ValueError: STALE})
            if reply.code != "done":
                return STALE
            wrong = [place for place in reply.values if not self._is_empty_and_there(features[place])]
            found = WRONG if needed and wrong else found
        return found

    def _is_empty_and_there(self, feature: Any) -> bool:
        """Whether the item of a handle has no bytes, and was put last where the handle leads."""
        content, address = int(feature.identifier), feature.data[ADDRESS].data
        return Content.is_empty(content) and self._written.get(address % self._room) == content


def made(what: str, name: str, room: int, largest: int, workers: int, *more: Any) -> Any:
    """A cache of the release, by its own constructor, on the memory of this name."""
    os.environ[NAME] = name
    module: Any = next(found for path in MODULES if hasattr(found := module_if_there(path), what))
    setting = released()(
        "MultiModalConfig",
        mm_processor_cache_gb=room / GIBIBYTE,
        mm_shm_cache_max_object_size_mb=largest / MEBIBYTE,
    )
    config = released()(
        "VllmConfig",
        parallel_config=released()("ParallelConfig", world_size=workers),
        model_config=released()("ModelConfig", multimodal_config=setting, get_multimodal_config=lambda: setting),
    )
    module.MsgpackSerde = Content
    return getattr(module, what)(config, *more)


def attached(lock: Any, *given: Any) -> Any:
    """A worker's cache, with the lock that all of them share."""
    return made("ShmObjectStoreReceiverCache", *given, lock)


def taken(cache: Any, features: Sequence[Any]) -> Reply:
    """The release's own reading of one request's items. Its values are the items that came as another one."""
    there = [feature.data is not None and ADDRESS in feature.data for feature in features]
    got = cache.get_and_update_features(list(features))
    wrong = (
        place
        for place, (feature, by_handle) in enumerate(zip(got, there, strict=True))
        if by_handle and feature.data != int(feature.identifier)
    )
    return Reply("done", tuple(wrong))
