"""The released package: nightly, as it is downloaded; what cannot be parsed or is not there is said at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproof import command
from cacheproof.errors import InputError
from cacheproof.targets.sglang.conformance import CONFIGURATIONS
from cacheproof.targets.sglang.release import START, Package
from cacheproof.targets.vllm.release import START as START_OF_VLLM


@pytest.mark.parametrize("name", ["sglang==", "sglang==soon", "sglang==0.5.23;", "sglang==../0.5"])
def test_what_is_no_release_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["target", "add", name], ["target", "remove", name], ["conform", name]):
        with pytest.raises(SystemExit) as ended:
            command.main([*verb, "--json"])
        assert ended.value.code == 2
        assert "write it as in sglang==0.5.23" in json.loads(capsys.readouterr().out)["error"]


def test_one_that_is_not_installed_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEPROOF_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"cacheproof target add sglang==0\.5\.23"):
        Package("0.5.23").command()
    with pytest.raises(SystemExit) as ended:
        command.main(["conform", "sglang==0.5.23", "--component", "lru", "--json"])
    assert ended.value.code == 2
    assert "held to what it shows of kv_blocks" in json.loads(capsys.readouterr().out)["error"]


def test_the_lists_of_stand_ins_are_those_of_this_package(tmp_path: Path) -> None:
    """Without the release: the script begins, and says what it cannot import."""
    pytest.importorskip("torch")
    pytest.importorskip("cachetools", reason="the environment of the releases has it")
    call = [sys.executable, str(START), str(START_OF_VLLM.parent), str(tmp_path), "0.5.23", "--probe"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "ModuleNotFoundError" in json.loads(ended.stdout)["components"]["radix"]


@pytest.mark.nightly
def test_the_release_is_added_and_held(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["conform", "sglang==0.5.23", "--install", "--steps", "20000", "--seed", "3", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0, said
    assert [(one["tree"], one["configuration"]) for one in said["results"]] == [
        (tree, name) for tree in ("radix", "radix_rust") for name in CONFIGURATIONS
    ]
    assert all(one["steps"] == 4_000 and one["beside"] > 100 for one in said["results"])
    assert {one["configuration"] for one in said["results"] if one["evictions"]} == {
        name for name in CONFIGURATIONS if "scarce" in name
    }
    with pytest.raises(SystemExit):
        command.main(["target", "list", "--json"])
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)["targets"]}
    assert "triton" not in listed["sglang==0.5.23"]["stand_ins"], "nothing that is driven asks for it"
    assert listed["sglang==0.5.23"]["components"] == {"radix": "", "radix_rust": ""}
