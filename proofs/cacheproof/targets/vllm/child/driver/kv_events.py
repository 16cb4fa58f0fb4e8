"""The release's KV cache manager with events on. Its calls are those of `kv_blocks`; here is what they tell.

The classes of events only hold what they are given. The release's own, in a module that needs its network libraries,
are not there: records of the same names are put into the module that makes events.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .calls import Calls, DriverError, Reply, operations_of
from .kv_blocks import KvBlocksDriver

POOL = "vllm.v1.core.block_pool"
STORED, REMOVED, CLEARED = range(3)
NO_PARENT = -1
OF_BLOCKS_ALONE = ("allocate_groups", "roll_back", "common_prefix")
"""Calls of `kv_blocks` that tell of nothing."""


class Event:
    """What the release gives to an event."""

    def __init__(self, **given: Any) -> None:
        self.given = given


class BlockStored(Event):
    """Blocks that can be found from now on."""


class BlockRemoved(Event):
    """Blocks that can no longer be found."""


class AllBlocksCleared(Event):
    """No block can be found."""


class Merged(NamedTuple):
    """An event by the names of the configuration."""

    kind: int
    parent: int
    hashes: tuple[int, ...]


class KvEventsDriver(KvBlocksDriver):
    """One manager, and the events that it has told since the last call."""

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        pool: Any = importlib.import_module(POOL)
        if not hasattr(pool, "BlockStored"):
            raise DriverError("the release tells of no blocks")
        for event in (BlockStored, BlockRemoved, AllBlocksCleared):
            setattr(pool, event.__name__, event)
        self._hashes: dict[Any, int] = {}
        self.operations = operations_of(self, calls, *((name, True) for name in OF_BLOCKS_ALONE), *self._lacking())

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new manager that tells, and what the keys in its events are."""
        super().reset({**config, "events": 1})
        hashes = config.get("hashes")
        self._hashes = {}
        for number, chain in enumerate(config["chains"]):
            for key, content in zip(self._manager.told_keys(self._whole_request(number)), chain, strict=False):
                self._hashes[key] = hashes[content] if hashes else content

    def do_take_events(self) -> Reply:
        told = [self._named(event) for event in self._manager.take_events()]
        values = ((each.kind, each.parent, len(each.hashes), *each.hashes) for each in merged(told))
        return Reply("done", tuple(part for each in values for part in each))

    def _named(self, event: Any) -> Merged:
        """The event by contents. A key of no content is an error of this driver."""
        if isinstance(event, AllBlocksCleared):
            return Merged(CLEARED, NO_PARENT, ())
        if not isinstance(event, BlockStored | BlockRemoved):
            raise DriverError(f"the release tells of a {type(event).__name__}, which this driver does not know")
        hashes = tuple(self._hashes[key] for key in event.given["block_hashes"])
        parent = event.given.get("parent_block_hash")
        if isinstance(event, BlockRemoved):
            return Merged(REMOVED, NO_PARENT, hashes)
        return Merged(STORED, NO_PARENT if parent is None else self._hashes[parent], hashes)


def merged(events: list[Merged]) -> Iterator[Merged]:
    """Removals that follow one another are one event, with its hashes in ascending order."""
    removed: list[int] = []
    for event in events:
        if event.kind == REMOVED:
            removed.extend(event.hashes)
            continue
        if removed:
            yield Merged(REMOVED, NO_PARENT, tuple(sorted(removed)))
        removed = []
        yield event
    if removed:
        yield Merged(REMOVED, NO_PARENT, tuple(sorted(removed)))
