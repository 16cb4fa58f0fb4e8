"""`cacheproof validate` as a user runs it."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.validate.logs import header_for, log_of, walked

from cacheproof.bench.validate import SMALL, WHOLE, write_log
from cacheproof.command import validate
from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.logs.validate.source import Source
from cacheproof.model.store import load

LRU = {"capacity": 2, "sizes": [1, 1, 1]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[ExitStatus, dict[str, Any]]:
    status = dispatch(["validate", *arguments, "--json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, data


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "pool.ndjson"
    write_log(path, SMALL._replace(lines=400))
    return path


def test_possible(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, data = answered(capsys, str(log))
    assert (status, data["ok"], data["verdict"]) == (ExitStatus.AS_EXPECTED, True, "possible")
    assert data["consumed"] == 400
    assert data["states"] == {"now": 1, "most": 1, "cap": 256}
    assert load("validate", "kv_blocks.normative.pool.ndjson")["verdict"] == "possible"
    log.with_suffix(".gz").write_bytes(gzip.compress(log.read_bytes()))
    assert answered(capsys, str(log.with_suffix(".gz")))[1]["consumed"] == 400
    dispatch(["validate", str(log)])
    assert capsys.readouterr().out.splitlines()[1].startswith("all 400 lines are a run of kv_blocks (normative); ")


def test_the_first_impossible_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = log.read_text().splitlines(keepends=True)
    place = next(number for number in range(200, 400) if '"values":' in lines[number])
    message = json.loads(lines[place])
    message["outcome"]["values"][0] += 1
    message["source"] = "engine.log:17"
    lines[place] = json.dumps(message) + "\n"
    log.write_text("".join(lines))
    status, data = answered(capsys, str(log))
    assert (status, data["verdict"], data["consumed"]) == (ExitStatus.FELL_SHORT, "impossible", place - 1)
    found = data["first_impossible"]
    assert (found["line"], found["source"]) == (place + 1, "engine.log:17")
    assert len(found["before"]) == 4
    (tried,) = found["tried"]
    assert tried["operation"] == message["operation"]
    assert [part["what"] for part in tried["differences"]] == ["values"]
    dispatch(["validate", str(log)])
    said = capsys.readouterr().out
    assert f"line {place + 1:,} cannot have happened" in said
    assert "source: engine.log:17" in said
    assert "values: the specification has" in said


def test_truncated_and_unfinished(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes()[:-300])
    assert dispatch(["validate", str(log)]) is ExitStatus.WRONG_INPUT
    said = capsys.readouterr().err
    assert "truncated after line" in said
    assert len(said.splitlines()) == 1
    status, data = answered(capsys, str(log), "--unfinished")
    assert (status, data["verdict"]) == (ExitStatus.AS_EXPECTED, "possible")
    assert 390 < data["consumed"] < 400
    assert dispatch(["validate", str(log.with_name("nowhere"))]) is ExitStatus.WRONG_INPUT
    assert "nowhere: cannot be read: No such file" in capsys.readouterr().err


def test_past_the_cap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "unknown.ndjson"
    path.write_bytes(log_of(header_for("lru", config=LRU), [{"operation": {"op": "put", "size": 1}}]))
    status, data = answered(capsys, str(path), "--cap", "2")
    assert (status, data["verdict"]) == (ExitStatus.INCONCLUSIVE, "inconclusive")
    assert data["inconclusive"]["line"] == 2
    dispatch(["validate", str(path), "--cap", "2"])
    assert "no answer from line 2 on: more than 2 states are possible" in capsys.readouterr().out


def test_another_variant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log of one release is not one of another."""
    header = header_for("lru", "M2")
    lines = walked(header, 60, 4)
    path = tmp_path / "era.ndjson"
    path.write_bytes(log_of(header, lines))
    assert answered(capsys, str(path))[1]["variant"] == "M2"
    status, data = answered(capsys, str(path), "--variant", "normative")
    assert (status, data["variant"]) == (ExitStatus.FELL_SHORT, "normative")


def test_standard_input(log: Path) -> None:
    call = [sys.executable, "-m", "cacheproof", "validate", "-", "--json"]
    ended = subprocess.run(call, input=log.read_bytes(), capture_output=True, check=False, timeout=60)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["log"] == "standard input"


class Interrupted(io.RawIOBase):
    """Ctrl-C comes when all has been read."""

    def __init__(self, raw: bytes) -> None:
        self.left = io.BytesIO(raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.left.readinto(buffer)
        if count == 0:
            raise KeyboardInterrupt
        return count


def test_ctrl_c_says_how_far_it_came(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = b"".join(log.read_bytes().splitlines(keepends=True)[:301])
    stream: Any = Interrupted(raw)
    monkeypatch.setattr(validate, "open_source", lambda path: Source(str(path), stream, None, 4096).decompress())
    status, data = answered(capsys, str(log))
    assert (status, data["interrupted"]) == (ExitStatus.INCONCLUSIVE, True)
    assert (data["verdict"], data["consumed"]) == ("inconclusive", 300)
    with pytest.raises(InputError):
        load("validate", "kv_blocks.normative.pool.ndjson")


def test_ctrl_c_before_there_is_a_header_is_no_wrong_input(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream: Any = io.BufferedReader(Interrupted(b""))
    monkeypatch.setattr(validate, "open_source", lambda path: Source(str(path), stream, None, 4096))
    report = log.with_suffix(".xml")
    status, data = answered(capsys, str(log), "--junit", str(report))
    assert (status, data["error"]) == (ExitStatus.INCONCLUSIVE, "interrupted: nothing is known yet")
    assert "the run was interrupted" in report.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_a_long_log_of_a_large_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pool of 100,000 blocks: all of it is consumed, a corrupted line far in is the first impossible one."""
    path = tmp_path / "large.ndjson"
    write_log(path, WHOLE._replace(lines=150_000))
    assert answered(capsys, str(path))[1]["consumed"] == 150_000
    whole = path.read_bytes()
    lines = whole.split(b"\n")
    place = next(number for number in range(140_000, 150_000) if b'"values"' in lines[number])
    message = json.loads(lines[place])
    message["outcome"]["values"][-1] ^= 1
    lines[place] = json.dumps(message).encode()
    path.write_bytes(b"\n".join(lines))
    status, data = answered(capsys, str(path))
    assert (status, data["first_impossible"]["line"]) == (ExitStatus.FELL_SHORT, place + 1)
    assert len(capsys.readouterr().out) < 100_000
    path.write_bytes(whole[:-70])
    assert dispatch(["validate", str(path)]) is ExitStatus.WRONG_INPUT
    assert "truncated after line 150,001" in capsys.readouterr().err
