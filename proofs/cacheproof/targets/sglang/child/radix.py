"""The release's radix cache on its page allocator, in the order of its scheduler's calls.

A request is looked up, and what was found is locked; room is made by evicting, and pages are taken; when its step was
executed, its full pages are inserted, those that the tree has already are given back, and what is in the tree is locked
in their place; at its end it is unlocked and its last, partial page given back. Requests are lists of tokens: each full
page has tokens that name its content.
"""

from __future__ import annotations

import importlib
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import torch
from driver.calls import DONE, MISS, Calls, DriverError, Reply, integer

REFUSED = Reply("refused")
UNHASHED = 1 << 40
"""Tokens of a page that is never full; each request has its own."""


class Held:
    """A request that has pages: their slots in order, the node that it locks, and how many slots the tree has of it."""

    def __init__(self, slots: Any, node: Any, in_tree: int) -> None:
        self.slots, self.node, self.in_tree = slots, node, in_tree


class RadixDriver:
    """One tree and one allocator. A page is the number that the allocator gives it: its first slot over its size."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._radix = importlib.import_module("sglang.srt.mem_cache.radix_cache")
        self._base = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        self._allocators = importlib.import_module("sglang.srt.mem_cache.allocator")
        self._size, self._allocator, self._tree = 1, None, None
        self._keys: list[Any] = []
        self._held: dict[int, Held] = {}
        self.operations: dict[str, Callable[[Mapping[str, Any]], Reply]] = {
            "lookup": self._lookup,
            "admit": self._admit,
            "commit": self._commit,
            "finish": self._finish,
        }

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new tree of so many pages, and the tokens of each request."""
        size, pages = config["block_size"], config["blocks"]
        slots = (size * pages, torch.int64, "cpu", None, False)
        if size == 1:
            self._allocator = self._allocators.TokenToKVPoolAllocator(*slots)
        else:
            self._allocator = self._allocators.PagedTokenToKVPoolAllocator(size * pages, size, *slots[1:])
        parameters = importlib.import_module("sglang.srt.mem_cache.cache_init_params").CacheInitParams
        self._tree = self._radix.RadixCache(
            parameters(
                disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=self._allocator, page_size=size
            )
        )
        self._size = size
        self._keys = [self._key(*one) for one in enumerate(zip(config["chains"], config["lengths"], strict=True))]
        self._held = {}

    def observe(self) -> dict[str, Any]:
        """Pages, ascending; and the sizes that the release itself counts, in slots."""
        free = self._allocator.free_pages.tolist()
        pending = getattr(self._allocator, "release_pages", None)
        cached = self._tree.all_values_flatten() if self._tree.root_node.children else torch.empty(0, dtype=torch.int64)
        return {
            "free": sorted([*free, *(pending.tolist() if pending is not None else [])]),
            "cached": sorted(cached[:: self._size].div(self._size, rounding_mode="floor").tolist()),
            "evictable": self._tree.evictable_size(),
            "protected": self._tree.protected_size(),
            "available": self._allocator.available_size(),
        }

    def _key(self, number: int, request: tuple[list[int], int]) -> Any:
        chain, length = request
        tokens = [content * self._size + place for content in chain for place in range(self._size)][:length]
        tokens += [UNHASHED + number] * (length - len(tokens))
        return self._radix.RadixKey(token_ids=array("q", tokens), extra_key=None)

    def _match(self, key: Any) -> tuple[Any, Any]:
        """The slots of the longest cached prefix, and the node at its end."""
        found = self._tree.match_prefix(self._base.MatchPrefixParams(key=key))
        slots = self._tree.path_device_indices(found.last_device_node)
        if len(slots) != found.device_prefix_len:
            raise DriverError(f"{len(slots)} slots on the path of a prefix of {found.device_prefix_len}")
        return slots, found.last_device_node

    def _pages(self, slots: Any) -> tuple[int, ...]:
        return tuple(slots[:: self._size].div(self._size, rounding_mode="floor").tolist())

    def _lookup(self, message: Mapping[str, Any]) -> Reply:
        """As for a request that is admitted: at least one token is left to compute."""

        def call() -> Reply:
            key = self._keys[integer(message, "request")]
            slots, _ = self._match(key[: len(key) - 1])
            return Reply("hit", self._pages(slots)) if len(slots) else MISS

        return self._calls.perform(call)

    def _admit(self, message: Mapping[str, Any]) -> Reply:
        """At least one token is left to compute, as the scheduler sees to it by its key."""
        number = integer(message, "request")
        key = self._keys[number]
        length = len(key)

        def call() -> Reply:
            hits, node = self._match(key[: length - 1])
            self._tree.inc_lock_ref(node)
            missing = -(-(length - len(hits)) // self._size) * self._size
            if missing > self._allocator.available_size():
                self._tree.evict(self._base.EvictParams(num_tokens=missing - self._allocator.available_size()))
            new = self._allocator.alloc(missing)
            if new is None:
                self._tree.dec_lock_ref(node)
                return REFUSED
            self._held[number] = Held(torch.cat((hits, new)), node, len(hits))
            return Reply("done", self._pages(self._held[number].slots))

        return self._calls.perform(call)

    def _commit(self, message: Mapping[str, Any]) -> Reply:
        number = integer(message, "request")
        held = self._held[number]

        def call() -> Reply:
            key = self._keys[number].page_aligned(self._size)
            full = len(key)
            there = self._tree.insert(self._base.InsertParams(key=key, value=held.slots[:full].clone())).prefix_len
            self._allocator.free(held.slots[held.in_tree : there])
            slots, node = self._match(key)
            self._tree.inc_lock_ref(node)
            self._tree.dec_lock_ref(held.node)
            self._held[number] = Held(torch.cat((slots, held.slots[len(slots) :])), node, len(slots))
            return Reply("done", self._pages(self._held[number].slots))

        return self._calls.perform(call)

    def _finish(self, message: Mapping[str, Any]) -> Reply:
        held = self._held.pop(integer(message, "request"))

        def call() -> Reply:
            self._allocator.free(held.slots[held.in_tree :])
            self._tree.dec_lock_ref(held.node)
            return DONE

        return self._calls.perform(call)
