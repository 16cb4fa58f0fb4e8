"""The cases on a running engine: what is recorded fits the script and the page, and the script still ends so."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.releases.engine.campaign import surroundings
from cacheproof.releases.engine.installing import BUILDS, installed
from cacheproof.releases.reach import CLASS, MISUSE, RUNNING
from cacheproof.releases.results.record import Violation
from cacheproof.releases.results.running import RunningCase, reach_shown, running_cases

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "docs" / "findings"
ENGINES = {f"vllm=={version}": (version, ()) for version in BUILDS} | {
    "vllm==0.33.0 with cacheimpl": ("0.33.0", ("scheduler_cls=cacheimpl.vllm.Scheduler",))
}


@pytest.mark.parametrize("script", ["running_engine", "running_engine_more"])
def test_the_record_has_the_cases_of_the_script(script: str) -> None:
    table = next(
        node.value
        for node in ast.parse((SCRIPTS / f"{script}.py").read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "CASES"
    )
    names = {node.id for node in ast.walk(table) if isinstance(node, ast.Name)} - {"one"}
    assert names == {case.name for case in running_cases() if case.script == script}


def test_each_case_names_a_script_that_is_there() -> None:
    assert {case.script for case in running_cases()} == {"running_engine", "running_engine_more"}
    assert all((SCRIPTS / f"{case.script}.py").is_file() for case in running_cases())


def test_each_case_has_its_part_of_the_page() -> None:
    page = (ROOT / "docs" / "running_engine.md").read_text()
    for case in running_cases():
        assert f"\n## {case.heading}\n" in page
        assert set(case.ends) <= set(ENGINES)
        for ending in case.ends.values():
            assert ending.prints.startswith("VIOLATED: " if ending.status == 1 else "NOT SHOWN: ")


def test_a_case_that_was_seen_raises_the_reach() -> None:
    """Of that release, for that entry, and not for misuse."""

    def violation(target: str, entry: str, reach: str) -> Violation:
        return cast(Violation, SimpleNamespace(target=target, catalogue=[entry], reach=reach))

    assert reach_shown(violation("vllm==0.33.0", "C-KV-6", CLASS)) == RUNNING
    assert reach_shown(violation("vllm==0.33.0", "C-KV-6", MISUSE)) == MISUSE
    assert reach_shown(violation("vllm==0.7.3", "C-KV-6", CLASS)) == CLASS
    assert reach_shown(violation("vllm==0.33.0", "C-SCH-9", CLASS)) == CLASS


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "case"),
        ("[[case]]\nname = 'a'", "heading"),
        (
            "[[case]]\nname='a'\nheading='A'\neffect='e'\nends={}\ncatalogue=['C-KV-999']",
            "the catalogue has no C-KV-999",
        ),
        ("[[case", "running.toml"),
    ],
)
def test_a_wrong_record_is_refused(text: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "running.toml").write_text(text)
    with pytest.raises(InputError, match=wrong):
        running_cases(tmp_path / "running.toml")


def recorded() -> list[Any]:
    """Every case on every engine on which it was run."""
    return [pytest.param(case, name, id=f"{case.name}-{name}") for case in running_cases() for name in case.ends]


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("case", "name"), recorded())
def test_the_script_ends_as_recorded(case: RunningCase, name: str, tmp_path: Path) -> None:
    version, options = ENGINES[name]
    engine = installed(version)
    if engine is None:
        pytest.skip(f"there is no whole engine: cacheproof target add vllm=={version} --engine")
    models = engine.folder / "models"
    command = [str(engine.python), "-B", str(SCRIPTS / f"{case.script}.py"), case.name, str(models), *options]
    environment = {**surroundings(engine), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=300
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(("VIOLATED", "NOT SHOWN"))]
    assert (ended.returncode, lines) == (case.ends[name].status, [case.ends[name].prints]), ended.stderr[-2000:]
