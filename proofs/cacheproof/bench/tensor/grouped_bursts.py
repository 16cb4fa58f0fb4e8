"""Two groups of full attention on tensors: each request has a table in each group, so there are twice as many rows."""

from __future__ import annotations

import time

import torch

from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.tensor.prompts import Engine
from cacheproof.bench.tensor.slots import RunningDecode
from cacheproof.bench.workload import prompt_of


class TensorSteps(InTurns):
    """Decode steps by `Serving.running`, over the rows of all groups; the answers are the blocks of one group."""

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int, groups: int) -> None:
        self.rows, self.groups = RunningDecode(groups * running, block_size, prompt, steps, turns), groups

    def turn(self, number: int) -> Work:
        """Run `steps` steps; for each, the number of new blocks of one group."""
        work = self.rows.turn(number)
        return work._replace(answers=[blocks // self.groups for blocks in work.answers])


class TensorAdmissions(InTurns):
    """New prompts at once, with known contents: looked up, given slots and registered in all groups."""

    def __init__(self, requests: int, tokens: int, block_size: int, blocks: int, groups: int) -> None:
        self.engine = Engine(groups * requests, tokens, block_size, groups * blocks)
        self.count, self.tokens, self.groups = requests, tokens, groups

    def turn(self, number: int) -> Work:
        """Serve another burst. Groups never share contents, so the rows of the second group have other prompts."""
        first, rows = (number + 1) * self.groups * self.count, self.groups * self.count
        drawn = [prompt_of(first + place, self.tokens) for place in range(rows)]
        self.engine.name(torch.tensor(drawn, dtype=torch.int32))
        started = time.process_time()
        found, taken = self.engine.admit()
        answers = [int(found.sum()), int(taken.sum()) // self.groups]
        seconds = time.process_time() - started
        self.engine.free()
        return Work(self.count, answers, seconds)
