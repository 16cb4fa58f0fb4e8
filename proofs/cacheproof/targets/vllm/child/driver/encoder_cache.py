"""The release's `EncoderCacheManager`, one call at a time."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .adapters import has_trait
from .calls import DONE, HIT, MISS, Calls, DriverError, Reply, integer, operations_of

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
        self.operations = operations_of(self, calls, ("reset", not hasattr(self._class, "reset")))

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

    def do_check_and_update(self, request: int, input_: int) -> Reply:
        check = self._manager.check_and_update_cache if self._shared else self._manager.has_cache
        return HIT if check(self._request(request), input_) else MISS

    def do_can_allocate(self, request: int, input_: int, budget: int, pending: int) -> Reply:
        """Before inputs were shared, the manager was asked for neither the budget nor what is pending."""
        known = (budget, pending) if self._shared else ()
        return DONE if self._manager.can_allocate(self._request(request), input_, *known) else Reply("refused")

    def do_allocate(self, request: int, input_: int) -> None:
        self._manager.allocate(self._request(request), input_)

    def do_free_input(self, request: int, input_: int) -> None:
        self._manager.free_encoder_input(self._request(request), input_)

    def do_free_request(self, request: int) -> None:
        self._manager.free(self._request(request))

    def do_cached_inputs(self, request: int) -> Reply:
        return Reply("done", tuple(sorted(self._manager.get_cached_input_ids(self._request(request)))))

    def do_abandon(self, request: int, cause: int) -> None:
        """The class has no such call: what the release's scheduler calls here is called."""
        if cause == BLOCKS and has_trait("frees_request_without_blocks", self._calls.version):
            self._manager.free(self._request(request))

    def do_report(self) -> Reply:
        if self._shared:
            return Reply("done", tuple(int(content) for content in self._manager.get_freed_mm_hashes()))
        freed = self._manager.get_freed_ids()
        return Reply("done", tuple(_flat((int(request), position) for request, position in freed)))

    def do_reset(self) -> None:
        self._manager.reset()

    def _request(self, number: int) -> Request:
        if not 0 <= number < len(self._requests):
            raise DriverError(f"there is no request {number}")
        return self._requests[number]


def _flat(pairs: Iterable[tuple[int, int]]) -> list[int]:
    return [part for pair in pairs for part in pair]
