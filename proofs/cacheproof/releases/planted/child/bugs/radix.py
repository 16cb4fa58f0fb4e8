"""Bugs in SGLang's prefix cache in Python, and in the allocators of its slots and pages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .declaring import Place, meanwhile

MEM_CACHE = "sglang.srt.mem_cache"
TREE = Place(f"{MEM_CACHE}.radix_cache:RadixCache")
SLOTS = Place(f"{MEM_CACHE}.allocator.token:TokenToKVPoolAllocator")
PAGES = Place(f"{MEM_CACHE}.allocator.paged:PagedTokenToKVPoolAllocator")


@TREE.broken("inc_lock_ref")
def lock_holds_nothing(released: Any, tree: Any, node: Any) -> Any:
    """A locked prefix can be evicted."""


@TREE.broken("inc_lock_ref")
def only_the_end_is_locked(released: Any, tree: Any, node: Any) -> Any:
    """Only the last part of a prefix is locked."""
    with meanwhile(node, parent=tree.root_node):
        return released(node)


@TREE.broken("dec_lock_ref")
def lock_stays(released: Any, tree: Any, node: Any, *given: Any) -> Any:
    """A released lock stays."""


@TREE.broken("evict")
def half_is_evicted(released: Any, tree: Any, asked: Any) -> Any:
    """An eviction frees half of the requested pages."""
    return released(SimpleNamespace(num_tokens=asked.num_tokens // 2))


@TREE.broken("evict", unseen="the check asks whether anything had to be evicted, not how much")
def all_is_evicted(released: Any, tree: Any, asked: Any) -> Any:
    """An eviction frees every unlocked page."""
    return released(SimpleNamespace(num_tokens=1 << 30))


@TREE.broken("evict")
def newest_leaf_is_evicted(released: Any, tree: Any, asked: Any) -> Any:
    """The leaf that was used last is evicted first."""
    _reverse(tree.root_node)
    try:
        return released(asked)
    finally:
        _reverse(tree.root_node)


def _reverse(node: Any) -> None:
    node.last_access_time = -node.last_access_time
    for child in node.children.values():
        _reverse(child)


@TREE.broken("_delete_leaf")
def evicted_is_still_counted(released: Any, tree: Any, node: Any) -> Any:
    """Evicted pages still count as evictable."""
    released(node)
    tree.evictable_size_ += len(node.key)


@TREE.broken("insert")
def first_page_is_missing(released: Any, tree: Any, given: Any) -> Any:
    """An insertion reports its first page as a duplicate, which the caller frees."""
    answer = released(given)
    answer.prefix_len = max(answer.prefix_len, min(tree.page_size, len(given.key)))
    return answer


@TREE.broken("_match_prefix_helper")
def last_part_is_not_found(released: Any, tree: Any, node: Any, key: Any) -> Any:
    """If a prefix has several parts, the last is not found."""
    values, last = released(node, key)
    return (values[:-1], last.parent) if len(values) > 1 else (values, last)


@SLOTS.broken("alloc")
def one_slot_is_kept(released: Any, slots: Any, size: int) -> Any:
    """The last free slot is never allocated."""
    return None if size >= len(slots.free_pages) else released(size)


@SLOTS.broken("free")
def first_slot_is_lost(released: Any, slots: Any, given: Any) -> Any:
    """The first freed slot leaks."""
    return released(given[1:])


@SLOTS.broken("free")
def first_slot_comes_twice(released: Any, slots: Any, given: Any) -> Any:
    """The first freed slot is free twice."""
    released(given)
    return released(given[:1])


@PAGES.broken("alloc")
def pages_stay_free(released: Any, pages: Any, size: int) -> Any:
    """The first allocated page stays in the free list."""
    given = released(size)
    if given is not None and len(given):
        pages.free_pages = pages.free_pages.new_tensor([*pages.free_pages.tolist(), int(given[0]) // pages.page_size])
    return given


@PAGES.broken("free")
def partial_page_is_kept(released: Any, pages: Any, given: Any) -> Any:
    """A partly freed page leaks."""
    return released(given[: len(given) // pages.page_size * pages.page_size])
