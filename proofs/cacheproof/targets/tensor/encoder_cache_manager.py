"""Our `EncoderCacheManager` as a target: `python:cacheproof.targets.tensor.encoder_cache_manager:open_manager`.

The torch target steps the operations themselves; this one goes through the manager, with its tables of names that grow
and are used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from cacheimpl import EncoderCacheManager
from cacheimpl.encoder_cache.errors import AlreadyCachedError, NoRoomError, SizeMismatchError
from cacheproof.model.target import ByOperation, factory_of
from cachespec.encoder_cache import operations as calls
from cachespec.encoder_cache.configuration import Config, positions, size_of
from cachespec.kernel import ABSENT, DONE, HIT, MISS, PRESENT, REFUSED, Code, Observation, Outcome


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


class ManagerTarget(ByOperation):
    """One manager in one configuration. An exception of the manager is the outcome that it stands for."""

    def __init__(self, device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self._device = device
        self._manager = EncoderCacheManager(0, device)
        self._requests: tuple[ConfiguredRequest, ...] = ()

    def reset(self, config: Config) -> None:
        self._manager = EncoderCacheManager(config.capacity, self._device)
        self._requests = tuple(configured(config, request) for request in range(len(config.requests)))

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

    def _check_and_update(self, operation: calls.CheckAndUpdate) -> Outcome:
        """A hit, a miss, or another size."""
        try:
            found = self._manager.check_and_update_cache(self._requests[operation.request], operation.input)
        except SizeMismatchError:
            return REFUSED
        return HIT if found else MISS

    def _can_allocate(self, operation: calls.CanAllocate) -> Outcome:
        """All four arguments."""
        request = self._requests[operation.request]
        has_room = self._manager.can_allocate(request, operation.input, operation.budget, operation.pending)
        return DONE if has_room else REFUSED

    def _allocate(self, operation: calls.Allocate) -> Outcome:
        """Taken, resident already, or no room."""
        try:
            self._manager.allocate(self._requests[operation.request], operation.input)
        except AlreadyCachedError:
            return PRESENT
        except NoRoomError:
            return REFUSED
        return DONE

    def _free_input(self, operation: calls.FreeInput) -> Outcome:
        """The call returns nothing: whether the input was held is asked before."""
        request = self._requests[operation.request]
        held = operation.input in self._manager.get_cached_input_ids(request)
        self._manager.free_encoder_input(request, operation.input)
        return DONE if held else ABSENT

    def _free_request(self, operation: calls.FreeRequest) -> None:
        """Nothing is returned."""
        self._manager.free(self._requests[operation.request])

    def _cached_inputs(self, operation: calls.CachedInputs) -> Outcome:
        """Positions, ascending."""
        return Outcome(Code.DONE, tuple(sorted(self._manager.get_cached_input_ids(self._requests[operation.request]))))

    def _abandon(self, operation: calls.Abandon) -> None:
        """The same for every cause."""
        self._manager.abandon(self._requests[operation.request])

    def _report(self, _: calls.Report) -> Outcome:
        """Contents in the order of eviction."""
        return Outcome(Code.DONE, tuple(map(int, self._manager.get_freed_mm_hashes())))

    def _reset(self, _: calls.Reset) -> None:
        """Nothing is returned."""
        self._manager.reset()


open_manager = factory_of("encoder_cache", ManagerTarget)
"""The manager, normatively."""
