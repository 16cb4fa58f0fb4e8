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
from cacheimpl.scheduler.connector import NOT_REMOTE
from cacheimpl.scheduler.contents import WORD, Apart, Contents
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    NeverServedError,
    TooManyRequestsError,
    UnknownRequestError,
    UnsupportedError,
)
from cacheimpl.scheduler.feasibility import item_fits, limits_of, on_host, request_fits
from cacheimpl.scheduler.growth import grown, grown_plan
from cacheimpl.scheduler.reading import Adapter, Elsewhere, Item, Read, read_of
from cacheimpl.scheduler.requests import arrived, forgotten, nameless
from cacheimpl.scheduler.settings import Settings
from cacheimpl.scheduler.state import Config, State
from cacheimpl.scheduler.unsupported import Unsupported


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


class Adapters:
    """Numbers of adapters, from 1 on, while a request has them."""

    def __init__(self) -> None:
        self._numbers: dict[Adapter, int] = {}
        self._of_row: dict[int, Adapter] = {}
        self._given = 0

    def number(self, row: int, adapter: Adapter | None) -> int:
        """The number of the adapter that the request of this row has; 0 for none."""
        if adapter is None:
            self.leave(row)
            return 0
        if adapter not in self._numbers:
            self._given += 1
            self._numbers[adapter] = self._given
        self._of_row[row] = adapter
        return self._numbers[adapter]

    def leave(self, row: int) -> None:
        """The request of this row is known no more."""
        adapter = self._of_row.pop(row, None)
        if adapter is not None and adapter not in self._of_row.values():
            del self._numbers[adapter]


def apart_from(read: Read) -> Apart:
    """What the KV of a request depends on, or must not be shared without, beside tokens and items."""
    salt = () if read.salt is None else (("salt", read.salt),)
    return salt if read.adapter is None else (("adapter", read.adapter), *salt)


class Noted(NamedTuple):
    """A request that has its row, and of which nothing is on the device yet."""

    row: int
    read: Read
    final: int
    """Its tokens once it is finished"""
    elsewhere: Elsewhere
    before: int | None
    """The row of the turn before it in its session"""


class Arrivals:
    """The host's side of the tables; rows are written where the device has them."""

    def __init__(self, settings: Settings, config: Config) -> None:
        self.settings, self.config = settings, config
        self.names: dict[int, str] = {}
        self.items = Items(settings.encoder_contents_at_first)
        self.outputs: dict[str, int] = {}
        """By identifier, the encoder outputs that the encoder connector has or expects, see `connector`"""
        self.adapters = Adapters()
        self.least: dict[int, int] = {}
        """By row, the output tokens before which no stop token ends the request, if there are any"""
        self._finals: dict[int, int] = {}
        """By row, the tokens of the request once it is finished"""
        self._sorts: dict[int, tuple[Adapter | None, int, str | None]] = {}
        """By row, the adapter, the priority and the salt of the request, which all turns of a session have"""
        self._turns: dict[int, int] = {}
        """By row, the row of the next turn of the request's session, if it has arrived"""
        self._finished: dict[str, int] = {}
        """Rows of requests that are finished, and that plans may still name"""
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
            self._finished[self.names[row]] = self._rows.pop(self.names[row])

    def shows(self, identifier: str) -> bool:
        """Whether a request that waits or runs shows this."""
        number = self.items.rows.get(identifier)
        return any(number in self._shown.get(row, ()) for row in self._rows.values())

    # At once --------------------------------------------------------------------------------------------------------

    def has_notes(self) -> bool:
        """Whether there is anything to do on the device."""
        return bool(self._new or self._leaving)

    def has_aborts(self) -> bool:
        """Whether aborts are waiting to be written to the device."""
        return bool(self._leaving)

    def last_row_of(self, name: str) -> int | None:
        """The row of a request that waits, runs or has ended; None if it is not known (any more)."""
        rows = [row for row, known in self.names.items() if known == name]
        return self._rows.get(name, rows[-1] if rows else None)

    def has_next_turn(self, row: int) -> bool:
        """Whether the next turn of its session has arrived."""
        return row in self._turns

    def ends_at(self, row: int, tokens: int) -> None:
        """A stop token ends the request with so many tokens."""
        self._finals[row] = tokens

    def add(self, request: PromptRequest, state: State, elsewhere: Elsewhere) -> State:
        """A request that arrives has a row, and waits when the next step begins; a turn waits for the one before it.

        Returns the state, in larger tables where its items need some.
        """
        read = self._checked(request)
        before = self._turn_before(read, elsewhere)
        final = min(len(read.tokens) + read.outputs, self.settings.max_model_len + self.settings.pooling)
        if not self._is_feasible(read, final):
            raise NeverServedError(f"request {read.name!r} has {len(read.tokens)} tokens, and can never be served")
        if not self._free:
            self._collect_rows(state, keeping=before)
        if not self._free:
            raise TooManyRequestsError(f"{self.settings.max_requests} requests are known: none has ended")
        row = self._free[-1]
        if read.items:
            state = self._with_rows_for(len(read.items), state)
            self._shown[row] = [self.items.number(item) for item in read.items]
        self._free.pop()
        self._rows[read.name], self.names[row] = row, read.name
        self._new.append(Noted(row, read, final, elsewhere, before))
        self._finals[row], self._sorts[row] = final, (read.adapter, read.priority, read.salt)
        self._finished.pop(read.name, None)
        self._turns.pop(row, None)
        if before is not None:
            self._turns[before] = row
        self.least.pop(row, None)
        if read.least:
            self.least[row] = read.least
        self.config = self.config._replace(
            compiles=self.config.compiles or read.grammar,
            loads=self.config.loads or elsewhere.load_first,
            sends=self.config.sends or elsewhere.send,
            sessions=self.config.sessions or before is not None,
        )
        return state

    def abort(self, name: str) -> None:
        """The request waits and runs no more, nor does any later turn of its session.

        What it has is given back before the next step, or the next output.
        """
        row: int | None = self._rows[name]
        while row is not None and self._rows.get(self.names[row]) == row:
            del self._rows[self.names[row]]
            self._leaving.append(row)
            row = self._turns.get(row)

    def _turn_before(self, read: Read, elsewhere: Elsewhere) -> int | None:
        """The row of the turn before it; None where it is in no session, or the first turn."""
        if elsewhere.after is None:
            return None
        row = self._rows.get(elsewhere.after, self._finished.get(elsewhere.after))
        if row is None:
            raise UnknownRequestError(
                f"request {elsewhere.after!r}, the turn before {read.name!r}, is not known (any more)"
            )
        if row in self._turns:
            raise InvalidRequestError(
                f"request {elsewhere.after!r} has a next turn already: {self.names[self._turns[row]]!r}"
            )
        if (read.adapter, read.priority, read.salt) != self._sorts[row]:
            raise InvalidRequestError(
                f"turn {read.name!r} has another adapter, priority or salt than the turn before it"
            )
        if len(read.tokens) < self._finals[row]:
            raise InvalidRequestError(
                f"turn {read.name!r} has {len(read.tokens)} tokens: its session keeps {self._finals[row] - 1}, and "
                f"the turn adds some"
            )
        return row

    def _is_feasible(self, read: Read, final: int) -> bool:
        limits, prompt, whole = self._limits, len(read.tokens), self.settings.disable_chunked_mm_input
        if self.settings.encoder_decoder and sum(item.length for item in read.items) > limits.item:
            return False
        return bool(request_fits(limits, prompt, final)) and all(
            item_fits(limits, prompt, item.start, item.length, whole=whole) for item in read.items
        )

    def _checked(self, request: PromptRequest) -> Read:
        read = read_of(request, pools=self.settings.pooling)
        if read.name in self._rows:
            raise DuplicateRequestError(f"request {read.name!r} waits or runs already")
        if not read.tokens or read.outputs <= 0:
            raise InvalidRequestError(f"request {read.name!r} has no prompt, or asks for no token")
        if len(read.tokens) >= self.settings.max_model_len + self.settings.pooling:
            raise NeverServedError(
                f"request {read.name!r} has {len(read.tokens)} tokens, of {self.settings.max_model_len}"
            )
        if read.adapter is not None and self.settings.max_loras == 0:
            raise UnsupportedError(
                Unsupported.ADAPTERS, f"request {read.name!r} has lora_request: the setting max_loras is 0"
            )
        if len(read.items) > self.settings.max_items:
            raise InvalidRequestError(f"request {read.name!r} has more than {self.settings.max_items} items")
        end, lengths, apart = 0, dict[str, int](), self.settings.encoder_decoder
        for item in read.items:
            if apart and (item.start != 0 or item.length <= 0):
                raise InvalidRequestError(f"request {read.name!r}: items of an encoder-decoder model begin at 0")
            if not apart and (item.start < end or item.length <= 0 or item.start + item.length > len(read.tokens)):
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
        state = forgotten(state, joining)
        if self.config.connected:
            state = self._with_outputs(state, new)
        if self.config.sessions:
            turns = joining & (self.config.before >= 0)
            state, joining = state._replace(queued=state.queued | turns), joining & ~turns
        return arrived(self.config, state, joining, order), len(new)

    def taken_leaving(self, most: int) -> list[Tensor]:
        """The rows of those that were aborted, in this order, so many at a time; they are noted no more."""
        rows, self._leaving = self._leaving, []
        device = self.config.rows.device
        return [torch.tensor(rows[begin : begin + most], device=device) for begin in range(0, len(rows), most)]

    def _write(self, new: list[Noted], state: State) -> Tensor:
        """Their rows in every table; which those are ([new] int64)."""
        chains = [self._chain(noted, state) for noted in new]
        config, count, device = self.config, len(new), self.config.rows.device
        by_priority, most, adapters = self.settings.by_priority, self.settings.max_items, self.adapters
        numbers = [noted.row for noted in new]
        numbers += [len(noted.read.tokens) for noted in new]
        numbers += [noted.final for noted in new]
        numbers += [noted.read.priority if by_priority else 0 for noted in new]
        numbers += [len(chain) for chain in chains]
        numbers += [adapters.number(noted.row, noted.read.adapter) for noted in new]
        numbers += [noted.read.grammar for noted in new]
        numbers += [noted.elsewhere.external for noted in new]
        numbers += [noted.elsewhere.load_first for noted in new]
        numbers += [noted.elsewhere.send for noted in new]
        numbers += [self._awaits(noted) for noted in new]
        columns = torch.tensor(numbers).to(device).view(11, count)
        rows, prompts, finals, priorities, lengths, loras, grammars, external, later, sent, before = columns.unbind()
        self._write_contents(rows, lengths, chains)
        for table, column in (
            (config.kv.lengths, finals),
            (config.prompts, prompts),
            (config.finals, finals),
            (config.ends, finals),
            (config.priorities, priorities),
            (config.adapters, loras),
            (config.grammars, grammars.bool()),
            (config.external, external),
            (config.later, later.bool()),
            (config.sent, sent.bool()),
            (config.before, before),
        ):
            table.index_copy_(0, rows, column)
        if most > 0:
            self._write_items(rows, new)
        return rows

    def _with_outputs(self, state: State, new: list[Noted]) -> State:
        """The state with what the encoder connector says of their items."""
        numbers = {number for noted in new for number in self._shown.get(noted.row, ())}
        phases = [self.outputs.get(self.items.names[number], NOT_REMOTE) for number in numbers]
        rows, values = torch.tensor([*numbers, *phases], dtype=torch.int64, device=state.remote.device).chunk(2)
        return state._replace(remote=state.remote.index_copy(0, rows, values)) if numbers else state

    def _awaits(self, noted: Noted) -> int:
        """The row of the turn before it, while that waits or runs; -1 otherwise."""
        row = noted.before
        return -1 if row is None or self._rows.get(self.names[row]) != row else row

    def _chain(self, noted: Noted, state: State) -> list[int]:
        """The numbers of what its blocks hold, first to last."""
        settings, read = self.settings, noted.read
        if self._contents.left < settings.positions:
            self._collect_contents(state)
        if noted.before is None:
            chain = self._contents.of_prompt(read.tokens, settings.block_size, read.items, apart_from(read))
        else:
            kept = (self._finals[noted.before] - 1) // settings.block_size
            chain = self._of_row[noted.before][:kept]
        whole = min(noted.final, settings.max_model_len) // settings.block_size
        chain += self._contents.fresh(whole - len(chain))
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

    def _collect_rows(self, state: State, *, keeping: int | None) -> None:
        """Rows of requests that no plan names any more, but for one; to look reads from the device."""
        there = nameless(state).nonzero().flatten().tolist()
        new = {noted.row for noted in self._new}
        for row in there:
            if row in self.names and self._rows.get(self.names[row]) != row and row not in new and row != keeping:
                self._finished.pop(self.names.pop(row), None)
                self._turns = {
                    turn: following for turn, following in self._turns.items() if row not in (turn, following)
                }
                self._of_row.pop(row, None)
                self._shown.pop(row, None)
                self.adapters.leave(row)
                self._free.append(row)

    def _collect_contents(self, state: State) -> None:
        """Numbers that neither a block nor a row has any more."""
        carried = state.kv.carried
        self._contents.keep(set(carried[carried >= 0].tolist()).union(*self._of_row.values()))

    def _collect_items(self, state: State) -> None:
        """Encoder outputs that are neither resident, nor reported yet, nor those of a row."""
        cache = state.encoder
        there = cache.resident | (cache.freed >= 0) | (state.dropped >= 0).any(0) | state.fetched.any(0)
        shown = (number for numbers in self._shown.values() for number in numbers)
        self.items.keep({*there.nonzero().flatten().tolist(), *shown})
