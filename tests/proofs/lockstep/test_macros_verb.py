"""`cacheproof fuzz --macros` as a user has it."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import ran

from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.model.finding_json import finding_from_message

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cacheproof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, with a folder of its own for what it keeps."""
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))

    return partial(ran, capsys)


def test_agreement_says_what_was_seen(cacheproof: Run) -> None:
    status, out, err = cacheproof(
        "fuzz", "kv_blocks", "--target", "torch", "--macros", "--requests", "100", "--steps", "300", "--seed", "3"
    )
    assert status == ExitStatus.AS_EXPECTED
    assert "seed 3" in err
    assert "100 requests, up to 100 calls in one burst" in out
    assert "after every macro: carried, free, references, tables" in out


def test_its_json_is_the_same_for_the_same_seed(cacheproof: Run) -> None:
    def told() -> dict[str, Any]:
        arguments = ("--target", "torch", "--macros", "--blocks", "50", "--steps", "300", "--seed", "4", "--json")
        status, out, _ = cacheproof("fuzz", "kv_blocks", *arguments)
        assert status == ExitStatus.AS_EXPECTED
        return {key: value for key, value in json.loads(out).items() if key != "seconds"}

    first = told()
    assert (first["requests"], first["blocks"], first["driver"], first["difference"]) == (64, 50, "macros", None)
    assert first["steps"] >= 300
    assert first["macros"] > 0
    assert first == told()


def test_the_configuration_of_a_scope(cacheproof: Run) -> None:
    arguments = ("--target", "torch", "--macros", "--scope", "any-call", "--steps", "200", "--seed", "5", "--json")
    status, out, _ = cacheproof("fuzz", "kv_blocks", *arguments)
    told = json.loads(out)
    assert (status, told["scope"], told["requests"]) == (ExitStatus.AS_EXPECTED, "any-call", None)
    assert told["config"]["blocks"] == 3


TARGET = """
from cacheproof.targets.tensor.bursts.kv_blocks import ServingTarget
from cachespec.kernel import ABSENT
from cachespec.kv_blocks import FreeRequest


class Forgetful(ServingTarget):
    def apply(self, operation):
        outcome = super().apply(operation)
        return ABSENT if operation == FreeRequest(1) else outcome


def make(component):
    return Forgetful()
"""


def test_a_difference_is_kept_and_written(cacheproof: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forgetful_pool.py").write_text(TARGET, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    arguments = ("--target", "python:forgetful_pool:make", "--macros", "--requests", "2", "--seed", "6")
    status, out, _ = cacheproof("fuzz", "kv_blocks", *arguments, "--write", str(tmp_path / "found"))
    assert status == ExitStatus.FELL_SHORT
    assert "a difference after" in out
    assert "macros: " in out
    assert "the specification says done, the target absent" in out
    assert "without bursts, call by call, it is there too" in out
    written = sorted(path.name for path in (tmp_path / "found").iterdir())
    assert "test_kv_blocks_normative_python_forgetful_pool_make_macros.py" in written
    assert "test_kv_blocks_normative_python_forgetful_pool_make_macros.json" in written
    assert len(written) == 8
    test = runpy.run_path(str(tmp_path / "found" / "test_kv_blocks_normative_python_forgetful_pool_make_macros.py"))
    with pytest.raises(AssertionError, match="the specification says done, the target absent"):
        test["test_kv_blocks_normative_python_forgetful_pool_make_macros"]()
    kept = "kv_blocks.normative.python_forgetful_pool_make.macros"
    shown, text, _ = cacheproof("show", kept)
    assert shown == ExitStatus.AS_EXPECTED
    assert "free_request(request=1)" in text


def test_what_takes_a_burst_is_not_shown_as_calls(cacheproof: Run) -> None:
    with pytest.raises(InputError, match=r"found in bursts only \(Burst\(65, 0\)\)"):
        finding_from_message({"sort": "difference in macros", "macros": ["Burst(65, 0)"], "without_bursts": None})
    assert cacheproof("show", "kv_blocks.normative.nothing.macros")[0] == ExitStatus.WRONG_INPUT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("lru", "--target", "torch", "--macros"),
            "lru has no macro operations: there are some of kv_blocks, scheduler",
        ),
        (("kv_blocks", "--target", "torch", "--requests", "3"), "--requests and --blocks are for --macros"),
        (("kv_blocks", "--target", "torch", "--macros", "--driver", "lockstep"), "of single calls"),
        (("kv_blocks", "--target", "torch", "--macros", "--without", "commit"), "of single calls"),
        (("kv_blocks", "--target", "torch", "--macros", "--requests", "70000"), "65,536 at the most"),
        (
            ("kv_blocks", "--target", "torch", "--macros", "--requests", "3", "--scope", "any-call"),
            "make a configuration",
        ),
        (("kv_blocks", "--target", "torch:nowhere", "--macros"), "torch cannot use the device 'nowhere'"),
        (("kv_blocks", "--target", "torch:meta", "--macros"), "torch cannot use the device 'meta'"),
        (("engine", "--target", "torch"), "nothing of ours implements it by itself"),
    ],
)
def test_wrong_input_is_one_clear_line(cacheproof: Run, arguments: tuple[str, ...], said: str) -> None:
    status, out, err = cacheproof("fuzz", *arguments)
    assert status == ExitStatus.WRONG_INPUT
    (line,) = [line for line in err.splitlines() if not line.startswith("seed ")]
    assert said in line
    assert out == ""
