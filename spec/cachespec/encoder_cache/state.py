"""The normative state, and the view that properties and observations read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cachespec.encoder_cache.configuration import Config, Content, Input, Request, content_of
from cachespec.kernel import Containers, Grouping, Map, Observation, Queue

Key = tuple[int, ...]
"""What names an entry: `(content,)`; before inputs were shared `(request, input)`."""


class Cache(NamedTuple):
    """Two counts beside the containers, as released, so that they can disagree where a rule is wrong."""

    free: int
    """Slots that no entry occupies."""
    freeable: int
    """Slots that no entry occupies to which a request refers."""
    sizes: Map[Content, int]
    """Resident entries, in embeddings."""
    references: Map[Content, int]
    """How many inputs hold the entry; absent where none does."""
    held: Map[tuple[Request, Input], int]
    """Inputs that were found or allocated, and not released since; each 1."""
    idle: Queue[Content]
    """Unreferenced resident entries, the longest unreferenced first; weighed in embeddings."""
    freed: Queue[Content]
    """Evicted since the last report and not resident again, in this order."""
    promised: Queue[tuple[Request, Input]]
    """History: what `CanAllocate` granted in this pass and is not allocated yet; weighed in embeddings."""
    attempted: Queue[tuple[Request, Input]]
    """What checks have pinned in this pass for requests that are not admitted yet; recorded where an admission can be
    abandoned, which is to undo it. Each weighs 1."""


class View(NamedTuple):
    """One shape for every variant. Pairs and keys are sorted where their order means nothing."""

    free: int
    freeable: int | None
    entries: tuple[tuple[Key, int], ...]
    """Resident entries and their true sizes."""
    references: tuple[tuple[int, int], ...]
    """Contents to which the manager counts references, and how many."""
    holders: tuple[tuple[int, int], ...]
    """Contents and the requests that the manager has as referring to them."""
    held: tuple[tuple[int, int], ...]
    """Requests and inputs that were granted and not released since: the callers' truth."""
    idle: tuple[tuple[Key, int], ...]
    """Entries in the order of eviction, with the sizes that their eviction will give back."""
    freed: tuple[Key, ...]
    """The list of evicted entries, as it stands."""
    promised: tuple[tuple[int, int], ...]
    promised_embeds: int
    attempted: tuple[tuple[int, int], ...]
    shown: tuple[str, ...]
    """The observables that this variant has."""
    released: tuple[tuple[int, int], ...] = ()
    """Inputs that a scheduler goes on releasing because they are listed, beside those that are held."""


OBSERVABLES: Mapping[str, str] = MappingProxyType(
    {
        "free": "embeddings that no entry occupies",
        "freeable": "embeddings that are free or belong to entries without a holder",
        "cached": "contents of the entries, ascending; request, input before inputs were shared",
        "sizes": "embeddings of each entry, in the order of `cached`",
        "holders": "pairs of content and request, ascending",
        "idle": "entries without a holder, the next to be evicted first",
        "idle_sizes": "embeddings that each entry of `idle` gives back",
        "freed": "entries that were evicted since the last `report`, in order",
    }
)
"""What each observable holds."""


GROUPING: Mapping[str, Grouping] = MappingProxyType(
    {
        "cached": Grouping(row=("content",), unless=("E0",)),
        "sizes": Grouping(beside="cached"),
        "holders": Grouping(row=("content", "request")),
        "idle": Grouping(row=("content",)),
        "idle_sizes": Grouping(beside="idle"),
        "freed": Grouping(row=("content",), unless=("E0",)),
    }
)
"""Which integers of an observable belong together."""


def initial(config: Config, containers: Containers) -> Cache:
    """Empty: every slot is free."""
    return Cache(
        free=config.capacity,
        freeable=config.capacity,
        sizes=containers.map(),
        references=containers.map(),
        held=containers.map(),
        idle=containers.queue(),
        freed=containers.queue(),
        promised=containers.queue(),
        attempted=containers.queue(),
    )


def holders_of(config: Config, held: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Each content with each request that holds an input of it."""
    return tuple(sorted({(content_of(config, request, position), request) for request, position in held}))


def view(config: Config, cache: Cache) -> View:
    """The normative state as properties see it."""
    held = tuple(pair for pair, _ in cache.held.items())
    return View(
        free=cache.free,
        freeable=cache.freeable,
        entries=tuple(((content,), size) for content, size in cache.sizes.items()),
        references=tuple(cache.references.items()),
        holders=holders_of(config, held),
        held=held,
        idle=tuple(((content,), size) for content, size in cache.idle.items()),
        freed=tuple((content,) for content, _ in cache.freed.items()),
        promised=tuple(pair for pair, _ in cache.promised.items()),
        promised_embeds=cache.promised.total,
        attempted=tuple(pair for pair, _ in cache.attempted.items()),
        shown=tuple(OBSERVABLES),
    )


def flat(keys: Iterable[Key]) -> tuple[int, ...]:
    """Keys or pairs one after the other."""
    return tuple(part for key in keys for part in key)


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """What an implementation shows: see `OBSERVABLES`."""
    everything: Mapping[str, Observation] = {
        "free": view.free,
        "freeable": view.free if view.freeable is None else view.freeable,
        "cached": flat(key for key, _ in view.entries),
        "sizes": tuple(size for _, size in view.entries),
        "holders": flat(view.holders),
        "idle": flat(key for key, _ in view.idle),
        "idle_sizes": tuple(size for _, size in view.idle),
        "freed": flat(view.freed),
    }
    return {name: everything[name] for name in view.shown}
