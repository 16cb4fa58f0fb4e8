"""Runs inside the environment of a release: its own scheduler serves random requests, plugins loaded as by the engine.

`python serving.py DRIVER SOURCE SEED STEPS [alike]`: DRIVER is the folder with the driver of releases, SOURCE the
release. With `alike`, prompts that begin alike have the same items, and prefixes are never reset. The last line says
how many steps there were, what was scheduled, and how much processor time that took.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

BLOCK_SIZE, BLOCKS, LONGEST = 4, 24, 48


def main(driver: str, source: str, seed: int, steps: int, *, alike: bool) -> None:
    sys.path.insert(0, driver)
    stand_ins = importlib.import_module("driver.stand_ins")
    schedulers = importlib.import_module("driver.schedulers")

    stand_ins.install(Path(source))
    for plugin in importlib.metadata.entry_points(group="vllm.general_plugins"):
        plugin.load()()
    classes = schedulers.Classes()
    settings = schedulers.Settings(
        block_size=BLOCK_SIZE,
        blocks=BLOCKS,
        token_budget=24,
        max_running=5,
        max_model_len=LONGEST,
        encoder_compute=12,
        encoder_capacity=20,
    )
    scheduler, hasher = classes.make(settings), classes.hasher(BLOCK_SIZE)
    chosen = random.Random(seed)
    made = 0
    began = time.process_time()
    tokens = 0
    for _ in range(steps):
        if chosen.random() < 0.4 and len(scheduler.requests) < 12:
            scheduler.add_request(arriving(classes, schedulers, hasher, chosen, made, alike=alike))
            made += 1
        if scheduler.requests and chosen.random() < 0.02:
            name = chosen.choice(sorted(scheduler.requests))
            scheduler.finish_requests(name, classes.status.FINISHED_ABORTED)
        if not alike and chosen.random() < 0.01:
            scheduler.reset_prefix_cache()
        said = scheduler.schedule()
        tokens += said.total_num_scheduled_tokens
        sampled = {}
        for name in said.num_scheduled_tokens:
            request: Any = scheduler.requests[name]
            whole = request.num_computed_tokens >= request.num_tokens
            sampled[name] = [(int(name) + 1) * 1000 + request.num_tokens] if whole else []
        if sampled:
            scheduler.update_from_output(said, classes.output(sampled))
    seconds = time.process_time() - began
    sys.stdout.write(json.dumps({"requests": made, "tokens": tokens, "seconds": seconds}) + "\n")


def arriving(classes: Any, schedulers: Any, hasher: Any, chosen: random.Random, number: int, *, alike: bool) -> Any:
    """A request whose prompt begins as others do, with an item or two of few contents."""
    start = chosen.randrange(4)
    length = chosen.randint(6, 30)
    prompt = [start * 100 + place for place in range(length)]
    items = []
    if alike:
        items.append(schedulers.Item(start, 1, 2 + start))
    elif chosen.random() < 0.7:
        items.append(schedulers.Item(content := chosen.randrange(6), 1, 2 + content % 3))
        if length > 14 and chosen.random() < 0.5:
            items.append(schedulers.Item(content := chosen.randrange(6), 8, 2 + content % 3))
    output = chosen.randint(1, LONGEST - length)
    return classes.new_request(str(number), prompt, output, hasher, items)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), alike="alike" in sys.argv[5:])
