"""K1b and K2, where a request with a table asks for slots like a new one: 0.20.2 and 0.33.0 look for room first."""

from __future__ import annotations

import pytest

from cacheproof.model.registry import component_named
from cachespec.kernel import Code
from cachespec.kv_blocks import AllocateSlots, Config

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
    """The first request has `first` tokens; two fill a block, which is registered. The other requests take the rest."""
    variant = KV_BLOCKS.variants[era]
    state = variant.start(CONFIG)
    for call in (AllocateSlots(0, 0, first, ()), AllocateSlots(1, 0, 4, ()), AllocateSlots(2, 0, 4, ())):
        state, _ = variant.call(CONFIG, state, call)
    _, outcome = variant.call(CONFIG, state, AllocateSlots(0, 0, 3, (2,)))
    assert outcome.code is code
