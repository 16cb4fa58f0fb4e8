"""`--resume FILE`: a long run that has ended early goes on, without the tests that have passed.

The file holds their names, one a line, written as they pass. Its first line is a digest of the project's files and of
the Python that runs them: if either has changed, the run begins anew. Tests that failed or were skipped run again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pytest

FORMAT = "cacheproof-passed"
ROOT = Path(__file__).parents[1]
FOLDERS = ("spec", "impl", "proofs", "tests", "docs")
MADE = frozenset({"__pycache__"})
"""What a run itself writes there."""


def state_of(apart: Path, root: Path = ROOT) -> str:
    """Sixteen hexadecimal digits over what the tests are of: the files in the root, and all that are in its folders.

    `apart`: the file that keeps the names of tests, which may be among them.
    """
    digest = sha256(sys.version.encode())
    in_root = (path for path in root.iterdir() if path.is_file())
    for path in sorted(files_of([*in_root, *(root / name for name in FOLDERS)])):
        if path.resolve() == apart.resolve():
            continue
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def files_of(places: Iterable[Path]) -> Iterator[Path]:
    """All files there, but for those that a run makes. A place may be missing."""
    for place in places:
        if place.is_file():
            yield place
        elif place.name not in MADE and place.suffix != ".egg-info" and not place.is_symlink() and place.is_dir():
            yield from files_of(place.iterdir())


def passed_before(path: Path, state: str) -> frozenset[str]:
    """The names in the file, if it is of this state. If it is not there, or of another state, it is begun."""
    head = f"{FORMAT} {state}"
    if path.is_file():
        first, *names = path.read_text(encoding="utf-8", errors="replace").split("\n")
        if not first.startswith(f"{FORMAT} "):
            raise pytest.UsageError(f"--resume: {path} holds something else than names of tests: choose another file")
        if first == head:
            return frozenset(names[:-1])  # what has no end of line is of a write that was cut off
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{head}\n", encoding="utf-8")
    except OSError as error:
        raise pytest.UsageError(f"--resume: {path} cannot be written: {error.strerror}") from None
    return frozenset()


class Worker(Protocol):
    """What pytest-xdist says of a process that it starts."""

    workerinput: dict[str, Any]


class Resumed:
    """A plug-in of pytest, in the process that was started and in each worker of pytest-xdist."""

    def __init__(self, path: Path, passed: frozenset[str], *, writes: bool) -> None:
        """`writes`: whether this process hears of all tests."""
        self._path, self._passed, self._writes = path, passed, writes
        self._called: set[str] = set()

    def pytest_report_header(self) -> str:
        return f"resume: {len(self._passed):,} tests have passed before, of {self._path}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = [item for item in items if item.nodeid in self._passed]
        items[:] = [item for item in items if item.nodeid not in self._passed]
        if done:
            config.hook.pytest_deselected(items=done)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has passed when its fixtures have ended as well."""
        if not self._writes or not report.passed:
            return
        if report.when == "call":
            self._called.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid in self._called:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._passed:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Worker) -> None:
        """A worker that is started later has to collect what the first ones did: it does not read the file."""
        node.workerinput[FORMAT] = sorted(self._passed)


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--resume", type=Path, metavar="FILE", help="leave out what has passed according to this file")


def resume(config: pytest.Config) -> None:
    """Let the run go on, if it is asked for."""
    path: Path | None = config.getoption("resume")
    if path is None:
        return
    from_starter: list[str] | None = getattr(config, "workerinput", {}).get(FORMAT)
    passed = passed_before(path, state_of(path)) if from_starter is None else frozenset(from_starter)
    config.pluginmanager.register(Resumed(path, passed, writes=from_starter is None), "resumed")
