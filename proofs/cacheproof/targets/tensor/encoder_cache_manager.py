"""Our `EncoderCacheManager` as a target: `python:cacheproof.targets.tensor.encoder_cache_manager:open_manager`.

The torch target steps the operations themselves; this one goes through the manager, with its tables of names that grow
and are used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from cacheimpl import EncoderCacheManager
from cacheimpl.encoder_cache.errors import AlreadyCachedError, NoRoomError, SizeMismatchError
from cacheproof.model.target import CallTable, call_of, factory_of
from cachespec.encoder_cache import operations as calls
from cachespec.encoder_cache.configuration import Config, positions, size_of
from cachespec.kernel import ABSENT, DONE, HIT, MISS, PRESENT, REFUSED, Code, Observation, Operation, Outcome


@dataclass(frozen=True, slots=True)
class Feature:
    """One multi-modal input of a request."""

    identifier: str


@dataclass(frozen=True, slots=True)
class ConfiguredRequest:
    """A request of the configuration, with the attributes that a manager reads."""

    request_id: str
    mm_features: tuple[Feature, ...]
    sizes: tuple[int, ...]

    def get_num_encoder_embeds(self, input_id: int) -> int:
        """Embeddings that the request claims."""
        return self.sizes[input_id]


def configured(config: Config, request: int) -> ConfiguredRequest:
    """Names of the configuration as the strings that an engine has."""
    features = tuple(Feature(str(content)) for content in config.requests[request])
    sizes = tuple(size_of(config, request, position) for position in positions(config, request))
    return ConfiguredRequest(str(request), features, sizes)


class ManagerTarget:
    """One manager in one configuration. An exception of the manager is the outcome that it stands for."""

    def __init__(self, device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self._device = device
        self._manager = EncoderCacheManager(0, device)
        self._requests: tuple[ConfiguredRequest, ...] = ()

    def reset(self, config: Config) -> None:
        self._manager = EncoderCacheManager(config.capacity, self._device)
        self._requests = tuple(configured(config, request) for request in range(len(config.requests)))

    def apply(self, operation: Operation) -> Outcome:
        return call_of(PERFORM, operation)(self._manager, self._requests, operation)

    def observe(self) -> Mapping[str, Observation]:
        manager = self._manager
        held = sorted((int(content), int(request)) for content, ids in manager.cached.items() for request in ids)
        return {
            "free": manager.num_free_slots,
            "freeable": manager.num_freeable_slots,
            "cached": tuple(sorted(map(int, manager.cached))),
            "holders": tuple(name for pair in held for name in pair),
            "idle": tuple(map(int, manager.freeable)),
            "idle_sizes": tuple(manager.freeable.values()),
            "freed": tuple(map(int, manager.freed)),
        }

    def close(self) -> None:
        """Nothing is held."""


open_manager = factory_of("encoder_cache", ManagerTarget)
"""The manager, normatively."""


# Calls --------------------------------------------------------------------------------------------------------------

Requests = tuple[ConfiguredRequest, ...]


def check(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """A hit, a miss, or another size."""
    try:
        return HIT if manager.check_and_update_cache(requests[operation.request], operation.input) else MISS
    except SizeMismatchError:
        return REFUSED


def ask(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """All four arguments."""
    request = requests[operation.request]
    return DONE if manager.can_allocate(request, operation.input, operation.budget, operation.pending) else REFUSED


def allocate(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """Taken, resident already, or no room."""
    try:
        manager.allocate(requests[operation.request], operation.input)
    except AlreadyCachedError:
        return PRESENT
    except NoRoomError:
        return REFUSED
    return DONE


def free_input(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """The call returns nothing: whether the input was held is asked before."""
    request = requests[operation.request]
    held = operation.input in manager.get_cached_input_ids(request)
    manager.free_encoder_input(request, operation.input)
    return DONE if held else ABSENT


def free_request(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """Nothing is returned."""
    manager.free(requests[operation.request])
    return DONE


def cached_inputs(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """Positions, ascending."""
    return Outcome(Code.DONE, tuple(sorted(manager.get_cached_input_ids(requests[operation.request]))))


def abandon(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """The same for every cause."""
    manager.abandon(requests[operation.request])
    return DONE


def report(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """Contents in the order of eviction."""
    return Outcome(Code.DONE, tuple(map(int, manager.get_freed_mm_hashes())))


def reset(manager: EncoderCacheManager, requests: Requests, operation: Any) -> Outcome:
    """Nothing is returned."""
    manager.reset()
    return DONE


PERFORM: CallTable = {
    calls.CheckAndUpdate: check,
    calls.CanAllocate: ask,
    calls.Allocate: allocate,
    calls.FreeInput: free_input,
    calls.FreeRequest: free_request,
    calls.CachedInputs: cached_inputs,
    calls.Abandon: abandon,
    calls.Report: report,
    calls.Reset: reset,
}
