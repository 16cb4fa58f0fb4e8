"""What a block depends on beside its tokens, as numbers: items (images), the adapter, and the cache salt.

The identity is that of the normative key: for every item that has a placeholder in the block its hash and where it
begins, counted from the start of the block, and so negative where it began before; the adapter by what it is, in every
block; the salt in the first block. Each has its tag: an item, an adapter and a salt of one spelling are three things.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from cacheimpl.block_content.errors import BlockContentError
from cacheimpl.counts import whole

NOTHING = 0
"""The number of a block that depends on its tokens only."""

Extra = tuple[str, Hashable, int]
"""A tag, a value, and an offset where there is one."""


class Item(NamedTuple):
    """An item of a prompt: where its placeholders are."""

    hash: Hashable
    offset: int
    length: int


def extras_of(
    items: Sequence[Item], blocks: int, block_size: int, adapter: Hashable = None, salt: Hashable = None
) -> list[tuple[Extra, ...]]:
    """For each of so many blocks what it depends on; items are in the order of their offsets. None: there is none."""
    _check(items, blocks, block_size)
    always: tuple[Extra, ...] = () if adapter is None else (("adapter", adapter, 0),)
    extras = [always] * blocks
    for item in items:
        for block in range(item.offset // block_size, min(blocks, -(-(item.offset + item.length) // block_size))):
            extras[block] = (*extras[block], ("item", item.hash, item.offset - block * block_size))
    if blocks > 0 and salt is not None:
        extras[0] = (*extras[0], ("salt", salt, 0))
    return extras


def _check(items: object, blocks: int, block_size: int) -> None:
    """Raises `BlockContentError` for what no prompt has."""
    whole("blocks", blocks, BlockContentError, least=0)
    whole("block_size", block_size, BlockContentError, least=1)
    if not isinstance(items, Sequence) or not all(isinstance(item, Item) for item in items):
        raise BlockContentError(f"items must be a list of Item, not {items!r}")
    for item in items:
        whole(f"the offset of item {item.hash!r}", item.offset, BlockContentError, least=0)
        whole(f"the length of item {item.hash!r}", item.length, BlockContentError, least=0)


class ExtraKeys:
    """Numbers for extras, by their exact values. No number is ever given twice to different extras."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Extra, ...], int] = {}
        self._next = NOTHING + 1

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, extras: tuple[Extra, ...]) -> int:
        """The number of these extras, `NOTHING` where there are none."""
        if not isinstance(extras, tuple):
            raise BlockContentError(f"extras must be a tuple of a block's extras, not {type(extras).__name__}")
        if not extras:
            return NOTHING
        try:
            number = self._numbers.setdefault(extras, self._next)
        except TypeError as error:
            raise BlockContentError(f"extras must have a hash: {error}") from None
        self._next += number == self._next
        return number

    def keep(self, numbers: Collection[int]) -> None:
        """Extras of other numbers are forgotten: they get new ones, and no content that is left has the old ones."""
        if not isinstance(numbers, Collection):
            raise BlockContentError(f"numbers must be several, in a list or the like, not {numbers!r}")
        kept = frozenset(numbers)
        self._numbers = {extras: number for extras, number in self._numbers.items() if number in kept}
