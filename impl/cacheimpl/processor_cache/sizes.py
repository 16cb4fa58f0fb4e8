"""What an item weighs: the same before it is sent and after it has arrived.

Both sides of the mirror evict by size, each by its own measure of its own object. So a size may depend only on what a
message carries: an array weighs what its elements do, whoever owns them, and a number of numpy as the number that it is
when it arrives.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from cacheimpl.counts import amount
from cacheimpl.processor_cache.errors import InvalidItemError, InvalidSettingError
from cacheimpl.processor_cache.lru_cache import LRUCache

logger = logging.getLogger(__name__)

GIB = 2**30
V = TypeVar("V")


class MultiModalProcessorCacheItem:
    """What P0 keeps of an item that it does not share: its data and its prompt updates."""

    def __init__(self, item: Any, prompt_updates: Any) -> None:
        self.item, self.prompt_updates = item, prompt_updates


class MultiModalProcessorCacheItemMetadata:
    """What P0 keeps of an item that P1 has: its size, so that both evict alike, and its prompt updates."""

    def __init__(self, item: Any, prompt_updates: Any) -> None:
        self.item_size = MultiModalCache.get_item_size(item)
        self.prompt_updates = prompt_updates


class MultiModalCache:
    """How items are measured."""

    @classmethod
    def get_leaf_size(cls, leaf: object) -> int:
        """The bytes of what is no dict, list or tuple.

        Tensors and arrays: their elements. Cache items and whatever has its content in `data`: that. Anything else:
        what Python takes for it.
        """
        if isinstance(leaf, MultiModalProcessorCacheItem):
            return cls.get_item_size(leaf.item)
        if isinstance(leaf, MultiModalProcessorCacheItemMetadata):
            return leaf.item_size
        if isinstance(leaf, torch.Tensor):
            return leaf.nbytes
        if isinstance(leaf, str):
            return sys.getsizeof("") + len(leaf.encode("utf-8", "surrogatepass"))  # a str may keep its encoding
        if hasattr(leaf, "nbytes"):
            return _array_size(leaf)
        if hasattr(leaf, "data"):
            return cls.get_item_size(leaf.data)
        return sys.getsizeof(leaf)

    @classmethod
    def get_item_size(cls, value: Any, *, debug: bool = False) -> int:
        """The bytes of an item: those of its leaves. Raises `InvalidItemError` (TypeError) for one that has none."""
        sizes = [cls.get_leaf_size(leaf) for leaf in leaves(value)]
        if not sizes:
            raise InvalidItemError(f"an item of type {type(value).__name__} has no leaf, and so no size")
        if debug:
            logger.debug("%s has %.2f GiB in %d leaves", type(value).__name__, sum(sizes) / GIB, len(sizes))
        return sum(sizes)

    @classmethod
    def get_item_complexity(cls, value: Any) -> int:
        """How many leaves it has."""
        return sum(1 for _ in leaves(value))

    @classmethod
    def get_lru_cache(
        cls,
        capacity_gb: float,
        value_type: Callable[..., V],  # noqa: ARG003  # the released signature: it says what the cache holds
        *,
        debug: bool = False,
    ) -> LRUCache[str, V]:
        """A cache of so many GiB that measures its values so."""
        amount("mm_processor_cache_gb", capacity_gb, InvalidSettingError)
        return LRUCache(GIB * capacity_gb, getsizeof=lambda value: cls.get_item_size(value, debug=debug))


def leaves(value: Any) -> Iterator[Any]:
    """What is left of nested dicts, lists and tuples."""
    if isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one)
    else:
        yield value


def _array_size(leaf: Any) -> int:
    """An array's elements; a number of numpy as Python's."""
    if getattr(leaf, "shape", None) == () and hasattr(leaf, "item"):
        return sys.getsizeof(leaf.item())
    return int(leaf.nbytes)
