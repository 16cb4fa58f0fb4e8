"""Rows of requests: which request has which row, what is written for arrivals, and when a row can be reused.

A request that arrives is looked at at once, and gets its row; who is aborted waits and runs no more at once. What that
changes on the device is noted, and done for all of them together before the next step: some thirty operations, however
many they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from cacheimpl.encoder_cache.rows import Rows
from cacheimpl.request import PromptRequest
from cacheimpl.scheduler.contents import WORD, Contents
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    NeverServedError,
    TooManyRequestsError,
)
from cacheimpl.scheduler.feasibility import item_fits, limits_of, on_host, request_fits
from cacheimpl.scheduler.growth import grown, grown_plan
from cacheimpl.scheduler.reading import Item, Read, read_of
from cacheimpl.scheduler.requests import arrived, forgotten, nameless
from cacheimpl.scheduler.settings import Settings
from cacheimpl.scheduler.state import Config, State


class Items:
    """Encoder outputs by number."""

    def __init__(self, count: int) -> None:
        self.rows: Rows[str] = Rows(count)
        self.names: dict[int, str] = {}
        self.lengths: dict[int, int] = {}

    def number(self, item: Item) -> int:
        """The number of what the item shows."""
        if item.identifier not in self.rows:
            row = self.rows.add(item.identifier)
            self.names[row], self.lengths[row] = item.identifier, item.length
        return self.rows[item.identifier]

    def keep(self, used: set[int]) -> None:
        """Take back the others."""
        for row in self.rows.keep(used):
            del self.names[row], self.lengths[row]


class Noted(NamedTuple):
    """A request that has its row, and of which nothing is on the device yet."""

    row: int
    read: Read
    final: int
    """Its tokens once it is finished"""


class Arrivals:
    """The host's side of the tables; rows are written where the device has them."""

    def __init__(self, settings: Settings, config: Config) -> None:
        self.settings, self.config = settings, config
        self.names: dict[int, str] = {}
        self.items = Items(settings.encoder_contents_at_first)
        self._limits = on_host(limits_of(config))
        self._rows: dict[str, int] = {}
        self._free = list(range(settings.max_requests))[::-1]
        self._contents = Contents(settings.contents)
        self._of_row: dict[int, list[int]] = {}
        self._shown: dict[int, list[int]] = {}
        self._new: list[Noted] = []
        self._leaving: list[int] = []

    @property
    def live(self) -> int:
        """Requests that wait or run."""
        return len(self._rows)

    def is_live(self, name: object) -> bool:
        """Whether it waits or runs; what is no text does not."""
        return isinstance(name, str) and name in self._rows

    def row_of(self, name: str) -> int:
        """The row of one that waits or runs."""
        return self._rows[name]

    def end(self, rows: Iterable[int]) -> None:
        """They wait and run no more; their rows are still named by plans."""
        for row in rows:
            del self._rows[self.names[row]]

    # At once --------------------------------------------------------------------------------------------------------

    def has_notes(self) -> bool:
        """Whether there is anything to do on the device."""
        return bool(self._new or self._leaving)

    def has_aborts(self) -> bool:
        """Whether aborts are waiting to be written to the device."""
        return bool(self._leaving)

    def add(self, request: PromptRequest, state: State) -> State:
        """A request that arrives has a row, and waits when the next step begins.

        Returns the state, in larger tables where its items need some.
        """
        read = self._checked(request)
        final = min(len(read.tokens) + read.outputs, self.settings.max_model_len)
        if not self._is_feasible(read, final):
            raise NeverServedError(f"request {read.name!r} has {len(read.tokens)} tokens, and can never be served")
        if not self._free:
            self._collect_rows(state)
        if not self._free:
            raise TooManyRequestsError(f"{self.settings.max_requests} requests are known: none has ended")
        row = self._free[-1]
        if read.items:
            state = self._with_rows_for(len(read.items), state)
            self._shown[row] = [self.items.number(item) for item in read.items]
        self._free.pop()
        self._rows[read.name], self.names[row] = row, read.name
        self._new.append(Noted(row, read, final))
        return state

    def abort(self, name: str) -> None:
        """Who waits or runs does so no more. What it has is given back before the next step, or the next output."""
        self._leaving.append(self._rows.pop(name))

    def _is_feasible(self, read: Read, final: int) -> bool:
        limits, prompt, whole = self._limits, len(read.tokens), self.settings.disable_chunked_mm_input
        return bool(request_fits(limits, prompt, final)) and all(
            item_fits(limits, prompt, item.start, item.length, whole=whole) for item in read.items
        )

    def _checked(self, request: PromptRequest) -> Read:
        read = read_of(request)
        if read.name in self._rows:
            raise DuplicateRequestError(f"request {read.name!r} waits or runs already")
        if not read.tokens or read.outputs <= 0:
            raise InvalidRequestError(f"request {read.name!r} has no prompt, or asks for no token")
        if len(read.tokens) >= self.settings.max_model_len:
            raise NeverServedError(
                f"request {read.name!r} has {len(read.tokens)} tokens, of {self.settings.max_model_len}"
            )
        if len(read.items) > self.settings.max_items:
            raise InvalidRequestError(f"request {read.name!r} has more than {self.settings.max_items} items")
        end, lengths = 0, dict[str, int]()
        for item in read.items:
            if item.start < end or item.length <= 0 or item.start + item.length > len(read.tokens):
                raise InvalidRequestError(f"request {read.name!r}: items stand one behind the other in the prompt")
            end = item.start + item.length
            known = self.items.rows.get(item.identifier)
            before = lengths.setdefault(item.identifier, item.length) if known is None else self.items.lengths[known]
            if before != item.length:
                raise InvalidRequestError(f"{item.identifier!r} has another length than before")
        return read

    def _with_rows_for(self, items: int, state: State) -> State:
        """Rows are taken back where there are not as many left; where half of them are needed, there will be more."""
        rows = self.items.rows
        if rows.count - len(self.items.names) >= items:
            return state
        self._collect_items(state)
        left = rows.count - len(self.items.names)
        if left >= max(items, rows.count // 2) or rows.count == self.settings.encoder_contents:
            return state
        count = min(max(2 * rows.count, rows.count + items), self.settings.encoder_contents)
        rows.grow(count)
        self.config = self.config._replace(blank=grown_plan(self.config.blank, count))
        return grown(state, count)

    # Together, before a step ----------------------------------------------------------------------------------------

    def flushed(self, state: State) -> tuple[State, int]:
        """The state in which those that were added wait, in the order in which they came, and how many they are."""
        new, self._new = self._new, []
        if not new:
            return state, 0
        rows = self._write(new, state)
        order = torch.full_like(state.waiting, -1)
        order[rows] = torch.arange(len(new), device=rows.device)
        joining = order >= 0
        return arrived(self.config, forgotten(state, joining), joining, order), len(new)

    def taken_leaving(self, most: int) -> list[Tensor]:
        """The rows of those that were aborted, in this order, so many at a time; they are noted no more."""
        rows, self._leaving = self._leaving, []
        device = self.config.rows.device
        return [torch.tensor(rows[begin : begin + most], device=device) for begin in range(0, len(rows), most)]

    def _write(self, new: list[Noted], state: State) -> Tensor:
        """Their rows in every table; which those are ([new] int64)."""
        chains = [self._chain(noted, state) for noted in new]
        config, count, device = self.config, len(new), self.config.rows.device
        by_priority, most = self.settings.by_priority, self.settings.max_items
        numbers = [noted.row for noted in new]
        numbers += [len(noted.read.tokens) for noted in new]
        numbers += [noted.final for noted in new]
        numbers += [noted.read.priority if by_priority else 0 for noted in new]
        numbers += [len(chain) for chain in chains]
        columns = torch.tensor(numbers).to(device).view(5, count)
        rows, prompts, finals, priorities, lengths = columns.unbind()
        self._write_contents(rows, lengths, chains)
        for table, column in (
            (config.kv.lengths, finals),
            (config.prompts, prompts),
            (config.finals, finals),
            (config.priorities, priorities),
        ):
            table.index_copy_(0, rows, column)
        if most > 0:
            self._write_items(rows, new)
        return rows

    def _chain(self, noted: Noted, state: State) -> list[int]:
        """The numbers of what its blocks hold, first to last."""
        settings, read = self.settings, noted.read
        if self._contents.left < settings.positions:
            self._collect_contents(state)
        chain = self._contents.of_prompt(read.tokens, settings.block_size, read.items)
        chain += self._contents.fresh(noted.final // settings.block_size - len(chain))
        self._of_row[noted.row] = chain
        return chain

    def _write_contents(self, rows: Tensor, lengths: Tensor, chains: list[list[int]]) -> None:
        """`rows`, `lengths`: [new] int64, on the device."""
        table = self.config.kv.contents
        table.index_fill_(0, rows, self.settings.contents)
        flat = array(WORD)
        for chain in chains:
            flat.extend(chain)
        if not flat:
            return
        values = torch.frombuffer(flat, dtype=torch.int64).to(table.device)
        first = rows * table.shape[1] - (lengths.cumsum(0) - lengths)
        cells = first.repeat_interleave(lengths, output_size=len(flat)) + torch.arange(len(flat), device=table.device)
        table.view(-1).index_copy_(0, cells, values)

    def _write_items(self, rows: Tensor, new: list[Noted]) -> None:
        """`rows`: [new] int64, on the device."""
        config, most, device = self.config, self.settings.max_items, self.config.rows.device
        contents, claims, starts = list[int](), list[int](), list[int]()
        for noted in new:
            items, missing = noted.read.items, most - len(noted.read.items)
            contents += [*self._shown.get(noted.row, ()), *[-1] * missing]
            claims += [*(item.length for item in items), *[0] * missing]
            starts += [*(item.start for item in items), *[0] * missing]
        columns = torch.tensor([*contents, *claims, *starts]).to(device).view(3, len(new), most)
        for table, column in zip(
            (config.encoder.contents, config.encoder.claims, config.item_starts), columns.unbind(), strict=True
        ):
            table.index_copy_(0, rows, column)

    # What is taken back ---------------------------------------------------------------------------------------------

    def _collect_rows(self, state: State) -> None:
        """Rows of requests that no plan names any more; to look reads from the device."""
        there = nameless(state).nonzero().flatten().tolist()
        new = {noted.row for noted in self._new}
        for row in there:
            if row in self.names and self._rows.get(self.names[row]) != row and row not in new:
                del self.names[row]
                self._of_row.pop(row, None)
                self._shown.pop(row, None)
                self._free.append(row)

    def _collect_contents(self, state: State) -> None:
        """Numbers that neither a block nor a row has any more."""
        carried = state.kv.carried
        self._contents.keep(set(carried[carried >= 0].tolist()).union(*self._of_row.values()))

    def _collect_items(self, state: State) -> None:
        """Encoder outputs that are neither resident, nor reported yet, nor those of a row."""
        cache = state.encoder
        there = cache.resident | (cache.freed >= 0) | (state.dropped >= 0).any(0)
        shown = (number for numbers in self._shown.values() for number in numbers)
        self.items.keep({*there.nonzero().flatten().tolist(), *shown})
