"""Catalogued violations, derived by both engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus
from cacheproof.search.native.build import compiler_of_this_machine


def derived(capsys: pytest.CaptureFixture[str], engine: str) -> list[dict[str, Any]]:
    assert dispatch(["catalogue", "C-LRU-1", "--engine", engine, "--json"]) is ExitStatus.AS_EXPECTED
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["entries"]
    return rows


@pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")
def test_both_engines_derive_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path))
    expected = derived(capsys, "reference")
    assert [row["status"] for row in expected] == ["reproduced"] * len(expected)
    assert derived(capsys, "native") == expected == derived(capsys, "auto")


def test_an_unknown_engine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["catalogue", "C-LRU-1", "--engine", "tensor"]) is ExitStatus.WRONG_INPUT
    assert "reference, native, auto" in capsys.readouterr().err
