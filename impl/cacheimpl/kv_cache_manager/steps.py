"""Steps that workers execute in order, and the copies of blocks with which each of them begins.

A hit that ends within a block shares that block, and its request writes into a copy. A state that others can find is
copied before its request overwrites it. Both blocks of a copy are held until its step goes to the workers (PH-6).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from cacheimpl.kv_cache_manager.blocks import KVCacheBlock
from cacheimpl.kv_cache_manager.contents import Content
from cacheimpl.kv_cache_manager.several_keys import SeveralKeysPool


class KVCacheBlockCopy(NamedTuple):
    """Workers copy one block into another before they compute anything of the step."""

    src_block_id: int
    dst_block_id: int


class Kept(NamedTuple):
    """A state that others find in its copy, as soon as the copy has been made."""

    key: Hashable
    content: Content


class Copy(NamedTuple):
    """A copy that was planned."""

    step: int
    group: int
    source: KVCacheBlock
    target: KVCacheBlock
    kept: Kept | None = None
    """None: the target is a request's own, or can be found already."""


class End(NamedTuple):
    """Where a step ends for a request."""

    tokens: int
    step: int


class Steps:
    """Which step each request is in, and which copies were not made yet."""

    def __init__(self, pool: SeveralKeysPool) -> None:
        self._pool = pool
        self._planned = 0
        """Steps that went to the workers; the next one is being planned."""
        self._executed = 0
        """Steps that were executed, as far as that is known."""
        self._told = 0
        """The same, by `commit_step` alone."""
        self._pending: list[Copy] = []
        self._awaited: list[Copy] = []
        self._ends: dict[str, list[End]] = {}

    def scheduled(self, request_id: str, start: int, end: int) -> None:
        """The step being planned computes the tokens from `start` to `end`."""
        before = [its for its in self._ends.get(request_id, ()) if its.tokens <= start]
        self._ends[request_id] = [*before[-2:], End(end, self._planned)]

    def ends_at(self, request_id: str, tokens: int) -> bool:
        """Whether a step of the request ends with this number of tokens."""
        return any(its.tokens == tokens for its in self._ends.get(request_id, ()))

    def next_end(self, request_id: str, tokens: int) -> int | None:
        """Where the next step of the request ends that is behind these tokens; None if there is none."""
        return next((its.tokens for its in self._ends.get(request_id, ()) if its.tokens > tokens), None)

    def passed(self, request_id: str, tokens: int) -> None:
        """The request's tokens before this one were executed, and with them all steps up to theirs."""
        steps = [its.step + 1 for its in self._ends.get(request_id, ()) if its.tokens <= tokens]
        self._complete(max(steps, default=0))

    def left(self, request_id: str) -> None:
        """The request has no table any more."""
        self._ends.pop(request_id, None)

    def copy(self, group: int, source: KVCacheBlock, target: KVCacheBlock, kept: Kept | None = None) -> None:
        """The step being planned begins with this copy. Both blocks have a reference for it."""
        self._pending.append(Copy(self._planned, group, source, target, kept))

    def take(self) -> tuple[list[KVCacheBlockCopy], list[KVCacheBlock]]:
        """The step being planned goes to the workers: its copies, those of the first group first, and their blocks.

        The caller gives the blocks back. A target that others will find is none of them: it is held until the copy was
        made.
        """
        copies = sorted(self._pending, key=lambda its: its.group)
        self._awaited += [its for its in self._pending if its.kept is not None]
        self._pending, self._planned = [], self._planned + 1
        held = [block for its in copies for block in ((its.source, its.target) if its.kept is None else (its.source,))]
        return [KVCacheBlockCopy(its.source.block_id, its.target.block_id) for its in copies], held

    def commit_step(self) -> None:
        """The oldest step that the workers have was executed. Nothing is to be done if they have none."""
        if self._told < self._planned:
            self._told += 1
            self._complete(self._told)

    def _complete(self, executed: int) -> None:
        """What earlier steps have copied for others can be found (PH-7)."""
        self._executed = max(self._executed, min(executed, self._planned))
        if not self._awaited:
            return
        done = [its for its in self._awaited if its.step < self._executed]
        self._awaited = [its for its in self._awaited if its.step >= self._executed]
        for its in done:
            assert its.kept is not None
            self._pool.add(its.target, its.kept.key, its.kept.content)
            self._pool.let_all_go([its.target])
