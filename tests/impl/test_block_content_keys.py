"""Rows of contents are equal exactly where the normative keys of the specification are: items, adapters, salts."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest
import torch

from cacheimpl.block_content import BlockContents, ExtraKeys, Item, extras_of
from cachespec.block_hash import COMPONENT, Adapt, Config, Place, Season, Submit, Write
from cachespec.kernel import Operation

torch.set_num_threads(1)

REQUESTS, LIMIT, SIZE = 6, 12, 3
CONFIG = Config(
    block_size=SIZE,
    prompt_tokens=LIMIT,
    tokens=LIMIT,
    requests=REQUESTS,
    words=(0, 1),
    lengths=(1, 2, 4),
    items=3,
    adapters=((1, 1, 1), (1, 1, 2)),
    salts=2,
)


class Written:
    """A prompt as calls of the specification, and as tokens, items, an adapter and a salt."""

    def __init__(self, rng: random.Random, request: int) -> None:
        self.operations: list[Operation] = []
        self.tokens: list[int] = []
        self.items: list[Item] = []
        self.adapter: Hashable = rng.choice((None, None, None, None, 0, 1))
        self.salt: Hashable = rng.choice((None, None, None, None, 1, 2))
        if isinstance(self.adapter, int):
            self.operations.append(Adapt(request, self.adapter))
        if isinstance(self.salt, int):
            self.operations.append(Season(request, self.salt))
        length_wanted = rng.randrange(LIMIT + 1)
        while len(self.tokens) < length_wanted:
            content = rng.randrange(len(CONFIG.lengths))
            length = CONFIG.lengths[content]
            if rng.random() < 0.2 and len(self.items) < CONFIG.items and len(self.tokens) + length <= LIMIT:
                self.operations.append(Place(request, content))
                self.items.append(Item(content, len(self.tokens), length))
                self.tokens.extend([0] * length)
            else:
                self.operations.append(Write(request, token := int(rng.random() < 0.2)))
                self.tokens.append(token)
        self.operations.append(Submit(request))


def keys_of(prompts: list[Written]) -> list[int]:
    """What the specification observes: blocks numbered by their keys, in the order in which keys are met."""
    variant = COMPONENT.normative
    state = variant.start(CONFIG)
    for prompt in prompts:
        for operation in prompt.operations:
            state, _ = variant.call(CONFIG, state, operation)
    keys = COMPONENT.observe(CONFIG, variant.view(CONFIG, state))["keys"]
    assert isinstance(keys, tuple)
    return [int(key) for key in keys]


def rows_of(prompts: list[Written], *, without: str = "") -> list[int]:
    """The same of the rows; what is `without` is left out, as a planted bug."""
    blocks, names = LIMIT // SIZE, ExtraKeys()
    extras = [
        [
            names.number(extra)
            for extra in extras_of(
                () if without == "items" else prompt.items,
                blocks,
                SIZE,
                None if without == "adapter" else prompt.adapter,
                None if without == "salt" else prompt.salt,
            )
        ]
        for prompt in prompts
    ]
    tokens = torch.tensor([[*prompt.tokens, *[7] * (LIMIT - len(prompt.tokens))] for prompt in prompts])
    lengths = torch.tensor([len(prompt.tokens) for prompt in prompts])
    rows = BlockContents(SIZE, 100).of_prompts(tokens.int(), lengths, torch.tensor(extras))
    numbers: dict[int, int] = {}
    return [numbers.setdefault(row, len(numbers)) for row in rows.flatten().tolist() if row >= 0]


def test_rows_are_equal_where_keys_are() -> None:
    rng, shared = random.Random(5), 0
    for _ in range(150):
        prompts = [Written(rng, request) for request in range(REQUESTS)]
        keys = keys_of(prompts)
        assert rows_of(prompts) == keys
        shared += len(keys) - len(set(keys))
    assert shared > 20, "prompts do begin alike"


@pytest.mark.parametrize("without", ["items", "adapter", "salt"])
def test_what_is_left_out_of_the_identity_is_found(without: str) -> None:
    rng = random.Random(5)
    prompts = [[Written(rng, request) for request in range(REQUESTS)] for _ in range(40)]
    assert any(rows_of(burst, without=without) != keys_of(burst) for burst in prompts)
