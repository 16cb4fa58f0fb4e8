"""Prompts that begin alike: as a dictionary {(parent, tokens, extras): row} keeps them, as tensors, and in lockstep."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import torch

from cacheimpl.block_content import (
    NONE,
    Burst,
    Config,
    Contents,
    Interned,
    again,
    burst_of,
    drawn,
    empty,
    intern,
    packed,
)
from cacheimpl.writing import IN_PLACE, Writing

PASSES_AT_MOST = 400
ConfigOf = Callable[[Config], Config]
Plant = Callable[[str, str, str], None]
ONE_WAY = (
    (
        "cacheimpl.block_content.hashing.of_prefixes",
        "Prefixes($sums, $begins, $depths.int())",
        "Prefixes($sums, $begins * 0, $depths.int())",
    ),
    ("cacheimpl.block_content.hashing.strides", "$sums >> WAY_SHIFT | 1", "$sums * 0 + 1"),
)
"""All hashes begin at the same slot, with the same stride; planted, it makes long searches, and is no bug."""


def fixed(block_size: int, seed: int = 0) -> Config:
    """Numbers as `drawn` has them, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    return Config(*(torch.randint(0, 1 << 62, n.shape, generator=generator) * 2 + 1 for n in drawn(block_size)))


def colliding(config: Config) -> Config:
    """Everything has one hash, and so goes one way."""
    return Config(*(torch.zeros_like(numbers) for numbers in config))


def one_way_each_twice(config: Config) -> Config:
    """Contents of the same tokens collide, whatever their extras."""
    return config._replace(extra=torch.zeros_like(config.extra))


def depth_only(config: Config) -> Config:
    """A hash of nothing but the depth: chains agree in every hash and in no content."""
    return config._replace(words=torch.zeros_like(config.words), extra=torch.zeros_like(config.extra))


class Prompt(NamedTuple):
    """What a dictionary keeps of a prompt."""

    tokens: list[int]
    extras: list[int]
    parent: int = NONE


def drawn_prompts(rng: random.Random, requests: int, blocks: int, block_size: int) -> list[Prompt]:
    """Of two tokens only, so that many begin alike."""
    return [
        Prompt(
            [rng.randrange(2) for _ in range(rng.randrange(blocks * block_size + 1))],
            [rng.choice((0, 0, 0, 1, 2)) for _ in range(blocks)],
        )
        for _ in range(requests)
    ]


def tensors_of(prompts: list[Prompt], blocks: int, block_size: int) -> Burst:
    """The same in tensors; what is behind the end of a prompt is rubbish that nobody may look at."""
    tokens = torch.randint(0, 2, (len(prompts), blocks * block_size), dtype=torch.int32)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt.tokens)] = torch.tensor(prompt.tokens, dtype=torch.int32)
    return burst_of(
        packed(tokens, block_size),
        torch.tensor([prompt.extras for prompt in prompts]),
        torch.tensor([prompt.parent for prompt in prompts]),
        torch.tensor([len(prompt.tokens) // block_size for prompt in prompts]),
    )


def ended(config: Config, contents: Contents, burst: Burst, write: Writing) -> tuple[Contents, Interned, int]:
    """The call, as often as something remains, and how often that was."""
    for passes in range(1, PASSES_AT_MOST):
        contents, found = intern(config, contents, burst, write)
        assert int(found.lacking) == 0
        if int(found.remaining) == 0:
            return contents, found, passes
        burst = again(burst, found, passes)
    raise AssertionError("it does not come to an end")


class Dictionary:
    """What a content is, said as directly as can be."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.rows: dict[tuple[int, tuple[int, ...], int], int] = {}

    def check(self, prompts: list[Prompt], rows: list[list[int]]) -> None:
        """Equal contents have equal rows, others have others, and where there is no block there is none."""
        for prompt, found in zip(prompts, rows, strict=True):
            full, parent = len(prompt.tokens) // self.block_size, prompt.parent
            assert found[full:] == [NONE] * (len(found) - full)
            for place, row in enumerate(found[:full]):
                tokens = tuple(prompt.tokens[place * self.block_size : (place + 1) * self.block_size])
                content = (parent, tokens, prompt.extras[place])
                if content not in self.rows:
                    assert row not in self.rows.values(), f"{content} has the row of another"
                    self.rows[content] = row
                assert self.rows[content] == row
                parent = row


def lockstep(
    seed: int, config: Config, block_size: int, write: Writing = IN_PLACE, *, requests: int = 6, bursts: int = 6
) -> int:
    """Several bursts of prompts that begin alike, each twice, against the dictionary; how many calls it took."""
    rng, dictionary, calls, blocks, rows = random.Random(seed), Dictionary(block_size), 0, 5, 200
    contents = empty(block_size, rows)
    for _ in range(bursts):
        prompts = drawn_prompts(rng, requests, blocks, block_size)
        burst = tensors_of(prompts, blocks, block_size)
        contents, first, passes = ended(config, contents, burst, write)
        calls += passes
        dictionary.check(prompts, first.rows.tolist())
        contents, again, _ = ended(config, contents, burst, write)
        assert torch.equal(again.rows, first.rows)
        assert int(again.created) == 0
        assert int(contents.free_rows) == rows - len(dictionary.rows)
    return calls
