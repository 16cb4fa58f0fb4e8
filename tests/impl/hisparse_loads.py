"""Loads for random runs of HiSparse, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.impl.hisparse_engine import Load

from cacheimpl.kv_cache_manager import KV_2026_11

LOADS: Mapping[str, Load] = {
    "small": Load(),
    "steps ahead": Load(ahead=2, loads=0),
    "three groups": Load(groups=3, device=60),
    "a small host": Load(host=12, device=40),
    "rows are mirrored": Load(mirrored=True, groups=2, device=40),
    "late workers": Load(silent=50, latest=8),
    "computed again": Load(going_back=30, loads=5),
    "computed again, late workers": Load(going_back=30, groups=2, device=50, silent=30),
    "era": Load(rules=KV_2026_11),
    "era, steps ahead": Load(rules=KV_2026_11, ahead=2, loads=0, groups=2, device=40),
}
