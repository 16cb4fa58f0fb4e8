"""Hashes of blocks and prefixes: what decides where a content is looked for, and never whether it is the one."""

from __future__ import annotations

import torch
from torch import Tensor

from cacheimpl.block_content.state import Config, Contents

TOP_BITS = (1 << 32) - 1
WAY_SHIFT = 33


def mixed(config: Config, numbers: Tensor) -> Tensor:
    """[...] int64: every bit of the numbers has a part in the low bits."""
    folded = numbers ^ ((numbers >> 32) & TOP_BITS)
    spread = folded * config.mixer
    return spread ^ ((spread >> 32) & TOP_BITS)


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


def of_blocks(config: Config, words: Tensor, extras: Tensor, depths: Tensor) -> Tensor:
    """[...] int64: the hash of each block by itself: its words ([..., words]), its extras and its depth ([...]).

    There is no product of integer matrices on other devices; the sum is the same, with a pass over all words more.
    """
    tokens = words @ config.words if words.device.type == "cpu" else (words * config.words).sum(-1)
    return mixed(config, tokens + extras * config.extra + (2 * depths + 1) * config.depth)


def of_prefixes(
    config: Config, contents: Contents, parents: Tensor, words: Tensor, extras: Tensor
) -> tuple[Tensor, Tensor]:
    """[requests, blocks] int64 twice: the hash of all that is up to the end of each block, and the blocks before it.

    Blocks follow a parent ([requests]). A hash is a sum over the blocks, so that all prefixes of all requests are one
    running sum.
    """
    root = parents < 0
    row = parents.clamp(min=0)
    before = torch.where(root, 0, contents.sums.index_select(0, row))
    first = torch.where(root, 0, contents.depths.index_select(0, row) + 1)
    depths = first[:, None] + torch.arange(words.shape[1], device=words.device)
    return before[:, None] + of_blocks(config, words, extras, depths).cumsum(1), depths


def ways(config: Config, sums: Tensor) -> tuple[Tensor, Tensor]:
    """[...] int64 twice: where the search for a prefix begins, and its stride, which is odd."""
    begin = mixed(config, sums)
    return begin, (begin >> WAY_SHIFT) | 1
