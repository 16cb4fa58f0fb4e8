"""The release's hashing of blocks, one call at a time. What is compared is which keys are equal, not the digests.

Prompts are written here, as a frontend would; the release sees a request when it is submitted, and each token of its
output. In 0.7 the manager of blocks hashes; later a function that the request calls.
"""

from __future__ import annotations

import hashlib
import importlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

from .calls import ABSENT, DONE, Calls, Reply, integer, operations_of
from .modules import module_if_there

UTILITIES = "vllm.v1.core.kv_cache_utils"
MANAGER = "vllm.v1.core.kv_cache_manager"
POOL = "vllm.v1.core.block_pool"

PLACEHOLDER = 0
REFUSED, PRESENT = Reply("refused"), Reply("present")


@dataclass(slots=True)
class Position:
    """Where an item's placeholders are; early releases read it as a mapping."""

    offset: int
    length: int

    def __getitem__(self, name: str) -> int:
        return int(getattr(self, name))


@dataclass(slots=True)
class Feature:
    """What the releases read of an item."""

    identifier: str
    mm_position: Position


@dataclass(slots=True)
class Request:
    """What the releases read of a request."""

    request_id: str
    all_token_ids: list[int]
    mm_features: list[Feature] = field(default_factory=list)
    lora_request: Any = None
    cache_salt: str | None = None
    prompt_embeds: None = None
    sampling_params: Any = field(default_factory=lambda: SimpleNamespace(prompt_logprobs=None))
    submitted: bool = False
    block_hashes: list[Any] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        """Prompt and output."""
        return len(self.all_token_ids)

    @property
    def mm_positions(self) -> list[Position]:
        """As in early releases."""
        return [feature.mm_position for feature in self.mm_features]

    @property
    def mm_hashes(self) -> list[str]:
        """As in early releases."""
        return [feature.identifier for feature in self.mm_features]


class Hasher(Protocol):
    """Gives keys to full blocks that have none; they are in `request.block_hashes` afterwards."""

    def submit(self, request: Request) -> None:
        """The prompt is whole."""
        ...

    def filled(self, request: Request) -> None:
        """The output went on by a token."""
        ...


def digest(value: Any) -> bytes:
    """The hash function that the releases are given: of the exact text of nested tuples."""
    return hashlib.sha256(repr(value).encode()).digest()


class HashingRequest:
    """From 0.11 on: the request calls a function when it is made and after each token."""

    def __init__(self, block_size: int) -> None:
        utilities = importlib.import_module(UTILITIES)
        utilities.init_none_hash(digest)
        self._hash = utilities.get_request_block_hasher(block_size, digest)

    def submit(self, request: Request) -> None:
        """All full blocks of the prompt."""
        request.block_hashes.extend(self._hash(request))

    filled = submit


class HashingManager:
    """0.7: the manager hashes a prompt when it looks for its blocks, and a later block when it registers it."""

    def __init__(self, block_size: int) -> None:
        self._block = importlib.import_module(UTILITIES).KVCacheBlock
        manager = importlib.import_module(MANAGER).KVCacheManager
        self._size = block_size
        self._manager = object.__new__(manager)  # without a pool of blocks, which plays no part in a key
        self._manager.block_size = block_size
        self._manager.enable_caching = True
        self._manager.req_to_block_hashes = defaultdict(list)
        self._manager.cached_block_hash_to_block = defaultdict(dict)
        self._manager.prefix_cache_stats = SimpleNamespace(requests=0, queries=0, hits=0)
        self._blocks: dict[str, list[Any]] = defaultdict(list)

    def submit(self, request: Request) -> None:
        """Look for the prompt's blocks, and register those that it fills."""
        self._manager.get_computed_blocks(request)
        self._register(request)

    def filled(self, request: Request) -> None:
        """Register the block, if the token fills one."""
        self._register(request)

    def _register(self, request: Request) -> None:
        blocks = self._blocks[request.request_id]
        first, full = len(blocks), request.num_tokens // self._size
        if full > first:
            fresh = [self._block(block_id=place) for place in range(first, full)]
            previous = blocks[-1] if blocks else None
            blocks.extend(fresh)
            self._manager._cache_full_blocks(request, first, fresh, previous)
        request.block_hashes = [block.block_hash for block in blocks]


class HashingPool:
    """0.8: the manager hashes a prompt when it looks for its blocks, its pool a later block when it registers it."""

    def __init__(self, block_size: int) -> None:
        self._block = importlib.import_module(UTILITIES).KVCacheBlock
        pool, manager = importlib.import_module(POOL).BlockPool, importlib.import_module(MANAGER).KVCacheManager
        self._size = block_size
        self._pool = object.__new__(pool)  # without blocks, which play no part in a key
        self._pool.cached_block_hash_to_block = defaultdict(dict)
        self._manager = object.__new__(manager)
        self._manager.block_size = block_size
        self._manager.enable_caching = True
        self._manager.use_eagle = self._manager.log_stats = False
        self._manager.caching_hash_fn = digest
        self._manager.req_to_block_hashes = defaultdict(list)
        self._manager.specialized_manager = SimpleNamespace(find_longest_cache_hit=lambda hashes: [])
        self._blocks: dict[str, list[Any]] = defaultdict(list)

    def submit(self, request: Request) -> None:
        """Look for the prompt's blocks, and register those that it fills. No engine takes a prompt without tokens."""
        if request.num_tokens:
            self._manager.get_computed_blocks(request)
        self.filled(request)

    def filled(self, request: Request) -> None:
        """Register the block, if the token fills one."""
        blocks = self._blocks[request.request_id]
        first, full = len(blocks), request.num_tokens // self._size
        blocks.extend(self._block(block_id=place) for place in range(first, full))
        hashes = self._manager.req_to_block_hashes[request.request_id]
        self._pool.cache_full_blocks(request, blocks, hashes, first, full, self._size, digest)
        request.block_hashes = [block.block_hash for block in blocks]


def hasher_of(block_size: int) -> Hasher:
    """As this release has it."""
    if hasattr(importlib.import_module(UTILITIES), "get_request_block_hasher"):
        return HashingRequest(block_size)
    return HashingManager(block_size) if module_if_there(POOL) is None else HashingPool(block_size)


class BlockHashDriver:
    """Requests that are written here and hashed by the release."""

    def __init__(self, calls: Calls) -> None:
        self._hasher: Hasher = hasher_of(1)
        self._config: Mapping[str, Any] = {}
        self._requests: list[Request] = []
        salted = hasattr(importlib.import_module(UTILITIES), "get_request_block_hasher")
        self.operations = operations_of(self, calls, ("season", not salted))

    def reset(self, config: Mapping[str, Any]) -> None:
        """The openings of all requests, and nothing hashed."""
        self._config = config
        self._hasher = hasher_of(integer(config, "block_size"))
        opening = config.get("opening") or ()
        self._requests = [Request(str(name), list(opening)) for name in range(integer(config, "requests"))]

    def observe(self) -> dict[str, Any]:
        """How many blocks of each request have keys, and which of all these keys are equal, numbered as first met."""
        numbers: dict[Any, int] = {}
        keys = [key for request in self._requests for key in request.block_hashes]
        for key in keys:
            numbers.setdefault(key, len(numbers))
        return {
            "blocks": [len(request.block_hashes) for request in self._requests],
            "keys": [numbers[key] for key in keys],
        }

    def do_adapt(self, request: int, adapter: int) -> Reply:
        adapting = self._requests[request]
        if adapting.submitted:
            return REFUSED
        number, name, path = self._config["adapters"][adapter]
        adapting.lora_request = SimpleNamespace(lora_int_id=number, lora_name=str(name), lora_path=str(path))
        return DONE

    def do_season(self, request: int, salt: int) -> Reply:
        if self._requests[request].submitted:
            return REFUSED
        self._requests[request].cache_salt = str(salt)
        return DONE

    def do_write(self, request: int, token: int) -> Reply:
        writing = self._requests[request]
        if writing.submitted or writing.num_tokens >= integer(self._config, "prompt_tokens"):
            return REFUSED
        writing.all_token_ids.append(token)
        return DONE

    def do_place(self, request: int, content: int) -> Reply:
        placing, length = self._requests[request], self._config["lengths"][content]
        longest, most = integer(self._config, "prompt_tokens"), integer(self._config, "items")
        if placing.submitted or placing.num_tokens + length > longest or len(placing.mm_features) >= most:
            return REFUSED
        placing.mm_features.append(Feature(str(content), Position(placing.num_tokens, length)))
        placing.all_token_ids.extend([PLACEHOLDER] * length)
        return DONE

    def do_submit(self, request: int) -> Reply:
        if self._requests[request].submitted:
            return PRESENT
        self._requests[request].submitted = True
        self._hasher.submit(self._requests[request])
        return DONE

    def do_append(self, request: int, token: int) -> Reply:
        appending = self._requests[request]
        if not appending.submitted:
            return ABSENT
        if appending.num_tokens >= integer(self._config, "tokens"):
            return REFUSED
        appending.all_token_ids.append(token)
        self._hasher.filled(appending)
        return DONE
