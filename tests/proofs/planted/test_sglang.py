"""Bugs planted in SGLang's prefix cache and allocators, found in the walk that holds it to `kv_blocks`."""

from __future__ import annotations

import pytest

from cacheproof.releases.planted.child.bugs.declaring import Bug
from cacheproof.releases.planted.listing import bugs_of
from cacheproof.releases.planted.trial import with_a_bug
from cacheproof.targets.prefixes.episodes import Walked
from cacheproof.targets.prefixes.peer import ChildPeer
from cacheproof.targets.prefixes.walk import walk
from cacheproof.targets.sglang.family import FAMILY

DRIVEN = "radix"
PACKAGE = FAMILY.parsed(FAMILY.example)
STEPS, SEED = 1_000, 1
"""In each configuration."""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PACKAGE.record() is None, reason=f"{PACKAGE.name} is not installed"),
]


def walked_with(bug: str) -> list[Walked]:
    """What came of each configuration, up to the first in which something was found."""
    peer = ChildPeer(with_a_bug(PACKAGE.command(), bug), DRIVEN, PACKAGE.family.claims)
    walks: list[Walked] = []
    try:
        for config in FAMILY.configurations.values():
            walks.append(walk(peer, config, steps=STEPS, seed=SEED))
            assert not walks[-1].broke_down, walks[-1].broke_down
            if walks[-1].found is not None:
                break
    finally:
        peer.close()
    return walks


def test_as_it_is_released() -> None:
    assert all(one.found is None for one in walked_with(""))


@pytest.mark.parametrize("bug", bugs_of()[DRIVEN], ids=lambda bug: str(bug.name))
def test_a_bug_is_found(bug: Bug) -> None:
    assert (walked_with(f"{DRIVEN}/{bug.name}")[-1].found is None) == bool(bug.unseen)
