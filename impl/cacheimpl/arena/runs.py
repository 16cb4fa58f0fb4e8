"""Which slots of the buffer each output takes: one contiguous run each, for one engine, without branches.

An output is a row of the tables. New outputs go, side by side, where the first gap is that takes all of them. Where
none does and enough slots are free in all, the runs are moved together first. So what fits by count always fits:
scattered slots cost time and never room. Moving keeps the order of the runs, and moves each of them down or not at all.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import Code
from cacheimpl.constants import counting
from cacheimpl.table import choose

ABSENT = -1
"""Where an output begins that is not stored."""


class Config(NamedTuple):
    """What does not change."""

    slots: Tensor
    """[] int64: rows of the buffer"""


class Runs(NamedTuple):
    """The runs of all outputs; no two of them share a slot."""

    starts: Tensor
    """[outputs] int64, slots: -1 where nothing is stored"""
    lengths: Tensor
    """[outputs] int64, slots: 0 where nothing is stored"""


class Placement(NamedTuple):
    """How a burst of outputs was answered."""

    code: Tensor
    """[] int64: DONE, REFUSED without room, PRESENT where one of them is stored; but for DONE nothing changes"""
    start: Tensor
    """[] int64: the first slot of the burst; 0 where it is refused"""
    moved: Tensor
    """[] bool: whether the runs were moved together first, so that the rows of the buffer have to follow"""


def empty(outputs: int, device: torch.device | str = "cpu") -> Runs:
    """Nothing is stored."""
    return Runs(
        torch.full((outputs,), ABSENT, dtype=torch.int64, device=device),
        torch.zeros(outputs, dtype=torch.int64, device=device),
    )


def free(config: Config, runs: Runs) -> Tensor:
    """[] int64: how many slots no output takes."""
    return config.slots - runs.lengths.sum()


def order_of(config: Config, runs: Runs) -> Tensor:
    """[outputs] int64: the rows by where they begin; those that are not stored come last."""
    return torch.where(runs.starts >= 0, runs.starts, config.slots).argsort(stable=True)


def gaps(config: Config, runs: Runs) -> tuple[Tensor, Tensor]:
    """[outputs + 1] int64 twice: where each gap begins and ends, in the order of slots; a gap may be empty."""
    order = order_of(config, runs)
    starts = torch.where(runs.starts >= 0, runs.starts, config.slots)[order]
    ends = starts + runs.lengths[order]
    zero = torch.zeros_like(starts[:1])
    return torch.cat((zero, ends)), torch.cat((starts, config.slots.expand(1)))


def largest_gap(config: Config, runs: Runs) -> Tensor:
    """[] int64: the longest run that can be stored without moving anything."""
    begins, ends = gaps(config, runs)
    return (ends - begins).max()


def moved_together(config: Config, runs: Runs) -> Runs:
    """The same outputs from slot 0 on, in the same order, without gaps."""
    order = order_of(config, runs)
    lengths = runs.lengths[order]
    starts = torch.zeros_like(lengths).scatter(0, order, lengths.cumsum(0) - lengths)
    return runs._replace(starts=torch.where(runs.starts >= 0, starts, ABSENT))


def place(config: Config, runs: Runs, rows: Tensor, lengths: Tensor) -> tuple[Runs, Placement]:
    """Store a burst: outputs with these rows ([k] int64, each once; negative for none) and lengths ([k] int64)."""
    wanted = torch.where(rows >= 0, lengths, 0)
    need = wanted.sum()
    begins, ends = gaps(config, runs)
    fits = ends - begins >= need
    gap = fits.long().argmax().reshape(1)
    moves = ~fits.any()
    kept = Runs(
        *(torch.where(moves, moved, other) for moved, other in zip(moved_together(config, runs), runs, strict=True))
    )
    start = torch.where(moves, runs.lengths.sum(), begins.index_select(0, gap).squeeze(0))
    place_of = torch.where(rows >= 0, rows, runs.starts.shape[0])
    present = (runs.starts.index_select(0, rows.clamp(min=0)) >= 0) & (rows >= 0)
    code = torch.where(need <= free(config, runs), int(Code.DONE), int(Code.REFUSED))
    code = torch.where(present.any(), int(Code.PRESENT), code)
    after = Runs(
        _written(kept.starts, place_of, start + wanted.cumsum(0) - wanted), _written(kept.lengths, place_of, wanted)
    )
    done = code == int(Code.DONE)
    return choose(done, after, runs), Placement(code, torch.where(done, start, 0), moves & done)


def release(config: Config, runs: Runs, leaving: Tensor) -> tuple[Runs, Tensor]:
    """Without these outputs ([outputs] bool); and [] int64: how many slots they give back."""
    after = Runs(torch.where(leaving, ABSENT, runs.starts), torch.where(leaving, 0, runs.lengths))
    return after, torch.where(leaving, runs.lengths, 0).sum()


def sources(config: Config, before: Runs, slots: Tensor) -> Tensor:
    """[n] int64: for each of these slots ([n] int64), which slot its row comes from when the runs move together.

    It is never a smaller one, so slots may be filled in ascending order, some at a time, in the buffer itself.
    """
    order = order_of(config, before)
    ends = before.lengths[order].cumsum(0)
    index = torch.searchsorted(ends, slots, right=True)
    row = order.index_select(0, index.clamp(max=order.shape[0] - 1))
    shift = before.starts.index_select(0, row) - moved_together(config, before).starts.index_select(0, row)
    return torch.where(slots < before.lengths.sum(), slots + shift, slots)


def rows_of_chunks(starts: Tensor, counts: Tensor, size: int, nowhere: Tensor | int) -> Tensor:
    """[size] int64: the slots of several chunks one after the other; `nowhere` behind the last.

    Chunks ([k] int64) begin at these slots and have so many. The size does not depend on data, so the index can be
    made, and used, in a captured graph.
    """
    ends, shifts = shifts_of_chunks(starts, counts)
    slots = slots_of_chunks(ends, torch.cat((shifts, shifts.new_zeros(1))), size)
    return torch.where(counting(size, starts.device) < ends[-1], slots, nowhere)


def shifts_of_chunks(starts: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """[k] int64 twice: the place behind each chunk, one after the other, and how far its slots are from its places."""
    ends = counts.cumsum(0)
    return ends, starts - ends + counts


def slots_of_chunks(ends: Tensor, shifts: Tensor, size: int) -> Tensor:
    """[size] int64: the slots of chunks. With as many shifts as ends, no place is behind the last end."""
    places = counting(size, ends.device)
    return places + shifts.index_select(0, torch.searchsorted(ends, places, right=True))


def _written(table: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """The table with these values at these places; the place behind its end is nowhere."""
    longer = torch.cat((table, torch.zeros_like(table[:1])))
    return longer.scatter(0, places, values)[:-1]
