"""One engine under one random load: `load.py SETTINGS`, which is a JSON object. It prints one JSON object a line.

Lines before the last one say how many requests have ended. The last one has the tokens of each request, and counts of
what the load made the scheduler do. A request that is to be aborted is aborted when it has so many tokens, so that
tokens do not depend on the plans.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BLOCK = 32
"""Tokens in a block: the smallest that the attention kernels for CPUs take."""
LONGEST = 200
IMAGES = 40
"""Different images. The encoder cache has room for 16 of them, and the processor cache for 11."""
IMAGES_IN_PROMPT = 2
WORDS = 240
LONGEST_PROMPT = 100
"""Words and images."""
RECENT = 12
"""How many of the last prompts the next one may begin as."""
ENCODER_EMBEDDINGS = 64
BYTES = 64 * 1024 * 1024
PROCESSOR_CACHE_GIB = 0.0001


@dataclass(frozen=True)
class Wanted:
    """One request of a load."""

    words: list[str]
    images: list[int]
    outputs: int
    aborted_after: int
    """Output tokens after which it is aborted. 0: never. A negative number counts the steps after its arrival."""
    priority: int
    step: int
    """The step before which it arrives."""


@dataclass
class Counts:
    """What the plans of the scheduler had in them."""

    steps: int = 0
    hits: int = 0
    preemptions: int = 0
    encoded: int = 0
    evicted: int = 0
    aborted: int = 0
    drafted: int = 0
    seconds: float = 0.0


def load(seed: int, count: int, *, images: bool) -> list[Wanted]:
    """A random load; the same for the same arguments. Most prompts begin as an earlier one does."""
    rng = random.Random(seed)  # noqa: S311  # not a secret
    prompts, made, step = list[list[str | int]](), list[Wanted](), 0
    for _ in range(count):
        prompt: list[str | int] = [f"w{rng.randrange(WORDS)}" for _ in range(rng.randint(1, LONGEST_PROMPT))]
        for _ in range(rng.choice((0, 1, 1, 2)) if images else 0):
            prompt.insert(rng.randint(0, len(prompt)), rng.randrange(IMAGES))
        if prompts and rng.random() < 0.7:
            other = rng.choice(prompts[-RECENT:])
            prompt = [*other[: rng.randint(1, len(other))], *prompt][:LONGEST_PROMPT]
        while len(_images(prompt)) > IMAGES_IN_PROMPT:
            prompt.remove(_images(prompt)[-1])
        prompts.append(prompt)
        outputs = rng.randint(1, 40)
        aborted = rng.randint(1, outputs) if rng.random() < 0.1 else 0
        step += rng.choice((0, 0, 1, 2, 5))
        words = ["<image>" if isinstance(part, int) else part for part in prompt]
        made.append(Wanted(words, _images(prompt), outputs, aborted, rng.randint(0, 2), step))
    return made


def _images(prompt: list[str | int]) -> list[int]:
    return [part for part in prompt if isinstance(part, int)]


def options(settings: dict[str, Any]) -> dict[str, Any]:
    """How the engine is made."""
    wanted: dict[str, Any] = {
        "model": settings["model"],
        "dtype": "float32",
        "enforce_eager": True,
        "seed": 0,
        "kv_cache_memory_bytes": BYTES,
        "block_size": BLOCK,
        "num_gpu_blocks_override": settings["blocks"],
        "max_model_len": LONGEST,
        "max_num_seqs": 8,
        "max_num_batched_tokens": ENCODER_EMBEDDINGS,
        "async_scheduling": settings["async"],
        "scheduling_policy": "priority" if settings["priority"] else "fcfs",
        "disable_log_stats": True,
    }
    if settings["images"]:
        wanted |= {"limit_mm_per_prompt": {"image": IMAGES_IN_PROMPT}, "mm_processor_cache_gb": PROCESSOR_CACHE_GIB}
    if settings["drafts"]:
        wanted["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": settings["drafts"],
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    return {**wanted, **settings["options"]}


def watched(scheduler: Any, counts: Counts) -> None:
    """Count what each plan has in it."""
    plan = scheduler.schedule

    def schedule(*arguments: Any, **named: Any) -> Any:
        made = plan(*arguments, **named)
        counts.steps += 1
        counts.hits += sum(one.num_computed_tokens for one in made.scheduled_new_reqs)
        counts.preemptions += len(getattr(made, "preempted_req_ids", None) or ())
        counts.encoded += sum(map(len, made.scheduled_encoder_inputs.values()))
        counts.evicted += len(made.free_encoder_mm_hashes)
        counts.drafted += sum(map(len, made.scheduled_spec_decode_tokens.values()))
        return made

    scheduler.schedule = schedule


def pictures() -> list[Any]:
    """The images of all loads."""
    numpy: Any = importlib.import_module("numpy")
    image: Any = importlib.import_module("PIL.Image")
    made = (numpy.random.RandomState(number).rand(28, 28, 3) * 255 for number in range(IMAGES))
    return [image.fromarray(one.astype("uint8")) for one in made]


def run(settings: dict[str, Any], tell: Any) -> dict[str, Any]:
    """Run the load, and say what came of it."""
    vllm: Any = importlib.import_module("vllm")
    if settings["async"]:
        importlib.import_module(f"{__package__}.ahead" if __package__ else "ahead").switch_on()
    engine = vllm.LLM(**options(settings)).llm_engine
    scheduler = engine.engine_core.engine_core.scheduler
    counts = Counts()
    watched(scheduler, counts)
    shown = pictures() if settings["images"] else []
    wanted = load(settings["seed"], settings["requests"], images=settings["images"])
    began = time.monotonic()
    tokens = serve(engine, wanted, shown, counts, by_priority=settings["priority"], ended=lambda n: tell({"ended": n}))
    counts.seconds = time.monotonic() - began
    managers = [type(getattr(scheduler, name)) for name in ("kv_cache_manager", "encoder_cache_manager")]
    return {
        "version": str(vllm.__version__),
        "scheduler": f"{type(scheduler).__module__}.{type(scheduler).__name__}",
        "managers": [f"{one.__module__}.{one.__name__}" for one in managers],
        "tokens": [made[: one.aborted_after or None] for one, made in zip(wanted, tokens)],  # noqa: B905  # as many
        "counts": vars(counts),
    }


def serve(
    engine: Any,
    wanted: list[Wanted],
    shown: list[Any],
    counts: Counts,
    *,
    by_priority: bool,
    ended: Callable[[int], object] = lambda count: None,
    most_steps: int | None = None,
) -> list[list[int]]:
    """Serve a load; the tokens of each request. `ended` hears how many requests have ended whenever one has.

    A request with a negative `aborted_after` is aborted so many steps after it arrived. Raises what the engine raises,
    and TimeoutError if requests have no end after `most_steps`.
    """
    vllm: Any = importlib.import_module("vllm")
    tokens: list[list[int]] = [[] for _ in wanted]
    live, came = set[str](), dict[str, int]()
    arrived, step, over = 0, 0, 0
    while arrived < len(wanted) or live:
        if most_steps is not None and step > most_steps:
            raise TimeoutError(f"{len(live)} requests have no end after {step:,} steps")
        while arrived < len(wanted) and (wanted[arrived].step <= step or not live) and len(live) < 40:
            add(vllm, engine, str(arrived), wanted[arrived], shown, by_priority=by_priority)
            live.add(str(arrived))
            came[str(arrived)] = step
            arrived += 1
        for name in sorted(live, key=int):
            limit = wanted[int(name)].aborted_after
            if limit < 0 and step >= came[name] - limit:
                engine.abort_request([name])
                counts.aborted += 1
                live.discard(name)
        for output in engine.step():
            name = output.request_id
            if name not in live:
                continue
            tokens[int(name)] = list(output.outputs[0].token_ids)
            limit = wanted[int(name)].aborted_after
            if limit > 0 and len(tokens[int(name)]) >= limit and not output.finished:
                engine.abort_request([name])
                counts.aborted += 1
            if output.finished or (limit > 0 and len(tokens[int(name)]) >= limit):
                live.discard(name)
                over += 1
                ended(over)
        step += 1
    return tokens


def add(vllm: Any, engine: Any, name: str, one: Wanted, shown: list[Any], *, by_priority: bool) -> None:
    """A request arrives."""
    prompt: dict[str, Any] = {"prompt": " ".join(one.words)}
    if one.images:
        prompt["multi_modal_data"] = {"image": [shown[number] for number in one.images]}
    sampling = vllm.SamplingParams(max_tokens=one.outputs, temperature=0, ignore_eos=True, detokenize=False)
    engine.add_request(name, prompt, sampling, **({"priority": one.priority} if by_priority else {}))


def main(text: str) -> None:
    """Run one load."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    answers, sys.stdout = sys.stdout, sys.stderr

    def tell(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")
        answers.flush()

    settings = json.loads(text)
    try:
        tell(run(settings, tell))
    except Exception as error:
        tell({"error": f"{type(error).__name__}: {error}"})
        raise


if __name__ == "__main__":
    main(sys.argv[1])
