"""A run of tests that has ended early goes on: what has passed is left out, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import resuming
from tests.resuming import FORMAT, passed_before, state_of

ROOT = Path(resuming.__file__).parents[1]
SUITE = """
import os, pytest

@pytest.mark.parametrize("case", range(1))
def test_good(case): ...

@pytest.mark.parametrize("case", range(1))
def test_bad(case):
    assert "MENDED" in os.environ

@pytest.mark.skip
def test_skipped(): ...

@pytest.fixture
def ends_badly():
    yield
    assert "MENDED" in os.environ

def test_fixture(ends_badly): ...
"""
CONFTEST = "from tests.resuming import add_option as pytest_addoption, resume as pytest_configure"
XDIST = ("-p", "xdist.plugin", "--numprocesses", "2")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(project: Path, *options: str, **more: str) -> tuple[int, str]:
    """The exit status, and what was written last."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--disable-plugin-autoload", "--resume", "there/passed", *options],
        cwd=project,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not ended.stderr, ended.stderr
    return ended.returncode, ended.stdout.splitlines()[-1]


@pytest.mark.parametrize("options", [(), XDIST], ids=["one process", "workers"])
def test_what_has_passed_is_left_out(project: Path, options: tuple[str, ...]) -> None:
    status, line = run(project, *options)
    assert (status, line.partition(" in ")[0]) == (1, "1 failed, 2 passed, 1 skipped, 1 error")
    passed = project / "there" / "passed"
    assert passed.read_text() == f"{FORMAT} {state_of(passed)}\ntest_suite.py::test_good[0]\n"
    status, line = run(project, *options, MENDED="1")
    assert (status, line.partition(" in ")[0].replace(", 1 deselected", "")) == (0, "2 passed, 1 skipped")
    names = sorted(passed.read_text().splitlines()[1:])
    assert names == [f"test_suite.py::{name}" for name in ("test_bad[0]", "test_fixture", "test_good[0]")]
    status, _ = run(project, *options, "-k", "not skipped")
    assert status == 0, "everything has passed before"


def test_what_has_passed_with_other_files_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "passed"
    assert passed_before(path, "one") == frozenset()
    with path.open("a") as file:
        file.write("a\nb\nc, cut o")
    assert passed_before(path, "one") == {"a", "b"}
    assert passed_before(path, "another") == frozenset()
    assert path.read_text() == f"{FORMAT} another\n"


@pytest.mark.parametrize("content", [b"", b"precious\n", b"\xff\xfe"])
def test_another_file_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "passed"
    path.write_bytes(content)
    with pytest.raises(pytest.UsageError, match="holds something else than names of tests"):
        passed_before(path, "one")
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "passed"):
        with pytest.raises(pytest.UsageError, match="cannot be written"):
            passed_before(path, "one")


def test_files_in_the_root_and_in_its_folders_count(tmp_path: Path) -> None:
    (tmp_path / "spec" / "deep").mkdir(parents=True)
    passed = tmp_path / "passed"
    states = [state_of(passed, tmp_path)]
    for name, text in (("spec/a.py", "1"), ("spec/a.py", "2"), ("spec/deep/a.toml", "2"), ("Makefile", "all:")):
        (tmp_path / name).write_text(text)
        states.append(state_of(passed, tmp_path))
    assert len(set(states)) == len(states)
    (tmp_path / "spec" / "__pycache__").mkdir()
    (tmp_path / "spec" / "__pycache__" / "a.pyc").touch()
    passed.touch()
    assert state_of(passed, tmp_path) == states[-1]
