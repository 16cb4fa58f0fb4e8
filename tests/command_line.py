"""The command line, called in the process of a test."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cacheproof import command


class Ended(NamedTuple):
    """How a call ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)


Run = Callable[..., Ended]
"""`run("check", "lru", "--json")`."""


def ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Ended:
    """`cacheproof` with these arguments; what was written before is not in it."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        command.main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int), ended.value.code
    return Ended(int(ended.value.code), *capsys.readouterr())


def beside(
    folder: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """`cacheproof` in a folder with these files, whose modules it can import, and with a store of its own."""
    monkeypatch.setenv("CACHEPROOF_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name, text in files.items():
        (folder / name).write_text(text)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    return partial(ran, capsys)
