"""The release's `EncoderCacheManager`, one call at a time."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .adapters import has_trait
from .calls import DONE, HIT, MISS, Calls, DriverError, Operation, Reply, integer, without

MODULE = "vllm.v1.core.encoder_cache_manager"

COUNTING = "ED"
"""The variant that is the manager for encoder-decoder models, which is another class of the release."""

WITHOUT_SIZES = ("E1", "E1b")
"""Variants of releases whose manager keeps no sizes of entries. A later release beside one does not show them."""
BLOCKS = 1
"""The cause of an abandoned admission for which some schedulers release the request's references."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a manager reads of an encoder input of a request."""

    identifier: str


@dataclass(frozen=True, slots=True)
class Request:
    """What the managers of all releases read of a request; sizes are tokens in early ones and embeddings later."""

    request_id: str
    mm_features: tuple[Position, ...]
    sizes: tuple[int, ...]

    def get_num_encoder_embeds(self, input_id: int) -> int:
        """As the engine's request."""
        return self.sizes[input_id]

    get_num_encoder_tokens = get_num_encoder_embeds


class EncoderCacheDriver:
    """One manager. Before 0.11 entries belong to a request's input and are not shared, and nothing is evicted."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._module = importlib.import_module(MODULE)
        self._class = self._module.EncoderCacheManager
        self._shared = hasattr(self._class, "check_and_update_cache")
        self._manager: Any = None
        self._shows_sizes = True
        self._requests: tuple[Request, ...] = ()
        operations: dict[str, Operation] = {
            "check_and_update": self._check_and_update,
            "can_allocate": self._can_allocate,
            "allocate": self._allocate,
            "free_input": self._free_input,
            "free_request": self._free_request,
            "cached_inputs": self._cached_inputs,
            "abandon": self._abandon,
            "report": self._report,
            "reset": lambda message: self._calls.done(self._manager.reset),
        }
        self.operations = without(operations, ("reset", not hasattr(self._class, "reset")))

    def reset(self, config: Mapping[str, Any]) -> None:
        """A new manager of the configured capacity, and the requests of the configuration."""
        self._shows_sizes = config.get("variant") not in WITHOUT_SIZES
        self._manager = self._manager_of(config.get("variant"))(cache_size=integer(config, "capacity"))
        sizes, claims = config["sizes"], config.get("claims") or ()
        self._requests = tuple(
            Request(
                request_id=str(number),
                mm_features=tuple(Position(str(content)) for content in contents),
                sizes=tuple(claims[number]) if claims else tuple(sizes[content] for content in contents),
            )
            for number, contents in enumerate(config["requests"])
        )

    def _manager_of(self, variant: Any) -> Any:
        if variant != COUNTING:
            return self._class
        if not hasattr(self._module, "EncoderDecoderCacheManager"):
            raise DriverError("the release has no manager for encoder-decoder models")
        return self._module.EncoderDecoderCacheManager

    def observe(self) -> dict[str, Any]:
        """The manager's attributes, names as integers; what a release does not keep is left out."""
        manager = self._manager
        if not self._shared:
            held = sorted((int(request), i) for request, inputs in manager.cached.items() for i in inputs)
            freed = [(int(request), i) for request, i in manager.freed]
            return {"free": manager.num_free_slots, "cached": _flat(held), "freed": _flat(freed)}
        if not hasattr(manager, "cached"):
            waiting = [int(content) for content in (*manager.to_free, *manager.allocated)]
            return {"free": manager.num_free_slots, "freed": waiting}
        contents = sorted(int(content) for content in manager.cached)
        holders = sorted((int(content), int(r)) for content, requests in manager.cached.items() for r in requests)
        shown = {
            "free": manager.num_free_slots,
            "freeable": manager.num_freeable_slots,
            "cached": contents,
            "holders": _flat(holders),
            "idle": [int(content) for content in manager.freeable],
            "idle_sizes": list(manager.freeable.values()),
            "freed": [int(content) for content in manager.freed],
        }
        kept = getattr(manager, "num_embeds_by_hash", None) if self._shows_sizes else None
        return shown if kept is None else {**shown, "sizes": [kept[str(content)] for content in contents]}

    def _check_and_update(self, message: Mapping[str, Any]) -> Reply:
        check = self._manager.check_and_update_cache if self._shared else self._manager.has_cache
        request, position = self._input(message)
        return self._calls.perform(lambda: HIT if check(request, position) else MISS)

    def _can_allocate(self, message: Mapping[str, Any]) -> Reply:
        request, position = self._input(message)
        budget, pending = integer(message, "budget"), integer(message, "pending")
        return self._calls.perform(
            lambda: DONE if self._has_room(request, position, budget, pending) else Reply("refused")
        )

    def _has_room(self, request: Request, position: int, budget: int, pending: int) -> bool:
        """Before inputs were shared, the manager was asked for neither the budget nor what is pending."""
        known = (budget, pending) if self._shared else ()
        return bool(self._manager.can_allocate(request, position, *known))

    def _allocate(self, message: Mapping[str, Any]) -> Reply:
        request, position = self._input(message)
        return self._calls.done(lambda: self._manager.allocate(request, position))

    def _free_input(self, message: Mapping[str, Any]) -> Reply:
        request, position = self._input(message)
        return self._calls.done(lambda: self._manager.free_encoder_input(request, position))

    def _free_request(self, message: Mapping[str, Any]) -> Reply:
        request = self._request(message)
        return self._calls.done(lambda: self._manager.free(request))

    def _cached_inputs(self, message: Mapping[str, Any]) -> Reply:
        request = self._request(message)
        return self._calls.perform(lambda: Reply("done", tuple(sorted(self._manager.get_cached_input_ids(request)))))

    def _abandon(self, message: Mapping[str, Any]) -> Reply:
        """The class has no such call: what the release's scheduler calls here is called."""
        request = self._request(message)
        if integer(message, "cause") != BLOCKS or not has_trait("frees_request_without_blocks", self._calls.version):
            return DONE
        return self._calls.done(lambda: self._manager.free(request))

    def _report(self, message: Mapping[str, Any]) -> Reply:
        return self._calls.perform(lambda: Reply("done", self._freed()))

    def _freed(self) -> tuple[int, ...]:
        if self._shared:
            return tuple(int(content) for content in self._manager.get_freed_mm_hashes())
        return tuple(_flat((int(request), position) for request, position in self._manager.get_freed_ids()))

    def _request(self, message: Mapping[str, Any]) -> Request:
        number = integer(message, "request")
        if not 0 <= number < len(self._requests):
            raise DriverError(f"there is no request {number}")
        return self._requests[number]

    def _input(self, message: Mapping[str, Any]) -> tuple[Request, int]:
        return self._request(message), integer(message, "input")


def _flat(pairs: Iterable[tuple[int, int]]) -> list[int]:
    return [part for pair in pairs for part in pair]
