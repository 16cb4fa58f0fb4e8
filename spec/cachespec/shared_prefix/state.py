"""Waiting and running requests, their computed tokens, and the cached prefixes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from cachespec import encoder_cache
from cachespec.encoder_cache.era_states import PerRequestCache
from cachespec.kernel import Grouping, IndexedBy, Observation
from cachespec.shared_prefix.configuration import Config, Request

NEW, WAITING, RUNNING, GONE = 0, 1, 2, 3


class State(NamedTuple):
    """Blocks of the prefix cache are never evicted here: memory for them is another component's matter."""

    waiting: tuple[Request, ...]
    running: tuple[Request, ...]
    status: Annotated[tuple[int, ...], IndexedBy("request")]
    computed: Annotated[tuple[int, ...], IndexedBy("request")]
    """Tokens of each request that are computed, or were found in the prefix cache."""
    reach: tuple[int, ...]
    """Tokens of each prompt whose blocks are in the prefix cache."""
    encoder: encoder_cache.Cache


class PerRequestState(NamedTuple):
    """The same with the first encoder cache manager, in which nothing is shared."""

    waiting: tuple[Request, ...]
    running: tuple[Request, ...]
    status: Annotated[tuple[int, ...], IndexedBy("request")]
    computed: Annotated[tuple[int, ...], IndexedBy("request")]
    reach: tuple[int, ...]
    encoder: PerRequestCache


class View(NamedTuple):
    """What properties see."""

    waiting: tuple[Request, ...]
    running: tuple[Request, ...]
    status: tuple[int, ...]
    computed: tuple[int, ...]
    reach: tuple[int, ...]
    free: int
    """Slots of the encoder cache that no entry occupies."""
    room: int
    """Slots that no request holds: free ones, and those of entries that may be evicted."""
    held: tuple[tuple[Request, int], ...]
    """Requests and items whose encoder outputs they hold, ascending."""
    resident: tuple[tuple[int, ...], ...]
    """Entries of the encoder cache, ascending: contents; where nothing is shared, requests and items."""
    unreported: int
    """Evictions of which the worker has not been told."""


def view(config: Config, state: Any) -> View:
    """Both kinds of state look alike from outside."""
    shared = isinstance(state, State)
    encoder = state.encoder
    return View(
        waiting=state.waiting,
        running=state.running,
        status=state.status,
        computed=state.computed,
        reach=state.reach,
        free=encoder.free,
        room=encoder.freeable if shared else encoder.free,
        held=tuple(pair for pair, _ in (encoder.held if shared else encoder.cached).items()),
        resident=tuple((one,) for one, _ in encoder.sizes.items())
        if shared
        else tuple(pair for pair, _ in encoder.cached.items()),
        unreported=encoder.freed.total if shared else len(encoder.freed),
    )


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "waiting": "requests that wait, in order",
        "running": "requests that run, in order",
        "computed": "for each request, its computed tokens",
        "reach": "for each prompt, its cached tokens",
        "free": "slots of the encoder cache that no entry occupies",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "waiting": Grouping(row=("request",), lane="scheduler"),
        "running": Grouping(row=("request",), lane="scheduler"),
        "computed": Grouping(row=("",), each="request", lane="scheduler"),
        "reach": Grouping(row=("",), each="prompt", lane="scheduler"),
        "free": Grouping(lane="scheduler"),
    }
)
"""Which integers of an observable belong together."""


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    return {
        "waiting": view.waiting,
        "running": view.running,
        "computed": view.computed,
        "reach": view.reach,
        "free": view.free,
    }
