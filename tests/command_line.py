"""The command line, called in the process of a test."""

from __future__ import annotations

import json
from collections.abc import Callable
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
