"""Groups of layers: full attention and a sliding window in one pool, beside full attention alone.

`decode` is a step of one token for every running request, `admit` a new prompt that evicts, `hit` a cached prompt. The
classes serve one request at a time. A release serves two groups.

Bursts on tensors have tables of full attention only, so both groups of `tensor_decode` and `tensor_admit` are full
attention. A release takes no second group of full attention; its second group has a window wider than any request
instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from cacheproof.bench.measure import Benchmark, Contender, Goal, Released

TURNS = 24
WIDEST = 1 << 20
"""Tokens of a window that no request outgrows."""
ONE, TWO = "one group", "two groups"
GOAL = Goal((TWO,), times_the_release=1, times_the_yardstick=0.5)
"""Goals: at most twice the time of one group, and at most the time of a release with two."""


def decode_sizes(*, small: bool) -> dict[str, int]:
    """256 requests whose contexts are longer than the window."""
    running = 16 if small else 256
    return {"running": running, "block_size": 16, "prompt": 256, "window": 128, "steps": 16, "turns": TURNS}


def cycle_sizes(*, hit: int, small: bool) -> dict[str, int]:
    """A pool with room for 2 prompts in each group: when one of the 4 comes again, its blocks have been evicted."""
    tokens = 512 if small else 8192
    sizes = {"tokens": tokens, "block_size": 16, "blocks": tokens // 8}
    return {**sizes, "window": tokens // 8, "hit": hit, "times": 4}


def decode() -> Benchmark:
    """The benchmark of a step."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.grouped import ManagerDecode  # noqa: PLC0415  # torch is an extra

        sizes = decode_sizes(small=small)
        return {ONE: ManagerDecode(**sizes, groups=1), TWO: ManagerDecode(**sizes, groups=2)}

    return Benchmark(
        name="groups-decode",
        about="slots for one token of every running request, one request at a time",
        unit="steps",
        size="256 running requests, a window of 128 tokens",
        contenders=contenders,
        goal=GOAL,
        released=lambda small: Released("grouped_decode", {**decode_sizes(small=small), "groups": 2}),
        timed=True,
        most_repeats=TURNS,
    )


def cycle(name: str, about: str, *, hit: int) -> Benchmark:
    """The benchmark of a prompt."""

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.grouped import ManagerCycle  # noqa: PLC0415  # torch is an extra

        sizes = cycle_sizes(hit=hit, small=small)
        return {ONE: ManagerCycle(**sizes, groups=1), TWO: ManagerCycle(**sizes, groups=2)}

    return Benchmark(
        name=f"groups-{name}",
        about=about,
        unit="prompts",
        size="8,192 tokens, a window of 1,024",
        contenders=contenders,
        goal=GOAL,
        released=lambda small: Released("grouped_cycle", {**cycle_sizes(hit=hit, small=small), "groups": 2}),
        timed=True,
    )


def tensor_decode() -> Benchmark:
    """The benchmark of a step on tensors."""

    def sizes(*, small: bool) -> dict[str, int]:
        return {name: size for name, size in decode_sizes(small=small).items() if name != "window"}

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.grouped_bursts import TensorSteps  # noqa: PLC0415  # torch is an extra

        return {ONE: TensorSteps(**sizes(small=small), groups=1), TWO: TensorSteps(**sizes(small=small), groups=2)}

    return Benchmark(
        name="groups-tensor_decode",
        about="slots for one token of every running request, on tensors",
        unit="steps",
        size="256 running requests, two groups of full attention",
        contenders=contenders,
        goal=GOAL,
        released=lambda small: Released("grouped_decode", {**sizes(small=small), "window": WIDEST, "groups": 2}),
        timed=True,
        most_repeats=TURNS,
    )


def tensor_admit() -> Benchmark:
    """The benchmark of a burst of prompts on tensors."""

    def sizes(*, small: bool) -> dict[str, int]:
        requests, tokens = (4, 128) if small else (64, 2048)
        return {"requests": requests, "tokens": tokens, "block_size": 16, "blocks": requests * tokens // 16 * 17 // 16}

    def contenders(*, small: bool) -> Mapping[str, Contender]:
        from cacheproof.bench.tensor.grouped_bursts import TensorAdmissions  # noqa: PLC0415  # torch is an extra

        asked = sizes(small=small)
        return {ONE: TensorAdmissions(**asked, groups=1), TWO: TensorAdmissions(**asked, groups=2)}

    return Benchmark(
        name="groups-tensor_admit",
        about="new prompts at once, hashed before: look up, slots, register, on tensors",
        unit="prompts",
        size="64 prompts of 2,048 tokens, two groups of full attention",
        contenders=contenders,
        goal=GOAL,
        released=lambda small: Released("grouped_burst", {**sizes(small=small), "window": WIDEST, "groups": 2}),
        timed=True,
    )


BENCHMARKS = (
    tensor_decode(),
    tensor_admit(),
    decode(),
    cycle("admit", "a new prompt: look up, slots, free", hit=0),
    cycle("hit", "a cached prompt: look up, slots, free", hit=1),
)
