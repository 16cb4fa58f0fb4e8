"""So many pieces of each turn of a burst, side by side: the blocks that it needs, or those that become full."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.constants import counting
from cacheimpl.writing import Writing


class Pieces(NamedTuple):
    """Those of the first turn, those of the second one, and so on, with gaps."""

    turn: Tensor | None
    """[pieces] int64: whose it is; no tensor where every turn has as many places, one turn after the other"""
    offset: Tensor | None
    """[pieces] int64, or [width] where every turn has as many: 0 for the first of its turn, 1 for the next; no tensor
    where none has more than one"""
    rank: Tensor
    """[pieces] int64: 0 for the first of all that there are, 1 for the next; anything where there is none"""
    there: Tensor
    """[pieces] bool: whether it is one; if not, turn and place are in range and mean nothing"""
    total: Tensor
    """[] int64: how many there are"""

    def of(self, column: Tensor) -> Tensor:
        """[pieces]: of each the value of its turn ([turns])."""
        if self.turn is not None:
            return column.index_select(0, self.turn)
        return column if self.offset is None else column[:, None].expand(-1, self.offset.shape[0]).flatten()

    def cells(self, rows: Tensor, first: Tensor, columns: int) -> Tensor:
        """[pieces] int64: cells of a table with so many columns, counted row by row.

        Each is in the row of its turn ([turns] int64), as many columns behind the `first` one ([turns] int64) as its
        place says.
        """
        if self.turn is None:
            start = rows * columns + first
            return start if self.offset is None else (start[:, None] + self.offset).flatten()
        start = rows.index_select(0, self.turn) * columns + first.index_select(0, self.turn)
        return start if self.offset is None else start + self.offset

    def counted(self, rows: Tensor, counts: Tensor, write: Writing, table: Tensor) -> Tensor:
        """The table, to which is added in the row of each turn ([turns] int64) how many pieces it has ([turns] int64).

        Where the pieces of all turns are one after the other, each adds itself: they are fewer than the turns.
        """
        if self.turn is None:
            return write.add(table, rows, counts)
        return write.add(table, rows.index_select(0, self.turn), self.there.long())


def whole_blocks(tokens: Tensor, size: Tensor, width: int) -> Tensor:
    """[turns] int64: how many whole blocks of this size ([] int64) so many tokens ([turns] int64) are, `width` at most.

    No token and less than that is no block. To compare is faster than to divide, once.
    """
    if width == 1:
        return (tokens >= size).long()
    return tokens.div(size, rounding_mode="floor").clamp(min=0, max=width)


def spread(counts: Tensor, width: int, most: int | None = None, *, up_to: Tensor | None = None) -> Pieces:
    """The pieces of turns that have so many each ([turns] int64), at most `width`.

    `up_to` ([turns] int64) is the cumulative sum of the counts, where the caller has it; behind the last turn that has
    a piece it may be more. Where `most` is given, it is the number of pieces, and there are no more of all turns
    together: the work is then for those that there are, and not for all that could be. Nobody has no pieces.
    """
    turns, device = counts.shape[0], counts.device
    up_to, total = counts.cumsum(0) if up_to is None else up_to, counts.sum()
    if most is None or turns == 0:
        if width == 1:
            return Pieces(None, None, up_to - 1, counts > 0, total)
        places = counting(width, device)
        ranks = (up_to - counts)[:, None] + places
        return Pieces(None, places, ranks.flatten(), (places < counts[:, None]).flatten(), total)
    rank = counting(most, device)
    turn = torch.searchsorted(up_to, rank, right=True).clamp(max=turns - 1)
    offset = None if width == 1 else (counts - up_to).index_select(0, turn) + rank
    return Pieces(turn, offset, rank, rank < total, total)
