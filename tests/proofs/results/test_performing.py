"""Scripts in a process each: what they print, how they end, and that who does not come to an end is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cacheproof.foundation.errors import InconclusiveError
from cacheproof.releases.results.scripts import performing
from cacheproof.releases.results.scripts.performing import CANNOT_RUN, LAUNCH, VIOLATED, Performed, performed

CALL = "import json, sys; sys.path.insert(0, sys.argv[1]); import launch; print(json.dumps(launch.run(sys.argv[2])))"
RAISES = "print('begun')\nraise RuntimeError('no such thing')"


@pytest.mark.parametrize(
    ("text", "status", "last"),
    [
        ("import sys; print('seen'); sys.exit(1)", VIOLATED, "seen"),
        ("import sys; print('not', file=sys.stderr); sys.exit(0)", 0, "not"),
        (RAISES, CANNOT_RUN, "RuntimeError: no such thing"),
        ("def", CANNOT_RUN, "SyntaxError: invalid syntax"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", CANNOT_RUN, ""),
        ("import sys; sys.exit('why')", CANNOT_RUN, ""),
    ],
)
def test_how_a_script_ends_is_told(tmp_path: Path, text: str, status: int, last: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, "-c", CALL, str(LAUNCH.parent), str(script)]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ended = Performed(int(str(said["status"])), str(said["printed"]))
    assert (said["script"], ended.status, ended.verdict) == (str(script), status, last)


@pytest.fixture
def launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of what runs scripts: a text that the test writes."""
    launch = tmp_path / "launch.py"
    monkeypatch.setattr(performing, "LAUNCH", launch)
    monkeypatch.setattr(performing, "needed", lambda release: SimpleNamespace(source=tmp_path))
    monkeypatch.setattr(performing, "needed_environment", lambda: SimpleNamespace(python=sys.executable))
    return launch


@pytest.mark.parametrize(
    "text",
    [
        "print('a warning of somebody')",
        "print('{}')",
        "pass",
        'import sys; print(\'{"script": "a.py", "status": 1, "printed": ""}\'); sys.exit(1)',
        "raise RuntimeError",
        "import time; time.sleep(60)",
    ],
)
def test_scripts_that_could_not_be_run_are_no_result(
    launched: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(performing, "SECONDS_TO_BEGIN", 0.5)
    monkeypatch.setattr(performing, "SECONDS_FOR_ONE", 0.5)
    launched.write_text(text)
    with pytest.raises(InconclusiveError, match=r"the scripts of vllm==0\.33\.0"):
        performed("vllm==0.33.0", [Path("a.py")])


def test_what_the_child_says_is_the_result(launched: Path) -> None:
    launched.write_text('print(\'{"script": "a.py", "status": 1, "printed": "one\\\\ntwo"}\')')
    assert performed("vllm==0.33.0", [Path("a.py")]) == {Path("a.py"): Performed(VIOLATED, "one\ntwo")}
    assert performed("vllm==0.33.0", []) == {}
