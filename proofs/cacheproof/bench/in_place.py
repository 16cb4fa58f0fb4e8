"""Our classes in the scheduler loop of a release: the release's own calls, with its manager and with ours.

`loop` is `schedule()` and `update_from_output()` of a step in which all requests decode; it measures our batched
scheduler too. `schedule` is a step in which every running request decodes one token. `admit` is a step that admits as
many new prompts, and `readmit` one that admits cached prompts. `turnover` is `admit` with the update from the output.
They run in the release only, so they need `--with`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cacheproof.bench.measure import Benchmark, Contender, Goal, Released

RUNNING = (256, 1024)
LOOPS = (256, 1024, 4096)
BATCHED = "our scheduler on tensors"
PLUGIN = "cacheimpl.vllm"
SMALL_PART = 64
TURNS = 24
MANAGERS = {"our manager, NORMATIVE": "NORMATIVE", "our manager, KV_2026_11": "KV_2026_11"}
"""Our manager in the release's scheduler, and its rules."""


def none(*, small: bool) -> Mapping[str, Contender]:
    """No contenders outside of the release."""
    return {}


def work(name: str, sizes: Mapping[str, int], scheduler: str, rules: str, updates: int) -> Callable[[bool], Released]:
    """The work with this scheduler of ours, or with the release's own for an empty name."""

    def made(small: bool) -> Released:  # noqa: FBT001  # the type of `Benchmark.released`
        running = sizes["running"] // SMALL_PART if small else sizes["running"]
        named = f"{PLUGIN}.{scheduler}" if scheduler else ""
        place: dict[str, int | str] = {"scheduler": named, "rules": rules, "updates": updates}
        return Released(name, {**sizes, **place, "running": running}, f"{scheduler} {rules}")

    return made


def in_place(
    name: str, about: str, of: str, sizes: Mapping[str, int], *, turns: int | None = None, updates: bool = False
) -> Benchmark:
    """The release's `schedule()` with its manager and with ours; with `updates`, `update_from_output()` too."""
    make = partial(work, of, sizes, updates=int(updates))
    return Benchmark(
        name=f"{name}-{sizes['running']}",
        about=about,
        unit="steps" if updates else "calls of schedule()",
        size=f"{sizes['running']:,} requests",
        contenders=none,
        goal=None if updates else Goal(tuple(MANAGERS), times_the_release=1),
        released=make("", ""),
        inside={shown: make("Scheduler", rules) for shown, rules in MANAGERS.items()},
        timed=True,
        most_repeats=turns,
    )


def decoding(running: int) -> dict[str, int]:
    """Sizes of a decoding load."""
    return {"running": running, "block_size": 16, "prompt": 64, "steps": 16, "turns": TURNS}


def admitting(running: int, *, repeated: bool) -> dict[str, int]:
    """Sizes of a load of prompts that end in the step that admits them."""
    return {"running": running, "block_size": 16, "prompt": 208, "steps": 2, "repeated": int(repeated)}


def loop(running: int) -> Benchmark:
    """The release's loop around its scheduler, and around ours."""
    make = partial(work, "decoding", decoding(running), updates=1)
    return Benchmark(
        name=f"loop-{running}",
        about="a step of the release's engine loop; all decode",
        unit="steps",
        size=f"{running:,} requests",
        contenders=none,
        goal=Goal((BATCHED,), times_the_release=5) if running in LOOPS[1:] else None,
        released=make("", ""),
        inside={"our manager, NORMATIVE": make("Scheduler", "NORMATIVE"), BATCHED: make("BatchedScheduler", "")},
        timed=True,
        most_repeats=TURNS,
    )


BENCHMARKS = (
    *(loop(size) for size in LOOPS),
    *(
        in_place("schedule", "a step of the release's scheduler; all decode", "decoding", decoding(size), turns=TURNS)
        for size in RUNNING
    ),
    *(
        in_place(name, about, "admitting", admitting(size, repeated=cached), updates=updates)
        for name, about, cached, updates in (
            ("admit", "a step of the release's scheduler; all are new prompts of 208 tokens", False, False),
            ("readmit", "a step of the release's scheduler; all are cached prompts of 208 tokens", True, False),
            ("turnover", "a step of the engine loop; all are new prompts of 208 tokens, and end", False, True),
        )
        for size in RUNNING
    ),
)
