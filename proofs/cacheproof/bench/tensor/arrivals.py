"""Requests that arrive in bursts, at our scheduler as an engine calls it."""

from __future__ import annotations

import time

import torch

from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.tensor.loads import Asked, Feature, Place
from cacheproof.bench.tensor.pictures import counted, scheduler_for
from cacheproof.bench.workload import Arrivals, prompt_of


class TensorArrivals(InTurns):
    """`add_request`, and with `named` the writing of the arrivals before the next step."""

    def __init__(self, load: Arrivals) -> None:
        torch.set_num_threads(1)
        self.load, self.scheduler, self.arrived = load, scheduler_for(load), 0

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run bursts; for each, the number of unfinished requests, and the tokens and pictures of the step after it."""
        load, scheduler, seconds, answers = self.load, self.scheduler, 0.0, []
        for _ in range(load.steps):
            asked = [self._new() for _ in range(load.requests)]
            started = time.process_time()
            for one in asked:
                scheduler.add_request(one)
            if load.named:
                assert scheduler.state is not None  # reading the state writes all pending arrivals
            seconds += time.process_time() - started
            answers.append(scheduler.get_num_unfinished_requests())
            output = scheduler.schedule()
            assert output is not None
            answers += counted(output)
            scheduler.update_from_output()
        return Work(load.steps * load.requests, answers, seconds)

    def _new(self) -> Asked:
        load, name = self.load, str(self.arrived)
        tokens, place = prompt_of(self.arrived, load.prompt), Place(load.text, load.picture)
        self.arrived += 1
        return Asked(name, tokens, 1, (Feature(name, place),) if load.picture else ())
