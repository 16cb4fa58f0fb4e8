"""Hashes of blocks and prefixes: they decide where the search for a content begins, not whether contents are equal."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.block_content.state import ABOVE, LOW, Config, Contents

WAY_SHIFT = 33

TOGETHER = 16
"""So many blocks of a chain, one after the other, begin their search side by side in memory: a power of two."""
APART = 16
"""The first blocks of a chain begin each for itself: many short prompts differ there, and share what is before."""


class Prefixes(NamedTuple):
    """All that is up to the end of each block; a field without another shape is [requests, blocks] int64."""

    sums: Tensor
    """its hash"""
    begins: Tensor
    """where the search for it begins"""
    depths: Tensor
    """[requests or 1, blocks] int32: the blocks before it"""


def mixed(config: Config, numbers: Tensor) -> Tensor:
    """[...] int64: every bit of the numbers has a part in the low bits."""
    folded = numbers ^ ((numbers >> ABOVE) & LOW)
    spread = folded * config.mixer
    return spread ^ ((spread >> ABOVE) & LOW)


def packed(tokens: Tensor, block_size: int) -> Tensor:
    """[requests, blocks, words] int64: the tokens ([requests, tokens] int32) block by block, two in a word.

    What does not fill a block is left out; an odd block has a zero at its end. Without an odd block nothing is copied.
    """
    requests, length = tokens.shape
    blocks = length // block_size
    whole = tokens[:, : blocks * block_size].reshape(requests, blocks, block_size)
    if block_size % 2:
        whole = torch.nn.functional.pad(whole, (0, 1))
    return whole.contiguous().view(torch.int64)


def of_blocks(config: Config, words: Tensor, extras: Tensor | None) -> Tensor:
    """[...] int64: the hash of each block by itself: its words ([..., words]) and its extras ([...], or nothing).

    There is no product of integer matrices on other devices; the sum is the same, with a pass over all words more. The
    high bits are folded into the low ones, so that no sum of multiples of these hashes is linear in the tokens.
    """
    tokens = words @ config.words if words.device.type == "cpu" else (words * config.words).sum(-1)
    numbers = tokens if extras is None else tokens + extras * config.extra
    return numbers ^ (numbers >> ABOVE)


def of_prefixes(
    config: Config, contents: Contents, parents: Tensor | None, words: Tensor, extras: Tensor | None
) -> Prefixes:
    """The prefixes of blocks that follow a parent ([requests]), or nothing.

    A hash is a sum over the blocks, each multiplied by a number of its depth, so that all prefixes of all requests are
    one running sum. To each block something is added, or else zeros would not count.
    """
    requests, blocks = words.shape[:2]
    columns = torch.arange(blocks, device=words.device)
    if parents is None:
        before, first = columns.new_zeros(1), columns.new_zeros(1)
    else:
        root, row = parents < 0, parents.clamp(min=0)
        before = torch.where(root, 0, contents.sums.index_select(0, row))
        first = torch.where(root, 0, contents.depths.index_select(0, row) + 1)
    depths = first[:, None] + columns
    places = mixed(config, (2 * depths + 1) * config.depth) | 1
    always = before[:, None] + (places * config.depth).cumsum(1)
    sums = always + (of_blocks(config, words, extras) * places).cumsum(1)
    leaders = torch.where(depths < APART, depths, depths & -TOGETHER) - first[:, None]
    led = sums
    if parents is not None:
        begun = contents.begins.index_select(0, row) ^ ((first - 1) & (TOGETHER - 1))
        leaders, led = leaders.clamp(min=-1) + 1, torch.cat((begun[:, None], sums), 1)
    begins = led.gather(1, leaders.expand(requests, blocks)) ^ (depths & (TOGETHER - 1))
    return Prefixes(sums, begins, depths.int())


def strides(sums: Tensor) -> Tensor:
    """[...] int64, odd: the steps in which the search for a prefix goes on."""
    return (sums >> WAY_SHIFT) | 1
