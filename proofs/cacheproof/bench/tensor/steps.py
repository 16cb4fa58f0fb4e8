"""Whole scheduler steps, by our scheduler as an engine calls it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.settings import Settings
from cacheproof.bench.measure import InTurns, Work


@dataclass(frozen=True, slots=True)
class Asked:
    """A text request."""

    request_id: str
    prompt_token_ids: list[int]
    max_tokens: int


class TensorSteps(InTurns):
    """`schedule` and `update_from_output` for every running request. The host reads nothing back from a plan."""

    items = 0

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int) -> None:
        torch.set_num_threads(1)
        limit = prompt + block_size + steps * (turns + 2) + 2
        cells = -(-limit // block_size)
        self.steps, self.running = steps, running
        self.scheduler = Scheduler(
            Settings(
                block_size=block_size,
                num_gpu_blocks=running * cells,
                max_num_batched_tokens=max(running, limit),
                max_num_seqs=running,
                max_model_len=limit,
                max_requests=running,
                max_items=self.items,
                encoder_compute_budget=limit,
                encoder_cache_size=limit,
            )
        )
        for number in range(running):
            tokens = [number * limit + place for place in range(prompt + number % block_size)]
            self.scheduler.add_request(Asked(str(number), tokens, limit))
        self._prefill(prompt, block_size)

    def _prefill(self, prompt: int, block_size: int) -> None:
        """Compute all prompts in one large step; other benchmarks measure this."""
        scheduler = self.scheduler
        budget = scheduler.config.token_budget
        everything = torch.full_like(budget, self.running * (prompt + block_size))
        scheduler.config = scheduler.config._replace(token_budget=everything)
        scheduler.schedule()
        scheduler.update_from_output()
        scheduler.config = scheduler.config._replace(token_budget=budget)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps; for each, the tokens, and the free blocks afterwards."""
        scheduler, seen = self.scheduler, list[int]()
        started = time.process_time()
        for _ in range(self.steps):
            output = scheduler.schedule()
            scheduler.update_from_output()
            seen += [0 if output is None else output.total_num_scheduled_tokens, scheduler.num_free_blocks]
        self.look()
        return Work(self.steps, seen, time.process_time() - started)

    def look(self) -> None:
        """The state is up to date at the end of a turn."""
        assert self.scheduler.state is not None


class TensorStepsWithItems(TensorSteps):
    """The same in an engine for multimodal requests without a running one: its tables have columns for 2 items."""

    items = 2
