"""Our `KVCacheManager` with events on, as a target of `kv_events`.

Its calls are those of `kv_blocks`. Every request brings the keys of its blocks, each the number of its hash, so events
name what the specification names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from cacheimpl.kv_cache_manager import (
    NORMATIVE,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheEvent,
    LaterKVCacheManager,
    Rules,
)
from cacheproof.targets.tensor.kv_cache_manager import Later, ManagerTarget
from cachespec import kv_blocks
from cachespec.kernel import Code, Observation, Outcome
from cachespec.kv_blocks.configuration import NOTHING, limit_of
from cachespec.kv_events.configuration import Config, pool_config
from cachespec.kv_events.operations import TakeEvents
from cachespec.kv_events.state import CLEARED, REMOVED, STORED, Event
from cachespec.kv_events.telling import followed_by
from cachespec.kv_events.transitions import flat


class Telling(Later):
    """The later shape, with events."""

    def made(self, config: kv_blocks.Config, rules: Rules) -> LaterKVCacheManager:
        group = SimpleNamespace(kv_cache_spec=SimpleNamespace(block_size=config.block_size))
        return LaterKVCacheManager(
            SimpleNamespace(num_blocks=config.blocks + self.before, kv_cache_groups=[group]),
            max_model_len=limit_of(config),
            enable_kv_cache_events=True,
            rules=rules,
        )


class EventsTarget:
    """One manager in one configuration."""

    def __init__(self, rules: Rules = NORMATIVE) -> None:
        self._pool = ManagerTarget(Telling, rules)

    def reset(self, config: Config) -> None:
        contents = max((content for chain in config.chains for content in chain), default=NOTHING) + 1
        self._pool.reset(pool_config(config)._replace(hashes=config.hashes or tuple(range(contents))))

    def apply(self, operation: Any) -> Outcome:
        if not isinstance(operation, TakeEvents):
            return self._pool.apply(operation)
        queue: tuple[Event, ...] = ()
        for event in named(self._pool.manager.take_events()):
            queue = followed_by(queue, (event,))
        return Outcome(Code.DONE, flat(queue))

    def observe(self) -> dict[str, Observation]:
        return dict(self._pool.observe())

    def close(self) -> None:
        """Nothing is held."""


def named(events: Sequence[KVCacheEvent]) -> Iterator[Event]:
    """The events as the specification has them. A key is the number of its hash."""
    for event in events:
        match event:
            case BlockStored(block_hashes=hashes, parent_block_hash=parent):
                yield Event(STORED, NOTHING if parent is None else number(parent), tuple(map(number, hashes)))
            case BlockRemoved(block_hashes=hashes):
                yield Event(REMOVED, NOTHING, tuple(sorted(map(number, hashes))))
            case AllBlocksCleared():
                yield Event(CLEARED, NOTHING, ())
            case _:
                raise TypeError(f"an event of no known kind: {event!r}")


def number(key: object) -> int:
    """The key, which is an integer here."""
    assert isinstance(key, int)
    return key
