"""Which contents and requests there are, how large the shared memory is, and what the environment of a scope may do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, NamedTuple

from cachespec import ring
from cachespec.kernel import Name, apart
from cachespec.ring import configuration as of_the_ring

Content = Annotated[int, Name("content")]
"""A multimodal item by what it is (its hash): the key of the store."""

Request = Annotated[int, Name("request")]
"""The name of a request is used again only when nothing of its former life is left anywhere."""

Reader = Annotated[int, Name("reader")]
"""One worker process; each of them reads every item."""

Position = int
"""Which item of a request, in the order in which P0 walks them."""

NOTHING = -1
UNLIMITED = -1
FIELD = 2**31 - 1
SWITCHES = (
    "touches",
    "skips",
    "stepwise",
    "stores",
    "reordered",
    "lookalikes",
    "rejects",
    "aborts",
    "covered",
    "preempts",
)
FAULTS = ("clears", "deaths", "restarts", "forges", "reclaims", "repeats")


class Config(NamedTuple):
    """Sizes in units, as for the ring. Switches are 0 or 1."""

    capacity: int
    """Units of data that the ring has."""
    payloads: tuple[int, ...]
    """Units of payload of each content, with the count and the metadata before it; its position is the content."""
    requests: tuple[tuple[int, ...], ...]
    """The content of each item of each request, in the order in which P0 walks them."""
    largest: int
    """Units of payload that an item may have; a larger one is sent without the store."""
    readers: int = 2
    """Worker processes."""
    header: int = 2
    """Units before the payload of a chunk; 8 bytes as released."""
    modulus: int = 8
    """How many ids the ring has; 2**31 as released."""
    limit: int = FIELD
    """The largest count that the field in the shared memory holds; every reader counts each item of every request."""
    renders: int = UNLIMITED
    """The maximum number of rendered requests; -1: any number. It bounds the eras, whose counts grow for ever."""
    concurrent: int = 1
    """The maximum number of requests that P0 renders at a time."""
    touches: int = 0
    """1: P0 touches every item of a request before it walks them."""
    skips: int = 0
    """1: P0 does not process an item that it found in the store before the walk, so its data is not there."""
    stepwise: int = 0
    """1: a reader looks, copies and acknowledges in three steps, and others may step in between."""
    stores: int = 0
    """1: writing a header and writing the data behind it are two steps."""
    reordered: int = 0
    """1: unless the writer prevents it, the data may become visible before the header."""
    lookalikes: int = 0
    """1: bytes in the middle of an item look like a count that is large enough."""
    rejects: int = 0
    """1: P0 may reject a request after it has walked some items, and before it has sent it."""
    aborts: int = 0
    """1: a request may be aborted once it has been sent."""
    covered: int = 0
    """1: the items of a request may lie in the prefix that is cached already."""
    preempts: int = 0
    """1: a running request may be preempted and resumed."""
    clears: int = 0
    """1: the store may be cleared."""
    deaths: int = 0
    """1: a worker may die and be started again."""
    restarts: int = 0
    """1: P0 may die and be started again."""
    forges: int = 0
    """1: a client may send a request with a handle that it made up."""
    reclaims: int = 0
    """1: unused chunks may be freed at any time, and not only when there is no room."""
    repeats: int = 0
    """1: the message that sends a request to the workers may be delivered twice."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.payloads and min(config.payloads) < 1:
        return "payloads must be positive"
    if not config.payloads or not config.requests:
        return "payloads and requests must be given"
    used = {content for contents in config.requests for content in contents}
    if not used <= set(range(len(config.payloads))):
        return f"requests name contents {sorted(used)}, and there are payloads for 0 to {len(config.payloads) - 1}"
    if config.largest < 1 or config.largest + config.header > config.capacity:
        return f"an item of {config.largest} units and its header must fit into {config.capacity} units"
    if config.readers < 1 or config.limit < 1:
        return "there must be a reader, and a limit of at least 1"
    counted = config.readers * sum(map(len, config.requests))
    if config.limit < counted:
        return f"the count of an item may become {counted}, and its field holds at most {config.limit}"
    if config.concurrent < 1:
        return f"concurrent must be at least 1, not {config.concurrent}"
    for name in (*SWITCHES, *FAULTS):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return of_the_ring.malformed(ring_config(config))


@cache
def ring_config(config: Config) -> ring.Config:
    """What the ring sees of it."""
    return ring.Config(
        capacity=config.capacity,
        modulus=config.modulus,
        header=config.header,
        sizes=config.payloads,
        readers=config.readers,
    )


def positions(config: Config, request: Request) -> range:
    """The positions of the request's items."""
    return range(len(config.requests[request]))


def content_of(config: Config, request: Request, position: Position) -> Content:
    """The content of this item."""
    return config.requests[request][position]


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests of the same contents, and all readers.

    A content is where the requests have it, so no content is interchangeable on its own.
    """
    classes: dict[tuple[int, ...], list[int]] = {}
    for request, contents in enumerate(config.requests):
        classes.setdefault(contents, []).append(request)
    return {
        "request": tuple(tuple(members) for members in classes.values()),
        "reader": (tuple(range(config.readers)),),
        "content": apart(len(config.payloads)),
    }
