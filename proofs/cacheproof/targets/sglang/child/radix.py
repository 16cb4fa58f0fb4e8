"""The release's prefix caches on its page allocators, in the order of its scheduler's calls.

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
from cores import (  # type: ignore[import-not-found]  # beside this file, on the child's path only
    MEM_CACHE,
    Core,
    PythonCore,
    RustCore,
)
from driver.calls import (  # type: ignore[import-not-found]  # of the driver for vLLM, likewise
    DONE,
    MISS,
    Calls,
    Reply,
    operations_of,
)
from requests_in_pages import (  # type: ignore[import-not-found]  # of all such drivers, likewise
    REFUSED,
    SMALLEST,
    tokens_of,
)


class Held:
    """A request that has pages: their slots in order, the lock on the tree, and how many slots the tree has of it."""

    def __init__(self, slots: Any, receipt: Any, in_tree: int) -> None:
        self.slots, self.receipt, self.in_tree = slots, receipt, in_tree


class RadixDriver:
    """One tree and one allocator. A page is the number that the allocator gives it: its first slot over its size."""

    core: Callable[[Any, int], Core] = PythonCore

    def __init__(self, calls: Calls) -> None:
        self._allocators = importlib.import_module(f"{MEM_CACHE}.allocator")
        self.reset(SMALLEST)
        self.operations = operations_of(self, calls)

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new tree of so many pages, and the tokens of each request."""
        self._size = size = config["block_size"]
        slots = size * config["blocks"]
        if size == 1:
            self._allocator = self._allocators.TokenToKVPoolAllocator(slots, torch.int64, "cpu", None, False)
        else:
            self._allocator = self._allocators.PagedTokenToKVPoolAllocator(slots, size, torch.int64, "cpu", None, False)
        self._tree = type(self).core(self._allocator, size)
        self._keys = [array("q", tokens) for tokens in tokens_of(config)]
        self._held: dict[int, Held] = {}

    def observe(self) -> dict[str, Any]:
        """Pages, ascending; and the sizes that the release itself counts, in slots."""
        free = self._allocator.free_pages.tolist()
        pending = getattr(self._allocator, "release_pages", None)
        evictable, protected = self._tree.counts()
        return {
            "free": sorted([*free, *(pending.tolist() if pending is not None else [])]),
            "cached": sorted(self._pages(self._tree.cached())),
            "evictable": evictable,
            "protected": protected,
            "available": self._allocator.available_size(),
        }

    def _pages(self, slots: Any) -> tuple[int, ...]:
        return tuple(slots[:: self._size].div(self._size, rounding_mode="floor").tolist())

    def do_lookup(self, request: int) -> Reply:
        """As for a request that is admitted: at least one token is left to compute."""
        slots, _ = self._tree.match(self._keys[request][:-1])
        return Reply("hit", self._pages(slots)) if len(slots) else MISS

    def do_admit(self, request: int) -> Reply:
        """What was found is locked, and pages are taken for the rest."""
        tokens = self._keys[request]
        hits, node = self._tree.match(tokens[:-1])
        receipt = self._tree.lock(node)
        missing = -(-(len(tokens) - len(hits)) // self._size) * self._size
        if missing > self._allocator.available_size():
            self._tree.evict(missing - self._allocator.available_size())
        new = self._allocator.alloc(missing)
        if new is None:
            self._tree.unlock(receipt)
            return REFUSED
        return self._keeps(request, Held(torch.cat((hits, new)), receipt, len(hits)))

    def do_commit(self, request: int) -> Reply:
        """Full pages are in the tree, and locked there."""
        held = self._held[request]
        full = len(self._keys[request]) // self._size * self._size
        tokens = self._keys[request][:full]
        self._tree.insert(tokens, held.slots[:full], held.in_tree)
        slots, node = self._tree.match(tokens)
        receipt = self._tree.lock(node)
        self._tree.unlock(held.receipt)
        return self._keeps(request, Held(torch.cat((slots, held.slots[len(slots) :])), receipt, len(slots)))

    def do_finish(self, request: int) -> Reply:
        """What is not in the tree is given back: of its last page only the slots that its tokens have."""
        held = self._held.pop(request)
        self._allocator.free(held.slots[held.in_tree : len(self._keys[request])])
        self._tree.unlock(held.receipt)
        return DONE

    def _keeps(self, request: int, held: Held) -> Reply:
        self._held[request] = held
        return Reply("done", self._pages(held.slots))


class RustDriver(RadixDriver):
    """The same on the core in Rust."""

    core = RustCore
