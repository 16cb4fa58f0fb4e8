"""A decode step with the inputs of an attention kernel: positions, lengths and slots."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from cacheimpl.kv_blocks.decoding import decode
from cacheimpl.kv_blocks.prefix import slot_mapping
from cacheimpl.kv_blocks.state import Config, Pool, nobody
from cacheimpl.writing import COPYING, Writing

NO_SLOT = -1
"""The slot of a turn that was not served: attention kernels write nothing there."""


class Step(NamedTuple):
    """What became of a step. Fields are [turns] int64, unless they say otherwise."""

    remaining: Tensor
    """[] int64: how many requests were not served: 0 as a rule, and the only thing to be read back"""
    done: Tensor
    """bool: was given a slot; all turns before the first one that was not"""
    executed: Tensor
    """bool: whose tokens are written"""
    positions: Tensor
    """the position of the token in its request; 0 if the turn was not served"""
    lengths: Tensor
    """tokens with a slot, this one included: the length of the sequence for an attention kernel; 0 as before"""
    slots: Tensor
    """the slot of the token: block times block size plus the offset in the block; NO_SLOT if not served"""


def step(
    config: Config, pool: Pool, requests: Tensor, *, most: int | None = None, write: Writing = COPYING
) -> tuple[Pool, Step]:
    """`decode` of these requests, and where each of them writes its token."""
    after, decoded = decode(config, pool, requests, most=most, write=write)
    done = decoded.done
    lengths = after.scheduled.index_select(0, requests) * done
    positions = (lengths - 1).clamp(min=0)
    slots = slot_mapping(config, after, requests, positions)
    return after, Step(
        remaining=(requests < nobody(pool)).sum() - done.sum(),
        done=done,
        executed=decoded.executed,
        positions=positions,
        lengths=lengths,
        slots=slots.masked_fill(~done, NO_SLOT),
    )
