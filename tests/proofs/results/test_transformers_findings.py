"""The scripts about Transformers: they need nothing of ours, the page leads to them, and each shows its finding."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproof.targets.transformers.family import FAMILY

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "docs/findings").glob("transformers_*.py"))
RELEASE = FAMILY.example
MAY_IMPORT = {"transformers", "torch"}
HOW_MANY = 4


def test_the_scripts_are_there() -> None:
    assert len(SCRIPTS) == HOW_MANY


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.stem))
def test_the_page_leads_to_the_script(script: Path) -> None:
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert page.count(f"(findings/{script.name})") == len(["in the table", "in its part"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.stem))
def test_a_script_needs_nothing_of_ours_and_names_the_release(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert "transformers" in imported
    assert imported - set(sys.stdlib_module_names) <= MAY_IMPORT
    assert text.startswith(f'"""{RELEASE}: ')


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release in a folder of its own; torch is this environment's."""
    folder = tmp_path_factory.mktemp("transformers")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder), RELEASE], check=True)
    return folder


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.stem))
def test_the_script_shows_its_finding(installed: Path, script: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300, env=environment
    )
    assert (ended.returncode, ended.stdout.splitlines()[-1].partition(":")[0]) == (1, "VIOLATED"), ended.stderr
