"""The state of the eras: an LRU on each side, updated where the released code updates it."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cachespec.kernel import Containers, IndexedBy, Map, Queue, Rank, RankScope
from cachespec.mirror.configuration import UNLIMITED, Config, Key, SenderName
from cachespec.mirror.drafts import RENDERED

Number = Annotated[int, Rank("number")]
Epoch = Annotated[int, Rank("epoch")]

NOBODY = -1


class Cache(NamedTuple):
    """One side. A ghost is a key in the order that has no entry (C-MIR-10); it weighs nothing."""

    order: Queue[Key]
    """Keys with their bytes, oldest first."""
    contents: Map[Key, Key]
    """Which content lies under each key: two contents may be named alike (C-MIR-14)."""


class Message(NamedTuple):
    """A request on its way. `number`, `epoch` and `walked` are history.

    Messages of one rendering have one number; a message for which P0 was not updated has none.
    """

    number: Number
    epoch: Epoch
    items: tuple[Key, ...]
    """Contents in prompt order, as their placeholders were computed at P0."""
    payloads: tuple[int, ...]
    walked: tuple[Key, ...]
    wanted: tuple[Key, ...]
    """The contents that the client asked for; a retry asks for them again."""


class Draft(NamedTuple):
    """One request of a frontend that has messages to send; all of them are alike."""

    message: Message
    """Of a request that is only looked up, the items to be processed are those with a 1 among the payloads."""
    stage: int = RENDERED
    left: int = 1
    """Messages that have still to leave."""


class Answer(NamedTuple):
    """What P1 reports of one request."""

    number: Number
    failed: int
    missing: tuple[Key, ...] = ()
    wanted: tuple[Key, ...] = ()


class Link(NamedTuple):
    """One frontend and its way to P1. From `updates` on, history."""

    cache: Cache
    invalid: Map[Key, int]
    """M3: keys to be dropped before the next rendering."""
    drafts: tuple[Draft, ...] = ()
    messages: tuple[Message, ...] = ()
    answers: tuple[Answer, ...] = ()
    retries: tuple[tuple[Key, ...], ...] = ()
    waiting: int = 0
    """Requests that the client still waits for."""
    hung: int = 0
    updates: Number = 1
    """The number of P0's next update; the first is 1."""
    applied: Number = 0
    """The number of the last update that P1 has applied."""
    epoch: Epoch = 0
    lost: int = 0
    """Whether P1 will never apply some update of this epoch."""
    marked: Number = NOBODY
    """The first update after the last fault, or -1 once a later request was answered."""
    missed: int = 0
    """M3: whether a miss was reported since the last fault, and because of it: before another request was answered."""


class State(NamedTuple):
    """All frontends and the one cache at P1."""

    links: Annotated[tuple[Annotated[Link, RankScope()], ...], IndexedBy("sender")]
    receiver: Cache
    empty: Cache
    dead: int = 0
    """Whether the thread that takes messages is gone."""
    owner: SenderName = NOBODY
    """History: the sender that P1 served first; its one cache is that sender's."""
    faults_left: int = UNLIMITED


def initial(config: Config, containers: Containers) -> State:
    """Everything empty, everybody connected."""
    empty = Cache(containers.queue(), containers.map())
    links = (Link(empty, containers.map()),) * config.senders
    return State(links=links, receiver=empty, empty=empty, faults_left=config.faults)


def with_link(state: State, name: int, link: Link) -> State:
    """One link replaced."""
    return state._replace(links=(*state.links[:name], link, *state.links[name + 1 :]))


def holds(cache: Cache, key: int) -> bool:
    """Whether there is an entry, not only a ghost."""
    return cache.contents.has(key)


def recent(cache: Cache, key: int) -> Cache:
    """An entry becomes the most recent."""
    return cache._replace(order=cache.order.push(key, cache.order.weight(key, 0)))


def evicted(cache: Cache, key: int) -> Cache:
    """The entry is gone."""
    return Cache(cache.order.remove(key), cache.contents.remove(key))


def entries(cache: Cache) -> tuple[tuple[int, int], ...]:
    """Keys and bytes, oldest first, ghosts left out."""
    return tuple((key, size) for key, size in cache.order.items() if holds(cache, key))
