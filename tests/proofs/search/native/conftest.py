"""What the tests of the native engine share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cacheproof.foundation.cache_folder import CACHE_VARIABLE
from cacheproof.search.native import build, following, library
from cacheproof.search.native.unit import FOLLOWING_HEADERS, HEADERS


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Headers and libraries of its own, compiled quickly."""
    for name in {*HEADERS, *FOLLOWING_HEADERS}:
        shutil.copy(build.HERE / name, tmp_path / name)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(build, "HERE", tmp_path)
    monkeypatch.setattr(library, "QUICK", "-O0")
    monkeypatch.setattr(following, "OPTIMISED", "-O0")
    monkeypatch.setattr(library, "_LOADED", {})
    monkeypatch.setattr(following, "_LOADED", {})
    return tmp_path
