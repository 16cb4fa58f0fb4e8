"""The managers of KV blocks as the releases have them: of one kind of layer in 0.7, of groups of layers later."""

from __future__ import annotations

import builtins
import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from .block_hash import MANAGER, UTILITIES, digest
from .calls import DriverError

INTERFACE = "vllm.v1.kv_cache_interface"
REQUEST = "vllm.v1.request"

WIDEST = 1 << 20
"""Tokens of a window out of which nothing ever falls."""

Blocks = tuple[int, ...]


@dataclass(slots=True)
class Request:
    """What the releases read of a request: text, and nothing that is drafted, loaded or preempted."""

    request_id: str
    all_token_ids: list[int]
    num_computed_tokens: int = 0
    spec_token_ids: list[int] = field(default_factory=list)
    block_hashes: list[Any] = field(default_factory=list)
    mm_features: tuple[()] = ()
    mm_positions: tuple[()] = ()
    mm_hashes: tuple[()] = ()
    lora_request: None = None
    cache_salt: None = None
    session_id: None = None
    prompt_embeds: None = None
    sampling_params: None = None
    skip_reading_prefix_cache: bool = False
    num_preemptions: int = 0
    num_in_flight_tokens: int = 0
    shared_prefix_boundary: int = 0
    prompt: int = 0
    """Tokens of its prompt; 0: all."""
    status: Any = field(default_factory=lambda: importlib.import_module(REQUEST).RequestStatus.RUNNING)

    @property
    def num_tokens(self) -> int:
        """Prompt and output."""
        return len(self.all_token_ids)

    @property
    def num_prompt_tokens(self) -> int:
        """Prompt only."""
        return self.prompt or self.num_tokens


class Manager(ABC):
    """What the driver asks of a release's manager. Some releases lack some of it, which is an error of the driver."""

    evicts = False
    """Whether it can evict a block by number."""
    _manager: Any

    @abstractmethod
    def request(self, name: str, tokens: list[int]) -> Request:
        """A request of this name with these tokens, hashed as its release does it."""

    @abstractmethod
    def keys(self, request: Request, group: int) -> Sequence[Any]:
        """The keys of its full blocks in a group of layers."""

    @abstractmethod
    def computed_blocks(self, request: Request, group: int) -> Blocks:
        """What is cached of it."""

    @abstractmethod
    def look_up_first(self, request: Request) -> None:
        """What every engine does with a prompt before it gives it slots: the keys of its blocks are then known."""

    @abstractmethod
    def allocate(self, request: Request, tokens: int, hits: Blocks) -> Blocks | None:
        """The new blocks, or None where there is no room."""

    def allocate_groups(self, request: Request, external: int, tokens: int, hits: Sequence[Blocks]) -> bool | None:
        """Whether there is room for both groups; None where the release has not just found these hits."""
        raise DriverError("the release has no groups of layers")

    @abstractmethod
    def free(self, request: Request, group: int) -> None:
        """The request is over, its hashes too."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """The hashes of a request that was only looked up."""

    def evict(self, block: int) -> None:
        """Take the block out of the prefix cache."""
        raise DriverError("the release cannot evict a block by number")

    def reset_prefix_cache(self) -> bool:
        """Whether it was done."""
        return bool(self._manager.reset_prefix_cache())

    def told_keys(self, request: Request) -> Sequence[Any]:
        """The keys of its full blocks as events have them."""
        raise DriverError("the release tells of no blocks")

    def take_events(self) -> Sequence[Any]:
        """The events since the last call; without `events` in the configuration there are none."""
        raise DriverError("the release tells of no blocks")

    @abstractmethod
    def common_prefix(self, request: Request, running: int) -> int:
        """How many leading blocks are common."""

    @abstractmethod
    def table(self, name: str, group: int) -> Blocks:
        """The blocks of the request in a group; none where it has no table."""

    @abstractmethod
    def free_blocks(self) -> list[int]:
        """The free queue, the next one first."""

    @abstractmethod
    def blocks(self) -> Sequence[Any]:
        """All blocks, as the release has them."""

    def references(self) -> list[tuple[int, int]]:
        """Blocks that are referred to, and how often."""
        return [(block.block_id, block.ref_cnt) for block in self.blocks() if block.ref_cnt]

    def carried(self) -> list[tuple[int, Any]]:
        """Blocks that have a key, and their keys."""
        return [(block.block_id, block.block_hash) for block in self.blocks() if block.block_hash]


def numbers(blocks: Any) -> Blocks:
    """The numbers of the release's block objects."""
    return tuple(block.block_id for block in blocks)


class EarlyManager(Manager):
    """0.7: one call for new and running requests, and keys that the manager makes and remembers."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._utilities = importlib.import_module(UTILITIES)
        module: Any = importlib.import_module(MANAGER)
        module.PrefixCacheStats = lambda: SimpleNamespace(requests=0, queries=0, hits=0, reset=False)
        vars(self._utilities)["hash"] = colliding_hash if config.get("hashes") else builtins.hash
        self._block_size = config["block_size"]
        self._manager = module.KVCacheManager(
            block_size=self._block_size,
            num_gpu_blocks=config["blocks"],
            max_model_len=config["limit"],
            num_preallocate_tokens=config.get("preallocated", 0) * self._block_size,
        )

    def request(self, name: str, tokens: list[int]) -> Request:
        return Request(name, tokens)

    def keys(self, request: Request, group: int) -> Sequence[Any]:
        keys: Sequence[Any] = self._utilities.hash_request_tokens(self._block_size, request)
        return keys

    def computed_blocks(self, request: Request, group: int) -> Blocks:
        blocks, tokens = self._manager.get_computed_blocks(request)
        assert tokens == len(blocks) * self._block_size
        return numbers(blocks)

    def look_up_first(self, request: Request) -> None:
        self._manager.get_computed_blocks(request)

    def allocate(self, request: Request, tokens: int, hits: Blocks) -> Blocks | None:
        blocks = self._manager.allocate_slots(request, tokens, [self._manager.block_pool[hit] for hit in hits])
        return None if blocks is None else numbers(blocks)

    def free(self, request: Request, group: int) -> None:
        self._manager.free(request)
        self._manager.free_block_hashes(request)

    def forget(self, name: str) -> None:
        self._manager.free_block_hashes(Request(name, []))

    def common_prefix(self, request: Request, running: int) -> int:
        return int(self._manager.get_num_common_prefix_blocks(request, running))

    def table(self, name: str, group: int) -> Blocks:
        return numbers(self._manager.req_to_blocks.get(name, ()))

    def free_blocks(self) -> list[int]:
        return list(numbers(self._manager.free_block_queue.get_all_free_blocks()))

    def blocks(self) -> Sequence[Any]:
        found: Sequence[Any] = self._manager.block_pool
        return found


class GroupManager(Manager):
    """From 0.11 on: a manager over groups of layers, and keys that come with the request."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._utilities = importlib.import_module(UTILITIES)
        module: Any = importlib.import_module(MANAGER)
        self._block_size = config["block_size"]
        hashing = colliding_digest if config.get("hashes") else digest
        self._utilities.init_none_hash(hashing)
        self._hash = self._utilities.get_request_block_hasher(self._block_size, hashing)
        self._blocks_of = module.KVCacheBlocks
        self._manager = module.KVCacheManager(
            kv_cache_config(self._block_size, config["blocks"], config.get("groups", 0) + 1),
            max_model_len=config["limit"],
            enable_kv_cache_events=bool(config.get("events")),
            **block_sizes(module.KVCacheManager, self._block_size),
        )
        self._groups = config.get("groups", 0) + 1
        self.evicts = hasattr(module.KVCacheManager, "evict_blocks")
        self._whole = "running_request_id" in parameters(self._manager.get_num_common_prefix_blocks)

    def request(self, name: str, tokens: list[int]) -> Request:
        request = Request(name, tokens)
        request.block_hashes.extend(self._hash(request))
        return request

    def keys(self, request: Request, group: int) -> Sequence[Any]:
        return [self._utilities.make_block_hash_with_group_id(key, group) for key in request.block_hashes]

    def computed_blocks(self, request: Request, group: int) -> Blocks:
        if self._groups > 1:
            return self._computed_in(request, group)
        blocks, tokens, *_ = self._manager.get_computed_blocks(request)
        assert tokens == len(blocks.blocks[0]) * self._block_size
        return numbers(blocks.blocks[0])

    def _computed_in(self, request: Request, group: int) -> Blocks:
        """What one group has found; the manager's own look-up is of what all have found."""
        found: list[Any] = []
        for key in request.block_hashes[: (request.num_tokens - 1) // self._block_size]:
            cached = self._manager.block_pool.get_cached_block(key, [group])
            if not cached:
                break
            found.extend(cached)
        return numbers(found)

    def look_up_first(self, request: Request) -> None:
        """Keys are the request's own."""

    def allocate(self, request: Request, tokens: int, hits: Blocks) -> Blocks | None:
        pool = self._manager.block_pool
        tail = pool.free_block_queue.fake_free_list_tail
        found = self._blocks_of(([pool.blocks[hit] if hit >= 0 else tail for hit in hits],)) if hits else None
        blocks = self._manager.allocate_slots(request, tokens, len(hits) * self._block_size, found)
        return None if blocks is None else numbers(blocks.blocks[0])

    def allocate_groups(self, request: Request, external: int, tokens: int, hits: Sequence[Blocks]) -> bool | None:
        found, computed, *_ = self._manager.get_computed_blocks(request)
        if tuple(numbers(blocks) for blocks in found.blocks) != tuple(hits):
            return None
        if "num_external_computed_tokens" in parameters(self._manager.allocate_slots):
            loaded = {"num_external_computed_tokens": external}
        else:
            loaded, tokens = {}, tokens + external
        return self._manager.allocate_slots(request, tokens, computed, found, **loaded) is not None

    def free(self, request: Request, group: int) -> None:
        self._manager.coordinator.single_type_managers[group].free(request.request_id)

    def forget(self, name: str) -> None:
        """Keys went with the request."""

    def evict(self, block: int) -> None:
        self._manager.evict_blocks({block})

    def told_keys(self, request: Request) -> Sequence[Any]:
        return [self._utilities.maybe_convert_block_hash(key) for key in request.block_hashes]

    def take_events(self) -> Sequence[Any]:
        events: Sequence[Any] = self._manager.take_events()
        return events

    def common_prefix(self, request: Request, running: int) -> int:
        given = (request.request_id,) if self._whole else (request, running)
        return int(self._manager.get_num_common_prefix_blocks(*given)[0])

    def table(self, name: str, group: int) -> Blocks:
        return tuple(self._manager.get_block_ids(name)[group])

    def free_blocks(self) -> list[int]:
        """The release's own walk does not end if the list has a circle."""
        order: dict[int, None] = {}
        block = self._manager.block_pool.free_block_queue.fake_free_list_head.next_free_block
        while block is not None and block.next_free_block is not None and block.block_id not in order:
            order[block.block_id] = None
            block = block.next_free_block
        return list(order)

    def blocks(self) -> list[Any]:
        """The sentinel at the end of the free queue comes first: a broken queue hands it out."""
        pool = self._manager.block_pool
        return [pool.free_block_queue.fake_free_list_tail, *pool.blocks]


def manager_of() -> Callable[[Mapping[str, Any]], Manager]:
    """As this release has it."""
    grouped = hasattr(importlib.import_module(UTILITIES), "get_request_block_hasher")
    importlib.import_module(MANAGER)
    return GroupManager if grouped else EarlyManager


def kv_cache_config(block_size: int, blocks: int, groups: int, first_window: int = 0) -> Any:
    """So many blocks, for full attention, and for a window in a second group: one that is wider than any request.

    With `first_window`, the first group has a window of so many tokens instead of full attention.

    The releases take no second group of full attention. What keys and values measure plays no part.
    """
    interface = importlib.import_module(INTERFACE)
    torch = importlib.import_module("torch")
    sizes = {"block_size": block_size, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float16}
    full, window = interface.FullAttentionSpec, interface.SlidingWindowSpec
    first = window(**sizes, **without_mla(window), sliding_window=first_window) if first_window else None
    second = window(**sizes, **without_mla(window), sliding_window=WIDEST)
    layers = (first or full(**sizes, **without_mla(full)), second)
    return interface.KVCacheConfig(
        num_blocks=blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[
            interface.KVCacheGroupSpec([f"layer {number}"], layer) for number, layer in enumerate(layers[:groups])
        ],
    )


def without_mla(layer: Any) -> dict[str, bool]:
    """A field that some releases want."""
    return {"use_mla": False} if "use_mla" in parameters(layer) else {}


def block_sizes(manager: Any, block_size: int) -> dict[str, int]:
    """Later releases are told how many tokens a key and a step of the scheduler cover: a block, with one group."""
    named = parameters(manager)
    return {name: block_size for name in ("hash_block_size", "scheduler_block_size") if name in named}


def parameters(called: Any) -> Mapping[str, Any]:
    """What a callable takes."""
    return inspect.signature(called).parameters


def colliding_digest(value: Any) -> bytes:
    """A hash of the block's own tokens, whatever is before it: so contents can have the hash that they are to have."""
    return digest(value[1] if isinstance(value, tuple) and len(value) > 1 else value)


def colliding_hash(value: Any) -> int:
    """The same for 0.7, whose keys are integers and not zero where there is a parent."""
    return builtins.hash(value[1]) | 1 if isinstance(value, tuple) else builtins.hash(value)
