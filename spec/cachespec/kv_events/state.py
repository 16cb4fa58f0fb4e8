"""The pool, the events that wait, and what a subscriber knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cachespec import kv_blocks
from cachespec.kernel import Containers, Grouping, Map, Observation, Variant
from cachespec.kv_blocks.configuration import Hash
from cachespec.kv_events.configuration import Config, pool_config, told_hashes

STORED, REMOVED, CLEARED = range(3)


class Event(NamedTuple):
    """What is told of blocks that can be found, or no longer."""

    kind: int
    """STORED, REMOVED or CLEARED."""
    parent: Hash
    """Of stored blocks, the hash of the block before the first one; nothing where that is the first of its request."""
    hashes: tuple[Hash, ...]
    """Stored blocks follow one another in a request. Removed ones are in ascending order, one for each removal."""


class Publisher(NamedTuple):
    """A manager of KV blocks that tells what can be found."""

    pool: kv_blocks.Pool
    """The manager, unchanged."""
    queue: tuple[Event, ...]
    """Events that have not been taken yet, the oldest first."""
    known: Map[Hash, Hash]
    """What a subscriber knows of: each hash with that of the block before it, as it was told."""


class View(NamedTuple):
    """What properties read."""

    pool: kv_blocks.View
    queue: tuple[Event, ...]
    known: tuple[tuple[int, int], ...]
    expected: tuple[tuple[int, int], ...]
    """What the subscriber will know when it has applied the queue."""


def initial(
    state: type[Publisher], pool: Variant[Any, Any, kv_blocks.View], config: Config, containers: Containers
) -> Publisher:
    """Nothing can be found, and nothing was reported. `pool`: the manager's variant."""
    return state(pool=pool.start(pool_config(config), containers), queue=(), known=containers.map())


def view(pool: Variant[Any, Any, kv_blocks.View], config: Config, publisher: Publisher) -> View:
    """The view of the pool, by its variant, and what is reported of it."""
    expected = publisher.known
    for event in publisher.queue:
        expected = applied(config, expected, event)
    return View(
        pool=pool.view(pool_config(config), publisher.pool),
        queue=publisher.queue,
        known=tuple(publisher.known.items()),
        expected=tuple(expected.items()),
    )


# The subscriber -----------------------------------------------------------------------------------------------------


def applied(config: Config, known: Map[Hash, Hash], event: Event) -> Map[Hash, Hash]:
    """What a subscriber knows after an event: hashes are there or not, however often they were told."""
    if event.kind == STORED:
        return with_stored(known, event)
    for known_hash in told_hashes(config) if event.kind == CLEARED else event.hashes:
        known = known.remove(known_hash)
    return known


def with_stored(known: Map[Hash, Hash], event: Event) -> Map[Hash, Hash]:
    """Each stored block has the one before it as its parent."""
    parent = event.parent
    for stored in event.hashes:
        known = known.set(stored, parent)
        parent = stored
    return known


OBSERVABLES: Mapping[str, str] = kv_blocks.COMPONENT.observables
GROUPING: Mapping[str, Grouping] = kv_blocks.COMPONENT.grouping


def observe(config: Config, view: View) -> Mapping[str, Observation]:
    """As of the pool. Events are seen when they are taken."""
    return kv_blocks.COMPONENT.observe(pool_config(config), view.pool)
