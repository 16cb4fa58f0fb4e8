"""Fixtures of the tests of rules."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.command_line import Run, ran


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    return partial(ran, capsys)
