"""The whole POPE sets against the published table, where their folder is given; the files do not come along.

`CACHEPROOF_POPE` names a folder with `pope_coco.jsonl.gz` and `pope_aokvqa.jsonl.gz`, as the README of the slices says
how they are made.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cacheproof.model.registry import component_named
from cacheproof.replay.readers import read
from cacheproof.replay.run import Replay, Setting

VARIABLE = "CACHEPROOF_POPE"
FOLDER = Path(os.environ.get(VARIABLE, ""))

pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} names no folder with the whole sets")

CAPACITIES = (1, 50, 100, 250, 400, 500)
TABLE = {
    "file": ("83.3", "83.3", "83.3", "83.3", "83.3", "94.4", "94.44"),
    "round-robin": ("94.4", "94.4", "94.4", "94.4", "94.4", "94.4", "94.44"),
    "shuffled": ("0.2", "9.7", "19.3", "47.8", "75.6", "94.4", "94.44"),
}
"""Hit ratios by item in per cent, for the capacities and an infinite one; the same for both sets."""


@pytest.mark.parametrize("component", ["lru", "encoder_cache", "mirror"])
@pytest.mark.parametrize("order", TABLE)
@pytest.mark.parametrize("name", ["pope_coco", "pope_aokvqa"])
def test_hit_ratios_of_a_whole_set(name: str, order: str, component: str) -> None:
    chosen, workload = component_named(component), read([FOLDER / f"{name}.jsonl.gz"], {"order": order})
    assert len(workload.arrivals) == 9000
    for capacity, expected in zip((*CAPACITIES, workload.infinite), TABLE[order], strict=True):
        result = Replay(Setting(chosen, chosen.normative, workload, capacity)).run()
        assert result.violations == []
        digits = len(expected.partition(".")[2])
        assert f"{100 * result.hit_ratio:.{digits}f}" == expected, capacity
