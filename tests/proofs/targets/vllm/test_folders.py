"""What is half-made is never taken for whole, and whatever the disk refuses is one line."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

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


def test_two_runs_do_not_make_the_same_thing(tmp_path: Path) -> None:
    with locked(tmp_path), (tmp_path / "lock").open("w", encoding="utf-8") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(InconclusiveError, match="another run"), locked(tmp_path):
            pytest.fail("the lock is held twice")
    with locked(tmp_path):
        pass


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
