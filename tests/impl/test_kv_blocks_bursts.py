"""Bursts of the KV blocks equal the specification's calls one after the other."""

from __future__ import annotations

import pytest
import torch
from tests.impl.kv_bursts import Crowd, Sides, crowded

from cacheimpl.writing import COPYING, IN_PLACE, Writing

torch.set_num_threads(1)

WRITINGS = pytest.mark.parametrize("write", [COPYING, IN_PLACE], ids=["copying", "in place"])


@WRITINGS
@pytest.mark.parametrize(
    ("requests", "seeds", "bursts", "room"), [(2, 30, 60, 0.5), (3, 20, 60, 0.4), (64, 4, 40, 0.2)]
)
def test_random_bursts_are_the_calls_one_after_the_other(
    requests: int, seeds: int, bursts: int, room: float, write: Writing
) -> None:
    seen: set[str] = set()
    for seed in range(seeds):
        crowd = Crowd(Sides(crowded(requests, seed, room=room), write), seed, requests)
        crowd.play(bursts)
        seen |= crowd.seen
    assert seen >= {
        "all run",
        "some do not run",
        "hits",
        "no hits",
        "not admitted",
        "one round",
        "a step",
        "a part of a step",
    }
    assert requests < 64 or "rounds" in seen


def test_the_same_functions_serve_thousands() -> None:
    crowd = Crowd(Sides(crowded(4096, 0, positions=6, room=0.22), IN_PLACE), 0, 4096)
    for burst in (crowd.admit, crowd.execute, crowd.run, crowd.start_again, crowd.finish, crowd.start_again):
        burst()
        crowd.sides.agree()
    assert crowd.seen >= {"some do not run", "hits", "not admitted", "rounds"}
