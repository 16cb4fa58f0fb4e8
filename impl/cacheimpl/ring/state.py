"""What the writer of a ring knows, as tensors: a row for each chunk that can be live at once, and four numbers.

The chunk of id i has the row i modulo the number of rows. Live ids follow one another, so no two have one row; there
are as many ids as `modulus`, of which the number of rows is a divisor.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.layout import Field

NO_CHUNK = -1
"""The address in a row that no live chunk has."""


class Config(NamedTuple):
    """What does not change."""

    capacity: Tensor
    """[] int64, bytes of data"""
    header: Tensor
    """[] int64, bytes before the payload of a chunk"""
    modulus: Tensor
    """[] int64: how many ids there are"""


class Ring(NamedTuple):
    """One ring. Addresses run on into a second lap: less `capacity`, they are places."""

    addresses: Tensor
    """[rows] int64: where each live chunk begins, as it was given out; `NO_CHUNK` elsewhere"""
    totals: Tensor
    """[rows] int64, bytes, header included; 0 where there is none"""
    id_start: Tensor
    """[] int64: the oldest live chunk, if there is one"""
    id_end: Tensor
    """[] int64: the id of the next chunk"""
    start: Tensor
    """[] int64: where the oldest live chunk begins; 0 if there is none"""
    end: Tensor
    """[] int64: behind the newest live chunk"""


def empty(rows: int, device: torch.device | str = "cpu") -> Ring:
    """No chunks."""
    zero = torch.zeros((), dtype=torch.int64, device=device)
    return Ring(
        addresses=torch.full((rows,), NO_CHUNK, dtype=torch.int64, device=device),
        totals=torch.zeros(rows, dtype=torch.int64, device=device),
        id_start=zero,
        id_end=zero,
        start=zero,
        end=zero,
    )


def fields(rows: int, capacity: int, modulus: int) -> tuple[Field, ...]:
    """The fields of a ring with these sizes; what a chunk has in all is derived by whoever knows what is in it."""
    return (
        Field("addresses", (rows,), torch.int64, NO_CHUNK, 2 * capacity - 1),
        Field("totals", (rows,), torch.int64, 0, capacity, derived=True),
        Field("id_start", (), torch.int64, 0, modulus - 1),
        Field("id_end", (), torch.int64, 0, modulus - 1),
        Field("start", (), torch.int64, 0, capacity - 1),
        Field("end", (), torch.int64, 0, 2 * capacity - 1),
    )
