"""Requests with a picture each that are admitted and finished, by our scheduler as an engine calls it."""

from __future__ import annotations

import time

import torch

from cacheimpl.scheduler.engine import Scheduler
from cacheimpl.scheduler.output import SchedulerOutput
from cacheimpl.scheduler.settings import Settings
from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.tensor.loads import Asked, Feature, Place
from cacheproof.bench.workload import Pictures


def scheduler_for(load: Pictures) -> Scheduler:
    """Has room for all requests of a step, and rows for the requests of two steps."""
    limit = load.prompt + 2
    return Scheduler(
        Settings(
            block_size=load.block_size,
            num_gpu_blocks=load.blocks,
            max_num_batched_tokens=load.requests * limit,
            max_num_seqs=load.requests,
            max_model_len=limit,
            max_requests=2 * load.requests,
            max_items=int(load.picture > 0),
            encoder_compute_budget=max(1, load.requests * load.picture),
            encoder_cache_size=max(1, load.encoder_cache),
        )
    )


class TensorPictures(InTurns):
    """Runs each step: `schedule` and `update_from_output`."""

    def __init__(self, load: Pictures) -> None:
        torch.set_num_threads(1)
        self.load, self.scheduler, self.arrived = load, scheduler_for(load), 0

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run `steps` steps; for each, the tokens, the encoded pictures, and the free blocks afterwards."""
        seconds, answers = 0.0, []
        for _ in range(self.load.steps):
            for _ in range(self.load.requests):
                self.scheduler.add_request(self._new())
            assert self.scheduler.state is not None  # reading the state writes all pending arrivals
            started = time.process_time()
            output = self.scheduler.schedule()
            seconds += time.process_time() - started
            assert output is not None
            answers += counted(output)
            started = time.process_time()
            self.scheduler.update_from_output()
            seconds += time.process_time() - started
            answers.append(int(self.scheduler.state.kv.free))
        return Work(self.load.steps, answers, seconds)

    def _new(self) -> Asked:
        self.arrived += 1
        name, place = str(self.arrived), Place(self.load.text, self.load.picture)
        return Asked(name, [self.arrived] * self.load.prompt, 1, (Feature(name, place),))


def counted(output: SchedulerOutput) -> list[int]:
    """Tokens, and encoded pictures."""
    return [int(output.plan.tokens.sum()), int(output.plan.encode.sum())]
