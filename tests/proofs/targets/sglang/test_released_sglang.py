"""The released package: nightly, as it is downloaded; what cannot be parsed or is not there is said at once."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from cacheproof import command
from cacheproof.errors import InputError
from cacheproof.targets.sglang.conformance import CONFIGURATIONS
from cacheproof.targets.sglang.release import START, Package


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


def lists() -> dict[str, dict[str, object]]:
    """The lists of the script, without running it: their keys, and the reasons as they are written."""
    found = {}
    for node in ast.parse(START.read_text()).body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        if (
            isinstance(target, ast.Name)
            and isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Dict)
        ):
            keys = [ast.literal_eval(key) for key in node.value.keys if key is not None]
            found[target.id] = dict(zip(keys, node.value.values, strict=True))
    return found


def test_nothing_that_is_driven_is_stood_for() -> None:
    driven = ("radix_cache", "allocator", "base_prefix_cache", "cache_init_params", "rust_tree_core.mem_cache")
    for module in driven:
        name = f"sglang.srt.mem_cache.{module}"
        assert not any(name == entry or name.startswith(f"{entry}.") for entry in lists()["MODULES"])
        assert name not in lists()["PACKAGES"]


def test_every_answer_is_of_a_module_that_is_not_there() -> None:
    assert lists()["ANSWERS"]
    for answered in lists()["ANSWERS"]:
        assert any(answered.startswith(f"{entry}.") for entry in lists()["MODULES"])


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
