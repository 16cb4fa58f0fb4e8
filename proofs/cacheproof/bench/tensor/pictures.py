"""Requests with a picture each that are admitted and finished, by our scheduler as an engine calls it."""

from __future__ import annotations

import time

import torch

from cacheimpl.scheduler.engine import Scheduler, SchedulerOutput
from cacheimpl.scheduler.settings import Settings
from cacheproof.bench.measure import Work
from cacheproof.bench.tensor.loads import Asked, Feature, Place


class TensorPictures:
    """Each step: `schedule` and `update_from_output`."""

    def __init__(self, requests: int, block_size: int, text: int, picture: int, steps: int) -> None:
        torch.set_num_threads(1)
        self.count, self.text, self.picture, self.steps = requests, text, picture, steps
        limit = text + picture + 2
        self.scheduler = Scheduler(
            Settings(
                block_size=block_size,
                num_gpu_blocks=2 * requests * -(-(text + picture + 1) // block_size),
                max_num_batched_tokens=requests * limit,
                max_num_seqs=requests,
                max_model_len=limit,
                max_requests=2 * requests,
                max_items=1,
                encoder_compute_budget=requests * picture,
                encoder_cache_size=2 * requests * picture,
            )
        )
        self.arrived = 0

    def warm_up(self) -> None:
        """Until the encoder cache is full."""
        self.turn(-1)

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """So many steps; of each the tokens, the pictures that are encoded, and the free blocks afterwards."""
        seconds, answers = 0.0, []
        for _ in range(self.steps):
            for _ in range(self.count):
                self.scheduler.add_request(self._new())
            started = time.process_time()
            output = self.scheduler.schedule()
            seconds += time.process_time() - started
            assert output is not None
            answers += counted(output)
            started = time.process_time()
            self.scheduler.update_from_output()
            seconds += time.process_time() - started
            answers.append(int(self.scheduler.state.kv.free))
        return Work(self.steps, answers, seconds)

    def _new(self) -> Asked:
        self.arrived += 1
        tokens = [self.arrived] * (self.text + self.picture)
        return Asked(str(self.arrived), tokens, 1, (Feature(str(self.arrived), Place(self.text, self.picture)),))


def counted(output: SchedulerOutput) -> list[int]:
    """Tokens, and pictures that are encoded."""
    return [int(output.plan.tokens.sum()), int(output.plan.encode.sum())]
