"""Requests, the keys of their blocks, and what the properties read of both."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from cachespec.block_hash.configuration import NONE, UNSALTED, Adapter, Config, Content, Salt, Token
from cachespec.kernel import Containers, Grouping, IndexedBy, Observation, Outcome

ADAPTER, ITEM, SALT = 0, 1, 2
"""What an extra is about: the tags of the normative keys."""


class Item(NamedTuple):
    """An item of a request: what it shows, and where its first placeholder is."""

    content: Content
    offset: int


class Extra(NamedTuple):
    """What a key takes account of beside tokens.

    `offset` is that of an item, from the start of the block; of another extra, a second value where it has one.
    """

    tag: int
    value: int
    offset: int = 0


class Link(NamedTuple):
    """What is hashed together with the parent's value."""

    tokens: tuple[Token, ...]
    extras: tuple[Extra, ...]


class Key(NamedTuple):
    """The identity of a block, as the exact content that a hash function is given.

    A hash function without collisions is a name for the chain of everything that went into it, from the first block
    on; so the chain itself stands here, and two keys are equal if and only if the hash function was given the same.
    `beside` is what a key has beside the value that its successors are hashed with; normatively nothing.
    """

    chain: tuple[Link, ...]
    beside: tuple[Extra, ...] = ()


class Block(NamedTuple):
    """A full block that has its key; `items` is history: the positions of the items that its own extras name."""

    key: Key
    items: tuple[int, ...]


class Request(NamedTuple):
    """Tokens, prompt and output; items in the order of the prompt; the keys of the full blocks, in order."""

    tokens: tuple[Token, ...]
    items: tuple[Item, ...] = ()
    adapter: Adapter = NONE
    salt: Salt = UNSALTED
    submitted: int = 0
    blocks: tuple[Block, ...] = ()


class Hashing(NamedTuple):
    """Every request, by name."""

    requests: Annotated[tuple[Request, ...], IndexedBy("request")]


Result = tuple[Hashing, Outcome]


class Prefix(NamedTuple):
    """All that the bytes of a block depend on: everything up to its end, and for whom it was computed."""

    tokens: tuple[int, ...]
    items: tuple[tuple[int, int], ...]
    """Content and offset of every item that begins before the end of the block."""
    adapter: int
    salt: int


class Seen(NamedTuple):
    """One block that has a key: of which request, at which place, and the prefix that it stands for."""

    request: int
    place: int
    key: Key
    items: tuple[int, ...]
    prefix: Prefix


class View(NamedTuple):
    """The requests as they are, and every block that has a key."""

    requests: tuple[Request, ...]
    blocks: tuple[Seen, ...]


def initial(config: Config, containers: Containers) -> Hashing:
    """Every prompt has its opening, and nothing else."""
    return Hashing(requests=(Request(tokens=config.opening),) * config.requests)


def prefix_of(config: Config, request: Request, place: int) -> Prefix:
    """What the bytes of the block at this place depend on."""
    end = (place + 1) * config.block_size
    items = tuple((item.content, item.offset) for item in request.items if item.offset < end)
    return Prefix(request.tokens[:end], items, request.adapter, request.salt)


def view(config: Config, state: Hashing) -> View:
    """The same for every variant."""
    blocks = tuple(
        Seen(name, place, block.key, block.items, prefix_of(config, request, place))
        for name, request in enumerate(state.requests)
        for place, block in enumerate(request.blocks)
    )
    return View(state.requests, blocks)


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "blocks": "for each request, how many of its blocks have keys",
        "keys": "for each block, by request and position, the number of its key; keys are numbered as they "
        "first occur, so equal numbers are equal keys",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "blocks": Grouping(row=("",), each="request"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    numbers: dict[Key, int] = {}
    for block in view.blocks:
        numbers.setdefault(block.key, len(numbers))
    return {
        "blocks": tuple(len(request.blocks) for request in view.requests),
        "keys": tuple(numbers[block.key] for block in view.blocks),
    }
