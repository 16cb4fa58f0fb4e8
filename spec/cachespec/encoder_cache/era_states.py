"""The states of the released managers, field by field, with the callers' history beside them."""

from __future__ import annotations

from typing import NamedTuple

from cachespec.encoder_cache.configuration import Config, Content, Input, Request
from cachespec.encoder_cache.state import OBSERVABLES, View, holders_of
from cachespec.kernel import Containers, Map, Queue


class PerRequestCache(NamedTuple):
    """Until inputs were shared: an entry for each input of each request."""

    free: int
    """`num_free_slots`."""
    cached: Map[tuple[Request, Input], int]
    """`cached`, flat; each input with the embeddings that it claims."""
    freed: tuple[tuple[Request, Input], ...]
    """`freed`: requests and inputs."""
    promised: Queue[tuple[Request, Input]]
    """History."""
    attempted: Queue[tuple[Request, Input]]
    """History; a check pins nothing, so it stays empty."""


class SharedCache(NamedTuple):
    """Since inputs are shared by content. `sizes` and `held` are history until the release of 2026-11 stores them."""

    free: int
    """`num_free_slots`."""
    freeable: int
    """`num_freeable_slots`."""
    cached: Map[Content, int]
    """`cached`: each resident content, and how many requests refer to it."""
    referring: Map[tuple[Content, Request], int]
    """The members of the sets in `cached`; each 1."""
    order: Queue[Content]
    """The keys of `freeable`, oldest first."""
    given_back: Map[Content, int]
    """The values of `freeable`: what an eviction will add to the free slots."""
    freed: tuple[Content, ...]
    """`freed`: evicted since the last report."""
    sizes: Map[Content, int]
    """`num_embeds_by_hash`: what the entry was created with."""
    held: Map[tuple[Request, Input], int]
    """`request_cached_ids`: inputs that were found or allocated, and not released since; each 1."""
    dangling: Map[tuple[Request, Input], int]
    """History: those of `held` that belong to an attempt that was abandoned; each 1."""
    promised: Queue[tuple[Request, Input]]
    """History."""
    attempted: Queue[tuple[Request, Input]]
    """History: what checks have pinned in this pass for requests that are not admitted yet."""


class CountingCache(NamedTuple):
    """For encoder-decoder models: a count, and what was made of late. Only the first three are the manager's."""

    free: int
    """`num_free_slots`."""
    allocated: tuple[Content, ...]
    """`allocated`: made since the last report."""
    to_free: tuple[Content, ...]
    """`to_free`: made before it; the next report says so."""
    held: Map[tuple[Request, Input], int]
    """History: inputs that were allocated and not released since, with the embeddings that they claim."""
    served: Map[tuple[Request, Input], int]
    """History: inputs of requests that have been admitted and not finished; each 1."""
    promised: Queue[tuple[Request, Input]]
    """History."""
    attempted: Queue[tuple[Request, Input]]
    """History; a check pins nothing, so it stays empty."""


def initial_per_request(config: Config, containers: Containers) -> PerRequestCache:
    """Empty: every slot is free."""
    return PerRequestCache(
        free=config.capacity,
        cached=containers.map(),
        freed=(),
        promised=containers.queue(),
        attempted=containers.queue(),
    )


def initial_shared(config: Config, containers: Containers) -> SharedCache:
    """Empty: every slot is free."""
    return SharedCache(
        free=config.capacity,
        freeable=config.capacity,
        cached=containers.map(),
        referring=containers.map(),
        order=containers.queue(),
        given_back=containers.map(),
        freed=(),
        sizes=containers.map(),
        held=containers.map(),
        dangling=containers.map(),
        promised=containers.queue(),
        attempted=containers.queue(),
    )


def view_of_own_entries(
    config: Config, cache: PerRequestCache | CountingCache, entries: Map[tuple[Request, Input], int]
) -> View:
    """Of a manager that shares nothing: an entry is one request's own, and evicts nothing, or pinned by a check."""
    held = tuple(pair for pair, _ in entries.items())
    holders = holders_of(config, held)
    return View(
        free=cache.free,
        freeable=None,
        entries=tuple(entries.items()),
        references=tuple((content, 1) for content in sorted({content for content, _ in holders})),
        holders=holders,
        held=held,
        idle=(),
        freed=(),
        promised=tuple(pair for pair, _ in cache.promised.items()),
        promised_embeds=cache.promised.total,
        attempted=(),
        shown=("free", "freed"),
    )


def view_per_request(config: Config, cache: PerRequestCache) -> View:
    """Entries are named by request and input; each is referred to by its own request."""
    view = view_of_own_entries(config, cache, cache.cached)
    return view._replace(freed=cache.freed, shown=("free", "cached", "freed"))


def view_shared(config: Config, cache: SharedCache) -> View:
    """The manager's own idea of references, and the callers' of what they hold."""
    return View(
        free=cache.free,
        freeable=cache.freeable,
        entries=tuple(((content,), cache.sizes.get(content, 0)) for content, _ in cache.cached.items()),
        references=tuple((content, count) for content, count in cache.cached.items() if count > 0),
        holders=tuple(pair for pair, _ in cache.referring.items()),
        held=tuple(pair for pair, _ in cache.held.items() if not cache.dangling.has(pair)),
        idle=tuple(((content,), cache.given_back.get(content, 0)) for content, _ in cache.order.items()),
        freed=tuple((content,) for content in cache.freed),
        promised=tuple(pair for pair, _ in cache.promised.items()),
        promised_embeds=cache.promised.total,
        attempted=tuple(pair for pair, _ in cache.attempted.items()),
        shown=tuple(name for name in OBSERVABLES if name != "sizes"),
    )


def view_shared_with_sizes(config: Config, cache: SharedCache) -> View:
    """The release that stores the size of each entry shows it."""
    return view_shared(config, cache)._replace(shown=tuple(OBSERVABLES))


def initial_counting(config: Config, containers: Containers) -> CountingCache:
    """Every slot is free."""
    return CountingCache(
        free=config.capacity,
        allocated=(),
        to_free=(),
        held=containers.map(),
        served=containers.map(),
        promised=containers.queue(),
        attempted=containers.queue(),
    )


def view_counting(config: Config, cache: CountingCache) -> View:
    """An entry is what an input was allocated and has not given back."""
    freed = tuple((content,) for content in (*cache.to_free, *cache.allocated))
    served = tuple(pair for pair, _ in cache.served.items())
    return view_of_own_entries(config, cache, cache.held)._replace(freed=freed, released=served)
