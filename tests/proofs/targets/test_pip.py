"""What is shown while pip downloads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cacheproof.targets import pip


class Downloading(subprocess.Popen[bytes]):
    """A process that ends after three looks."""

    def __init__(self) -> None:
        self.looks = 3

    def __del__(self) -> None:
        """There is no process to wait for."""

    def wait(self, timeout: float | None = None) -> int:
        """As of a process that runs."""
        self.looks -= 1
        if self.looks >= 0:
            raise subprocess.TimeoutExpired("pip", timeout or 0.0)
        return 0


def test_the_download_never_shrinks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes = iter([97_000_000, 574_000_000, 438_000_000])
    monkeypatch.setattr(pip, "size_of", lambda folder: next(sizes))
    shown: list[str] = []
    assert pip._watched(Downloading(), "vllm==0.33.0", (tmp_path,), shown.append) == 0
    assert shown == ["vllm==0.33.0: 97 MB", "vllm==0.33.0: 574 MB", "vllm==0.33.0: 574 MB"]
