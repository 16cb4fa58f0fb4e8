"""A release as a contender: its own classes in a child process, which times itself."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from cacheproof.bench.measure import Released, Work
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.targets.vllm.release import START, Release, needed, needed_environment

RUN = Path(__file__).parent / "child" / "run.py"
WARM_UP = -1


class ReleasedProcesses:
    """The child processes of a release: one for itself, and one for each of our classes in it."""

    def __init__(self, name: str) -> None:
        self.release = Release.parsed(name)
        there, python = needed(self.release), needed_environment().python
        if "kv_blocks" not in there.record["components"] or there.obstacle("kv_blocks"):
            raise InputError(f"{self.release.name} cannot be measured: {there.obstacle('kv_blocks')}")
        ours = importlib.util.find_spec("cacheimpl")
        assert ours is not None
        assert ours.origin is not None
        impl = Path(ours.origin).parents[1]
        self._command = [str(python), "-I", str(RUN), str(START.parent), str(there.source), str(impl)]
        self._processes: dict[str, ReleasedProcess] = {}

    def __call__(self, released: Released) -> ReleasedContender:
        """The work, set up in its process."""
        process = self._processes.get(released.ours)
        if process is None:
            process = self._processes[released.ours] = ReleasedProcess(self.release, self._command)
        return process(released)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.close()


class ReleasedProcess:
    """One child process, which does one work after the other."""

    def __init__(self, release: Release, command: list[str]) -> None:
        self.release = release
        self._shown = shlex.join(command)
        self._process = subprocess.Popen(  # noqa: S603  # our own script, by the environment's own interpreter
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __call__(self, released: Released) -> ReleasedContender:
        """Set up the work."""
        self.ask({"do": "make", "work": released.work, **released.sizes})
        return ReleasedContender(self)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """One message and its answer; raises `InconclusiveError` if the release cannot do the work."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"its process has ended: {self._shown}"}
        if "error" in answer:
            raise InconclusiveError(f"{self.release.name} cannot be measured: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


class ReleasedContender:
    """One work of a release; the process sets up the next work when this one has ended."""

    def __init__(self, process: ReleasedProcess) -> None:
        self._process = process

    def warm_up(self) -> None:
        """Run a turn that is not counted."""
        self.turn(WARM_UP)

    def turn(self, number: int) -> Work:
        """Run the turn; the child times it."""
        answer = self._process.ask({"do": "turn", "number": number})
        return Work(answer["units"], answer["answers"], answer["seconds"])
