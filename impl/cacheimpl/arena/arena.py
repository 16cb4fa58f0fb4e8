"""`EncoderArena`: encoder outputs in one preallocated buffer, and a scheduled chunk across outputs as one gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cacheimpl.answer import Code
from cacheimpl.arena import runs as operations
from cacheimpl.arena.errors import (
    AlreadyStoredError,
    ChunkError,
    InvalidSettingError,
    NoSlotsError,
    NotStoredError,
    OutputMismatchError,
)
from cacheimpl.arena.runs import Config, Runs
from cacheimpl.counts import whole
from cacheimpl.devices import usable
from cacheimpl.encoder_cache.growth import enlarged
from cacheimpl.encoder_cache.rows import Rows

FIRST_OUTPUTS = 16
"""Rows of the tables at first; they grow as needed."""
ROWS_AT_ONCE = 1 << 12
"""How many rows of the buffer are copied at the same time when runs are moved together: bounds the extra memory."""


class Chunk(NamedTuple):
    """Consecutive rows of one output that a step needs."""

    identifier: str
    first: int
    """The first row, within the output."""
    rows: int


class EncoderArena:
    """Encoder outputs of a worker, by identifier.

    `slots` is the capacity of the encoder cache, in embeddings. Everything that the accounting grants fits, if freed
    outputs are drained before new ones are stored. Where each output lies is known on the host, so no call reads
    from the device. A call that raises (see `cacheimpl.arena.errors`) changes nothing.
    """

    def __init__(
        self, slots: int, hidden_size: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        slots = whole("slots", slots, InvalidSettingError, least=0)
        hidden_size = whole("hidden_size", hidden_size, InvalidSettingError, least=1)
        if not isinstance(dtype, torch.dtype):
            raise InvalidSettingError(f"dtype must be a torch.dtype, not {dtype!r}")
        device = usable(device, InvalidSettingError)
        self._buffer = torch.zeros((slots + 1, hidden_size), dtype=dtype, device=device)
        self._config = Config(torch.tensor(slots))
        self._runs: Runs = operations.empty(FIRST_OUTPUTS)
        self._rows: Rows[str] = Rows(FIRST_OUTPUTS)
        self._lengths: dict[str, int] = {}
        self.slots = slots
        self.free_slots = slots
        self.times_moved = 0
        """How often the runs were moved together."""

    @property
    def buffer(self) -> Tensor:
        """[slots, hidden]: the stored outputs, each in one run of slots."""
        return self._buffer[: self.slots]

    def __contains__(self, identifier: str) -> bool:
        return identifier in self._lengths

    def length(self, identifier: str) -> int:
        """The number of rows of an output."""
        self._assert_stored([identifier])
        return self._lengths[identifier]

    def store(self, outputs: Tensor, identifiers: Sequence[str], lengths: Sequence[int]) -> None:
        """Store the outputs of a step, [sum of the lengths, hidden], one after the other.

        An output that is stored already is overwritten in its slots: its entry was evicted and created again before the
        eviction was reported (ENC-7), so it was computed again.
        """
        self._assert_storable(outputs, identifiers, lengths)
        fresh = {name: length for name, length in zip(identifiers, lengths, strict=True) if name not in self._lengths}
        start = self._place(fresh) if fresh else 0
        if len(fresh) == len(identifiers):  # side by side, so that they are one copy
            self._buffer[start : start + outputs.shape[0]].copy_(outputs)
            return
        self._buffer.index_copy_(0, self._slots(identifiers, [0] * len(identifiers), lengths), outputs)

    def gather(self, chunks: Sequence[Chunk], size: int | None = None) -> Tensor:
        """[size, hidden]: the rows of the chunks one after the other, zeros behind the last; one gather.

        `size` defaults to the number of rows of all chunks.
        """
        chunks = _chunks(chunks)
        size = size if size is None else whole("size", size, ChunkError, least=0)
        self._assert_inside(chunks)
        total = sum(chunk.rows for chunk in chunks)
        if size is not None and size < total:
            raise ChunkError(f"size is {size}, and the chunks have {total} rows together")
        if not chunks:
            return self._buffer.new_zeros((size or 0, self._buffer.shape[1]))
        slots = self._slots(*zip(*chunks, strict=True))
        if size is not None and size > total:
            slots = torch.nn.functional.pad(slots, (0, size - total), value=self.slots)
        return self._buffer.index_select(0, slots)

    def drain(self, identifiers: Sequence[str]) -> int:
        """Release the slots of outputs that the accounting reports as freed. Returns the number of slots.

        Raises for an identifier that is not stored or is given twice, and then drains none. The caller leaves out
        entries that were freed before their outputs were computed.
        """
        self._assert_stored(identifiers)
        leaving = torch.zeros_like(self._runs.starts, dtype=torch.bool)
        leaving[self._rows.removed(identifiers)] = True
        self._runs, _ = operations.release(self._config, self._runs, leaving)
        freed = sum(map(self._lengths.pop, identifiers))
        self.free_slots += freed
        return freed

    # What is refused ------------------------------------------------------------------------------------------------

    def _assert_storable(self, outputs: Tensor, identifiers: Sequence[str], lengths: Sequence[int]) -> None:
        buffer = self._buffer
        _check_names(identifiers)
        if not isinstance(outputs, Tensor):
            raise OutputMismatchError(f"outputs must be a tensor, not {type(outputs).__name__}")
        if (outputs.ndim, *outputs.shape[1:]) != (2, buffer.shape[1]):
            raise OutputMismatchError(f"outputs are {tuple(outputs.shape)}, not of {buffer.shape[1]} elements a row")
        if (outputs.dtype, outputs.device) != (buffer.dtype, buffer.device):
            raise OutputMismatchError(f"outputs are {outputs.dtype} on {outputs.device}, not as the buffer")
        if not isinstance(lengths, Sequence):
            raise OutputMismatchError(f"lengths must be a list of rows of each output, not {lengths!r}")
        if not set(map(type, lengths)) <= {int} or min(lengths, default=1) < 1:
            for length in lengths:
                whole("lengths: the rows of an output", length, OutputMismatchError, least=1)
        if len(lengths) != len(identifiers):
            raise OutputMismatchError(f"{len(identifiers)} outputs have the lengths {list(lengths)}")
        if sum(lengths) != outputs.shape[0]:
            raise OutputMismatchError(f"lengths add up to {sum(lengths)}, and there are {outputs.shape[0]} rows")
        if len(set(identifiers)) < len(identifiers):
            raise AlreadyStoredError(f"given twice: {list(identifiers)}")
        if self._lengths.keys().isdisjoint(identifiers):
            self._assert_free(sum(lengths))
            return
        pairs = dict(zip(identifiers, lengths, strict=True))
        if other := [name for name, length in pairs.items() if self._lengths.get(name, length) != length]:
            raise AlreadyStoredError(f"stored with other lengths: {other}")
        self._assert_free(sum(length for name, length in pairs.items() if name not in self))

    def _assert_free(self, need: int) -> None:
        if need > self.free_slots:
            raise NoSlotsError(f"{need} rows, and {self.free_slots} of {self.slots} slots are free")

    def _assert_stored(self, identifiers: Sequence[str]) -> None:
        _check_names(identifiers)
        if len(known := set(identifiers)) == len(identifiers) and known <= self._lengths.keys():
            return
        missing = [identifier for identifier in identifiers if identifier not in self]
        raise NotStoredError(f"not stored, or given twice: {missing or list(identifiers)}")

    def _assert_inside(self, chunks: Sequence[Chunk]) -> None:
        if not _all_inside(chunks, self._lengths):
            self._assert_each_inside(chunks)

    def _assert_each_inside(self, chunks: Sequence[Chunk]) -> None:
        for identifier, first, rows in chunks:
            length = self.length(identifier)
            whole("the first row of a chunk", first, ChunkError, least=0)
            whole("the rows of a chunk", rows, ChunkError, least=0)
            if first + rows > length:
                raise ChunkError(f"{rows} rows from {first} on, of {identifier!r}, which has {length}")

    # Slots ----------------------------------------------------------------------------------------------------------

    def _slots(self, identifiers: Sequence[str], firsts: Sequence[int], counts: Sequence[int]) -> Tensor:
        """[sum of the counts] int64, on the buffer's device: the slots of these rows, one chunk after the other."""
        rows, inside, many = torch.tensor([self._rows.of(identifiers), firsts, counts])
        chunks = operations.shifts_of_chunks(self._runs.starts.index_select(0, rows) + inside, many)
        ends, shifts = torch.stack(chunks).to(self._buffer.device, non_blocking=True)
        return operations.slots_of_chunks(ends, shifts, sum(counts))

    def _place(self, fresh: Mapping[str, int]) -> int:
        """New outputs get their runs, side by side; returns where the first one begins."""
        self._make_rows(len(fresh))
        rows = self._rows.added(fresh)
        before = self._runs
        self._runs, placement = operations.place(self._config, before, *torch.tensor([rows, list(fresh.values())]))
        assert placement.code == Code.DONE, "what was counted has room"
        if placement.moved:
            self._follow(before)
        self._lengths.update(fresh)
        self.free_slots -= sum(fresh.values())
        return int(placement.start)

    # Rows -----------------------------------------------------------------------------------------------------------

    def _make_rows(self, more: int) -> None:
        """The tables have rows for so many new outputs."""
        known, wanted = self._rows.count, len(self._lengths) + more
        if wanted > known:
            outputs = max(2 * known, wanted)
            self._rows.grow(outputs)
            starts, lengths = self._runs
            self._runs = Runs(enlarged(starts, (outputs,), operations.ABSENT), enlarged(lengths, (outputs,), 0))

    def _follow(self, before: Runs) -> None:
        """The rows of the buffer move together as the runs did, in ascending order."""
        self.times_moved += 1
        taken = self.slots - self.free_slots
        for begin in range(0, taken, ROWS_AT_ONCE):
            slots = torch.arange(begin, min(begin + ROWS_AT_ONCE, taken))
            source = operations.sources(self._config, before, slots).to(self._buffer.device)
            self._buffer[begin : begin + slots.shape[0]] = self._buffer.index_select(0, source)


def _check_names(identifiers: Any) -> None:
    """Raises `NotStoredError` for what are no identifiers: texts, in a list or the like."""
    if type(identifiers) is list and set(map(type, identifiers)) <= {str}:
        return
    if isinstance(identifiers, str) or not isinstance(identifiers, Sequence):
        raise NotStoredError(f"identifiers must be texts in a list, not {identifiers!r}")
    if wrong := [name for name in identifiers if not isinstance(name, str)]:
        raise NotStoredError(f"identifiers must be texts, and nothing else is stored: {wrong[0]!r}")


def _all_inside(chunks: Sequence[Chunk], lengths: Mapping[str, int]) -> bool:
    """Whether each chunk is inside its output, in one fast pass; a slower one then says what is wrong."""
    try:
        return all(
            type(first) is int and type(rows) is int and first >= 0 and 0 <= rows <= lengths[name] - first
            for name, first, rows in chunks
        )
    except (KeyError, TypeError):
        return False


def _chunks(chunks: Any) -> list[Chunk]:
    """Raises `ChunkError` for what is none."""
    try:
        return [chunk if type(chunk) is Chunk else Chunk(*chunk) for chunk in chunks]
    except TypeError:
        raise ChunkError(f"chunks must be several, each of identifier, first row and rows, not {chunks!r}") from None
