"""SIGTERM ends every long verb as Ctrl-C does: it prints what is known, and the status is 3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LONG = {
    "fuzz": ("lru", "--target", "spec:normative", "--driver", "lockstep", "--seconds", "500"),
    "stalls": ("spec:normative", "--seconds", "500"),
    "explore": ("lru", "ring", "--configurations", "5000", "--jobs", "2"),
    "catalogue": ("--everywhere", "--jobs", "1"),
    "prove": ("ring", "--jobs", "2"),
    "mutants": ("lru", "--jobs", "2"),
    "detection": ("lru", "--jobs", "2"),
    "replay": ("--shipped",),
}
COMMAND = """
from cacheproof.command import main
from cacheproof.foundation import console
console.SECONDS_BETWEEN_LINES = 0.2
main()
"""
"""The command line, with progress from the beginning: otherwise each verb works for five seconds first."""


@pytest.mark.parametrize("verb", LONG)
def test_sigterm_prints_what_is_known(verb: str, tmp_path: Path) -> None:
    call = [sys.executable, "-c", COMMAND, verb, *LONG[verb], "--json"]
    environment = {**os.environ, "CACHEPROOF_HOME": str(tmp_path)}
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = "seed"
        while line.startswith("seed") or line.endswith(": translating\n"):  # the verb does not work yet
            line = process.stderr.readline()
        assert line, "it ended by itself"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 3, (out, err)
    assert json.loads(out)["interrupted"] is True
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", ["check", "catalogue"])
def test_an_interruption_before_there_is_a_result_has_the_same_key(verb: str) -> None:
    """While the specification is translated, nothing is known yet."""
    call = [sys.executable, "-c", COMMAND, verb, "--json"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().endswith(": translating\n")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 3, (out, err)
    assert json.loads(out) == {"ok": False, "error": "interrupted: nothing is known yet", "interrupted": True}


SWALLOWING = """
import weakref
from cacheproof.command import main
import cacheproof.command.list as verb

class Object: pass

def callback(_):
    for _ in range(1_000): pass

def command() -> None:
    print("begun", flush=True)
    while True:
        own = Object()
        reference = weakref.ref(own, callback)
        del own

verb.command = command
main(["list"])
"""
"""A verb that spends its time in callbacks. Python does the same while it imports modules, a little at a time."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_python_swallows_is_heard(number: signal.Signals) -> None:
    """Python reports what a callback raises, and goes on."""
    call = [sys.executable, "-c", SWALLOWING]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 3, err
    assert err == "cacheproof: interrupted: nothing is known yet\n"


SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*|*-fsyntax-only*) exit 0;; esac
sleep 300 &
echo $! >> {started}
wait
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_compilation_is_interrupted(jobs: str, tmp_path: Path) -> None:
    """The compiler is ended with what it started."""
    compiler, started = tmp_path / "compiler", tmp_path / "started"
    compiler.write_text(SLOW_COMPILER.format(started=started))
    compiler.chmod(0o755)
    call = [sys.executable, "-m", "cacheproof", "check", "lru", "ring", "--variant", "normative", "--engine", "native"]
    environment = {**os.environ, "CXX": str(compiler), "CACHEPROOF_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(
        [*call, "--jobs", jobs, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            while len(numbers := started.read_text().split() if started.exists() else []) < int(jobs):
                assert process.poll() is None, "it ended by itself"
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 3, (out, err)
    assert json.loads(out)["interrupted"] is True
    assert not any(map(is_running, numbers))


def is_running(number: str) -> bool:
    """Whether a process does something. A killed one is listed until its new parent has looked at it."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False
