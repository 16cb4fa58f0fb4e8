"""Prompts on tensors: their contents, the longest cached prefix, slots, and the blocks that are given back."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from cacheimpl import kv_blocks
from cacheimpl.block_content import BlockContents
from cacheimpl.writing import SERVING
from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.workload import prompt_of


class Engine:
    """A pool and the contents of its blocks, for `requests` requests of `tokens` tokens; no gradients."""

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self.width = tokens // block_size
        needed = requests * self.width
        self.contents = BlockContents(block_size, blocks + 4 * needed, device)
        self.block_size, self.rows = block_size, torch.arange(requests, device=device)
        self.tokens = torch.full((requests,), tokens, device=device)
        self.zeros = torch.zeros_like(self.tokens)
        self.config = kv_blocks.configuration(
            torch.full((requests, self.width), -1, device=device),
            self.tokens,
            block_size=block_size,
            limit=tokens,
            count=self.contents.contents.rows,
        )
        self.pool = kv_blocks.empty(self.config, blocks)
        self.room = needed

    @torch.inference_mode()
    def name(self, prompts: Tensor) -> None:
        """Name the contents of the prompts' blocks ([requests, tokens] int32); scarce rows are collected first."""
        if self.contents.contents.rows - self.contents.used < self.room:
            self.contents.keep(self.pool.carried[:-1])
        rows = self.contents.of_prompts(prompts, self.tokens[: prompts.shape[0]])
        nothing = self.contents.contents.rows
        self.config.contents[: prompts.shape[0], : self.width] = rows.masked_fill_(rows < 0, nothing)

    @torch.inference_mode()
    def admit(self) -> tuple[Tensor, Tensor]:
        """Look up, take slots, register: the hit tokens of each request, and the blocks taken for it."""
        hits, found, width = None, self.zeros, self.width
        if self.contents.may_be_cached:
            hits = kv_blocks.get_computed_blocks(self.config, self.pool, self.rows, self.tokens)
            found = hits.lengths * self.block_size
        left = self.tokens - found
        if hits is not None and bool(hits.lengths.any()):
            pool, slots = kv_blocks.admit(
                self.config, self.pool, self.rows, self.zeros, left, hits, width=width, write=SERVING
            )
        else:
            pool, slots = kv_blocks.allocate_slots(
                self.config, self.pool, self.rows, self.zeros, left, width=width, write=SERVING
            )
        self.pool, _ = kv_blocks.commit(self.config, pool, self.rows, self.tokens, width=width, write=SERVING)
        return found, slots.lengths

    @torch.inference_mode()
    def free(self) -> None:
        """Finish all requests."""
        self.pool, _ = kv_blocks.free_request(self.config, self.pool, self.rows, write=SERVING)


class IndexedEngine(Engine):
    """The same with an index by content beside the pool; operands are right by construction, and not checked."""

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, device: str = "cpu") -> None:
        super().__init__(requests, tokens, block_size, blocks, device)
        self.serving = kv_blocks.IndexedServing(self.config, blocks, checked=False)
        self.pool = self.serving.pool

    @torch.inference_mode()
    def admit(self) -> tuple[Tensor, Tensor]:
        """Look up, take slots, register."""
        hits, found, width = None, self.zeros, self.width
        if self.contents.may_be_cached:
            hits = self.serving.get_computed_blocks(self.rows, self.tokens)
            found = hits.lengths * self.block_size
        left = self.tokens - found
        if hits is not None and bool(hits.lengths.any()):
            slots = self.serving.admit(self.rows, self.zeros, left, hits, width=width)
        else:
            slots = self.serving.allocate_slots(self.rows, self.zeros, left, width=width)
        self.serving.commit(self.rows, self.tokens, width=width)
        return found, slots.lengths

    @torch.inference_mode()
    def free(self) -> None:
        """Finish all requests."""
        self.serving.free_request(self.rows)


class TensorBurst(InTurns):
    """The whole burst at once."""

    engine_of: type[Engine] = Engine

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, repeated: int) -> None:
        self.engine = self.engine_of(requests, tokens, block_size, blocks)
        self.count, self.tokens, self.repeated = requests, tokens, repeated

    def turn(self, number: int) -> Work:
        """Serve another burst, or with `repeated` always the same burst."""
        first = 0 if self.repeated else (number + 1) * self.count
        prompts = torch.tensor(
            [prompt_of(first + place, self.tokens) for place in range(self.count)], dtype=torch.int32
        )
        started = time.process_time()
        self.engine.name(prompts)
        found, taken = self.engine.admit()
        answers = [int(found.sum()), int(taken.sum())]
        seconds = time.process_time() - started
        self.engine.free()
        return Work(self.count, answers, seconds)


class IndexedBurst(TensorBurst):
    """The same with an index."""

    engine_of = IndexedEngine


class TensorCycle(InTurns):
    """One prompt after the other, as bursts of one prompt."""

    def __init__(self, tokens: int, block_size: int, blocks: int, hit: int, times: int) -> None:
        self.engine, self.times, self.hit = Engine(1, tokens, block_size, blocks), times, hit
        self.prompts = [torch.tensor([prompt_of(number, tokens)], dtype=torch.int32) for number in range(times)]

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Serve each prompt once, or with `hit` the first prompt as often; the contents are known before."""
        seconds, computed = 0.0, 0
        for place in range(self.times):
            self.engine.name(self.prompts[0 if self.hit else place])
            started = time.process_time()
            found, _ = self.engine.admit()
            self.engine.free()
            seconds += time.process_time() - started
            computed += int(found.sum())
        return Work(self.times, [computed], seconds)


class TensorHashes(InTurns):
    """The contents of a prompt's blocks, one prompt after the other."""

    def __init__(self, tokens: int, block_size: int, times: int) -> None:
        torch.set_num_threads(1)
        self.contents = BlockContents(block_size, 4 * times * (tokens // block_size))
        self.tokens, self.times = tokens, times

    def turn(self, number: int) -> Work:
        """Name the contents of `times` prompts."""
        prompts = [
            torch.tensor([prompt_of(number * self.times + place, self.tokens)], dtype=torch.int32)
            for place in range(self.times)
        ]
        with torch.inference_mode():
            return self._named(prompts)

    def _named(self, prompts: list[Tensor]) -> Work:
        self.contents.keep()
        length = torch.tensor([self.tokens])
        started = time.process_time()
        rows = [self.contents.of_prompts(prompt, length) for prompt in prompts]
        seconds = time.process_time() - started
        return Work(self.times, [int((row >= 0).sum()) for row in rows], seconds)
