"""Our processor caches by their public face, as targets: `python:cacheproof.targets.tensor.processor_caches:open_...`.

`open_lru_cache` is the `LRUCache`, for `lru`. `open_selectors` are the functions that choose, for `configuration`.
`open_mirror` is a sender and a receiver with the field's signatures, for the era M3 of `mirror`: what is around them
(channel, clients, faults) is what is around a released pair.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import cacheimpl.processor_cache as ours
from cacheimpl.object_store import caches as object_store
from cacheimpl.processor_cache import selectors
from cacheimpl.processor_cache.errors import AllPinnedError, EndlessEvictionError, TooLargeError
from cacheproof.model.target import ByOperation, factory_of
from cacheproof.targets.vllm.child.driver import mirror as released_mirror
from cacheproof.targets.vllm.child.driver.calls import Calls, Reply
from cacheproof.targets.vllm.child.driver.sides import GIBIBYTE, Item, Message
from cachespec.configuration import NO_CACHE, PROCESSOR_ONLY, READER, RECEIVER, SENDER, WRITER, Profile, Start
from cachespec.kernel import (
    ABSENT,
    DIVERGED,
    DONE,
    FAILED,
    HIT,
    MISS,
    REFUSED,
    TOO_LARGE,
    Code,
    Observation,
    Operation,
    Outcome,
)
from cachespec.lru import operations as lru
from cachespec.lru.configuration import Config as LruConfig

# The cache by recency -----------------------------------------------------------------------------------------------


class LruCacheTarget(ByOperation):
    """One `LRUCache`; a value is its own size."""

    def __init__(self, kind: type[ours.LRUCache[int, int]] = ours.LRUCache, refused: Outcome = REFUSED) -> None:
        self._kind, self._refused = kind, refused
        self._cache: ours.LRUCache[int, int] = kind(0, getsizeof=int)

    def reset(self, config: LruConfig) -> None:
        self._cache = self._kind(config.capacity, getsizeof=int)

    def observe(self) -> Mapping[str, Observation]:
        cache = self._cache
        hits, total = cache.stat()
        sizes = tuple(int(cache.size_of(key) or 0) for key in cache.order)
        return {"order": tuple(cache.order), "sizes": sizes, "used": int(cache.currsize), "hits": hits, "total": total}

    def _contains(self, op: lru.Contains) -> Outcome:
        return HIT if op.key in self._cache else MISS

    def _get(self, op: lru.Get) -> Outcome:
        return MISS if self._cache.get(op.key) is None else HIT

    def _lookup(self, op: lru.Lookup) -> Outcome:
        try:
            self._cache[op.key]
        except KeyError:
            return ABSENT
        return HIT

    def _put(self, op: lru.Put) -> Outcome:
        try:
            self._cache[op.key] = op.size
        except TooLargeError:
            return TOO_LARGE
        except AllPinnedError:
            return self._refused
        except EndlessEvictionError:
            return DIVERGED
        return DONE

    def _touch(self, op: lru.Touch) -> Outcome:
        return self._if_there(op.key, self._cache.touch)

    def _pop(self, op: lru.Pop) -> Outcome:
        return self._if_there(op.key, self._cache.pop)

    def _stat(self, _: lru.Stat) -> Outcome:
        return Outcome(Code.DONE, tuple(self._cache.stat(delta=True)))

    def _if_there(self, key: int, call: Callable[[int], object]) -> Outcome:
        """The call returns nothing of interest: whether the key is there is asked before."""
        there = key in self._cache
        call(key)
        return DONE if there else ABSENT

    def _pin(self, op: lru.Pin) -> Outcome:
        try:
            self._cache.pin(op.key)
        except ValueError:
            return ABSENT
        return DONE

    def _clear(self, _: lru.Clear) -> Outcome:
        try:
            self._cache.clear()
        except EndlessEvictionError:
            return DIVERGED
        return DONE


open_lru_cache = factory_of("lru", LruCacheTarget)
"""The cache by recency."""
open_released_lru_cache = factory_of("lru", partial(LruCacheTarget, ours.ReleasedLRUCache, FAILED))
"""The cache as 0.33.0 has it (M3): an error in the middle of an eviction."""
open_ghost_lru_cache = factory_of("lru", partial(LruCacheTarget, ours.GhostLRUCache, FAILED))
"""The cache as 0.11.0 and 0.20.2 have it (M2): touching what is absent leaves a ghost, which is never evicted."""


# Who gets which -----------------------------------------------------------------------------------------------------


class Writer(object_store.ShmObjectStoreSenderCache):
    """Chosen, and not made."""

    def __init__(self, vllm_config: Any) -> None:
        """No memory is shared."""


class Reader(object_store.ShmObjectStoreReceiverCache):
    """Chosen, and not made."""

    def __init__(self, vllm_config: Any, shared_worker_lock: Any) -> None:
        """No memory is shared."""


KINDS: Mapping[type[Any], int] = {
    type(None): NO_CACHE,
    ours.MultiModalProcessorOnlyCache: PROCESSOR_ONLY,
    ours.MultiModalProcessorSenderCache: SENDER,
    ours.MultiModalReceiverCache: RECEIVER,
    Writer: WRITER,
    Reader: READER,
}


@contextlib.contextmanager
def without_shared_memory() -> Iterator[None]:
    """The functions that choose make none of these sizes while they are asked."""
    names = vars(selectors)
    made = {"ShmObjectStoreSenderCache": Writer, "ShmObjectStoreReceiverCache": Reader}
    before = {name: names[name] for name in made}
    names.update(made)
    try:
        yield
    finally:
        names.update(before)


class SelectorsTarget(ByOperation):
    """The four functions, as an engine calls them. A store in shared memory is chosen, and not made."""

    def __init__(self, *, with_registry: bool, balanced_outside: bool = False) -> None:
        self._with_registry, self._era = with_registry, {"balanced_outside": balanced_outside}
        self._shown: dict[str, Observation] = {}
        self._started = False

    def reset(self, _: Any) -> None:
        self._started = False
        self._shown = dict.fromkeys(("frontend", "engine", "worker", "private"), NO_CACHE)

    def _profile(self, _: Profile) -> Outcome:
        return DONE if self._started else REFUSED

    def _start(self, op: Start) -> None:
        self._started, config = True, deployment(op)
        registry = SimpleNamespace(supports_multimodal_inputs=lambda model_config: op.multimodal > 0)
        more = (registry,) if self._with_registry else ()
        private = config.model_config if self._with_registry else config
        with without_shared_memory():
            made = {
                "frontend": ours.processor_cache_from_config(config, *more, **self._era),
                "engine": ours.engine_receiver_cache_from_config(config, *more, **self._era),
                "worker": ours.worker_receiver_cache_from_config(config, *more, object(), **self._era),
                "private": ours.processor_only_cache_from_config(private, *more),
            }
        self._shown = {name: KINDS[type(one)] for name, one in made.items()}

    def observe(self) -> Mapping[str, Observation]:
        return dict(self._shown)


def deployment(op: Start) -> SimpleNamespace:
    """The settings by the names of an engine's configuration."""
    mm_config = SimpleNamespace(
        mm_processor_cache_gb=op.gigabytes, mm_processor_cache_type=("lru", "shm")[op.cache_type]
    )
    return SimpleNamespace(
        model_config=SimpleNamespace(
            supports_multimodal_inputs=op.multimodal > 0, get_multimodal_config=lambda: mm_config
        ),
        parallel_config=SimpleNamespace(
            _api_process_count=op.api_processes,
            data_parallel_size=op.engines,
            data_parallel_external_lb=op.external > 0,
        ),
    )


open_selectors = factory_of("configuration", partial(SelectorsTarget, with_registry=False))
"""The functions that choose, as from 0.20 on."""
open_early_selectors = factory_of("configuration", partial(SelectorsTarget, with_registry=True))
"""The same as until 0.11, with a registry."""
open_balanced_selectors = factory_of(
    "configuration", partial(SelectorsTarget, with_registry=True, balanced_outside=True)
)
"""The functions that choose, as 0.11.0 and 0.12 have them (M1)."""


# Both sides of the mirror -------------------------------------------------------------------------------------------


class Frontend:
    """P0: everything is looked up, touched, and then updated modality by modality, as the field's processors do."""

    def __init__(self, capacity: int) -> None:
        self._cache = ours.MultiModalProcessorSenderCache(model_config(capacity))
        self._missed: list[str] = []

    def render(self, items: Sequence[Item]) -> Message:
        """The message; which items have their data in it was found out by the cache."""
        for mm_hash in self._missed:
            self._cache.invalidate(mm_hash)
        self._missed.clear()
        walk = sorted(range(len(items)), key=lambda place: items[place].modality)
        hashes = [items[place].mm_hash for place in walk]
        cached = self._cache.is_cached(hashes)
        for mm_hash in hashes:
            self._cache.touch_sender_cache_item(mm_hash)
        placeholders, data = [0] * len(items), [None] * len(items)
        for place, mm_hash, there in zip(walk, hashes, cached, strict=True):
            given = None if there else (processed(items[place]), [items[place].content])
            data[place], (placeholders[place],) = self._cache.get_and_update_item(given, mm_hash)
        return Message(tuple(items), tuple(placeholders), tuple(data))

    def take_misses(self, mm_hashes: Sequence[str]) -> None:
        """Dropped before the next request is rendered."""
        self._missed.extend(mm_hashes)

    def order(self) -> list[int]:
        """Keys, the oldest first."""
        return [int(key) for key in self._cache._cache]  # noqa: SLF001  # as released, tests look there

    def clear(self) -> None:
        """A reset."""
        self._cache.clear_cache()


class Receiver:
    """P1."""

    def __init__(self, capacity: int) -> None:
        self._cache = ours.MultiModalReceiverCache(model_config(capacity))

    def deliver(self, message: Message) -> tuple[int, ...]:
        """The contents that the engine gets."""
        features = [
            SimpleNamespace(data=data, mm_hash=item.mm_hash, identifier=f"adapter-{item.mm_hash}")
            for item, data in zip(message.wanted, message.data, strict=True)
        ]
        return tuple(feature.data.content for feature in self._cache.get_and_update_features(features))

    def order(self) -> list[int]:
        """Keys, the oldest first."""
        return [int(key) for key in self._cache._cache]  # noqa: SLF001  # as released, tests look there

    def clear(self) -> None:
        """A reset."""
        self._cache.clear_cache()


def model_config(capacity: int) -> SimpleNamespace:
    """A cache of so many bytes."""
    setting = SimpleNamespace(mm_processor_cache_gb=capacity / GIBIBYTE)
    return SimpleNamespace(get_multimodal_config=lambda: setting)


def processed(item: Item) -> SimpleNamespace:
    """What a processor makes of an item: as many bytes as it has."""
    return SimpleNamespace(data=torch.zeros(item.size, dtype=torch.uint8), content=item.content)


class Pair:
    """In the place of a release: makes both sides, and says what sort of release it is."""

    resets = repairs = fans_out = True
    checks_first = dies = False
    two_steps = passes_by = False
    """Not driven here: look-up and update as two steps, and items that come as embeddings."""

    def frontend(self, capacity: int) -> Frontend:
        """A new P0."""
        return Frontend(capacity)

    def receiver(self, capacity: int) -> Receiver:
        """A new P1."""
        return Receiver(capacity)

    def missed(self, error: Exception) -> list[str] | None:
        """The keys that a miss names."""
        return error.mm_hashes if isinstance(error, ours.MultiModalCacheMissError) else None


class PairDriver(released_mirror.MirrorDriver):
    """Channel, clients and faults as around a released pair; and ours in its place."""

    def __init__(self) -> None:
        vars(released_mirror)["Release"] = Pair  # there is no release in this process, and never is
        super().__init__(Calls(Path(str(ours.__file__)).parent, (), processor_seconds=10.0))


class MirrorTarget:
    """A sender for each frontend, one receiver, and what is between them."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._driver = PairDriver()

    def reset(self, config: Any) -> None:
        self._driver.reset(config._asdict())

    def apply(self, operation: Operation) -> Outcome:
        reply: Reply = self._driver.operations[operation.wire_name()](dataclasses.asdict(operation))
        return Outcome(Code(reply.code), reply.values)

    def observe(self) -> Mapping[str, Observation]:
        return dict(_frozen(self._driver.observe()))

    def close(self) -> None:
        """Nothing is held."""


def _frozen(shown: Mapping[str, Any]) -> Iterator[tuple[str, Observation]]:
    return ((name, tuple(value) if isinstance(value, list) else value) for name, value in shown.items())


open_mirror = factory_of("mirror", MirrorTarget)
"""Both sides."""
