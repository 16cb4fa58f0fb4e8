"""The scripts of the findings need a release and nothing of ours; and what each is said to show is seen on it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from cacheproof.results.scripts.performing import NOT_SHOWN, VIOLATED, performed
from cacheproof.targets.vllm.release import Release, add

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "docs/findings").glob("*.py"))
SEEN = {
    "output_without_a_place.py": "0.11.0",
    "padded_beyond_the_threshold.py": "0.33.0",
    "put_back_in_reverse.py": "0.11.0",
}
"""On which release each of them is."""


def test_each_script_is_told_of() -> None:
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert {script.name for script in SCRIPTS} == set(SEEN)
    assert all(f"(findings/{name})" in page for name in SEEN)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_needs_nothing_of_ours(script: Path) -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert "vllm" in imported
    assert imported - set(sys.stdlib_module_names) <= {"vllm", "torch"}


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", ["0.11.0", "0.20.2", "0.33.0"])
def test_a_finding_is_seen_on_its_release_and_on_no_other(version: str) -> None:
    add(Release(version), progress=print)
    ended = performed(f"vllm=={version}", SCRIPTS)
    assert {script.name: one.status for script, one in ended.items()} == {
        name: VIOLATED if version == seen else NOT_SHOWN for name, seen in SEEN.items()
    }
