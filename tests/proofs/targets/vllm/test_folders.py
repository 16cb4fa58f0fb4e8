"""What is half-made is never taken for whole, and whatever the disk refuses is one line."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.targets.folders import (
    COMPLETE,
    clear_disk_errors,
    finish,
    locked,
    mark_complete,
    record_of,
    remove,
    size_of,
    sweep,
    targets_folder,
)


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"CACHEPROOF_CACHE": "/somewhere"}, "/somewhere/targets"),
        ({"XDG_CACHE_HOME": "/general"}, "/general/cacheproof/targets"),
        ({"CACHEPROOF_CACHE": "/somewhere", "XDG_CACHE_HOME": "/general"}, "/somewhere/targets"),
        ({"HOME": "/home/someone"}, "/home/someone/.cache/cacheproof/targets"),
    ],
)
def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], where: str) -> None:
    for name in ("CACHEPROOF_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert targets_folder() == Path(where)


@pytest.mark.parametrize("text", [None, "", "{", "[]", '"complete"'])
def test_without_a_good_mark_a_folder_is_not_there(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / COMPLETE).write_text(text, encoding="utf-8")
    assert record_of(tmp_path) is None
    mark_complete(tmp_path, {"version": "1"})
    assert record_of(tmp_path) == {"version": "1"}


def test_finishing_replaces_what_was_there(tmp_path: Path) -> None:
    made, final = tmp_path / "unfinished-a", tmp_path / "a"
    for folder, name in ((made, "new"), (final, "old")):
        folder.mkdir()
        (folder / name).touch()
    finish(made, final, {"version": "2"})
    assert sorted(path.name for path in final.iterdir()) == [COMPLETE, "new"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_sweeping_removes_what_is_unfinished_and_nothing_else(tmp_path: Path) -> None:
    for name in ("unfinished-vllm-1", "vllm-1", "environment-1"):
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["environment-1", "vllm-1"]


def test_removing_says_whether_there_was_anything(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert [remove(tmp_path / "a"), remove(tmp_path / "a")] == [True, False]
    assert list(tmp_path.iterdir()) == []


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_elsewhere(root: Path) -> Iterator[IO[str]]:
    """Another process holds the lock until a line is written to it."""
    command = [sys.executable, "-c", HOLDER, str(root / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder.stdin
        holder.kill()


def test_a_run_waits_for_another_one_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    with held_elsewhere(tmp_path) as holder:

        def announced(line: str) -> None:
            """The other process ends only after the line: without a wait the second attempt would fail."""
            lines.append(line)
            holder.write("\n")
            holder.flush()

        monkeypatch.setattr("cacheproof.foundation.locks.announce", announced)
        with locked(tmp_path), (tmp_path / "lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lines == [f"{tmp_path}: another run is adding or removing a target; waiting for its end"]


def test_a_signal_ends_the_wait(tmp_path: Path) -> None:
    waiting = "from cacheproof.targets.folders import *; import sys; locked(Path(sys.argv[1])).__enter__()"
    with (
        held_elsewhere(tmp_path),
        subprocess.Popen([sys.executable, "-c", waiting, str(tmp_path)], stderr=subprocess.PIPE, text=True) as waiter,
    ):
        assert waiter.stderr is not None
        assert "waiting for its end" in waiter.stderr.readline()
        waiter.send_signal(signal.SIGINT)
        assert waiter.wait(timeout=60) != 0
        assert waiter.stderr.read().strip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize(
    ("number", "error", "said"),
    [
        (errno.ENOSPC, InconclusiveError, "no space left on the disk; CACHEPROOF_CACHE chooses another folder"),
        (errno.EDQUOT, InconclusiveError, "no space left"),
        (errno.EACCES, InputError, "/there: Permission denied; CACHEPROOF_CACHE chooses another folder"),
        (errno.EROFS, InputError, "Read-only file system"),
    ],
)
def test_what_the_disk_refuses(tmp_path: Path, number: int, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said), clear_disk_errors(tmp_path):
        raise OSError(number, os.strerror(number), "/there")


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(InterruptedError), clear_disk_errors(tmp_path):
        raise InterruptedError(errno.EINTR, "interrupted")


def test_sizes_of_what_is_below(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"12345")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert size_of(tmp_path) >= 5
    assert size_of(tmp_path / "not-there") == 0
