"""What the random loads in a release's own scheduler share: the managers that it gets, the steps, and the report.

The scripts stand alone: the Python of a release's environment runs them, and finds this module beside them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

SCHEDULER = "vllm.v1.core.sched.scheduler"
ENCODER = "vllm.v1.core.encoder_cache_manager"
RELEASED = "released"
"""In the place of our managers: the release's own."""
ENCODER_MANAGERS = {
    "EncoderCacheManager": "cacheimpl.encoder_cache.manager",
    "PlannedEncoderCacheManager": "cacheimpl.vllm.encoder",
}
"""Our managers of encoder outputs, and their modules."""


class WrongReadError(Exception):
    """A step reads a slot or an output that was not written."""


class Load:
    """One engine with random requests, aborts and resets of the prefix cache.

    A subclass makes `scheduler` and `worker`, adds requests, and executes steps.
    """

    ABORTED: Any
    """The status of a request that was aborted."""
    LIMIT: int
    """The longest sequence, in tokens."""

    def __init__(self, seed: int, steps: int, ahead: int, drafts: int) -> None:
        self.rng = random.Random(seed)
        self.length, self.ahead, self.drafts = steps, ahead, drafts
        self.scheduler: Any = None
        self.steps: deque[tuple[Any, dict[str, list[int]]]] = deque()
        """What the scheduler has not heard of: its plans, and what was sampled."""
        self.plans: list[Any] = []

    def run(self) -> None:
        """A number of steps."""
        for _ in range(self.length):
            self.perturb()
            self.step()
        while self.steps:
            self.update()

    def perturb(self) -> None:
        """What comes from outside."""
        if self.rng.random() < 0.4:
            self.add()
        live = list(self.scheduler.requests)
        if live and self.rng.random() < 0.05:
            self.scheduler.finish_requests(self.rng.choice(live), self.ABORTED)
        if self.rng.random() < 0.02:
            self.scheduler.reset_prefix_cache()

    def add(self) -> None:
        """A request."""
        raise NotImplementedError

    def step(self) -> None:
        """Plan a step, and execute it."""
        raise NotImplementedError

    def output(self, sampled: Mapping[str, list[int]]) -> Any:
        """What the scheduler hears of the oldest step."""
        raise NotImplementedError

    def proposed(self, drafts: Mapping[str, list[int]]) -> Any:
        """Drafts, as the release has them."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """What has occurred, by name."""
        raise NotImplementedError

    def update(self) -> None:
        """The scheduler hears of the oldest step."""
        if not self.steps:
            return
        said, sampled = self.steps.popleft()
        self.scheduler.update_from_output(said, self.output(sampled))
        if self.drafts and not self.ahead:
            self.propose(sampled)

    def propose(self, sampled: Mapping[str, list[int]]) -> None:
        """Drafts for the next step of each request that has sampled."""
        proposed = dict[str, list[int]]()
        for name, tokens in sampled.items():
            request = self.scheduler.requests.get(name)
            if request is not None:
                whole = min(request.num_prompt_tokens + request.max_tokens, self.LIMIT)
                proposed[name] = [0] * max(0, min(self.drafts, whole - 1 - request.num_tokens) if tokens else 0)
        self.scheduler.update_draft_token_ids(self.proposed(proposed))


L = TypeVar("L", bound=Load)


@contextmanager
def managed(impl: str, managers: str) -> Iterator[None]:
    """Schedulers that are made meanwhile have these managers.

    `managers` is `released`, the name of rules of our KV cache manager, or that and our manager of encoder outputs:
    `NORMATIVE+PlannedEncoderCacheManager`.
    """
    scheduler: Any = importlib.import_module(SCHEDULER)
    encoder: Any = importlib.import_module(ENCODER)
    theirs = scheduler.KVCacheManager, encoder.EncoderCacheManager
    if managers != RELEASED:
        rules, _, outputs = managers.partition("+")
        if impl not in sys.path:
            sys.path.insert(0, impl)
        package: Any = importlib.import_module("cacheimpl.kv_cache_manager")
        scheduler.KVCacheManager = partial(package.LaterKVCacheManager, rules=getattr(package, rules))
        if outputs:
            encoder.EncoderCacheManager = getattr(importlib.import_module(ENCODER_MANAGERS[outputs]), outputs)
    try:
        yield
    finally:
        scheduler.KVCacheManager, encoder.EncoderCacheManager = theirs


def ended(make: Callable[[], L]) -> tuple[str, L]:
    """How a load ended, and the load."""
    load = make()
    try:
        load.run()
    except Exception as error:  # noqa: BLE001  # whatever it is
        return f"{type(error).__name__}: {error}", load
    return "", load


def compared(
    make: Callable[[str, int], Load], modes: Iterable[str], seeds: Iterable[int], impl: str, ours: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """How the loads of each mode ended with each choice of managers, and in how many the release has the same plans."""
    report: dict[str, dict[str, Any]] = {}
    for mode in modes:
        for seed in seeds:
            told = list[Any]()
            for managers in (RELEASED, *ours):
                with managed(impl, managers):
                    error, load = ended(lambda: make(mode, seed))  # noqa: B023
                told = load.plans if managers == RELEASED else told
                entry = report.setdefault(mode, {}).setdefault(managers, {"errors": {}, "parted": {}})
                for what, count in {"loads": 1, "same": load.plans == told, **load.counts()}.items():
                    entry[what] = entry.get(what, 0) + int(count)
                if error:
                    entry["errors"].setdefault(error[:200], []).append(seed)
                if load.plans != told:
                    entry["parted"][seed] = first_difference(told, load.plans)
    return report


def first_difference(one: list[Any], other: list[Any]) -> int:
    """The first step that differs in two lists of plans."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((step for step, (its, theirs) in pairs if its != theirs), min(len(one), len(other)))


def arguments(groups: Iterable[str] = ()) -> argparse.Namespace:
    """What the script was called with. The driver is imported, and with it the release."""
    parser = argparse.ArgumentParser()
    for name in ("driver", "source", "impl"):
        parser.add_argument(name)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("ours", nargs="*", help="rules of our KV cache manager, or those +OUR_ENCODER_CACHE_MANAGER")
    known = list(groups)
    if known:
        parser.add_argument("--groups", nargs="+", choices=known, default=known, help="of modes (all)")
    given = parser.parse_args()
    sys.path.insert(0, given.driver)
    importlib.import_module("driver.stand_ins").install(Path(given.source))
    return given


@contextmanager
def answering() -> Iterator[Callable[[Any], None]]:
    """Prints an answer as JSON. What others print meanwhile is no part of it."""
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        yield lambda answer: print(json.dumps(answer, indent=1), file=answers)
    finally:
        sys.stdout = answers
