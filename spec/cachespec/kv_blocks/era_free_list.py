"""The free queue of releases from 0.11.0 on: a doubly linked list of blocks with a counter.

Each block has two links, `None` while it is outside the list. A sentinel stands at each end. The release trusts its
links: a block that is appended twice stays in the list when it is removed, or takes others out of it (C-KV-21). So the
links are the state, and every other reading of the queue is derived from them.
"""

from __future__ import annotations

from typing import NamedTuple

from cachespec.kernel import Containers, Map
from cachespec.kv_blocks.configuration import Block, Config
from cachespec.kv_blocks.state import Pool, initial

TAIL, HEAD, NONE = -1, -2, -3
"""The sentinels, and an empty link. The release numbers both sentinels -1; only the tail is ever handed out."""


class FreeList(NamedTuple):
    """The links, by block or sentinel; an empty link is absent."""

    following: Map[Block, Block]
    """`next_free_block`."""
    preceding: Map[Block, Block]
    """`prev_free_block`."""
    counter: int
    """`num_free_blocks`."""
    ended: int = 0
    """1: an assertion failed, and with it the engine. No call follows."""


class LinkedPool(Pool):
    """A pool whose free queue is a linked list."""

    free: FreeList  # type: ignore[assignment]  # eras read the queue through the methods below only

    def with_list(self, free: FreeList) -> Pool:
        """The pool with another list."""
        return self._replace(free=free)  # type: ignore[arg-type]  # the type of the field is overridden above

    def free_count(self) -> int:
        """The counter, whatever the links say."""
        return self.free.counter

    def free_order(self) -> tuple[Block, ...]:
        """The blocks between the sentinels; up to an empty link, and each once, if the list is broken."""
        order: dict[Block, None] = {}
        block = self.free.following.get(HEAD, NONE)
        while block not in order and self.free.following.has(block):
            order[block] = None
            block = self.free.following.get(block, NONE)
        return tuple(order)

    def popped(self, count: int) -> tuple[Pool, tuple[Block, ...], bool]:
        """`popleft_n`: the counter goes down first; an empty link before the last block fails an assertion."""
        free = self.free._replace(counter=self.free.counter - count)
        blocks: tuple[Block, ...] = ()
        block = free.following.get(HEAD, NONE)
        while len(blocks) < count:
            if block == NONE:
                return self.with_list(free).ended(), blocks, False
            blocks, after = (*blocks, block), free.following.get(block, NONE)
            free, block = unlinked(free, block), after
        if block != NONE:
            free = joined(free, HEAD, block)
        return self.with_list(free), blocks, True

    def removed(self, block: Block) -> tuple[Pool, bool]:
        """`remove`: the neighbours are joined; an empty link is an error."""
        before, after = self.free.preceding.get(block, NONE), self.free.following.get(block, NONE)
        if NONE in (before, after):
            return self.ended(), False
        free = unlinked(joined(self.free, before, after), block)
        return self.with_list(free._replace(counter=free.counter - 1)), True

    def appended(self, blocks: tuple[Block, ...]) -> tuple[Pool, bool]:
        """`append_n`: each block behind the last one; C-KV-21: a block that is there already gets other links.

        A sentinel that was handed out has no link to the last block, which fails an assertion.
        """
        if len(blocks) == 0:
            return self, True
        free, last = self.free, self.free.preceding.get(TAIL, NONE)
        if last == NONE:
            return self.ended(), False
        for block in blocks:
            free, last = joined(free, last, block), block
        free = joined(free, last, TAIL)
        return self.with_list(free._replace(counter=free.counter + len(blocks))), True

    def ended(self) -> Pool:
        """The engine ends with the exception."""
        return self.with_list(self.free._replace(ended=1))

    def has_ended(self) -> bool:
        """Whether it did."""
        return self.free.ended == 1


def joined(free: FreeList, before: Block, after: Block) -> FreeList:
    """The two are neighbours."""
    return free._replace(
        following=free.following.set(before, after),
        preceding=free.preceding.set(after, before),
    )


def unlinked(free: FreeList, block: Block) -> FreeList:
    """Both links of the block are empty."""
    return free._replace(following=free.following.remove(block), preceding=free.preceding.remove(block))


def initial_list(config: Config, containers: Containers) -> FreeList:
    """Every block is linked, the first one first."""
    free = joined(FreeList(containers.map(), containers.map(), config.blocks), HEAD, TAIL)
    for block in range(config.blocks):
        free = joined(joined(free, free.preceding.get(TAIL, HEAD), block), block, TAIL)
    return free


def initial_linked(config: Config, containers: Containers) -> Pool:
    """The first block is popped and set aside as the null block: it is never free and carries nothing."""
    keyed = initial(config, containers)
    linked = LinkedPool(*keyed._replace(free=initial_list(config, containers)))  # type: ignore[arg-type]  # see `free`
    pool, blocks, _ = linked.popped(1)
    return pool._replace(null=blocks[0])
