"""Whatever is wrong with a call or its input is one clear line, status 2, and nothing half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cacheproof import command
from cacheproof.model.registry import PATH_VARIABLE
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.replay import shipped


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("check no-such", "unknown component 'no-such': there are"),
        ("check lru --variant E9", "no variant 'E9'"),
        ("check lru --scope no-such", "no-such"),
        ("check lru --engine no-such", "no-such"),
        ("check --set no-such", "there is no set 'no-such'"),
        ("list no-such", "unknown component"),
        ("explain NO-1", "nothing is called 'NO-1'"),
        ("explain three-keys", "'three-keys': there are properties, eras and entries of the catalogue"),
        ("fuzz lru --target spec:M2 --steps 20 --write /dev/null/here", "/dev/null/here: cannot be written"),
        ("show no-such", "no-such"),
        ("fuzz no-such --target spec:normative", "unknown component"),
        ("fuzz lru --target no-such", "unknown target 'no-such'"),
        ("fuzz lru --target spec:E9", "no variant 'E9'"),
        ("fuzz lru --target spec:normative --steps 0", "--steps"),
        ("fuzz lru --target spec:normative --steps many", "--steps"),
        ("fuzz lru --target spec:normative --config capacity=0", "capacity"),
        ("fuzz lru --target spec:normative --config sizes=-1", "sizes"),
        ("fuzz lru --target spec:normative --config capacity=two", "capacity"),
        ("fuzz lru --target python:no_such_module:factory", "no_such_module"),
        ("fuzz lru", "--target"),
        ("check lru --split 257", "--split"),
        ("check lru --jobs 99999999", "--jobs"),
        ("bench lru --plot no-such/curves.svg", "--plot no-such/curves.svg: there is no folder no-such"),
        ("mutants lru --survivors no-such", "no-such: cannot be read: No such file or directory"),
        ("conform vllm==0.33.0 --show -1", "--show"),
        ("conform vllm==0.33.0 --show 1 --violations 0", "--show shows violations, and --violations 0 looks for none"),
        ("conform sglang==0.5.23 --readers-apart --show 1", "--show, --readers-apart: for releases that are compared"),
        (
            "consume configuration --target spec:normative --deviation C-NO-1",
            "--deviation C-NO-1: neither the",
        ),
        ("fill configuration --check --output no-such", "no-such: there is no such folder"),
        ("fill configuration --output /dev/null/here", "/dev/null/here: cannot be written"),
        ("fill configuration --output new --variant E9", "no variant 'E9'"),
        ("prove no-such", "no-such"),
        ("target add vllm", "vllm"),
        ("target nothing", "nothing"),
    ],
)
def test_a_wrong_call(capsys: pytest.CaptureFixture[str], tmp_path: Path, call: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(call.split())
    captured = capsys.readouterr()
    *before, last = captured.err.splitlines()
    assert (ended.value.code, captured.out) == (2, ""), captured.err
    assert said in last
    assert all(line.startswith("seed ") for line in before)
    assert not (tmp_path / "home" / "runs").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("toy.py", "COMPONENT = 1 / 0", "toy.py cannot be imported: division by zero"),
        ("toy.py", "COMPONENT =", "toy.py cannot be imported"),
    ],
)
def test_a_component_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: str,
    said: str,
) -> None:
    (tmp_path / name).write_text(content)
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        command.main(["list"])
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out, captured.err.count("\n")) == (2, "", 1)
    assert said in captured.err


def test_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, "no-such-folder")
    with pytest.raises(SystemExit) as ended:
        command.main(["check"])
    assert ended.value.code == 2
    assert "CACHEPROOF_PATH names no-such-folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "status", "verdict"),
    [
        ("check lru --scope three-keys --variant normative --jobs 1", 0, "hold"),
        ("fuzz lru --target spec:M2 --steps 2000 --driver lockstep --seed 1", 1, "difference"),
        ("replay --shipped", 0, "as expected"),
    ],
)
def test_a_verdict_is_not_lost_with_its_record(
    verb: str,
    status: int,
    verdict: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "file"))
    first = shipped.listed()[:1]
    monkeypatch.setattr(shipped, "listed", lambda: first)
    with pytest.raises(SystemExit) as ended:
        command.main(verb.split())
    captured = capsys.readouterr()
    assert ended.value.code == status
    assert verdict in captured.out
    assert captured.err.count("cannot be written") == 1
    assert "Traceback" not in captured.err


DEEP = b'{"a":' * 100_000
EVENTS = b'{"format": "cacheproof-recorded-events", "version": "0.1"'
FILES = [
    ("book --check page.md", "page.md", b"# A page \xff", "page.md: not UTF-8 at byte 9"),
    (
        "target add vllm@vllm-0.33.0-py3-none-any.whl",
        "vllm-0.33.0-py3-none-any.whl",
        b"PK",
        "is no wheel: it is damaged",
    ),
    ("record recordings", "recordings/a.1.0.events", b"\xff\n", "a.1.0.events:1: not an event"),
    ("record recordings", "recordings/a.1.0.events", DEEP + b"\n", "a.1.0.events:1: not an event: nested too deep"),
    ("record recordings", "recordings/a.1.0.events", EVENTS + b'}\n{"op": "get"}\n', "there are no logs of None"),
    (
        "record recordings",
        "recordings/a.1.0.events",
        EVENTS + b', "component": "encoder_cache"}\n{"op": "get"}\n',
        "a.1.0.events: not the events of a manager: KeyError: 'capacity'",
    ),
    ("status", "home/runs/check/a.json", DEEP, "a.json: not a run that was kept here (nested too deep)"),
    ("show kept.json", "kept.json", DEEP, "kept.json: not a trace: nested too deep"),
    ("fuzz lru --target spec:normative --config sizes=" + "[" * 100_000, "a", b"", "the value must be an integer"),
]


@pytest.mark.parametrize(("call", "name", "content", "said"), FILES, ids=[said for *_, said in FILES])
def test_a_file_that_is_hostile(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, call: str, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        command.main(call.split())
    written = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in written
    assert written.count("\n") == 1
