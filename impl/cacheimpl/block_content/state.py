"""The table of block contents: rows, the slots by which they are found, and the numbers of the hash function."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import torch
from torch import Tensor

NONE = -1
"""No content: the parent of a first block, and the answer at a position without a full block."""

ABOVE = 32
"""The low bits of a slot are bits of a hash; the bits above them name the owner of the slot."""

LOW = (1 << ABOVE) - 1

EMPTY = 1 << 62
"""A slot that was never taken: more than any row or claim."""

SLOTS_A_ROW = 4
"""Slots are so many times the rows, to the next power of two: few rows share the beginning of their way."""


class Config(NamedTuple):
    """The hash function: odd numbers drawn for this process, so that no client can compute which contents collide.

    Zeros in the place of all of them make a function under which all contents collide; the answers are the same.
    """

    words: Tensor
    """[words of a block] int64"""
    extra: Tensor
    """[] int64, of what the content depends on beside tokens"""
    depth: Tensor
    """[] int64, of a block as such, and of its place in the sequence"""
    mixer: Tensor
    """[] int64"""


class Contents(NamedTuple):
    """What is a content: the content before it, its tokens, and its extras. Its row is its name.

    The last row, and the last slot, take what is written for nobody.
    """

    words: Tensor
    """[rows + 1, words of a block] int64: the tokens, two in a word"""
    parents: Tensor
    """[rows + 1] int32: the row of the block before, or NONE"""
    extras: Tensor
    """[rows + 1] int64: the number of the extras, 0 where there are none"""
    sums: Tensor
    """[rows + 1] int64: the hash of the whole prefix, before it is mixed"""
    depths: Tensor
    """[rows + 1] int32: how many blocks come before; NONE where the row has no content"""
    begins: Tensor
    """[rows + 1] int64: where the search for the content begins, before it is wrapped (see `of_prefixes`)"""
    slots: Tensor
    """[slots + 1] int64: EMPTY, or a row above a part of its hash; with `rows` in the place of the row it is passed,
    because the claim to it came to nothing"""
    free: Tensor
    """[rows + 1] int64: the rows that have no content, as a stack"""
    free_rows: Tensor
    """[] int64: the height of the stack"""
    used_slots: Tensor
    """[] int64: slots that are not empty"""

    @property
    def rows(self) -> int:
        """How many contents there can be."""
        return self.sums.shape[0] - 1


def words_of_block(block_size: int) -> int:
    """How many words hold the tokens of a block."""
    return (block_size + 1) // 2


def slots_for(rows: int) -> int:
    """A power of two."""
    return 1 << max(3, (SLOTS_A_ROW * rows - 1).bit_length())


def drawn(block_size: int, device: torch.device | str = "cpu") -> Config:
    """The numbers of a new process."""
    count = words_of_block(block_size)
    numbers = torch.tensor([secrets.randbits(64) - (1 << 63) for _ in range(count + 3)], device=device) | 1
    return Config(numbers[:count], numbers[count], numbers[count + 1], numbers[count + 2])


def empty(block_size: int, rows: int, device: torch.device | str = "cpu") -> Contents:
    """No content; the first rows are taken first."""
    free = torch.arange(rows, -1, -1, device=device).roll(-1)

    def table(*shape: int, value: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.full(shape, value, dtype=dtype, device=device)

    return Contents(
        words=table(rows + 1, words_of_block(block_size)),
        parents=table(rows + 1, value=NONE, dtype=torch.int32),
        extras=table(rows + 1),
        sums=table(rows + 1),
        depths=table(rows + 1, value=NONE, dtype=torch.int32),
        begins=table(rows + 1),
        slots=table(slots_for(rows) + 1, value=EMPTY),
        free=free,
        free_rows=table(value=rows),
        used_slots=table(),
    )
