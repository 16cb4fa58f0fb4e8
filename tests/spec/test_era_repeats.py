"""Eras of `kv_blocks` if a request with a table asks for slots like a new one."""

from __future__ import annotations

import pytest

from cacheproof.model.registry import component_named
from cachespec.kernel import Code
from cachespec.kv_blocks import AllocateSlots, Commit, Config

KV_BLOCKS = component_named("kv_blocks")
CONFIG = Config(
    block_size=2,
    blocks=6,
    chains=((0, 1), (0, 2), (3, 4)),
    lengths=(5, 5, 4),
    prompts=(5, 4, 4),
    steps=(1, 2, 4),
    repeats=1,
)


@pytest.mark.parametrize("era", ["K1b", "K2"])
@pytest.mark.parametrize(("first", "code"), [(1, Code.REFUSED), (2, Code.FAILED)])
def test_a_request_without_registered_blocks_is_refused_before_it_fails(era: str, first: int, code: Code) -> None:
    """0.20.2 and 0.33.0 look for room first.

    The first request has `first` tokens; two fill a block, which is registered. The other requests take the rest.
    """
    variant = KV_BLOCKS.variants[era]
    state = variant.start(CONFIG)
    for call in (AllocateSlots(0, 0, first, ()), AllocateSlots(1, 0, 4, ()), AllocateSlots(2, 0, 4, ())):
        state, _ = variant.call(CONFIG, state, call)
    _, outcome = variant.call(CONFIG, state, AllocateSlots(0, 0, 3, (2,)))
    assert outcome.code is code


def test_output_behind_a_block_of_another_content_is_registered_for_no_content() -> None:
    """0.7.3: the repeated call puts block 0 into the table again, where content 1 belongs. Content 2 follows."""
    variant = KV_BLOCKS.variants["K0b"]
    config = Config(block_size=2, blocks=6, chains=((0, 1, 2),), lengths=(6,), prompts=(3,), repeats=1)
    state = variant.start(config)
    for call in (AllocateSlots(0, 0, 2, ()), AllocateSlots(0, 0, 1, (0,)), Commit(0, 3), AllocateSlots(0, 3, 3, ())):
        state, outcome = variant.call(config, state, call)
        assert outcome.code is Code.DONE
    view = variant.view(config, state)
    assert view.tables == ((0, (0, 0, 1)),)
    assert view.registered == ((0, 0), (1, -1))
