"""Slots of decode steps, by tensors and by plain lists."""

from __future__ import annotations

import time
from collections import deque

import torch

from cacheimpl import kv_blocks
from cacheimpl.writing import SERVING
from cacheproof.bench.measure import InTurns, Work

LEAST_STEPS, SLOTS = 16, 4096
"""After how many steps, or after how many slots if that is later, `RunningDecode` writes the pool"""


class TensorDecode(InTurns):
    """Each step registers the full blocks, and gives every running request a slot for one token."""

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int) -> None:
        torch.set_num_threads(1)
        limit = prompt + block_size + (1 + steps) * (turns + 1) + 1
        cells = -(-limit // block_size)
        contents = torch.arange(running * cells).reshape(running, cells)
        self.config = kv_blocks.configuration(
            contents, torch.full((running,), limit), block_size=block_size, limit=limit, count=running * cells
        )
        self.steps, self.rows = steps, torch.arange(running)
        self.most = max(1, -(-running // block_size))  # requests that need a block in each step: known to a caller
        tokens, width = prompt + self.rows % block_size, prompt // block_size + 2
        pool, _ = kv_blocks.allocate_slots(
            self.config,
            kv_blocks.empty(self.config, running * cells),
            self.rows,
            torch.zeros_like(tokens),
            tokens,
            width=width,
            write=SERVING,
        )
        self.pool, _ = kv_blocks.commit(self.config, pool, self.rows, tokens, width=width, write=SERVING)

    def _advance(self) -> kv_blocks.Decoded:
        """Execute the scheduled tokens and give each request its next slot; the host reads who was served."""
        self.pool, step = kv_blocks.decode(self.config, self.pool, self.rows, most=self.most, write=SERVING)
        if not bool(step.complete):
            raise RuntimeError("a decode step of this benchmark serves all requests")
        return step

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps, after an untimed one that brings the memory back into the processor's caches."""
        with torch.inference_mode():
            self._advance()
            started = time.process_time()
            given = [self._advance().given for _ in range(self.steps)]
            seconds = time.process_time() - started
        return Work(self.steps, [int(blocks.sum()) for blocks in given], seconds)


class RunningDecode(InTurns):
    """The same by `Serving.running`: each step names the new blocks, and the pool is written after every few steps."""

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int) -> None:
        tensors = TensorDecode(running, block_size, prompt, steps, turns)
        most = max(LEAST_STEPS, SLOTS // running)
        self.steps, self.unwritten = steps, [min(most, steps - begin) for begin in range(0, steps, most)]
        self.engine = kv_blocks.Serving(tensors.config, running, checked=False)
        self.engine.pool = tensors.pool
        self.running = self.engine.running(range(running), most=tensors.most)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps and write them into the pool, after an untimed step with its write."""
        step, given = self.running.step, list[int]()
        step()
        self.engine.write_pending()
        started = time.process_time()
        for steps in self.unwritten:
            given += [len(step().blocks) for _ in range(steps)]
            self.engine.write_pending()
        seconds = time.process_time() - started
        return Work(self.steps, given, seconds)


class PlainDecode(InTurns):
    """The same with a list for each table, a deque of free blocks and a dictionary of contents; nothing is checked."""

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int) -> None:
        limit = prompt + block_size + (1 + steps) * (turns + 1) + 1
        cells = -(-limit // block_size)
        self.block_size, self.steps, self.cells = block_size, steps, cells
        self.free = deque(range(running * cells))
        self.computed = [prompt + number % block_size for number in range(running)]
        self.tables = [[self.free.popleft() for _ in range(-(-count // block_size))] for count in self.computed]
        self.references = [0] * (running * cells)
        self.carried: dict[int, int] = {}
        self.copies: dict[int, list[int]] = {}

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps after an untimed one."""
        self._step()
        started = time.process_time()
        taken = [self._step() for _ in range(self.steps)]
        return Work(self.steps, taken, time.process_time() - started)

    def _step(self) -> int:
        size, computed, free, taken = self.block_size, self.computed, self.free, 0
        for request, table in enumerate(self.tables):
            tokens = computed[request] + 1
            if tokens > len(table) * size:
                block = free.popleft()
                content = self.carried.pop(block, None)
                if content is not None:
                    self.copies[content].remove(block)
                self.references[block] = 1
                table.append(block)
                taken += 1
            if not tokens % size:
                block, content = table[tokens // size - 1], request * self.cells + tokens // size - 1
                self.carried[block] = content
                self.copies.setdefault(content, []).append(block)
            computed[request] = tokens
        return taken
