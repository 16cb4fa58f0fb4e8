"""The drivers of docs/drivers: compiled where the toolchain is there, skipped with the reason where it is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof.model.protocol import RefusedError, decode
from cacheproof.model.registry import component_named
from cacheproof.model.store import HOME_VARIABLE
from cacheproof.targets.child import ChildTarget
from cachespec import SPECIFICATION_VERSION

FOLDER = Path(__file__).parents[3] / "docs" / "drivers"
LRU = component_named("lru")
RUNS_TYPESCRIPT = (22, 18)
"""From this version on Node runs TypeScript as it is."""
TYPESCRIPT = "typescript@5.9.3"
"""What npx fetches into the user's cache where neither is there."""
SECONDS_TO_FETCH = 30

Json = Callable[..., dict[str, Any]]


def needed(program: str) -> str:
    """The program, or the reason for a skip."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed here: the driver is not compiled")
    return found


def compiled(arguments: list[str]) -> None:
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=240)
    assert ended.returncode == 0, ended.stderr


@cache
def typescript() -> tuple[list[str], str]:
    """The command of the compiler, installed or fetched; or why there is none, which is no failure."""
    if shutil.which("tsc") is not None:
        return [needed("tsc")], ""
    npx = shutil.which("npx")
    if npx is None:
        return [], "npx is not there to fetch it"
    fetched = [npx, "--yes", "--prefer-offline", "--package", TYPESCRIPT, "tsc"]
    patience = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "10000"}
    call = [*fetched, "--version"]
    try:
        subprocess.run(call, env={**os.environ, **patience}, capture_output=True, check=True, timeout=SECONDS_TO_FETCH)
    except subprocess.TimeoutExpired:
        return [], f"npx did not fetch {TYPESCRIPT} within {SECONDS_TO_FETCH} seconds"
    except (OSError, subprocess.CalledProcessError) as error:
        return [], f"npx could not fetch {TYPESCRIPT}: {error}"
    return fetched, ""


@cache
def built(language: str, folder: Path) -> str:
    """The command of the driver."""
    if language == "cpp":
        compiler = needed("g++")
        warnings = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
        compiled([compiler, *warnings, "-o", str(folder / "lru_cpp"), str(FOLDER / "lru.cpp")])
        return str(folder / "lru_cpp")
    if language == "go":
        compiler = needed("go")
        compiled([compiler, "build", "-o", str(folder / "lru_go"), str(FOLDER / "lru.go")])
        return str(folder / "lru_go")
    if language == "rs":
        compiler = needed("rustc")
        # rustup puts a `rustc` on the path before it has a toolchain.
        if subprocess.run([compiler, "--version"], capture_output=True, check=False).returncode != 0:
            pytest.skip("rustc has no toolchain here: the driver is not compiled")
        compiled([compiler, "-D", "warnings", "-o", str(folder / "lru_rs"), str(FOLDER / "lru.rs")])
        return str(folder / "lru_rs")
    node = needed("node")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if version >= RUNS_TYPESCRIPT and shutil.which("tsc") is None:
        return f"{node} {FOLDER / 'lru.ts'}"
    translator, why = typescript()
    if not translator:
        pytest.skip(f"node {said.strip()} does not run TypeScript, tsc is not installed here, and {why}")
    compiled([*translator, "--strict", "--target", "es2022", "--outDir", str(folder), str(FOLDER / "lru.ts")])
    return f"{node} {folder / 'lru.js'}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("drivers")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Json:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))

    def run(*arguments: str, status: int) -> dict[str, Any]:
        ended = ran(capsys, *arguments, "--json")
        assert ended.status == status, ended.err
        data: dict[str, Any] = ended.json
        return data

    return run


LANGUAGES = pytest.mark.parametrize("language", ["cpp", "go", "rs", "ts"])


@LANGUAGES
def test_a_driver_is_short(language: str) -> None:
    assert len((FOLDER / f"lru.{language}").read_text(encoding="utf-8").splitlines()) <= 200


@LANGUAGES
def test_a_driver_agrees(language: str, folder: Path, call: Json) -> None:
    target = f"exec:{built(language, folder)}"
    fuzzed = call("fuzz", "lru", "--target", target, "--steps", "300", "--seed", "3", "--driver", "lockstep", status=0)
    assert fuzzed["steps"] == 300
    assert "pin" not in fuzzed["operations"]
    assert fuzzed["observables"] == ["hits", "order", "sizes", "total", "used"]
    assert call("consume", "lru", "--target", target, status=3)["partial"].startswith("54 of 141 cases ran")
    consumed = call("consume", "lru", "--target", target, "--skip", "lru/operation/pin", status=0)
    assert consumed["cases"]["passed"] > 30
    assert consumed["features"]["lru/operation/pin"].keys() == {"skipped"}
    assert consumed["implementation"] == f"docs/drivers/lru.{language}"


def test_without_a_compiler_for_typescript_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a registry that does not answer nor a missing npx is a failure."""
    npx = tmp_path / "npx"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typescript.__wrapped__() == ([], "npx is not there to fetch it")
    for does, said in (("exit 7", "could not fetch"), ("exec /bin/sleep 30", "did not fetch")):
        npx.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        npx.chmod(0o755)
        monkeypatch.setattr(f"{__name__}.SECONDS_TO_FETCH", 1)
        compiler, why = typescript.__wrapped__()
        assert compiler == []
        assert said in why


def test_the_planted_bug_is_found_by_both(folder: Path, call: Json) -> None:
    target = f"exec:{built('cpp', folder)} --planted-bug"
    fuzzed = call("fuzz", "lru", "--target", target, "--steps", "2000", "--seed", "3", "--driver", "lockstep", status=1)
    consumed = call("consume", "lru", "--target", target, status=1)
    for found in (fuzzed, consumed):
        steps = found["difference"]["trace"]["steps"]
        assert [step["operation"]["op"] for step in steps][-1] in ("touch", "get", "lookup")
        assert len(steps) == 3


@LANGUAGES
def test_a_driver_goes_on_after_a_line_that_is_none(language: str, folder: Path) -> None:
    """Each answers every line, with what is a message of the protocol, and keeps its state."""
    lines = [
        b'{"do":"init","component":"lru","capacity":2,"sizes":[1,1]}',
        b'{"do":"apply","op":"put","key":0,"size":1}',
        *(b"", b"{", b"[", b"\xff", b"{}", b'{"do":1}', b'{"do":"apply"}', b'{"do":"apply","op":"put","key":0}'),
        *(
            b'{"do":"apply","op":"put","key":99999999999999999999,"size":1}',
            b'{"a":' + b"[" * 5000,
            b'{"do":"obs',
            b"{" * 5000,
        ),
        b'{"do":"observe"}',
    ]
    ended = subprocess.run(
        built(language, folder).split(),
        input=b"".join(line + b"\n" for line in lines) + b'{"do":"bye"}\n',
        capture_output=True,
        check=True,
        timeout=60,
    )
    answers = [decode(line) for line in ended.stdout.splitlines()]
    assert len(answers) >= len(lines)
    assert answers[len(lines) - 1] == {"answer": "state", "order": [0], "sizes": [1], "used": 1, "hits": 0, "total": 0}
    assert {answer["answer"] for answer in answers[2:-2]} <= {"error", "state"}


@LANGUAGES
def test_a_driver_says_which_specification_it_was_written_for(language: str, folder: Path) -> None:
    target = ChildTarget(built(language, folder), LRU, LRU.normative)
    assert target.declaration().spec == SPECIFICATION_VERSION
    target.close()


def test_lines_that_are_none_are_really_none() -> None:
    for line in (b"{", b'{"do":"obs', b'{"a":' + b"[" * 5000):
        with pytest.raises(RefusedError):
            decode(line)
