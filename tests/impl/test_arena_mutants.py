"""Bugs planted in the encoder arena: each is found beside a dictionary, or in some small layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.impl.arena_checks import first_difference, wrong_in_small_layouts
from tests.planting import Change, planted

from cacheimpl.arena import EncoderArena
from cacheimpl.arena import runs as operations
from cacheimpl.arena.errors import ArenaError

torch.set_num_threads(1)

MUTANTS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a gap that is one too small": (operations.place, "$ends - $begins >= $need", "$ends - $begins + 1 >= $need"),
    "a gap that is just right is passed over": (
        operations.place,
        "$ends - $begins >= $need",
        "$ends - $begins > $need",
    ),
    "one slot is never used": (operations.place, "$need <= free($config, $runs)", "$need < free($config, $runs)"),
    "the last gap": (operations.place, "$fits.long().argmax()", "$fits.shape[0] - 1 - $fits.flip(0).long().argmax()"),
    "what is stored is stored again": (
        operations.place,
        "torch.where($present.any(), *$rest)",
        "torch.where($present.all(), *$rest)",
    ),
    "outputs of a burst on top of each other": (
        operations.place,
        "$start + $wanted.cumsum(0) - $wanted",
        "$start + 0 * $wanted",
    ),
    "a burst begins one slot late": (
        operations.place,
        "$start + $wanted.cumsum(0) - $wanted",
        "$start + $wanted.cumsum(0)",
    ),
    "padding counts": (operations.place, "torch.where($rows >= 0, $lengths, 0)", "$lengths"),
    "a refusal takes slots": (operations.place, "choose($done, $after, $runs)", "$after"),
    "nothing says that runs have moved": (
        operations.place,
        "Placement(*$first, $moves & $done)",
        "Placement(*$first, ~$moves & ~$moves)",
    ),
    "runs are moved that need not": (operations.place, "~$fits.any()", "$fits.any() | ~$fits.any()"),
    "runs move in the order of rows": (
        operations.moved_together,
        "order_of($config, $runs)",
        "torch.arange($runs.starts.shape[0])",
    ),
    "what is absent comes first": (operations.order_of, "$config.slots", "-1"),
    "a gap begins where an output begins": (operations.gaps, "($zero, ends)", "($zero, starts)"),
    "the first gap is forgotten": (
        operations.gaps,
        "(torch.cat(($zero, $ends)), $x)",
        "(torch.cat(($zero + 1, $ends)), $x)",
    ),
    "lengths in eight bits": (
        operations.shifts_of_chunks,
        "$counts.cumsum(0)",
        "$counts.cumsum(0, dtype=torch.int8).long()",
    ),
    "a released output keeps its length": (
        operations.release,
        "torch.where($leaving, 0, $runs.lengths)",
        "$runs.lengths",
    ),
    "rows come from the neighbour": (operations.sources, "right=True", "right=False"),
    "a chunk begins at its output": (
        EncoderArena._slots,
        "self._runs.starts.index_select(0, $rows) + $x",
        "self._runs.starts.index_select(0, $rows)",
    ),
    "the last row of a chunk is missing": (operations.slots_of_chunks, "right=True", "right=False"),
    "chunks are not put one after the other": (operations.shifts_of_chunks, "$x - $ends + $counts", "$x"),
    "what is behind the chunks is the first row": (
        EncoderArena.gather,
        "torch.nn.functional.pad($slots, $behind, value=self.slots)",
        "torch.nn.functional.pad($slots, $behind, value=0)",
    ),
    "rows do not follow": (
        EncoderArena._place,
        "if $moved:\n    $body",
        "if $moved and (not $moved):\n    $body",
    ),
    "the last rows do not follow": (
        EncoderArena._follow,
        "range(0, $taken, ROWS_AT_ONCE)",
        "range(0, $taken - 3, ROWS_AT_ONCE)",
    ),
    "drained slots are not counted": (EncoderArena.drain, "self.free_slots += $freed", "$freed += 0"),
}


def caught() -> bool:
    """Whether a run beside a dictionary, or some small layout, shows the bug."""
    try:
        if any(first_difference(seed, *sizes) for seed in range(2) for sizes in ((12, 60, 5), (400, 40, 120))):
            return True
        return wrong_in_small_layouts() is not None
    except (AssertionError, RuntimeError, IndexError, ArenaError):
        return True


def test_without_a_bug_nothing_is_caught() -> None:
    assert not caught()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_bug_is_caught(mutant: str) -> None:
    with planted(Change(*MUTANTS[mutant])):
        assert caught()
