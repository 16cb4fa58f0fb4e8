"""Single calls of caches, on tensors: where tensors lose."""

from __future__ import annotations

import time
from types import SimpleNamespace

import torch

from cacheimpl import EncoderCacheManager, lru
from cacheproof.bench.measure import InTurns, Work


class TensorEncoder(InTurns):
    """`EncoderCacheManager` by its methods; its state is tensors."""

    def __init__(self, contents: int, capacity: int, hit: int, times: int) -> None:
        torch.set_num_threads(1)
        self.manager, self.times = EncoderCacheManager(cache_size=capacity), times
        self.requests = [
            SimpleNamespace(
                request_id=str(number),
                mm_features=(SimpleNamespace(identifier=str(number)),),
                get_num_encoder_embeds=lambda position: 1,  # as an engine's request
            )
            for number in range(1 if hit else contents)
        ]

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `times` inputs: checked, room asked for, allocated, freed."""
        manager, requests, hits = self.manager, self.requests, 0
        started = time.process_time()
        for place in range(self.times):
            request = requests[place % len(requests)]
            if manager.check_and_update_cache(request, 0):
                hits += 1
            elif manager.can_allocate(request, 0, 1, 0):
                manager.allocate(request, 0)
            manager.free_encoder_input(request, 0)
        return Work(self.times, [hits], time.process_time() - started)


class TensorRecency(InTurns):
    """The operations of the byte-weighted cache; a key is a row, and half of the keys fit."""

    def __init__(self, capacity: int, call: str, times: int) -> None:
        torch.set_num_threads(1)
        self.config, self.cache = lru.Config(torch.tensor(capacity)), lru.empty(2 * capacity)
        self.capacity, self.call, self.times, self.next = capacity, call, times, capacity
        self.keys, self.one = torch.arange(2 * capacity), torch.tensor(1)
        for key in range(capacity):
            self.put(key)

    def put(self, key: int) -> None:
        """Store the content as the newest."""
        self.cache, _ = lru.put(self.config, self.cache, self.keys[key % (2 * self.capacity)], self.one)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `times` calls."""
        started = time.process_time()
        if self.call == "put":
            for key in range(self.next, self.next + self.times):
                self.put(key)
            self.next += self.times
        else:
            function = lru.get if self.call == "get" else lru.touch
            for place in range(self.times):
                self.cache, _ = function(self.config, self.cache, self.keys[place % self.capacity])
        return Work(self.times, [int((self.cache.ranks >= 0).sum())], time.process_time() - started)
