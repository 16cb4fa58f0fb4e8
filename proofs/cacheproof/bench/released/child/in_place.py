"""Our classes in a release's own engine loop, as users load them: `--scheduler-cls cacheimpl.vllm.NAME`.

The requests, the output of a step and the calls are the release's. `scheduler` names our class; an empty name selects
the release's own. `rules` are the rules of our KV cache manager.
"""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

works: Any = importlib.import_module("works")
schedulers: Any = importlib.import_module("driver.schedulers")


class Loop:
    """A scheduler of the release, or ours in its place. Timed: `schedule()` and, if asked, `update_from_output()`."""

    def __init__(self, scheduler: str, rules: str, updates: int, **settings: int) -> None:
        self.updates, self.classes = updates, schedulers.Classes()
        if scheduler:
            self.classes.scheduler = _ours(scheduler, rules)
        self.scheduler = self.classes.make(schedulers.Settings(**settings))
        self.blocks = settings["blocks"] - 1
        function = importlib.import_module(works.HASHING).get_hash_fn_by_name(works.DEFAULT_HASH)
        self.hasher = self.classes.hasher(settings["block_size"], function)

    def add(self, name: str, tokens: list[int], output: int) -> None:
        """Add a request, with hashed blocks."""
        self.scheduler.add_request(self.classes.new_request(name, tokens, output, self.hasher))

    def step(self) -> tuple[float, list[int]]:
        """The seconds of the calls; the tokens, requests and new blocks of the plan, and the blocks in use."""
        started = time.process_time()
        planned = self.scheduler.schedule()
        seconds = time.process_time() - started
        made = self.classes.output({name: [1] for name in planned.num_scheduled_tokens})
        started = time.process_time()
        self.scheduler.update_from_output(planned, made)
        if self.updates:
            seconds += time.process_time() - started
        told = sum(len(news.blocks) for news in self.classes.told(planned))
        counts = [planned.total_num_scheduled_tokens, len(planned.num_scheduled_tokens), told]
        return seconds, [*counts, round(self.scheduler.get_kv_cache_usage() * self.blocks)]


class Decoding:
    """Steps in which every running request decodes one token."""

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, turns: int, **place: Any) -> None:
        limit, self.steps = prompt + block_size + steps * (turns + 2) + 2, steps
        self.loop = Loop(
            **place,
            block_size=block_size,
            blocks=running * (-(-limit // block_size)) + 1,
            token_budget=running * (prompt + block_size),
            max_running=running,
            max_model_len=limit,
        )
        for number in range(running):
            tokens = [number * limit + position for position in range(prompt + number % block_size)]
            self.loop.add(str(number), tokens, limit)
        self.loop.step()  # all prompts at once

    def turn(self, number: int) -> Any:  # noqa: ARG002  # every turn is alike
        """Run this number of steps."""
        steps = [self.loop.step() for _ in range(self.steps)]
        answers = [count for _, counts in steps for count in counts]
        return works.Turn(sum(seconds for seconds, _ in steps), self.steps, answers)


class Admitting:
    """Steps that admit requests and finish them. With `repeated` the prompts are cached; else blocks are evicted."""

    def __init__(self, running: int, block_size: int, prompt: int, steps: int, repeated: int, **place: Any) -> None:
        self.running, self.prompt, self.steps, self.repeated, self.arrived = running, prompt, steps, repeated, 0
        self.loop = Loop(
            **place,
            block_size=block_size,
            blocks=2 * running * (-(-(prompt + 1) // block_size)) + 1,
            token_budget=running * (prompt + 1),
            max_running=running,
            max_model_len=prompt + 2,
        )

    def turn(self, number: int) -> Any:  # noqa: ARG002  # every turn is alike
        """Run this number of steps, each with new requests."""
        seconds, answers = 0.0, list[int]()
        for _ in range(self.steps):
            for place in range(self.running):
                tokens = works.prompt_of(place if self.repeated else self.arrived, self.prompt)
                self.loop.add(str(self.arrived), tokens, 1)
                self.arrived += 1
            taken, counts = self.loop.step()
            seconds += taken
            answers += counts
        return works.Turn(seconds, self.steps, answers)


def _ours(name: str, rules: str) -> Callable[..., Any]:
    """Our class, as `--scheduler-cls` names it, with these rules, made in the way of the driver."""
    module, _, called = name.rpartition(".")
    kind = getattr(importlib.import_module(module), called)

    def make(vllm_config: Any, **named: Any) -> Any:
        vllm_config.additional_config = {"cacheimpl": {"rules": rules}} if rules else {}
        return kind(vllm_config=vllm_config, **named)

    made: Any = make
    made.__signature__ = inspect.signature(kind)  # the driver reads it
    return make


WORKS: Mapping[str, Callable[..., Any]] = {"decoding": Decoding, "admitting": Admitting}
"""The works by name."""
