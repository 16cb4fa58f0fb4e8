"""The two trees of the release, asked alike: the one in Python, and the compiled core in Rust that the wheel has."""

from __future__ import annotations

import importlib
from array import array
from typing import Any, Protocol

import torch

MEM_CACHE = "sglang.srt.mem_cache"
FULL = 0
"""The only component of the tree that is used: no sliding window, no Mamba."""


class Core(Protocol):
    """What the driver asks of a tree. Keys are tokens, values are slots, a receipt is what a lock gives."""

    def match(self, tokens: Any) -> tuple[Any, Any]:
        """The slots of the longest cached prefix, and the node at its end."""
        ...

    def lock(self, node: Any) -> Any:
        """A receipt: everything up to the node stays."""
        ...

    def unlock(self, receipt: Any) -> None:
        """The lock is given back."""
        ...

    def insert(self, tokens: Any, slots: Any, already: int) -> None:
        """Insert; of these slots the first so many are the tree's already; other duplicates are freed."""
        ...

    def evict(self, slots: int) -> None:
        """Free at least so many slots, if so many can be."""
        ...

    def cached(self) -> Any:
        """All slots of the tree."""
        ...

    def counts(self) -> tuple[int, int]:
        """How many slots are evictable and protected, as the release counts."""
        ...


class PythonCore:
    """`RadixCache`."""

    def __init__(self, allocator: Any, page_size: int) -> None:
        self._radix = importlib.import_module(f"{MEM_CACHE}.radix_cache")
        self._base = importlib.import_module(f"{MEM_CACHE}.base_prefix_cache")
        parameters = importlib.import_module(f"{MEM_CACHE}.cache_init_params").CacheInitParams
        self._allocator = allocator
        self._tree = self._radix.RadixCache(
            parameters(disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=allocator, page_size=page_size)
        )

    def match(self, tokens: Any) -> tuple[Any, Any]:
        found = self._tree.match_prefix(self._base.MatchPrefixParams(key=self._key(tokens)))
        slots = self._tree.path_device_indices(found.last_device_node)
        return slots[: found.device_prefix_len], found.last_device_node

    def lock(self, node: Any) -> Any:
        self._tree.inc_lock_ref(node)
        return node

    def unlock(self, receipt: Any) -> None:
        self._tree.dec_lock_ref(receipt)

    def insert(self, tokens: Any, slots: Any, already: int) -> None:
        """What the tree had is freed here, as the release's own callers do."""
        there = self._tree.insert(self._base.InsertParams(key=self._key(tokens), value=slots.clone())).prefix_len
        self._allocator.free(slots[already:there])

    def evict(self, slots: int) -> None:
        self._tree.evict(self._base.EvictParams(num_tokens=slots))

    def cached(self) -> Any:
        return self._tree.all_values_flatten() if self._tree.root_node.children else torch.empty(0, dtype=torch.int64)

    def counts(self) -> tuple[int, int]:
        return self._tree.evictable_size(), self._tree.protected_size()

    def _key(self, tokens: Any) -> Any:
        return self._radix.RadixKey(token_ids=tokens, extra_key=None)


class RustCore:
    """`RustUnifiedTreeCoreBinding`; what its Python adapter does around it (applying its actions) is done here."""

    def __init__(self, allocator: Any, page_size: int) -> None:
        self._bindings = importlib.import_module(f"{MEM_CACHE}.rust_tree_core.mem_cache")
        self._allocator = allocator
        parameters = self._bindings.TreeCoreInitParamsBinding(eviction_policy="lru", page_size=page_size, device="cpu")
        self._tree = self._bindings.RustUnifiedTreeCoreBinding(parameters, [FULL])

    def match(self, tokens: Any) -> tuple[Any, Any]:
        found = self._tree.match_prefix(self._bindings.MatchParamsBinding(key=array("q", tokens)))
        if not found.device_prefix_len:
            return torch.empty(0, dtype=torch.int64), found.last_device_node_id
        root = self._tree.root_node_handle()
        slots = self._tree.collect_full_device_indices(found.last_device_node_id, root)
        return slots[: found.device_prefix_len], found.last_device_node_id

    def lock(self, node: Any) -> Any:
        return self._tree.inc_lock_ref(node, [])

    def unlock(self, receipt: Any) -> None:
        given = self._bindings.DecLockRefParamsBinding(
            node_id=receipt.node_id,
            skipped_lock_components=receipt.skipped_lock_components,
            component_lock_uuids=receipt.component_lock_uuids,
            component_host_lock_uuids=receipt.component_host_lock_uuids,
        )
        self._tree.dec_lock_ref(receipt.node_id, given, False)

    def insert(self, tokens: Any, slots: Any, already: int) -> None:
        given = self._bindings.InsertParamsBinding(
            key=array("q", tokens), value=slots.clone(), prev_prefix_len=already, inserted_len=already
        )
        self._apply(self._tree.insert(given).cache_actions)

    def evict(self, slots: int) -> None:
        """The walk of the release's own caller, without backups: there is no host memory."""
        freed = 0
        self._tree.evict_device_start(FULL, slots)
        while freed < slots:
            step = self._tree.evict_device_next_node(FULL, {FULL: freed})
            self._take(step)
            if step.node_id is None:
                if not step.made_progress:
                    break
                continue
            leaf = self._tree.evict_device_leaf(step.node_id)
            self._take(leaf)
            freed += leaf.tracker.get(FULL, 0)
        self._tree.evict_device_end(FULL)

    def cached(self) -> Any:
        return self._tree.all_values_flatten()

    def counts(self) -> tuple[int, int]:
        return self._tree.evictable_size(), self._tree.protected_size()

    def _take(self, result: Any) -> None:
        for tensor in result.new_device_frees.get(FULL, ()):
            self._allocator.free(tensor)
        self._apply(result.cache_actions)

    def _apply(self, actions: Any) -> None:
        """The core says what is to be freed, and its caller frees it."""
        for name, tensors in actions:
            if name != "free_device_kv":
                raise TypeError(f"the tree core asks for '{name}', which is not driven")
            for tensor in tensors:
                self._allocator.free(tensor)
