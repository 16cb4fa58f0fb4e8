"""Who has to do what for a violation: neither more nor less than the calls and the configuration say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cacheproof.releases.reach import CLASS, ENGINE, MISUSE, REACHES, RUNNING, SHORT, STRENGTH, Reach, reach_of


@pytest.mark.parametrize(
    ("component", "sorts", "disciplined", "reach"),
    [
        ("scheduler", {"add", "schedule"}, None, ENGINE),
        ("lru", {"put"}, None, CLASS),
        ("kv_blocks", {"allocate_slots"}, 1, CLASS),
        ("kv_blocks", {"allocate_slots"}, 0, MISUSE),
        ("encoder_cache", {"allocate"}, 0, MISUSE),
        ("object_store", {"put", "read"}, None, CLASS),
        ("object_store", {"put", "forge", "read"}, None, MISUSE),
        ("block_hash", {"submit"}, 0, CLASS),
    ],
)
def test_a_reach_is_what_the_calls_say(component: str, sorts: set[str], disciplined: int | None, reach: Reach) -> None:
    """Of block hashes, `disciplined` leaves out calls without effect, and says nothing of callers."""
    config = SimpleNamespace() if disciplined is None else SimpleNamespace(disciplined=disciplined)
    assert reach_of(component, sorts, config) == reach


def test_every_reach_is_ordered_and_named() -> None:
    assert STRENGTH == (MISUSE, CLASS, ENGINE, RUNNING)
    assert set(SHORT) == set(REACHES) == set(STRENGTH)
