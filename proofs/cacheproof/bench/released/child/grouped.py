"""Work of a release's manager over groups of layers: full attention, and with two groups a sliding window too.

Both groups take blocks from one pool. The calls are a scheduler's; the requests are made before.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

works: Any = importlib.import_module("works")


class Pool:
    """The release's manager with `groups` groups, and its hashing of prompts."""

    def __init__(self, blocks: int, block_size: int, limit: int, groups: int, window: int) -> None:
        self.hashed = works.Pool(0, block_size, limit).hashed
        kv_managers = works.kv_managers
        module = importlib.import_module(kv_managers.MANAGER)
        config = kv_managers.kv_cache_config(block_size, groups * blocks + 1, groups)
        for group in config.kv_cache_groups[1:]:
            group.kv_cache_spec = replace(group.kv_cache_spec, sliding_window=window)
        bounds = ("max_in_flight_tokens", "max_num_batched_tokens")
        named = {name: limit for name in bounds if name in kv_managers.parameters(module.KVCacheManager)}
        self.manager = module.KVCacheManager(
            config, max_model_len=limit, **kv_managers.block_sizes(module.KVCacheManager, block_size), **named
        )


def decode(running: int, block_size: int, prompt: int, window: int, steps: int, turns: int, groups: int) -> Any:
    """`works.Decode` with `groups` groups; a turn reports the blocks that full attention was given."""
    make_pool = partial(Pool, groups=groups, window=window)
    return works.Decode(running, block_size, prompt, steps, turns, make_pool)


class Cycle:
    """One prompt after the other, hashed before: looked up, allocated, computed and freed."""

    def __init__(
        self, tokens: int, block_size: int, blocks: int, window: int, hit: int, times: int, groups: int
    ) -> None:
        self.pool, self.hit = Pool(blocks, block_size, tokens, groups, window), hit
        self.requests = [self.pool.hashed(str(number), works.prompt_of(number, tokens)) for number in range(times)]

    def turn(self, number: int) -> Any:  # noqa: ARG002  # every turn is alike
        """Serve each prompt once, or with `hit` the first prompt as often; the number of hit tokens."""
        manager, seconds, found_in_all = self.pool.manager, 0.0, 0
        for place in range(len(self.requests)):
            request = self.requests[0 if self.hit else place]
            request.num_computed_tokens = 0
            started = time.process_time()
            found, computed, *_ = manager.get_computed_blocks(request)
            given = manager.allocate_slots(request, request.num_tokens - computed, computed, found)
            request.num_computed_tokens = request.num_tokens
            manager.free(request)
            seconds += time.process_time() - started
            assert given is not None
            found_in_all += computed
        return works.Turn(seconds, len(self.requests), [found_in_all])


class Burst:
    """New prompts, hashed before: looked up and allocated, one after the other. They are freed outside of the clock."""

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, window: int, groups: int) -> None:
        self.pool = Pool(blocks, block_size, tokens, groups, window)
        self.count, self.tokens = requests, tokens

    def turn(self, number: int) -> Any:
        """Serve another burst; the number of hit tokens, and of blocks that full attention was given."""
        manager, hits, taken, first = self.pool.manager, 0, 0, (number + 1) * self.count
        requests = [
            self.pool.hashed(str(place), works.prompt_of(first + place, self.tokens)) for place in range(self.count)
        ]
        started = time.process_time()
        for request in requests:
            found, computed, *_ = manager.get_computed_blocks(request)
            given = manager.allocate_slots(request, request.num_tokens - computed, computed, found)
            hits, taken = hits + computed, taken + len(given.blocks[0])
        seconds = time.process_time() - started
        for request in requests:
            request.num_computed_tokens = request.num_tokens
            manager.free(request)
        return works.Turn(seconds, self.count, [hits, taken])


WORKS: Mapping[str, Callable[..., Any]] = {
    "grouped_decode": decode,
    "grouped_cycle": Cycle,
    "grouped_burst": Burst,
}
"""The works by name."""
