"""Which tests of which releases are run, and with which rules of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
CHILD = HERE / "child"
LEDGERS = HERE / "ledgers"


class Suite(NamedTuple):
    """What is run of a release's source package."""

    rules: str
    """The rules of our KV cache manager: those of the era."""
    files: tuple[str, ...]
    older: bool = False
    """Whether it needs the older versions of some packages."""
    store: str = ""
    """The era of our object store and its ring; without one they have the normative rules."""


CORE = tuple(
    f"tests/v1/core/test_{name}.py"
    for name in ("prefix_caching", "scheduler", "async_scheduler", "encoder_cache_manager", "kv_cache_utils")
)
SHARED = (
    "tests/multimodal/test_cache.py",
    "tests/distributed/test_shm_buffer.py",
    "tests/distributed/test_shm_storage.py",
)
SINGLE = "tests/v1/core/test_single_type_kv_cache_manager.py"
"""Tests of the managers of one kind of layers, and of nothing that we replace."""

SUITES: Mapping[str, Suite] = {
    "0.33.0": Suite("KV_2026_11", (*CORE, "tests/v1/core/test_deferred_block_free.py", *SHARED), store="STORE_2026_11"),
    "0.20.2": Suite("KV_2025_10", (*CORE, *SHARED), older=True),
    "0.11.0": Suite("KV_2025_10", (*CORE, *SHARED), older=True),
}
