"""Prompts: a burst at once, and single prompts of growing length.

`burst`: 256 new prompts of 8k tokens are hashed, looked up, get their slots and are registered; once the pool has been
filled, every allocated block is an eviction. `again` is the same with prompts that were there before. The turns of our
implementation include its occasional collection of content rows. `pool` is a small burst in pools of growing size, and
`reuse` a burst that is cached there. `cold` and `hit` serve one prompt at a time, hashed before: look up, slots, free.
`hashes` makes the keys of a prompt, or names its contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cacheproof.bench import plain_prompts
from cacheproof.bench.measure import Benchmark, Goal
from cacheproof.bench.sized import Sizes, on_tensors, sized

BLOCK_SIZE = 16
LENGTHS = (1024, 8192, 32768)
ON_TENSORS = "tensors"
INDEXED = "tensors, with an index"
PLAIN = "plain dictionaries"


def burst(small: bool, *, repeated: int) -> Mapping[str, int]:  # noqa: FBT001  # called with nothing else
    """A pool with room for one burst and a little more."""
    requests, tokens = (4, 128) if small else (256, 8192)
    blocks = requests * tokens // BLOCK_SIZE * 17 // 16
    return {
        "requests": requests,
        "tokens": tokens,
        "block_size": BLOCK_SIZE,
        "blocks": blocks,
        "repeated": repeated,
    }


def pool(blocks: int, small: bool, *, repeated: int = 0) -> Mapping[str, int]:  # noqa: FBT001  # called with nothing else
    """A small burst, whatever the size of the pool."""
    return {
        "requests": 2 if small else 16,
        "tokens": 64 if small else 1024,
        "block_size": BLOCK_SIZE,
        "blocks": blocks // 256 if small else blocks,
        "repeated": repeated,
    }


def cycle(tokens: int, small: bool, *, hit: int) -> Mapping[str, int]:  # noqa: FBT001  # called with nothing else
    """A pool with room for 2 prompts: when one of the 4 prompts comes again, its blocks have been evicted."""
    length = tokens // 32 if small else tokens
    blocks = 2 * length // BLOCK_SIZE
    return {"tokens": length, "block_size": BLOCK_SIZE, "blocks": blocks, "hit": hit, "times": 4}


def hashes(tokens: int) -> Sizes:
    """The benchmark of four prompts a turn."""
    return lambda small: {"tokens": tokens // 32 if small else tokens, "block_size": BLOCK_SIZE, "times": 4}


def benchmark(
    name: str,
    about: str,
    size: str,
    work: str,
    sizes: Sizes,
    plain: type[Any],
    goal: Goal | None = None,
    *,
    indexed: bool = False,
) -> Benchmark:
    """The names of our contenders are `Plain`, `Tensor` or `Indexed` with the name of the work."""
    kinds = {ON_TENSORS: "Tensor", INDEXED: "Indexed"} if indexed else {ON_TENSORS: "Tensor"}
    ours = {shown: on_tensors(f"prompts:{plain.__name__.replace('Plain', kind)}") for shown, kind in kinds.items()}
    return sized(name, about, "prompts", size, sizes, {PLAIN: plain, **ours}, work, goal=goal)


POOLS = (16_384, 65_536, 262_144)

BENCHMARKS = (
    benchmark(
        "burst",
        "new prompts at once: hash, look up, slots, register",
        "256 prompts of 8,192 tokens",
        "burst",
        partial(burst, repeated=0),
        plain_prompts.PlainBurst,
        Goal((ON_TENSORS,), times_the_release=20),
    ),
    benchmark(
        "again",
        "prompts that were there before, at once: hash, look up, slots",
        "256 prompts of 8,192 tokens",
        "burst",
        partial(burst, repeated=1),
        plain_prompts.PlainBurst,
    ),
    *(
        benchmark(
            f"pool-{blocks}",
            "16 new prompts of 1,024 tokens at once: hash, look up, slots, register",
            f"a pool of {blocks:,} blocks",
            "burst",
            partial(pool, blocks),
            plain_prompts.PlainBurst,
        )
        for blocks in POOLS
    ),
    *(
        benchmark(
            f"reuse-{blocks}",
            "16 prompts of 1,024 tokens at once that are cached: hash, look up, slots",
            f"a pool of {blocks:,} blocks",
            "burst",
            partial(pool, blocks, repeated=1),
            plain_prompts.PlainBurst,
            indexed=True,
        )
        for blocks in POOLS
    ),
    *(
        benchmark(
            f"{name}-{tokens}",
            f"one prompt at a time, {said}: look up, slots, free",
            f"{tokens:,} tokens",
            "cycle",
            partial(cycle, tokens, hit=hit),
            plain_prompts.PlainCycle,
        )
        for name, hit, said in (("cold", 0, "nothing cached"), ("hit", 1, "all of it cached"))
        for tokens in LENGTHS
    ),
    *(
        benchmark(
            f"hashes-{tokens}",
            "the keys of a prompt's blocks, or their contents",
            f"{tokens:,} tokens",
            "hashes",
            hashes(tokens),
            plain_prompts.PlainHashes,
        )
        for tokens in LENGTHS
    ),
)
