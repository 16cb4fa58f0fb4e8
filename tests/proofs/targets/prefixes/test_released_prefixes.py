"""The released packages: nightly, as they are downloaded; what cannot be parsed or is not there is said at once."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from cacheproof import command
from cacheproof.foundation.errors import InputError
from cacheproof.targets import families
from cacheproof.targets.families import family_of
from cacheproof.targets.prefixes.package import PrefixFamily

FAMILIES = [family for family in families.families() if isinstance(family, PrefixFamily)]
each = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.package)

DRIVEN = {
    "sglang": {
        "sglang.srt.mem_cache.radix_cache",
        "sglang.srt.mem_cache.allocator",
        "sglang.srt.mem_cache.base_prefix_cache",
        "sglang.srt.mem_cache.cache_init_params",
        "sglang.srt.mem_cache.rust_tree_core.mem_cache",
    },
    "transformers": {
        "transformers.generation.continuous_batching.cache",
        "transformers.generation.continuous_batching.cache_allocators.cache_allocator",
        "transformers.generation.continuous_batching.cache_allocators.cache_pool",
        "transformers.generation.continuous_batching.cache_allocators.full_attention",
        "transformers.generation.continuous_batching.continuous_api",
        "transformers.generation.continuous_batching.offloading_manager",
        "transformers.generation.continuous_batching.requests",
        "transformers.generation.continuous_batching.scheduler",
    },
}
COMPONENTS = {"sglang": {"radix": "", "radix_rust": ""}, "transformers": {"paged": "", "fifo": "", "prefill_first": ""}}


@each
@pytest.mark.parametrize("version", ["", "soon", "0.5.23;", "../0.5"])
def test_what_is_no_release_is_refused(family: PrefixFamily, version: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{family.package}=={version}"
    for verb in (["target", "add", name], ["target", "remove", name], ["conform", name]):
        with pytest.raises(SystemExit) as ended:
            command.main([*verb, "--json"])
        assert ended.value.code == 2
        assert f"write it as in {family.example}" in json.loads(capsys.readouterr().out)["error"]


@each
def test_one_that_is_not_installed_says_how_to_get_it(
    family: PrefixFamily, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CACHEPROOF_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=f"cacheproof target add {family.example}"):
        family.parsed(family.example).command()
    refused = {
        ("conform", family.example, "--component", "lru"): "held to what it shows of kv_blocks, and not to lru",
        ("conform", family.example, "vllm==0.33.0"): "ask for them one by one",
        ("conform", family.example): f"cacheproof target add {family.example}",
        ("target", "remove", family.example): "is not installed",
    }
    for verb, reason in refused.items():
        with pytest.raises(SystemExit) as ended:
            command.main([*verb, "--json"])
        assert ended.value.code == 2
        assert reason in json.loads(capsys.readouterr().out)["error"]


def test_a_package_that_is_not_driven_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        InputError, match=re.escape(" or ".join(["vllm==0.33.0", *(family.example for family in FAMILIES)]))
    ):
        family_of("llama==1.0")
    with pytest.raises(SystemExit):
        command.main(["target", "add", "llama==1.0", "--json"])
    assert "'llama==1.0' is not a release" in json.loads(capsys.readouterr().out)["error"]


def lists(family: PrefixFamily) -> dict[str, dict[str, object]]:
    """The lists of the driver, without running it: their keys, and the reasons as they are written."""
    found = {}
    for node in ast.parse((family.child / "declared.py").read_text()).body:
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


@each
def test_nothing_that_is_driven_is_stood_for(family: PrefixFamily) -> None:
    for name in DRIVEN[family.package]:
        assert not any(name == entry or name.startswith(f"{entry}.") for entry in lists(family)["MODULES"])
        assert name not in lists(family)["PACKAGES"]


@each
def test_every_answer_is_of_a_module_that_is_not_there(family: PrefixFamily) -> None:
    assert lists(family)["ANSWERS"]
    for answered in lists(family)["ANSWERS"]:
        assert any(answered.startswith(f"{entry}.") for entry in lists(family)["MODULES"])


KNOWN = {
    ("transformers", "cancellations"): "SCH-8",
    ("transformers", "several outputs"): "SCH-1",
    ("transformers", "ample, outputs end with a block"): "KV-7/longest",
    ("transformers", "a step ahead, ample"): "KV-7/longest",
    ("transformers", "a step ahead, cancellations"): "KV-8/answered",
}
"""What is found in these releases; docs/released_packages.md says what it is."""


@pytest.mark.nightly
@each
def test_the_release_is_added_and_held(family: PrefixFamily, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["conform", family.example, "--install", "--steps", "20000", "--seed", "3", "--json"])
    said = json.loads(capsys.readouterr().out)
    expected = [
        (driven, name)
        for driven in COMPONENTS[family.package]
        for name in family.served.get(driven, family.configurations)
    ]
    assert [(one["driven"], one["configuration"]) for one in said["results"]] == expected
    found = {(one["driven"], one["configuration"]): one["found"] and one["found"]["rule"] for one in said["results"]}
    assert found == {(driven, name): KNOWN.get((family.package, name)) for driven, name in expected}
    assert ended.value.code == (1 if any(found.values()) else 0)
    walked = [one for one in said["results"] if one["driven"] not in family.served]
    each_steps = -(-20_000 // len(family.configurations))
    assert all(one["steps"] == each_steps and one["beside"] > 100 for one in walked)
    assert {one["configuration"] for one in walked if one["evictions"]} == {
        name for name in family.configurations if "scarce" in name
    }
    with pytest.raises(SystemExit):
        command.main(["target", "list", "--json"])
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)["targets"]}
    assert "triton" not in listed[family.example]["stand_ins"], "nothing that is driven asks for it"
    assert listed[family.example]["components"] == COMPONENTS[family.package]
    kept = {Path(file).with_suffix("").as_posix().replace("/", ".") for file in files_of(family)}
    assert DRIVEN["transformers"] <= kept or family.package != "transformers"


def files_of(family: PrefixFamily) -> list[str]:
    files: list[str] = family.parsed(family.example).added().record["files"]
    return files
