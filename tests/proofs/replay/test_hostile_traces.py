"""Traces that ask for too much: one line says what is wrong and where, within two gigabytes of memory."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GIGABYTE = 1 << 30
UNDER_A_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from cacheproof.command import main
main(sys.argv[2:])
"""


def replayed(folder: Path, trace: Path, *options: str) -> subprocess.CompletedProcess[str]:
    given = ("--component", "kv_blocks", "--capacity", "10", *options)
    call = [sys.executable, "-c", UNDER_A_LIMIT, str(2 * GIGABYTE), "replay", str(trace), *given]
    environment = {**os.environ, "CACHEPROOF_HOME": str(folder / "home")}
    return subprocess.run(call, env=environment, capture_output=True, text=True, check=False, timeout=250)


def mooncake(folder: Path, **fields: object) -> Path:
    request = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [0], **fields}
    trace = folder / "mooncake.jsonl"
    trace.write_text(json.dumps(request) + "\n")
    return trace


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"output_length": 10**12}, "line 1: the field 'output_length' must be at most 100,000,000 tokens"),
        ({"input_length": 10**12}, "line 1: the field 'input_length' must be at most 100,000,000 tokens"),
        ({"timestamp": 10**400}, "line 1: the field 'timestamp' must be an integer from -2^53 to 2^53"),
        ({"timestamp": float("inf")}, "line 1: the field 'timestamp' must be an integer"),
    ],
)
def test_a_number_that_no_request_has(tmp_path: Path, fields: dict[str, object], complaint: str) -> None:
    ended = replayed(tmp_path, mooncake(tmp_path, **fields))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert complaint in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_capacity_that_no_machine_has(tmp_path: Path) -> None:
    ended = replayed(tmp_path, mooncake(tmp_path), "--capacity", "9" * 20)
    assert ended.returncode == 2
    assert "the capacity is an integer from 1 to 999999999999" in ended.stderr
    ended = replayed(tmp_path, mooncake(tmp_path), "--capacity", "9" * 12)
    assert ended.returncode == 3
    assert "takes more memory than" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_compressed_line_of_gigabytes(tmp_path: Path) -> None:
    trace = tmp_path / "mooncake.jsonl.gz"
    with gzip.open(trace, "wb", compresslevel=1) as file:
        file.write(b'{"timestamp": 0, "input_length": 1, "hash_ids": [')
        for _ in range(3 * 1024):
            file.write(b" " * (1 << 20))
    ended = replayed(tmp_path, trace)
    assert ended.returncode == 2
    assert "line 1: longer than 16,777,216 bytes" in ended.stderr


def test_many_long_requests(tmp_path: Path) -> None:
    trace = tmp_path / "mooncake.jsonl"
    line = mooncake(tmp_path, output_length=10**8).read_text()
    trace.write_text(line * 2000)
    ended = replayed(tmp_path, trace, "--memory", "512")
    assert ended.returncode == 3
    assert "takes more memory than 512 megabytes" in ended.stderr
    assert "Traceback" not in ended.stderr
