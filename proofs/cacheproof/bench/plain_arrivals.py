"""Requests that arrive, in plain Python: nothing is checked, and one step serves and finishes all waiting requests."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

from cacheproof.bench.measure import InTurns, Work
from cacheproof.bench.plain_prompts import PlainContents
from cacheproof.bench.workload import Arrivals, prompt_of


class Waiting(NamedTuple):
    """A request, and the contents of its full blocks, if asked for."""

    name: str
    tokens: list[int]
    picture: int
    contents: list[int]


class PlainArrivals(InTurns):
    """A queue, and its requests by name."""

    def __init__(self, load: Arrivals) -> None:
        self.load, self.arrived = load, 0
        self.contents = PlainContents(load.block_size)
        self.waiting: deque[Waiting] = deque()
        self.known: dict[str, Waiting] = {}

    def turn(self, number: int) -> Work:  # noqa: ARG002  # every turn is alike
        """Run bursts; for each, the number of unfinished requests, and the tokens and pictures of the step after it."""
        load, seconds, answers = self.load, 0.0, []
        for _ in range(load.steps):
            burst = range(self.arrived, self.arrived + load.requests)
            self.arrived += load.requests
            asked = [(str(one), prompt_of(one, load.prompt)) for one in burst]
            started = time.process_time()
            for name, tokens in asked:
                self._add(name, tokens)
            seconds += time.process_time() - started
            answers += [len(self.known), sum(len(one.tokens) for one in self.waiting)]
            answers.append(sum(one.picture > 0 for one in self.waiting))
            self.waiting.clear()
            self.known.clear()
            self.contents.numbers.clear()
        return Work(load.steps * load.requests, answers, seconds)

    def _add(self, name: str, tokens: list[int]) -> None:
        contents = self.contents.of_prompt(tokens) if self.load.named else []
        self.known[name] = one = Waiting(name, tokens, self.load.picture, contents)
        self.waiting.append(one)
