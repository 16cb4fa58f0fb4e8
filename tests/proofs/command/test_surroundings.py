"""The command line where its surroundings are broken: closed streams, no working directory, odd files, early Ctrl-C."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = f"{shlex.quote(sys.executable)} -m cacheproof"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=120)


def test_standard_output_is_closed(tmp_path: Path) -> None:
    ended = shell(f"CACHEPROOF_HOME={tmp_path} {PROGRAM} check lru --scope three-keys --variant normative --jobs 1 >&-")
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


def test_standard_error_is_closed() -> None:
    ended = shell(f"{PROGRAM} check nothing 2>&-")
    assert (ended.returncode, ended.stdout) == (2, "")


def test_the_working_directory_is_gone(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    ended = shell(f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && {PROGRAM} list")
    assert ended.returncode == 2
    assert ended.stderr == "cacheproof: the working directory was removed: go to another one\n"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "call",
    [
        "validate /proc/self/mem",
        "replay /proc/self/mem --component lru --capacity 3",
        "consume /proc/self/mem --target spec:normative",
        "show /proc/self/mem",
    ],
)
def test_a_file_that_opens_and_cannot_be_read(call: str) -> None:
    ended = shell(f"{PROGRAM} {call}")
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1


INTERRUPTED_IMPORT = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from cacheproof.command import main
main(["list"])
"""


def test_an_interruption_while_modules_are_imported() -> None:
    call = [sys.executable, "-c", INTERRUPTED_IMPORT]
    ended = subprocess.run(call, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (ended.returncode, ended.stderr) == (3, "cacheproof: interrupted: nothing is known yet\n")


def test_show_replaces_no_file_unasked(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    assert shell(f"cd {tmp_path} && {PROGRAM} check lru --variant M3 --scope pins --jobs 1").returncode == 0
    call = f"cd {tmp_path} && {PROGRAM} show C-LRU-1 --format json --output note"
    ended = shell(call)
    assert (ended.returncode, (tmp_path / "note").read_text()) == (2, "mine")
    assert "note: exists already" in ended.stderr
    assert shell(f"{call} --force").returncode == 0
    assert (tmp_path / "note").read_text() != "mine"
