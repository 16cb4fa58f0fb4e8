"""The tables of one manager: names of requests and contents as rows, registered when they are first seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cacheimpl import counts
from cacheimpl.devices import usable
from cacheimpl.encoder_cache.errors import (
    InvalidCountError,
    InvalidDeviceError,
    InvalidRequestError,
    RequestMismatchError,
    SizeMismatchError,
    UnknownInputError,
)
from cacheimpl.encoder_cache.growth import Extent, extent_of, grown_cache, grown_config
from cacheimpl.encoder_cache.rows import Rows
from cacheimpl.encoder_cache.state import NO_INPUT, Config, empty
from cacheimpl.recency import queued
from cacheimpl.request import Request

LARGEST_COUNT = 2**62 - 1
"""The sum of two counts fits in a signed integer of 64 bits."""

FIRST_EXTENT = Extent(requests=8, positions=4, contents=8)


class Tables:
    """Configuration and state of one engine, and what its rows stand for.

    Everything here is read from a request: `request_id`; `get_num_encoder_embeds(i)` or `get_num_encoder_tokens(i)`;
    `mm_features[i].identifier` or `mm_hashes[i]`.
    """

    def __init__(self, cache_size: int, device: torch.device | str) -> None:
        device = usable(device, InvalidDeviceError)
        capacity = torch.tensor(cache_size, dtype=torch.int64, device=device)
        requests, positions, contents = FIRST_EXTENT
        self.config = Config(
            capacity=capacity,
            contents=torch.full((requests, positions), NO_INPUT, device=device),
            claims=torch.zeros((requests, positions), dtype=torch.int64, device=device),
            abandonable=torch.tensor(True, device=device),
        )
        self.cache = empty(capacity, requests, positions, contents)
        self.requests: Rows[str] = Rows(requests)
        self.contents: Rows[str] = Rows(contents)
        self._registered: dict[tuple[int, int], tuple[int, int]] = {}
        """Row of the request and position, to row of the content and size: what the tensors say, on the host."""

    @contextmanager
    def registered(self, request: Request, input_id: Any) -> Iterator[tuple[int, int]]:
        """The row of the request and the position, with content and claim registered.

        Where what is done with them is refused, they are not registered any more.
        """
        identifier, position = identifier_of(request, input_id), place_of(request, input_id)
        size, name = size_of(request, position), name_of(request)
        row, content = self.requests.get(name), self.contents.get(identifier)
        if row is not None and content is not None and self._registered.get((row, position)) == (content, size):
            yield row, position
            return
        before = self.config, self.cache, self.requests.copy(), self.contents.copy(), dict(self._registered)
        try:
            yield self._row_of_input(name, identifier, size, position)
        except BaseException:
            self.config, self.cache, self.requests, self.contents, self._registered = before
            raise

    def _row_of_input(self, name: str, identifier: str, size: int, input_id: int) -> tuple[int, int]:
        self._reserve(input_id)
        row = self._row_of_request(name)
        content = self._row_of_content(identifier)
        if self._registered.get((row, input_id)) != (content, size):
            self._register(row, input_id, content, size)
        return row, input_id

    def forget(self, request_id: str) -> None:
        """A request that holds nothing, is granted nothing and attempts nothing gives its row back."""
        if request_id in self.requests:
            self._clear_requests([self.requests.remove(request_id)])

    def _register(self, row: int, position: int, content: int, size: int) -> None:
        """Write one input into the tables, unless the entry that is held there is another one."""
        known = self._registered.get((row, position))
        if known is not None and bool(self.cache.held[row, position]):
            if known[0] != content:
                raise RequestMismatchError(f"input {position} of {self.requests.name(row)!r} holds another content")
            raise SizeMismatchError(f"input {position} of {self.requests.name(row)!r} took {known[1]}, not {size}")
        self._registered[row, position] = content, size
        contents, claims = self.config.contents.clone(), self.config.claims.clone()
        contents[row, position], claims[row, position] = content, size
        self.config = self.config._replace(contents=contents, claims=claims)

    def _row_of_request(self, request_id: str) -> int:
        if request_id not in self.requests:
            if self.requests.full:
                self._collect_requests()
            if self.requests.full:
                self._grow(extent_of(self.cache)._replace(requests=2 * self.requests.count))
            return self.requests.add(request_id)
        return self.requests[request_id]

    def _row_of_content(self, identifier: str) -> int:
        if identifier not in self.contents:
            if self.contents.full:
                self._collect_contents()
            if self.contents.full:
                self._grow(extent_of(self.cache)._replace(contents=2 * self.contents.count))
            return self.contents.add(identifier)
        return self.contents[identifier]

    def _reserve(self, position: int) -> None:
        """The tables have this position."""
        extent = extent_of(self.cache)
        if position >= extent.positions:
            self._grow(extent._replace(positions=max(2 * extent.positions, position + 1)))

    def _grow(self, extent: Extent) -> None:
        self.config, self.cache = grown_config(self.config, extent), grown_cache(self.cache, extent)
        self.requests.grow(extent.requests)
        self.contents.grow(extent.contents)

    def _collect_requests(self) -> None:
        """Requests that never said that they are finished, and hold nothing."""
        cache = self.cache
        busy = (cache.held | queued(cache.promised) | queued(cache.attempted)).any(1)
        self._clear_requests(self.requests.keep(set(busy.nonzero().flatten().tolist())))

    def _collect_contents(self) -> None:
        """Contents that are neither resident, nor reported yet, nor shown by a request that is known."""
        kept = (self.cache.resident | queued(self.cache.freed)).nonzero().flatten().tolist()
        shown = [content for content, _ in self._registered.values()]
        self.contents.keep({*kept, *shown})

    def _clear_requests(self, rows: list[int]) -> None:
        gone = set(rows)
        self._registered = {key: value for key, value in self._registered.items() if key[0] not in gone}
        contents = self.config.contents.clone()
        contents[rows] = NO_INPUT
        self.config = self.config._replace(contents=contents)


def place_of(request: Request, input_id: Any) -> int:
    """An input of a request, by its number. Raises `UnknownInputError`, `InvalidRequestError`."""
    count = len(inputs_of(request))
    name = f"input_id, of request {request.request_id!r} with {count} encoder inputs,"
    return counts.whole(name, input_id, UnknownInputError, least=0, most=count - 1)


def inputs_of(request: Request) -> Any:
    """Features or hashes of a request, whichever it has. Raises `InvalidRequestError`."""
    name_of(request)
    for name in ("mm_features", "mm_hashes"):
        inputs = getattr(request, name, None)
        if inputs is not None:
            return inputs
    raise InvalidRequestError(f"request {request.request_id!r} has neither mm_features nor mm_hashes")


def identifier_of(request: Request, input_id: int) -> str:
    """The hash of one input of a request, under whichever name the era gives it."""
    identifier = inputs_of(request)[place_of(request, input_id)]
    identifier = (
        getattr(identifier, "identifier", None) if getattr(request, "mm_features", None) is not None else identifier
    )
    if not isinstance(identifier, str):
        where = "mm_features (identifier) or mm_hashes"
        raise InvalidRequestError(f"input {input_id} of {request.request_id!r} has no hash in {where}: {identifier!r}")
    return identifier


def name_of(request: Request) -> str:
    """The id of a request. Raises `InvalidRequestError`."""
    given = getattr(request, "request_id", None)
    if given is None:
        raise InvalidRequestError(f"a request has a request_id, and {type(request).__name__} has none")
    name: str = given
    return name


def size_of(request: Request, input_id: int) -> int:
    """The embeddings of one input of a request, under whichever name the era gives them."""
    names = ("get_num_encoder_embeds", "get_num_encoder_tokens")
    ask = next((method for name in names if (method := getattr(request, name, None)) is not None), None)
    if ask is None:
        raise InvalidRequestError(f"request {name_of(request)!r} has no {' or '.join(names)}")
    try:
        size = ask(input_id)
    except (IndexError, KeyError):
        raise UnknownInputError(f"request {name_of(request)!r} knows no size of input {input_id}") from None
    return counted(f"the size of input {input_id} of {name_of(request)!r}", size)


def counted(what: str, count: Any) -> int:
    """A count that can be one, and of which two can be added."""
    return counts.whole(what, count, InvalidCountError, least=0, most=LARGEST_COUNT)


def integer(what: str, count: Any) -> int:
    """Anything that Python takes for an index, but no truth value."""
    return counts.whole(what, count, InvalidCountError)
