"""The caches of processed items in the field's own shape: P0 gives items, P1 gets them.

P0 passes `(item, prompt updates)`, or None for what it believes to be cached; it gets back the item, or None where the
other side has it. Both sides have to see the same requests in the same order and walk them alike. These classes make of
a violation a clear miss, never a wrong item; what they cannot do with these signatures is in docs/interfaces.md, and
`cacheimpl.mirror` is the protocol that can.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from cacheimpl.counts import amount
from cacheimpl.object_store.caches import CacheInfo
from cacheimpl.processor_cache.errors import (
    InvalidItemError,
    InvalidSettingError,
    ItemNotCachedError,
    MultiModalCacheMissError,
    NotAlikeError,
)
from cacheimpl.processor_cache.lru_cache import LRUCache
from cacheimpl.processor_cache.sizes import (
    MultiModalCache,
    MultiModalProcessorCacheItem,
    MultiModalProcessorCacheItemMetadata,
)

logger = logging.getLogger(__name__)

In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)

InItem = tuple[Any, Any] | None
"""An item and its prompt updates, or None: it is cached."""
OutItem = tuple[Any, Any]
"""The item, or None where the other side has it; and the prompt updates."""


class BaseMultiModalCache(ABC, Generic[In_contra, Out_co]):
    """What all of them have."""

    @abstractmethod
    def get_and_update_item(self, mm_item: In_contra, mm_hash: str) -> Out_co:
        """One item of a request: what is cached is used and now the newest, what is not is stored."""

    @abstractmethod
    def clear_cache(self) -> None:
        """Nothing is cached, and the counters start again. The other side is not told (C-MIR-12)."""

    def get_and_update(self, mm_items: Sequence[In_contra], mm_hashes: Sequence[str]) -> list[Out_co]:
        """Several items in their order. Raises `NotAlikeError` where there are not as many hashes."""
        check_alike(mm_items, mm_hashes)
        return [self.get_and_update_item(item, mm_hash) for item, mm_hash in zip(mm_items, mm_hashes, strict=True)]


class BaseMultiModalProcessorCache(BaseMultiModalCache[InItem, OutItem]):
    """The side of P0."""

    def __init__(self, model_config: Any, value_type: Callable[..., Any]) -> None:
        self._kept, self._warned = value_type, False
        self._cache: LRUCache[str, Any] = MultiModalCache.get_lru_cache(capacity_of(model_config), value_type)

    def is_cached_item(self, mm_hash: str) -> bool:
        """Whether the item is cached. Changes nothing."""
        return checked(mm_hash) in self._cache

    def is_cached(self, mm_hashes: Sequence[str]) -> list[bool]:
        """The same for several."""
        check_alike(mm_hashes, mm_hashes)
        return [self.is_cached_item(mm_hash) for mm_hash in mm_hashes]

    @abstractmethod
    def found(self, kept: Any) -> OutItem:
        """What is returned for what is cached."""

    def get_and_update_item(self, mm_item: InItem, mm_hash: str) -> OutItem:
        """What is cached, or the item, which is stored. Raises `ItemNotCachedError`.

        An item larger than the whole cache is returned and not stored (C-MIR-16).
        """
        fresh = self._made(mm_item, checked(mm_hash))
        if fresh is None and mm_hash not in self._cache:
            raise ItemNotCachedError([mm_hash])
        kept = self._cache.get(mm_hash)
        if kept is not None:
            return self.found(kept)
        assert mm_item is not None
        if not self._cache.put_if_fits(mm_hash, fresh) and not self._warned:
            logger.warning("an item is larger than mm_processor_cache_gb: such items are processed each time")
            self._warned = True
        return mm_item

    def get_and_update(self, mm_items: Sequence[InItem], mm_hashes: Sequence[str]) -> list[OutItem]:
        """The items of a request: those that are cached are touched first, then each has its turn.

        All or nothing: raises `ItemNotCachedError`, with every item that would not be there at its turn, before
        anything changes (C-MIR-9).
        """
        check_alike(mm_items, mm_hashes)
        for item, mm_hash in zip(mm_items, mm_hashes, strict=True):
            self._made(item, mm_hash)
        lacking = self._lacking(mm_items, mm_hashes)
        if lacking:
            raise ItemNotCachedError(lacking)
        for mm_hash in mm_hashes:
            self.touch_sender_cache_item(mm_hash)
        return super().get_and_update(mm_items, mm_hashes)

    def touch_sender_cache_item(self, mm_hash: str) -> None:
        """What is cached is now the newest; nothing else happens (C-MIR-10)."""
        self._cache.touch(checked(mm_hash))

    def release_sender_touches(self) -> None:
        """Nothing is protected by a touch."""

    def invalidate(self, mm_hash: str) -> None:
        """P1 has reported that it lacks this item: it is sent again when it comes again."""
        self._cache.pop(checked(mm_hash))

    def make_stats(self, *, delta: bool = False) -> CacheInfo:
        """Hits and look-ups; with `delta`, since the last call with it."""
        return self._cache.stat(delta=delta)

    def clear_cache(self) -> None:
        self._cache.clear()

    def close(self) -> None:
        """Nothing is held outside this process."""

    def _made(self, mm_item: Any, mm_hash: str) -> Any:
        """What would be kept of an item; None where it is not needed. Raises `InvalidItemError` for what is none."""
        if mm_item is None or mm_hash in self._cache:
            return None
        if not isinstance(mm_item, tuple | list) or len(mm_item) != 2:
            raise InvalidItemError(f"the item of {mm_hash!r} must be a pair, with its prompt updates")
        kept = self._kept(*mm_item)
        self._cache.getsizeof(kept)
        return kept

    def _lacking(self, mm_items: Sequence[InItem], mm_hashes: Sequence[str]) -> list[str]:
        """Items for which nothing is given and that would be gone at their turn: the walk, on sizes alone."""
        if all(item is not None for item in mm_items):
            return []
        sizes = {mm_hash: size for mm_hash in self._cache if (size := self._cache.size_of(mm_hash)) is not None}
        rehearsal: LRUCache[str, float] = LRUCache(self._cache.maxsize, getsizeof=float)
        for mm_hash, size in sizes.items():
            rehearsal.put(mm_hash, size)
        for mm_hash in mm_hashes:
            rehearsal.touch(mm_hash)
        lacking: list[str] = []
        for item, mm_hash in zip(mm_items, mm_hashes, strict=True):
            if mm_hash in rehearsal:
                rehearsal.touch(mm_hash)
            elif item is None:
                lacking.append(mm_hash)
            else:
                rehearsal.put_if_fits(mm_hash, self._cache.getsizeof(self._kept(*item)))
        return lacking


class MultiModalProcessorOnlyCache(BaseMultiModalProcessorCache):
    """P0 where the sending is not saved: the data is kept, and returned on a hit."""

    def __init__(self, model_config: Any) -> None:
        super().__init__(model_config, MultiModalProcessorCacheItem)

    def found(self, kept: MultiModalProcessorCacheItem) -> OutItem:
        return kept.item, kept.prompt_updates


class MultiModalProcessorSenderCache(BaseMultiModalProcessorCache):
    """P0 where P1 keeps the data: sizes and prompt updates are kept, and nothing is sent on a hit."""

    def __init__(self, model_config: Any) -> None:
        super().__init__(model_config, MultiModalProcessorCacheItemMetadata)

    def found(self, kept: MultiModalProcessorCacheItemMetadata) -> OutItem:
        return None, kept.prompt_updates


class BaseMultiModalReceiverCache(BaseMultiModalCache[Any, Any]):
    """The side of P1."""

    @abstractmethod
    def _check_item(self, mm_item: Any, mm_hash: str) -> None:
        """Raises `InvalidItemError` for an item without a size, or a hash that is none; nothing changes."""

    @abstractmethod
    def touch_receiver_cache_item(self, mm_hash: str, mm_item: Any = None) -> None:
        """What is cached is now the newest."""

    def get_and_update_features(self, mm_features: list[Any]) -> list[Any]:
        """The features of a request, each with its data: all are touched first, then each has its turn.

        Raises `MultiModalCacheMissError` with every item that is missed; the others are stored all the same, as P0 has
        counted on it.
        """
        if not isinstance(mm_features, list | tuple):
            raise InvalidItemError(f"mm_features must be a list of features, not {mm_features!r}")
        for feature in mm_features:
            if not hasattr(feature, "data"):
                raise InvalidItemError(f"a feature in mm_features has no data: {feature!r}")
            self._check_item(feature.data, key_of(feature))
        for feature in mm_features:
            self.touch_receiver_cache_item(key_of(feature), feature.data)
        missed: list[str] = []
        for feature in mm_features:
            try:
                feature.data = self.get_and_update_item(feature.data, key_of(feature))
            except MultiModalCacheMissError as error:
                missed.extend(error.mm_hashes)
        if missed:
            raise MultiModalCacheMissError(missed)
        return mm_features


class MultiModalReceiverCache(BaseMultiModalReceiverCache):
    """P1 where it keeps the data."""

    def __init__(self, model_config: Any) -> None:
        self._cache: LRUCache[str, Any] = MultiModalCache.get_lru_cache(capacity_of(model_config), object)

    def get_and_update_item(self, mm_item: Any, mm_hash: str) -> Any:
        """What came, which is stored in the place of what there was (C-MIR-17), or what is cached.

        Raises `MultiModalCacheMissError` where nothing came and nothing is cached; then nothing changes.
        """
        self._check_item(mm_item, mm_hash)
        if mm_item is not None:
            self._cache.pop(mm_hash)
            self._cache.put_if_fits(mm_hash, mm_item)
            return mm_item
        if mm_hash not in self._cache:
            raise MultiModalCacheMissError([mm_hash])
        return self._cache[mm_hash]

    def get_and_update(self, mm_items: Sequence[Any], mm_hashes: Sequence[str]) -> list[Any]:
        check_alike(mm_items, mm_hashes)
        for item, mm_hash in zip(mm_items, mm_hashes, strict=True):
            self._check_item(item, mm_hash)
        return super().get_and_update(mm_items, mm_hashes)

    def _check_item(self, mm_item: Any, mm_hash: str) -> None:
        checked(mm_hash)
        if mm_item is not None:
            self._cache.getsizeof(mm_item)

    def touch_receiver_cache_item(self, mm_hash: str, mm_item: Any = None) -> None:  # noqa: ARG002  # the field's
        self._cache.touch(checked(mm_hash))

    def clear_cache(self) -> None:
        self._cache.clear()


LruKeyReplicatedSenderCache = MultiModalProcessorSenderCache
LruKeyReplicatedReceiverCache = MultiModalReceiverCache
"""The same by their later names."""


def key_of(feature: Any) -> str:
    """Under what a feature is cached: its content, and not an adapter's name with it (C-MIR-15)."""
    return checked(getattr(feature, "mm_hash", None) or getattr(feature, "identifier", None))


def checked(mm_hash: Any) -> str:
    """A hash as a key. Raises `InvalidItemError` for what is no text."""
    if not isinstance(mm_hash, str):
        raise InvalidItemError(f"the hash of an item (mm_hash, identifier) must be a text, not {mm_hash!r}")
    return mm_hash


def capacity_of(model_config: Any) -> float:
    """The configured size, in GiB."""
    try:
        gigabytes = model_config.get_multimodal_config().mm_processor_cache_gb
    except AttributeError as error:
        raise InvalidSettingError(f"model_config has no mm_processor_cache_gb in its multimodal one: {error}") from None
    return amount("mm_processor_cache_gb", gigabytes, InvalidSettingError)


def check_alike(mm_items: Sequence[Any], mm_hashes: Sequence[str]) -> None:
    """Raises `NotAlikeError`."""
    for what, given in (("mm_items", mm_items), ("mm_hashes", mm_hashes)):
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise NotAlikeError(f"{what} must be several, in a list, not {given!r:.80}")
    for mm_hash in mm_hashes:
        checked(mm_hash)
    if len(mm_items) != len(mm_hashes):
        raise NotAlikeError(f"{len(mm_items)} items are given, and {len(mm_hashes)} hashes")
