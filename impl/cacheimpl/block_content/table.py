"""The table of one process: bursts are interned until nothing remains, and it grows or gives rows back when asked."""

from __future__ import annotations

from itertools import count

import torch
from torch import Tensor

from cacheimpl.block_content.hashing import packed
from cacheimpl.block_content.operations import again, burst_of, intern
from cacheimpl.block_content.release import (
    cleared,
    forgotten,
    grown,
    held_in,
    is_closed,
    occupied,
    place,
    with_ancestors,
)
from cacheimpl.block_content.state import NONE, Config, Contents, drawn, empty
from cacheimpl.writing import IN_PLACE

CROWDED = 0.1
"""Where more than this part of the slots are passed, the table is built anew."""


class BlockContents:
    """Rows for the contents of blocks; the same content has the same row until it is given back."""

    def __init__(
        self, block_size: int, rows: int, device: torch.device | str = "cpu", config: Config | None = None
    ) -> None:
        if block_size <= 0 or rows <= 0:
            raise ValueError(f"block_size and rows must be positive, not {block_size} and {rows}")
        self.block_size = block_size
        self.config = drawn(block_size, device) if config is None else config
        self.contents: Contents = empty(block_size, rows, device)

    @property
    def used(self) -> int:
        """How many rows have a content; waits for the device."""
        return self.contents.rows - int(self.contents.free_rows)

    def of_prompts(
        self, tokens: Tensor, lengths: Tensor, extras: Tensor | None = None, parents: Tensor | None = None
    ) -> Tensor:
        """[requests, blocks] int64: the row of every full block, NONE where there is none.

        `tokens`: [requests, tokens] int32, of which the first `lengths` ([requests] int64) count. `extras`: [requests,
        blocks] int64, the number of what a block depends on beside tokens (see `ExtraKeys`). `parents`: [requests]
        int64, the content before the first block, where it is not the first of its request.

        Waits for the device once, to learn whether anything remains: that is so where hashes collide, or where the
        table has no room and grows. Raises TypeError and ValueError for wrong input, and nothing has changed then.
        """
        self._check(tokens, lengths, extras, parents)
        words = packed(tokens, self.block_size)
        burst = first = burst_of(
            words,
            words.new_zeros(words.shape[:2]) if extras is None else extras,
            torch.full_like(lengths, NONE) if parents is None else parents,
            lengths // self.block_size,
        )
        for calls in count(1):
            self.contents, found = intern(self.config, self.contents, burst, IN_PLACE)
            remaining, lacking = torch.stack((found.remaining, found.lacking)).tolist()
            if remaining == 0:
                return found.rows
            following = again(burst, found, calls)
            if lacking:
                self.grow(self.contents.rows + max(lacking, self.contents.rows))
                following = first
            elif self._is_crowded():
                self._build(occupied(self.contents))
                following = following._replace(walked=first.walked)
            elif torch.equal(following.walked, burst.walked) and torch.equal(following.claiming, burst.claiming):
                break
            burst = following
        raise AssertionError("the search for contents does not end")

    def keep(self, *holders: Tensor) -> None:
        """Only contents that are named in one of these tensors (any shape, negative for none) keep their rows.

        So do all contents before them. Every other row is free again, and may become another content.
        """
        live = held_in(self.contents, *holders)
        if not bool(is_closed(self.contents, live)):
            live = with_ancestors(self.contents, live)
        if self._is_crowded():
            self._build(live)
        else:
            self.contents = forgotten(self.contents, live, IN_PLACE)

    def _is_crowded(self) -> bool:
        """So many slots are passed that searches become long."""
        contents = self.contents
        passed = contents.used_slots - (contents.rows - contents.free_rows)
        return int(passed) > CROWDED * contents.slots.shape[0]

    def grow(self, rows: int) -> None:
        """So many rows; contents keep theirs."""
        if rows <= self.contents.rows:
            raise ValueError(f"there are {self.contents.rows} rows already")
        before = self.contents
        live = occupied(before)
        self.contents = grown(before, rows)
        self._build(torch.nn.functional.pad(live, (0, rows - before.rows)))

    def _build(self, live: Tensor) -> None:
        self.contents = cleared(self.contents, live)
        walked = torch.zeros_like(live, dtype=torch.int64)
        while True:
            self.contents, placed = place(self.config, self.contents, live, walked, IN_PLACE)
            if int(placed.remaining) == 0:
                return
            if torch.equal(placed.walked, walked):
                raise AssertionError("the table of contents cannot be built")
            walked = placed.walked

    def _check(self, tokens: Tensor, lengths: Tensor, extras: Tensor | None, parents: Tensor | None) -> None:
        if tokens.dtype != torch.int32 or tokens.dim() != 2:
            raise TypeError(f"tokens must be [requests, tokens] int32, not {tokens.dtype} {tuple(tokens.shape)}")
        requests, blocks = tokens.shape[0], tokens.shape[1] // self.block_size
        for name, values, shape in (
            ("lengths", lengths, (requests,)),
            ("extras", extras, (requests, blocks)),
            ("parents", parents, (requests,)),
        ):
            if values is not None and (values.dtype != torch.int64 or tuple(values.shape) != shape):
                raise TypeError(f"{name} must be {list(shape)} int64, not {values.dtype} {tuple(values.shape)}")
            if values is not None and values.device != tokens.device:
                raise ValueError(f"{name} is on {values.device}, tokens are on {tokens.device}")
        wrong = (lengths < 0) | (lengths > tokens.shape[1])
        if parents is not None:
            wrong = wrong | ~((parents == NONE) | self._is_content(parents))
        if bool(wrong.any()):
            raise ValueError("lengths must be 0 to the number of tokens given, and parents contents or NONE")

    def _is_content(self, rows: Tensor) -> Tensor:
        inside = (rows >= 0) & (rows < self.contents.rows)
        return inside & occupied(self.contents).index_select(0, rows.clamp(0, self.contents.rows - 1))
