"""How an operation ended, as tensors of one engine."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.constants import constant


class Code(IntEnum):
    """Every way an operation can end, as the integer that the tensors carry."""

    DONE = 0
    """The operation took effect."""
    HIT = 1
    """The requested entry, block or request was present."""
    MISS = 2
    """What was asked for was not there; a normal answer."""
    REFUSED = 3
    """There is no room; nothing was admitted."""
    TOO_LARGE = 4
    """It can never fit; nothing changed."""
    ABSENT = 5
    """The operation names something that is not there; nothing changed."""
    PRESENT = 6
    """The operation would create what exists already; nothing changed."""
    STALE = 7
    """The operation belongs to a moment that is over; nothing changed."""
    RETRY = 8
    """Something before it has not arrived; the other side must send again."""
    FAILED = 9
    """What comes after cannot be right; nothing changed."""
    DIVERGED = 10
    """The call never returns: of an era, and said instead of going on for ever."""


UNANSWERED = -1
"""In place of a code: the turn of a burst at which nothing was decided yet, so that it has to be asked for again."""


class Answer(NamedTuple):
    """A code and the integers that the call returned: the first `length` of `values`, the rest is -1."""

    code: Tensor
    """[] int64"""
    values: Tensor
    """[most that this operation returns] int64"""
    length: Tensor
    """[] int64"""


def answer(code: Tensor) -> Answer:
    """An outcome without values."""
    return Answer(code, code.new_empty((0,)), torch.zeros_like(code))


def either(condition: Tensor, met: Code, unmet: Code) -> Tensor:
    """The code `met` where the condition holds, the code `unmet` elsewhere."""
    device = condition.device
    return torch.where(condition, constant(int(met), device), constant(int(unmet), device))
