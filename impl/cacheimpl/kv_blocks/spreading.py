"""So many pieces of each turn of a burst, side by side: the blocks that it needs, or those that become full."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Pieces(NamedTuple):
    """Those of the first turn, those of the second one, and so on, with gaps."""

    turn: Tensor | None
    """[pieces] int64: whose it is; no tensor where every turn has as many places, one turn after the other"""
    place: Tensor
    """[pieces] int64, or [width] where every turn has as many: 0 for the first of its turn, 1 for the next"""
    there: Tensor
    """[pieces] bool: whether it is one; if not, turn and place are in range and mean nothing"""

    def of(self, column: Tensor) -> Tensor:
        """[pieces]: of each the value of its turn ([turns])."""
        if self.turn is None:
            return column[:, None].expand(-1, self.place.shape[0]).flatten()
        return column.index_select(0, self.turn)

    def counted_from(self, column: Tensor) -> Tensor:
        """[pieces] int64: the number of its turn ([turns] int64), counted on by its place."""
        if self.turn is None:
            return (column[:, None] + self.place).flatten()
        return column.index_select(0, self.turn) + self.place


def whole_blocks(tokens: Tensor, size: Tensor, width: int) -> Tensor:
    """[turns] int64: how many whole blocks of this size ([] int64) so many tokens ([turns] int64) are, `width` at most.

    By comparing, for to divide is slower; no token and less than that is no block.
    """
    if width == 1:
        return (tokens >= size).long()
    return (tokens[:, None] >= torch.arange(1, width + 1, device=tokens.device) * size).sum(1)


def spread(counts: Tensor, width: int, most: int | None = None) -> Pieces:
    """The pieces of turns that have so many each ([turns] int64), at most `width`.

    Where `most` is given, it is the number of pieces, and there are no more of all turns together: the work is then for
    those that there are, and not for all that could be. Nobody has no pieces.
    """
    turns, device = counts.shape[0], counts.device
    if most is None or turns == 0:
        place = torch.arange(width, device=device)
        return Pieces(None, place, (place < counts[:, None]).flatten())
    up_to = counts.cumsum(0)
    number = torch.arange(1, most + 1, device=device)
    turn = torch.searchsorted(up_to, number).clamp(max=turns - 1)
    there = number <= counts.sum()
    if width == 1:
        return Pieces(turn, torch.zeros_like(turn), there)
    return Pieces(turn, (counts - up_to).index_select(0, turn) + number - 1, there)
