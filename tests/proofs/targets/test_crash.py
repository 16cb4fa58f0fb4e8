"""An implementation that crashes in a call: a verdict on it, with its own traceback or panic."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.command_line import Run, beside

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named
from cacheproof.model.store import load_all
from cacheproof.present.evidence import evidence
from cacheproof.targets.crash import cause_in, crash_report

IN_PYTHON = """
class Cache:
    def __init__(self, config):
        self.stored = []

    def put(self, key, size):
        self.stored.append(key)
        return "done"

    def pop(self, key):
        return self._drop(key)

    def _drop(self, key):
        return [][key]
"""

CHILD = """
import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "hello":
        answer = {"answer": "hello", "protocol": "1.0", "features": ["lru/operation/pop", "lru/operation/put"]}
    elif asked["do"] == "apply":
        assert asked["op"] != "pop", "no such key"
        answer = {"answer": "outcome", "code": "done"}
    else:
        answer = {"answer": "state"}
    print(json.dumps(answer), flush=True)
"""

GO = """\
cache ready
panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.(*Cache).Put(...)
\t/src/cache.go:42
main.main()
\t/src/main.go:17 +0x1d
exit status 2
"""
RUST = """\
thread 'main' panicked at src/lib.rs:7:5:
index out of bounds: the len is 3 but the index is 3
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
PYTHON = """\
Traceback (most recent call last):
  File "child.py", line 3, in <module>
    raise ValueError("no")
ValueError: no
"""


@pytest.fixture
def cacheproof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return beside(tmp_path, {"crashing.py": IN_PYTHON, "child.py": CHILD}, monkeypatch, capsys)


FUZZ = ("--driver", "lockstep", "--steps", "100", "--seed", "1")


def test_an_exception_is_a_crash_with_its_traceback(cacheproof: Run) -> None:
    ended = cacheproof("fuzz", "lru", "--target", "python:crashing:Cache", *FUZZ)
    assert ended.status == ExitStatus.FELL_SHORT
    assert "the implementation crashed (raised) after 1 call" in ended.out
    assert (
        "the implementation crashed: asked to apply pop: IndexError; list index out of range (crashing.py, line 14)"
        in ended.out
    )
    assert "Traceback (most recent call last):" in ended.out
    assert 'crashing.py", line 11, in pop' in ended.out
    assert "IndexError: list index out of range" in ended.out
    assert "process.py" not in ended.out, "our own frames are no part of it"
    told = cacheproof("fuzz", "lru", "--target", "python:crashing:Cache", *FUZZ, "--json")
    assert told.json["breakdown"]["crash"] is True
    assert told.json["breakdown"]["details"].endswith("IndexError: list index out of range")
    (cell,) = [cell for cell in evidence([component_named("lru")], load_all()) if cell.method == "fuzzed"]
    assert (cell.fell_short, cell.inconclusive) == (1, 0)
    assert "Traceback" in cacheproof("show", told.json["run"]).out


def test_a_child_that_dies_in_a_call_is_a_crash(cacheproof: Run) -> None:
    target = f"exec:{sys.executable} child.py"
    ended = cacheproof("fuzz", "lru", "--target", target, *FUZZ)
    assert ended.status == ExitStatus.FELL_SHORT
    assert "the implementation crashed (crashed) after 1 call" in ended.out
    assert "its standard error: AssertionError: no such key" in ended.out
    assert 'child.py", line 10, in <module>' in ended.out
    told = cacheproof("consume", "lru", "--target", target, "--json", "--allow-partial")
    assert told.status == ExitStatus.FELL_SHORT
    assert told.json["cases"]["broke_down"] == 0


def test_a_child_that_dies_before_the_first_call_is_no_verdict(cacheproof: Run) -> None:
    ended = cacheproof("fuzz", "lru", "--target", f"exec:{sys.executable} -c 'raise SystemExit(3)'", *FUZZ)
    assert ended.status == ExitStatus.INCONCLUSIVE


def test_an_assertion_says_where(cacheproof: Run, tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text(IN_PYTHON.replace("return [][key]", 'assert key is None, "no"'))
    ended = cacheproof("fuzz", "lru", "--target", "python:crashing:Cache", *FUZZ)
    assert ended.status == ExitStatus.FELL_SHORT
    assert "AssertionError no (crashing.py, line 14)" in ended.out


@pytest.mark.parametrize(
    ("said", "cause", "first"),
    [
        (GO, "panic: runtime error: index out of range [3] with length 3", "panic: "),
        (RUST, "thread 'main' panicked at src/lib.rs:7:5: index out of bounds: the len is 3 but", "thread 'main'"),
        (PYTHON, "ValueError: no", "Traceback"),
        ("free(): double free detected\nAborted\n", None, "free()"),
    ],
)
def test_the_lines_that_say_why(said: str, cause: str | None, first: str) -> None:
    found = cause_in(said.splitlines())
    assert found is None if cause is None else (found or "").startswith(cause)
    assert crash_report(said.encode()).startswith(first)
    assert len(crash_report((said + "goroutine\n" * 900).encode()).splitlines()) == 25
