"""An engine for many short trials: `trial.py SETTINGS`, then one JSON object a line on standard input for each trial.

The engine is made once. Each trial is a copy of its process (`fork`), so that all trials begin alike: it plants
a bug in the classes of the release, or none, records what the engine does into a folder, and runs one random load. A
trial is answered by one line.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

BESIDE = f"{__package__}." if __package__ else ""
common: Any = importlib.import_module(f"{BESIDE}load")
ahead: Any = importlib.import_module(f"{BESIDE}ahead")
Wanted = Any

BEGINNINGS = 6
"""Long prompts that the prompts of a load begin as: no two of them begin alike."""
STEPS_FOR_REQUEST = 60
"""A load with more steps for each request is over: then requests starve."""
MORE_BYTES = 4 << 30
"""Memory that a trial may take beyond that of the engine. A broken free queue may give out blocks without end."""


def keep_data_of_cached_items() -> None:
    """Workers are told the data of items in a cached prefix, too."""
    told: Any = importlib.import_module("vllm.v1.core.sched.output")
    told.strip_covered_mm_data = lambda features, *_, **__: features


MENDS = {"C-ENC-30": keep_data_of_cached_items}
"""By entry of the catalogue, what takes this fault out of the release, and nothing else."""


def load(seed: int, count: int, *, images: bool) -> list[Wanted]:
    """A random load in which prompts share prefixes with one of a few beginnings, and nothing else.

    A request with a negative `aborted_after` is aborted so many steps after it arrived.
    """
    rng = random.Random(seed)  # noqa: S311  # not a secret
    beginnings = [_words(rng, number, common.LONGEST_PROMPT - 4, images=images) for number in range(BEGINNINGS)]
    made, step = list[Any](), 0
    for number in range(count):
        beginning = rng.choice(beginnings)
        shared = beginning[: rng.randint(0, len(beginning))] if rng.random() < 0.8 else []
        if rng.random() < 0.5 and number < common.IMAGES:  # the same words about another image
            shared = [number if isinstance(part, int) else part for part in shared]
        tail = _words(
            rng, BEGINNINGS + number, rng.randint(1, max(1, common.LONGEST_PROMPT - len(shared))), images=images
        )
        prompt = [*shared, *tail]
        outputs = rng.randint(1, 40)
        aborted = rng.choice((0,) * 8 + (rng.randint(1, outputs), -rng.randint(1, 6)))
        step += rng.choice((0, 0, 1, 2, 5))
        shown = [part for part in prompt if isinstance(part, int)]
        for extra in shown[2:]:
            place = len(prompt) - 1 - prompt[::-1].index(extra)
            prompt[place] = f"w{extra}"
        words = ["<image>" if isinstance(part, int) else part for part in prompt]
        made.append(common.Wanted(words, shown[:2], outputs, aborted, rng.randint(0, 2), step))
    return made


def _words(rng: random.Random, number: int, count: int, *, images: bool) -> list[str | int]:
    """Words of which the first two tell the text from every other one, with images now and then."""
    words: list[str | int] = [f"w{rng.randrange(common.WORDS)}" for _ in range(count)]
    words[:2] = [f"w{number % common.WORDS}", f"w{number // common.WORDS}"][:count]
    for _ in range(rng.choice((0, 1, 1, 2)) if images else 0):
        words[rng.randrange(min(2, count - 1), count)] = rng.randrange(common.IMAGES)
    return words


def bound_memory(more: int = MORE_BYTES) -> None:
    """Bound the memory of this process: a trial that takes more ends with MemoryError."""
    there = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (there + more, resource.getrlimit(resource.RLIMIT_AS)[1]))


def perform(engine: Any, settings: dict[str, Any], trial: dict[str, Any], shown: list[Any]) -> dict[str, Any]:
    """One trial, in a process of its own."""
    core = engine.engine_core.engine_core
    scheduler = core.scheduler
    if trial.get("bug"):
        planting: Any = importlib.import_module("bugs.planting")
        planting.plant_in_place(planting.bug_named(trial["bug"]))
    if trial.get("mend"):
        MENDS[trial["mend"]]()
    os.environ["CACHEPROOF_RECORD"] = trial["folder"]
    for name, value in settings.get("budgets", {}).items():
        owner, _, attribute = name.rpartition(".")
        setattr(getattr(scheduler, owner) if owner else scheduler, attribute, value)
    recorder: Any = importlib.import_module("cacheproof_recorder")
    recorder.register()
    for manager in (scheduler.kv_cache_manager, scheduler.encoder_cache_manager):
        recorder.attach(manager)
    counts, began = common.Counts(), time.monotonic()
    common.watched(scheduler, counts)
    wanted = load(trial["seed"], trial["requests"], images=settings["images"])
    answer: dict[str, Any] = {}
    try:
        most = STEPS_FOR_REQUEST * len(wanted)
        answer["tokens"] = common.serve(
            engine, wanted, shown, counts, by_priority=settings["priority"], most_steps=most
        )
    except Exception as error:  # noqa: BLE001  # whatever ends the engine is an answer
        answer["error"] = f"{type(error).__name__}: {error}"
    counts.seconds = time.monotonic() - began
    recorder.close_all()
    return {**answer, "counts": vars(counts)}


def main(text: str) -> None:
    """Serve trials until there are no more."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    answers, sys.stdout = sys.stdout, sys.stderr
    settings = json.loads(text)
    sys.path[:0] = settings["path"]
    vllm: Any = importlib.import_module("vllm")
    began = time.monotonic()
    if settings["async"]:
        ahead.switch_on()
    engine = vllm.LLM(**common.options(settings)).llm_engine
    shown = common.pictures() if settings["images"] else []

    def tell(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    tell({"ready": time.monotonic() - began})
    for line in sys.stdin:
        trial = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                bound_memory()
                tell(perform(engine, settings, trial, shown))
            except BaseException as error:  # noqa: BLE001  # the process ends here, whatever it is
                tell({"broken": f"{type(error).__name__}: {error}"})
            answers.flush()
            os._exit(0)
        if not _ended(child, trial["seconds"]):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            tell({"hangs": trial["seconds"]})


def _ended(child: int, seconds: float) -> bool:
    """Whether the process ends in this time."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return False


if __name__ == "__main__":
    main(sys.argv[1])
