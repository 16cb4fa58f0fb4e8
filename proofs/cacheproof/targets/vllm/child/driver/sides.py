"""The two sides of the mirrored processor cache: the release's sender and receiver caches, in its own call order."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace
from typing import Any, Protocol

from .configured import released
from .modules import module_if_there

GIBIBYTE = 1 << 30
"""The releases take their capacity in these."""

COUNTING = "vllm.v1.engine.mm_input_cache"
"""The module of the first mirrored cache, which counts entries (0.7)."""
CACHES = ("vllm.multimodal.cache.lru", "vllm.multimodal.cache")
PROCESSORS = ("vllm.multimodal.processing.processor", "vllm.multimodal.processing")
RENDERER = "vllm.renderers.base"
"""Modules of the later ones, the newest place first; the renderer is driven where P0 repairs what P1 missed."""


@dataclass(frozen=True, slots=True)
class Item:
    """One multimodal item of a request."""

    content: int
    identity: int
    modality: int
    size: int

    @property
    def mm_hash(self) -> str:
        """The key of both caches."""
        return str(self.identity)


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way."""

    wanted: tuple[Item, ...]
    """What the client asked for, in prompt order."""
    placeholders: tuple[int, ...]
    """The contents that P0 computed placeholders for: where a key was found, what P0 has under it."""
    data: tuple[Any, ...]
    """The data of each item, or None."""

    @property
    def payloads(self) -> tuple[int, ...]:
        """For each item 1 where its data is in the message."""
        return tuple(int(one is not None) for one in self.data)

    def contents_missed(self, mm_hashes: Sequence[str]) -> tuple[int, ...]:
        """What these keys stand for in this message, in the order given; P0 has one content under each."""
        named = zip(self.wanted, self.placeholders, self.data, strict=True)
        contents = {item.mm_hash: content for item, content, data in named if data is None}
        return tuple(contents[mm_hash] for mm_hash in mm_hashes)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A request between its look-up and the update of the cache."""

    items: tuple[Item, ...]
    cached: Mapping[str, Sequence[bool]]
    """What the release answered, by modality."""

    @property
    def missing(self) -> tuple[int, ...]:
        """For each item, in prompt order, 1 where it will be processed."""
        return tuple(int(not there) for there in _in_prompt_order(self.items, self.cached))


class Frontend(Protocol):
    """P0 of one sender."""

    def look_up(self, items: Sequence[Item]) -> LookedUp:
        """Ask the cache which items it has. Raises what the release raises."""
        ...

    def process(self, looked_up: LookedUp) -> Message:
        """Process what was missing, update the cache, and make the message. Raises what the release raises."""
        ...

    def embed(self, items: Sequence[Item]) -> Message:
        """The message of a request that came with the embeddings of its items."""
        ...

    def render(self, items: Sequence[Item]) -> Message:
        """Look the items up, update the cache, and make the message. Raises what the release raises."""
        ...

    def take_misses(self, mm_hashes: Sequence[str]) -> None:
        """P1 missed these; only releases that repair do something about it."""
        ...

    def order(self) -> list[int]:
        """Keys that have an entry, from the oldest to the most recent."""
        ...

    def clear(self) -> None:
        """What the release does when the cache is reset."""
        ...


class Receiver(Protocol):
    """P1."""

    def deliver(self, message: Message) -> tuple[int, ...]:
        """The contents that the engine gets for the items. Raises what the release raises."""
        ...

    def order(self) -> list[int]:
        """Keys that have an entry, from the oldest to the most recent."""
        ...

    def clear(self) -> None:
        """What the release does when the cache is reset."""
        ...


class Release:
    """Makes both sides as the release has them."""

    def __init__(self) -> None:
        self.counting = module_if_there(COUNTING)
        if self.counting is None:
            self.caches = _first_module(CACHES)
            self.inputs = importlib.import_module("vllm.multimodal.inputs")
            self.processor = _first_module(PROCESSORS).BaseMultiModalProcessor
            self.torch = importlib.import_module("torch")
            self.torch.set_num_threads(1)
            named = hasattr(self.caches, "MultiModalCacheMissError")
            self.renderer: Any = getattr(module_if_there(RENDERER), "BaseRenderer", None) if named else None

    @property
    def fans_out(self) -> bool:
        """Whether a request may have several outputs."""
        return self.counting is None

    @property
    def passes_by(self) -> bool:
        """Whether items that came as embeddings are not looked up in P0's cache."""
        return self.counting is None

    @property
    def two_steps(self) -> bool:
        """Whether the update takes what an earlier look-up has found: then other requests may come between."""
        return self.counting is None and "mm_is_cached" in self.processor._merge_mm_kwargs.__annotations__

    @property
    def resets(self) -> bool:
        """Whether the release has a reset of these caches at all."""
        return self.counting is None

    @property
    def checks_first(self) -> bool:
        """Whether every check that can reject a request comes before P0 is updated."""
        return self.counting is not None

    @property
    def dies(self) -> bool:
        """Whether an error at P1 ends the thread that takes messages, or the engine, and not the request alone."""
        return self.counting is not None or not hasattr(self.caches, "CacheInfo")

    @property
    def repairs(self) -> bool:
        """Whether a miss at P1 is told to P0."""
        return self.counting is None and hasattr(self.renderer, "_drain_mm_cache_invalidations")

    def missed(self, error: Exception) -> list[str] | None:
        """The keys that a miss of the release names, in its order; None for any other error."""
        if not self.repairs or not isinstance(error, self.caches.MultiModalCacheMissError):
            return None
        return list(error.mm_hashes)

    def frontend(self, capacity: int) -> Frontend:
        """A new P0."""
        if self.counting is not None:
            return CountingFrontend(self.counting, capacity)
        return WeighingFrontend(self, self._made("SenderCache", capacity))

    def receiver(self, capacity: int) -> Receiver:
        """A new P1."""
        if self.counting is not None:
            return CountingReceiver(self.counting, capacity)
        return WeighingReceiver(self, self._made("ReceiverCache", capacity))

    def _made(self, what: str, capacity: int) -> Any:
        """The sender or receiver cache; its class was renamed once."""
        names = (f"LruKeyReplicated{what}", f"MultiModalProcessor{what}", f"MultiModal{what}")
        made = next(getattr(self.caches, name) for name in names if hasattr(self.caches, name))
        setting = released()("MultiModalConfig", mm_processor_cache_gb=capacity / GIBIBYTE)
        return made(released()("ModelConfig", multimodal_config=setting, get_multimodal_config=lambda: setting))


@dataclass(frozen=True, slots=True)
class CountedData:
    """What a cache that counts entries stores; it never looks at it."""

    content: int


class CountingFrontend:
    """0.7: items are looked up one by one, in prompt order."""

    def __init__(self, module: Any, capacity: int) -> None:
        module.VLLM_MM_INPUT_CACHE_SIZE = capacity
        registry = SimpleNamespace(create_input_mapper=_nothing, init_mm_limits_per_prompt=_nothing)
        self._client = module.MMInputCacheClient(SimpleNamespace(disable_mm_preprocessor_cache=False), registry)

    def render(self, items: Sequence[Item]) -> Message:
        data = self._client.process_inputs(
            mm_data={},
            mm_hashes=[item.mm_hash for item in items],
            mm_processor_kwargs=None,
            precomputed_mm_inputs=[CountedData(item.content) for item in items],
        )
        return Message(tuple(items), tuple(item.content for item in items), tuple(data))

    def look_up(self, items: Sequence[Item]) -> LookedUp:
        """In 0.7 nothing comes between look-up and update: to be asked for it is a failure of the driver."""
        raise NotImplementedError

    def process(self, looked_up: LookedUp) -> Message:
        """In 0.7 nothing comes between look-up and update: to be asked for it is a failure of the driver."""
        raise NotImplementedError

    def embed(self, items: Sequence[Item]) -> Message:
        """In 0.7 embeddings take the way of any item: to be asked for it is a failure of the driver."""
        raise NotImplementedError

    def take_misses(self, mm_hashes: Sequence[str]) -> None:
        """It is told of none."""

    def order(self) -> list[int]:
        return [int(key) for key in self._client.mm_cache.cache]

    def clear(self) -> None:
        """Nothing in 0.7 clears this cache, and M0 lacks the resets: to be asked for it is a failure of the driver."""
        raise NotImplementedError


class CountingReceiver:
    """0.7: items one by one; data replaces what is there."""

    def __init__(self, module: Any, capacity: int) -> None:
        module.VLLM_MM_INPUT_CACHE_SIZE = capacity
        self._server = module.MMInputCacheServer(SimpleNamespace(disable_mm_preprocessor_cache=False))

    def deliver(self, message: Message) -> tuple[int, ...]:
        got = self._server.get_and_update(list(message.data), [item.mm_hash for item in message.wanted])
        return tuple(one.content for one in got)

    def order(self) -> list[int]:
        return [int(key) for key in self._server.mm_cache.cache]

    def clear(self) -> None:
        """Nothing in 0.7 clears this cache, and M0 lacks the resets: to be asked for it is a failure of the driver."""
        raise NotImplementedError


class WeighingFrontend:
    """From 0.11: items are looked up at once, and updated modality by modality by the release's `_merge_mm_kwargs`."""

    def __init__(self, release: Release, cache: Any) -> None:
        self._release = release
        self._cache = cache
        self._renderer = SimpleNamespace(
            mm_processor_cache=cache, _pending_mm_cache_invalidations=set(), _mm_cache_invalidation_lock=Lock()
        )

    def render(self, items: Sequence[Item]) -> Message:
        return self.process(self.look_up(items))

    def look_up(self, items: Sequence[Item]) -> LookedUp:
        self._drain()
        groups = _by_modality(items)
        hashes = {modality: [item.mm_hash for item in group] for modality, group in groups.items()}
        cached = {modality: self._cache.is_cached(keys) for modality, keys in hashes.items()}
        return LookedUp(tuple(items), cached)

    def process(self, looked_up: LookedUp) -> Message:
        items, cached = looked_up.items, looked_up.cached
        groups = _by_modality(items)
        hashes = {modality: [item.mm_hash for item in group] for modality, group in groups.items()}
        missing = {
            modality: [self._processed(item) for item, there in zip(group, cached[modality], strict=True) if not there]
            for modality, group in groups.items()
        }
        updates = {modality: [[item.content] for item in group] for modality, group in missing.items()}
        data, placeholders = self._merge(hashes, cached, missing, updates)
        return Message(
            wanted=items,
            placeholders=tuple(content for (content,) in _in_prompt_order(items, placeholders)),
            data=tuple(_in_prompt_order(items, data)),
        )

    def embed(self, items: Sequence[Item]) -> Message:
        """The release asks no cache where any item came as embeddings (`_cached_apply_hf_processor`)."""
        self._drain()
        data = tuple(self._processed(item) for item in items)
        return Message(tuple(items), tuple(item.content for item in items), data)

    def _drain(self) -> None:
        """Drop what P1 has missed, where the release does."""
        if self._release.repairs:
            self._release.renderer._drain_mm_cache_invalidations(self._renderer)

    def _merge(self, hashes: Any, cached: Any, missing: Any, updates: Any) -> Any:
        """The release's own loop: what is touched and updated, in which order."""
        processor = SimpleNamespace(_recompute_cached_prompt_update=lambda update, index: update)
        merge = self._release.processor._merge_mm_kwargs
        named = {"mm_hashes": hashes, "mm_missing_kwargs": missing, "mm_missing_prompt_updates": updates}
        if "mm_is_cached" in merge.__annotations__:
            named["mm_is_cached"] = cached
        try:
            return merge(processor, self._cache, **named)
        finally:
            getattr(self._cache, "release_sender_touches", _nothing)()

    def _processed(self, item: Item) -> Any:
        """What the processor makes of an item: one field of as many bytes as it has, and which content it is."""
        inputs = self._release.inputs
        tensor = self._release.torch.zeros(item.size, dtype=self._release.torch.uint8)
        modality, field = _modality(item), inputs.MultiModalBatchedField()
        if "modality" in inputs.MultiModalFieldElem.__annotations__:
            element = inputs.MultiModalFieldElem(modality=modality, key="data", data=tensor, field=field)
        else:
            element = inputs.MultiModalFieldElem(data=tensor, field=field)
        made = inputs.MultiModalKwargsItem({"data": element})
        made.content = item.content
        return made

    def take_misses(self, mm_hashes: Sequence[str]) -> None:
        if self._release.repairs:
            self._release.renderer.queue_mm_cache_invalidations(self._renderer, mm_hashes)

    def order(self) -> list[int]:
        return _entries(self._cache._cache)

    def clear(self) -> None:
        self._cache.clear_cache()


class WeighingReceiver:
    """From 0.11: the features of a request, in prompt order."""

    def __init__(self, release: Release, cache: Any) -> None:
        self._release = release
        self._cache = cache

    def deliver(self, message: Message) -> tuple[int, ...]:
        features = [
            self._feature(index, item, data)
            for index, (item, data) in enumerate(zip(message.wanted, message.data, strict=True))
        ]
        return tuple(feature.data.content for feature in self._cache.get_and_update_features(features))

    def _feature(self, index: int, item: Item, data: Any) -> Any:
        inputs = self._release.inputs
        named = {"data": data, "modality": _modality(item), "identifier": item.mm_hash}
        if "mm_hash" in inputs.MultiModalFeatureSpec.__annotations__:
            named["mm_hash"] = item.mm_hash
        return inputs.MultiModalFeatureSpec(mm_position=inputs.PlaceholderRange(offset=index, length=1), **named)

    def order(self) -> list[int]:
        return _entries(self._cache._cache)

    def clear(self) -> None:
        self._cache.clear_cache()


def _modality(item: Item) -> str:
    return f"modality {item.modality}"


def _by_modality(items: Sequence[Item]) -> Mapping[str, list[Item]]:
    """As the front end groups a prompt: modalities in a fixed order, whatever their order in the prompt."""
    groups: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.modality):
        groups.setdefault(_modality(item), []).append(item)
    return groups


def _in_prompt_order(items: Sequence[Item], groups: Mapping[str, Sequence[Any]]) -> Iterator[Any]:
    """What is grouped by modality, item by item of the prompt."""
    waiting = {modality: iter(group) for modality, group in groups.items()}
    return (next(waiting[_modality(item)]) for item in items)


def _entries(cache: Any) -> list[int]:
    """Without ghosts: those are in the order and have no entry."""
    return [int(key) for key in cache.order if key in cache]


def _nothing(*_: Any) -> None:
    """Where the release asks for something that plays no part here."""


def _first_module(names: Sequence[str]) -> Any:
    found = next((module for name in names if (module := module_if_there(name)) is not None), None)
    if found is None:
        raise ModuleNotFoundError(f"the release has none of {', '.join(names)}")
    return found
