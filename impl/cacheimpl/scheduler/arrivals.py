"""Requests as rows: what is written into the tables when they arrive, and when a row may be used again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from cacheimpl.counts import whole
from cacheimpl.encoder_cache.rows import Rows
from cacheimpl.scheduler.contents import Contents
from cacheimpl.scheduler.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    NeverServedError,
    TooManyRequestsError,
    UnsupportedError,
)
from cacheimpl.scheduler.growth import grown, grown_plan
from cacheimpl.scheduler.requests import arrived, feasible, forgotten, nameless
from cacheimpl.scheduler.settings import LARGEST, Settings
from cacheimpl.scheduler.state import Config, State


class Item(NamedTuple):
    """A multimodal item of a prompt."""

    identifier: str
    start: int
    length: int


class Read(NamedTuple):
    """What is read of a request."""

    name: str
    tokens: list[int]
    outputs: int
    priority: int
    items: tuple[Item, ...]


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


class Arrivals:
    """The host's side of the tables; rows are written where the device has them."""

    def __init__(self, settings: Settings, config: Config) -> None:
        self.settings, self.config = settings, config
        self.names: dict[int, str] = {}
        self.items = Items(settings.encoder_contents_at_first)
        self._rows: dict[str, int] = {}
        self._free = list(range(settings.max_requests))[::-1]
        self._contents = Contents(settings.contents)
        self._of_row: dict[int, list[int]] = {}
        self._new: list[int] = []

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

    def add(self, request: Any, state: State) -> State:
        """Write a row for a request that arrives; it waits when the next step begins.

        Returns the state, in larger tables where its items need some.
        """
        read = self._checked(request)
        if not bool(feasible(self._alone(read))[0]):
            raise NeverServedError(f"request {read.name!r} has {len(read.tokens)} tokens, and can never be served")
        if not self._free:
            self._collect_rows(state)
        if not self._free:
            raise TooManyRequestsError(f"{self.settings.max_requests} requests are known: none has ended")
        row = self._free[-1]
        state = self._write(row, read, state)
        self._free.pop()
        self._rows[read.name], self.names[row] = row, read.name
        self._new.append(row)
        return state

    def flushed(self, state: State) -> tuple[State, int]:
        """The state in which those that were added wait, and how many they are."""
        count = len(self._new)
        if count == 0:
            return state, 0
        device, rows = self.config.rows.device, self.settings.max_requests
        order = torch.full((rows,), -1, dtype=torch.int64, device=device)
        order[torch.tensor(self._new, device=device)] = torch.arange(count, device=device)
        self._new = []
        return arrived(self.config, forgotten(state, order >= 0), order >= 0, order), count

    def _alone(self, read: Read) -> Config:
        """The configuration of this request alone, before anything of it is written."""
        config, missing = self.config, self.settings.max_items - len(read.items)

        def row(*values: int) -> torch.Tensor:
            return torch.tensor([values], dtype=torch.int64, device=config.rows.device)

        there = [0] * len(read.items)
        return config._replace(
            prompts=row(len(read.tokens))[0],
            finals=row(self._final(read))[0],
            item_starts=row(*(item.start for item in read.items), *[0] * missing),
            encoder=config.encoder._replace(
                contents=row(*there, *[-1] * missing),
                claims=row(*(item.length for item in read.items), *[0] * missing),
            ),
        )

    def _final(self, read: Read) -> int:
        """How many tokens it has at its end."""
        return min(len(read.tokens) + read.outputs, self.settings.max_model_len)

    def _checked(self, request: Any) -> Read:
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
        end = 0
        for item in read.items:
            if item.start < end or item.length <= 0 or item.start + item.length > len(read.tokens):
                raise InvalidRequestError(f"request {read.name!r}: items stand one behind the other in the prompt")
            end = item.start + item.length
            known = self.items.rows
            if item.identifier in known and self.items.lengths[known[item.identifier]] != item.length:
                raise InvalidRequestError(f"{item.identifier!r} has another length than before")
        return read

    def _write(self, row: int, read: Read, state: State) -> State:
        """The row of every table."""
        settings, config = self.settings, self.config
        final = self._final(read)
        if self._contents.left < settings.positions:
            self._collect_contents(state)
        chain = self._contents.of_prompt(read.tokens, settings.block_size, read.items)
        chain = [*chain, *self._contents.fresh(final // settings.block_size - len(chain))]
        self._of_row[row] = chain
        line = torch.full((config.kv.contents.shape[1],), settings.contents)
        line[: len(chain)] = torch.tensor(chain, dtype=torch.int64)
        config.kv.contents[row] = line.to(config.rows.device)
        config.kv.lengths[row] = final
        config.prompts[row], config.finals[row] = len(read.tokens), final
        config.priorities[row] = read.priority if settings.by_priority else 0
        if settings.max_items > 0:
            state = self._with_rows_for(len(read.items), state)
            self._write_items(row, read)
        return state

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

    def _write_items(self, row: int, read: Read) -> None:
        numbers = [self.items.number(item) for item in read.items]
        missing = self.settings.max_items - len(numbers)
        config, device = self.config, self.config.rows.device
        config.encoder.contents[row] = torch.tensor([*numbers, *[-1] * missing], device=device)
        config.encoder.claims[row] = torch.tensor(
            [*(item.length for item in read.items), *[0] * missing], device=device
        )
        config.item_starts[row] = torch.tensor([*(item.start for item in read.items), *[0] * missing], device=device)

    def _collect_rows(self, state: State) -> None:
        """Rows of requests that no plan names any more; to look reads from the device."""
        there = nameless(state).nonzero().flatten().tolist()
        new = {*self._new}
        for row in there:
            if row in self.names and self._rows.get(self.names[row]) != row and row not in new:
                del self.names[row]
                self._of_row.pop(row, None)
                self._free.append(row)

    def _collect_contents(self, state: State) -> None:
        """Numbers that neither a block nor a row has any more."""
        carried = state.kv.carried
        self._contents.keep(
            {*carried[carried >= 0].tolist(), *(one for chain in self._of_row.values() for one in chain)}
        )

    def _collect_items(self, state: State) -> None:
        """Encoder outputs that are neither resident, nor reported yet, nor those of a row."""
        cache = state.encoder
        there = cache.resident | (cache.freed >= 0) | (state.dropped >= 0).any(0)
        shown = self.config.encoder.contents[list(self._of_row)].flatten().tolist()
        self.items.keep({*there.nonzero().flatten().tolist(), *(one for one in shown if one >= 0)})


NOT_THERE = ("lora_request", "kv_transfer_params", "pooling_params", "structured_output_request", "prompt_embeds")
"""Attributes that a request must not have, or only as None: adapters, external KV and the like."""


def read_of(request: Any) -> Read:
    """The attributes of a request, under whichever name the era gives them."""
    if not isinstance(getattr(request, "request_id", None), str):
        raise InvalidRequestError(f"a request has a request_id, which is a text, and {type(request).__name__} has none")
    if asked := [name for name in NOT_THERE if getattr(request, name, None) is not None]:
        raise UnsupportedError(f"request {request.request_id!r} has {', '.join(asked)}: there is no rule for that here")
    outputs = getattr(request, "max_tokens", None)
    if outputs is None:
        outputs = getattr(getattr(request, "sampling_params", None), "max_tokens", None)
    of = f"of request {request.request_id!r}"
    priority = whole(f"priority {of}", getattr(request, "priority", 0), InvalidRequestError)
    if not -LARGEST <= priority < LARGEST:
        raise InvalidRequestError(f"priority {of} must be from {-LARGEST} to {LARGEST - 1}, not {priority}")
    return Read(
        request.request_id,
        tokens_of(request, of),
        whole(f"max_tokens {of}", outputs, InvalidRequestError),
        priority,
        tuple(item_of(one, of) for one in getattr(request, "mm_features", None) or ()),
    )


def tokens_of(request: Any, of: str) -> list[int]:
    """The prompt. Raises `InvalidRequestError` for what are no integers."""
    given = getattr(request, "prompt_token_ids", None)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidRequestError(f"prompt_token_ids {of} must be a list of integers, not {given!r}")
    tokens = list(given)
    if {*map(type, tokens)} - {int}:  # what is not of Python is looked at one by one
        tokens = [whole(f"a token in prompt_token_ids {of}", token, InvalidRequestError) for token in tokens]
    return tokens


def item_of(feature: Any, of: str) -> Item:
    """An item of a prompt. Raises `InvalidRequestError` for what is none."""
    identifier, place = getattr(feature, "identifier", None), getattr(feature, "mm_position", None)
    if not isinstance(identifier, str):
        raise InvalidRequestError(f"an item in mm_features {of} has an identifier, which is a text, not {identifier!r}")
    offset, length = (
        whole(f"the {name} of item {identifier!r} {of}", getattr(place, name, None), InvalidRequestError)
        for name in ("offset", "length")
    )
    return Item(identifier, offset, length)
