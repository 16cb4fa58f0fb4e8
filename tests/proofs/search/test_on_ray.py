"""Real clusters of Ray: the same is found by several workers, and after one of them is killed. Skipped without Ray."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import ExitStatus

nightly = pytest.mark.nightly
with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install '.[ray]'")
with_redis = pytest.mark.skipif(find_spec("fakeredis") is None, reason="fakeredis is not installed")
limited = pytest.mark.timeout(900)

SCOPE = ["mirror", "--variant", "normative", "--scope", "two-senders-pipelined", "--engine", "native"]
"""582,336 states."""
KEYS = ("states", "transitions", "depth", "digest", "ending", "status")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "CACHEPROOF_HOME": str(tmp_path / "home")}


@contextmanager
def begun(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A verb in a session of its own, so that a signal can go to all of its processes."""
    command = [sys.executable, "-m", "cacheproof", *arguments, "--json"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def data(process: subprocess.Popen[str]) -> Any:
    """What it prints: one JSON object and nothing else."""
    output, errors = process.communicate()
    assert output, errors
    return json.loads(output)


def ended(environment: dict[str, str], *arguments: str) -> Any:
    with begun(environment, *arguments) as process:
        return data(process)


def seen(report: Any) -> list[Any]:
    (run,) = report["runs"]
    verdicts = [(verdict["property"], verdict["found"], verdict["trace_length"]) for verdict in run["verdicts"]]
    return [*(run[key] for key in KEYS), verdicts, run["coverage"], sorted(run["witnessed"])]


def until(line: str, process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for told in process.stderr:
        if re.search(line, told):
            return
    raise AssertionError(f"it ended without a line '{line}'")


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes of its session that are actors."""
    return [int(line.split()[0]) for line in session_of(process) if "ray::Worker" in line]


def session_of(process: subprocess.Popen[str]) -> list[str]:
    """The processes that it started, and itself: number and arguments."""
    command = ["ps", "-s", str(process.pid), "-o", "pid=,args="]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.fixture(scope="module")
def alone() -> list[Any]:
    return seen(ended(dict(os.environ), "check", *SCOPE))


@nightly
@with_ray
@limited
@pytest.mark.parametrize("workers", ["1", "2", "4"])
def test_several_workers_find_what_threads_find(workers: str, environment: dict[str, str], alone: list[Any]) -> None:
    assert seen(ended(environment, "check", *SCOPE, "--on", "ray", "--split", workers)) == alone


@nightly
@with_ray
@limited
def test_a_worker_that_is_killed_costs_time_only(environment: dict[str, str], alone: list[Any]) -> None:
    with begun(environment, "check", *SCOPE, "--on", "ray", "--split", "4") as process:
        until(r"states at depth 1\d", process)
        workers = workers_of(process)
        assert len(workers) == 4
        os.kill(workers[1], signal.SIGKILL)
        until(r"worker \d of 4 was lost .*: another one repeats its part", process)
        assert seen(data(process)) == alone


@nightly
@with_ray
@limited
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_ends_the_cluster_and_what_is_known_is_shown(
    number: signal.Signals, send: Any, environment: dict[str, str]
) -> None:
    with begun(environment, "check", *SCOPE, "--on", "ray", "--split", "2") as process:
        until(r"states at depth 1\d", process)
        send(process.pid, number)
        (run,) = data(process)["runs"]
        assert process.wait() == ExitStatus.INCONCLUSIVE
        assert run["ending"] == "interrupted"
        assert run["states"] > 1_000
        time.sleep(2)
        assert session_of(process) == [], "nothing of the cluster is left"


@nightly
@with_ray
@limited
def test_a_limit_and_the_reference_engine(environment: dict[str, str]) -> None:
    scope = ["check", "lru", "--variant", "M2", "--scope", "turns", "--engine", "reference"]
    assert seen(ended(environment, *scope, "--on", "ray", "--split", "3")) == seen(ended(environment, *scope))


@nightly
@with_ray
@limited
def test_a_run_of_fuzz_in_parts(environment: dict[str, str]) -> None:
    run = ["fuzz", "lru", "--target", "spec:M2", "--seed", "5", "--on", "ray", "--split", "3"]
    first, again = (ended(environment, *run) for _ in range(2))
    for report in (first, again):
        report.pop("seconds")
    assert first == again
    assert len(first["difference"]["trace"]["steps"]) == 1


@nightly
@with_redis
@limited
def test_examples_in_redis(environment: dict[str, str]) -> None:
    from threading import Thread  # noqa: PLC0415

    from fakeredis import TcpFakeServer  # noqa: PLC0415
    from redis import Redis  # noqa: PLC0415

    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"redis://127.0.0.1:{server.server_address[1]}"
    try:
        run = ["fuzz", "lru", "--target", "spec:M2", "--examples", url]
        first, again = ended(environment, *run), ended(environment, *run)
        assert [key for key in Redis.from_url(url).keys("*") if key.startswith(b"cacheproof-lru-normative-spec_M2")]
        assert first["seed"] != again["seed"]
        assert again["examples"] == 1, "the example that failed before comes first"
    finally:
        server.shutdown()


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_one_line_says_so(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "cacheproof", "check", "lru", "--scope", "pins", "--on", "ray"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == ExitStatus.WRONG_INPUT
    assert found.stderr == "cacheproof: --on ray needs the extra 'ray': pip install 'CHECKOUT_OR_WHEEL[ray]'\n"
