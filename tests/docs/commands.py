"""Commands of pages, each in a process of its own that has imported the project already.

A command of a page is an ordinary call of the command line: the same `main`, in a forked process with its own folder,
environment and output. Importing the project again for each of 160 commands takes a minute of the tests.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

PRELOADED = ("cacheproof.command", "cacheproof.model.registry", "cachespec.engine", "rich.table", "msgspec")
"""What is imported once. Nothing of it reads the environment or starts a thread."""


class Ended(NamedTuple):
    """The exit status of a command, and what it printed."""

    status: int
    out: str
    err: str


def ran(words: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float) -> Ended:
    """Run `cacheproof` with these arguments in the folder. Raises TimeoutError after so many seconds."""
    out, err = folder / ".out", folder / ".err"
    asked = {"words": words, "folder": str(folder), "environment": dict(environment), "out": str(out), "err": str(err)}
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(asked) + "\n")
    server.stdin.flush()
    if not select.select([server.stdout], [], [], seconds)[0]:
        _server.cache_clear()
        server.kill()
        raise TimeoutError(f"`cacheproof {' '.join(words)}` takes more than {seconds:g} s")
    ended = Ended(int(server.stdout.readline()), out.read_text(), err.read_text())
    out.unlink()
    err.unlink()
    return ended


@cache
def _server() -> subprocess.Popen[str]:
    """The process that is forked for each command."""
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def serve() -> None:
    """Answer each line of standard input with the status of its command."""
    asked, answers = sys.stdin, sys.stdout
    for name in PRELOADED:
        __import__(name)
    for line in asked:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _become(words: list[str], folder: str, environment: dict[str, str], out: str, err: str) -> NoReturn:
    """The command itself."""
    from cacheproof.command import main  # noqa: PLC0415  # the tests import this module without the command line

    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["cacheproof", *words]
    sys.path[0] = str(Path(sys.executable).parent)
    main()
    raise AssertionError("the command line ends the process")
