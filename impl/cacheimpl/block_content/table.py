"""The table of one process: bursts are interned until nothing remains, and it grows or gives rows back when asked."""

from __future__ import annotations

from itertools import count

import torch
from torch import Tensor

from cacheimpl.block_content.bursts import Burst
from cacheimpl.block_content.errors import BlockContentError, WrongTensorError
from cacheimpl.block_content.hashing import packed
from cacheimpl.block_content.operations import (
    Interned,
    Lanes,
    again,
    burst_of,
    from_the_start,
    look,
    most_calls,
    settle,
)
from cacheimpl.block_content.release import cleared, grown, held_in, is_closed, occupied, place, with_ancestors
from cacheimpl.block_content.state import NONE, Config, Contents, drawn, empty
from cacheimpl.counts import whole
from cacheimpl.devices import usable
from cacheimpl.writing import IN_PLACE

CROWDED = 0.1
"""Where more than this part of the slots are passed, the table is built anew."""

FEW = 4
"""Where less than one part in so many is to be compared, it is chosen first."""


class BlockContents:
    """Rows for the contents of blocks; the same content has the same row until it is given back."""

    def __init__(
        self, block_size: int, rows: int, device: torch.device | str = "cpu", config: Config | None = None
    ) -> None:
        self.block_size = whole("block_size", block_size, BlockContentError, least=1)
        count_of_rows = whole("rows", rows, BlockContentError, least=1)
        place = usable(device, BlockContentError)
        self.config = drawn(self.block_size, place) if config is None else config
        self.contents: Contents = empty(self.block_size, count_of_rows, place)
        self.may_be_cached = False
        """Whether a block of the last prompts may have been a content before. If not, no cache has any of them."""
        if not isinstance(self.config, Config) or self.config.words.shape[0] != self.contents.words.shape[1]:  # type: ignore[redundant-expr]  # callers are not all typed
            raise BlockContentError(f"config must be a Config drawn for blocks of {block_size} tokens")

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

        Waits for the device to learn how much there is to compare, and whether anything remains: that is so where
        hashes collide, or where the table has no room and grows. Raises TypeError and ValueError for wrong input, and
        nothing has changed then.
        """
        self._check(tokens, lengths, extras, parents)
        words, self.may_be_cached = packed(tokens, self.block_size), False
        burst = first = burst_of(words, extras, parents, lengths // self.block_size)
        for calls in count(1):
            found = self._interned(burst)
            remaining, lacking = torch.stack((found.remaining, found.lacking)).tolist()
            if remaining == 0:
                return found.rows
            slots = self.contents.slots.shape[0]
            patient = calls > slots
            if lacking:
                self.grow(self.contents.rows + max(lacking, self.contents.rows))
                burst = from_the_start(first) if patient else first
            elif self._is_crowded():
                self._build(occupied(self.contents))
                following = again(burst, found, calls)._replace(stands=None)
                burst = from_the_start(first) if patient else following
            elif calls > most_calls(first.words.shape[0] * first.words.shape[1], slots):
                break
            else:
                burst = again(burst, found, calls, patient=patient)
        raise AssertionError("the search for contents does not end")

    def _interned(self, burst: Burst) -> Interned:
        """`intern`, in as many lanes as there is to compare, or all, where that is less work than choosing them."""
        self.contents, looked = look(self.config, self.contents, burst, IN_PLACE)
        items, asked = looked.wanted.shape[0], looked.counts.tolist()
        self.may_be_cached = self.may_be_cached or asked[0] > 0
        lanes = Lanes(*(items if FEW * some > items else some for some in asked))
        self.contents, found = settle(self.contents, burst, looked, lanes, IN_PLACE)
        return found

    def keep(self, *holders: Tensor) -> None:
        """Only contents that are named in one of these tensors (any shape, negative for none) keep their rows.

        So do all contents before them. Every other row is free again, and may become another content.
        """
        for holder in holders:
            self._check_tensor("holders", holder, torch.int64)
            if bool((holder >= self.contents.rows).any()):
                raise BlockContentError(f"holders must have rows below {self.contents.rows}, or negative ones for none")
        live = held_in(self.contents, *holders)
        if not bool(is_closed(self.contents, live, live.nonzero().flatten())):
            live = with_ancestors(self.contents, live)
        self._build(live)

    def _is_crowded(self) -> bool:
        """So many slots are passed that searches become long."""
        contents = self.contents
        passed = contents.used_slots - (contents.rows - contents.free_rows)
        return int(passed) > CROWDED * contents.slots.shape[0]

    def grow(self, rows: int) -> None:
        """So many rows; contents keep theirs."""
        rows = whole(
            f"rows (there are {self.contents.rows} rows already)", rows, BlockContentError, least=self.contents.rows + 1
        )
        before = self.contents
        live = occupied(before)
        self.contents = grown(before, rows)
        self._build(torch.nn.functional.pad(live, (0, rows - before.rows)))

    def _build(self, live: Tensor) -> None:
        self.contents = cleared(self.contents, (~live).nonzero().flatten(), IN_PLACE)
        rows = live.nonzero().flatten()
        stands, waiting = None, torch.ones_like(rows, dtype=torch.bool)
        for _ in range(self.contents.slots.shape[0]):
            self.contents, placed = place(self.contents, rows, stands, waiting, IN_PLACE)
            if int(placed.remaining) == 0:
                return
            stands, waiting = placed.stands, placed.waiting
        raise AssertionError("the table of contents cannot be built")

    def _check(self, tokens: Tensor, lengths: Tensor, extras: Tensor | None, parents: Tensor | None) -> None:
        self._check_tensor("tokens", tokens, torch.int32)
        if tokens.dim() != 2:
            raise WrongTensorError(f"tokens must be [requests, tokens] int32, not {tuple(tokens.shape)}")
        requests, blocks = tokens.shape[0], tokens.shape[1] // self.block_size
        for name, values, shape in (
            ("lengths", lengths, (requests,)),
            ("extras", extras, (requests, blocks)),
            ("parents", parents, (requests,)),
        ):
            if values is None and name != "lengths":
                continue
            self._check_tensor(name, values, torch.int64)
            if values is not None and tuple(values.shape) != shape:
                raise WrongTensorError(f"{name} must be {list(shape)} int64, not {tuple(values.shape)}")
        if extras is not None and bool((extras < 0).any()):
            raise BlockContentError("extras must be numbers of `ExtraKeys`, which are not negative")
        wrong = (lengths < 0) | (lengths > tokens.shape[1])
        if parents is not None:
            wrong = wrong | ~((parents == NONE) | self._is_content(parents))
        if bool(wrong.any()):
            raise BlockContentError("lengths must be 0 to the number of tokens given, and parents contents or NONE")

    def _check_tensor(self, name: str, given: object, dtype: torch.dtype) -> None:
        device = self.contents.free.device
        if not isinstance(given, Tensor):
            raise WrongTensorError(f"{name} must be a tensor of {dtype}, not {type(given).__name__}")
        if given.dtype != dtype or given.device != device:
            raise WrongTensorError(f"{name} must be {dtype} on {device}, not {given.dtype} on {given.device}")

    def _is_content(self, rows: Tensor) -> Tensor:
        inside = (rows >= 0) & (rows < self.contents.rows)
        return inside & (self.contents.depths.index_select(0, rows.clamp(0, self.contents.rows - 1)) >= 0)
