"""`cacheproof init`: what it writes runs at once, is held to the specification from then on, and replaces nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its types are another distribution
from tests.command_line import ran

from cacheproof.foundation.errors import ExitStatus
from cacheproof.lockstep.campaign import lockstep
from cacheproof.lockstep.plan import PROFILES
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.present.book.declarations import attribute_docs
from cacheproof.skeleton import gate
from cacheproof.skeleton.calls import calls_of
from cacheproof.skeleton.files import Language, texts
from cacheproof.skeleton.workflow import PATH, workflow
from cacheproof.targets.process import InProcessTarget
from cachespec.kernel import Code

ROOT = Path(__file__).parents[3]
SCOPED = [component for component in components().values() if scope_file(component).is_file()]
SECRETS = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Runs a verb with `--json` in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments: str, status: int = 0) -> dict[str, Any]:
        ended = ran(capsys, *arguments, "--json")
        assert ended.status == status
        data: dict[str, Any] = ended.json
        return data

    yield run
    sys.modules.pop("lru_target", None)


def broken(path: Path, right: str, wrong: str) -> None:
    text = path.read_text()
    assert text.count(right) == 1
    path.write_text(text.replace(right, wrong))


def test_a_skeleton_in_python_runs_and_a_broken_one_is_found(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = call("init", "new", "--component", "lru")
    assert made["files"] == ["new/lru_target.py", "new/test_lru.py", f"new/{PATH}"]
    assert made["next"] == ["cacheproof fuzz lru --target python:lru_target:Target", "python -m pytest test_lru.py"]
    monkeypatch.chdir(tmp_path / "new")
    fuzz = (*made["next"][0].split()[1:], "--driver", "lockstep", "--steps", "1000", "--seed", "1")
    agreed = call(*fuzz)
    assert agreed["steps"] == 1000
    assert agreed["observables"] == ["hits", "order", "sizes", "total", "used"]
    broken(tmp_path / "new/lru_target.py", "return self.yours.apply(Pop(key))", 'return "done"')
    sys.modules.pop("lru_target")
    differing = call(*fuzz, status=1)
    assert differing["difference"] is not None


@pytest.mark.nightly
def test_its_tests_run_in_pytest(call: Call, tmp_path: Path) -> None:
    call("init", "new", "--component", "lru")
    (tmp_path / "new/pytest.ini").write_text("[pytest]\n")
    plugin = ["-p", "cacheproof.pytest_plugin", "-p", "no:cacheproof", "--cacheproof-steps", "50"]

    def ended() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", *plugin, "test_lru.py"]
        return subprocess.run(command, cwd=tmp_path / "new", capture_output=True, text=True, check=False)

    right = ended()
    assert right.returncode == 0, right.stdout
    broken(tmp_path / "new/lru_target.py", "return self.yours.apply(Pop(key))", 'return "done"')
    wrong = ended()
    assert wrong.returncode == 1
    assert "the implementation and the specification differ" in wrong.stdout


def test_a_skeleton_over_lines_runs_and_a_broken_one_is_found(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = call("init", "new", "--component", "lru", "--language", "exec")
    assert made["files"] == ["new/lru_target.py", f"new/{PATH}"]
    target = tmp_path / "new/lru_target.py"
    fuzz = (
        "fuzz",
        "lru",
        "--target",
        f"exec:{sys.executable} {target}",
        "--driver",
        "lockstep",
        "--steps",
        "600",
        "--seed",
        "1",
    )
    assert call(*fuzz)["steps"] == 600
    broken(target, 'return self.yours.call("pop", key=key)', 'return "done", []')
    assert call(*fuzz, status=1)["difference"] is not None


def test_a_script_that_lacks_a_method_is_not_asked_for_it(call: Call, tmp_path: Path) -> None:
    call("init", "new", "--component", "lru", "--language", "exec")
    target = tmp_path / "new/lru_target.py"
    broken(target, "    def pin(self, key):", "    def put_away(self, key):")
    done = call("fuzz", "lru", "--target", f"exec:{sys.executable} {target}", "--steps", "200", "--seed", "1")
    assert "pin" not in done["operations"]
    assert "put" in done["operations"]


def test_vectors_can_be_run_on_it(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("init", "new", "--component", "lru")
    monkeypatch.chdir(tmp_path / "new")
    found = workflow(component_named("lru"), in_python=True)
    (line,) = [line.strip() for line in found.splitlines() if "cacheproof consume" in line]
    words = line.removeprefix("run: cacheproof ").replace('"', "").split()
    call(*words)
    assert (tmp_path / "new/vectors.xml").is_file()


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_every_component_has_a_skeleton_that_agrees(component: AnyComponent) -> None:
    """In this process; the names of methods that a target itself has are no operation's."""
    files = texts(component, Language.PYTHON)
    source = next(text for name, text in files.items() if name.endswith("_target.py"))
    assert max(map(len, source.splitlines())) <= 120
    module: dict[str, Any] = {"__name__": "target"}
    exec(compile(source, "target.py", "exec"), module)
    names = {call.name for call in calls_of(component)}
    assert names <= set(vars(module["Target"]))
    assert names & {"apply", "observe", "close"} == set()
    target = InProcessTarget(module["Target"], component)
    done = lockstep(component, component.normative, scopes_of(component)[0].config, target, steps=60, seed=1)
    assert done.finding is None
    assert done.tally.steps == 60
    assert done.tally.observables
    script = next(text for name, text in texts(component, Language.EXEC).items() if name.endswith("_target.py"))
    assert {node.name for node in ast.walk(ast.parse(script)) if isinstance(node, ast.FunctionDef)} >= names


def test_a_method_says_what_its_fields_hold_and_what_it_may_return() -> None:
    files = texts(component_named("kv_blocks"), Language.PYTHON)
    module = ast.parse(files["kv_blocks_target.py"])
    methods = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    said = {node.name: " ".join((ast.get_docstring(node) or "").split()) for node in methods}
    assert "DONE with the new blocks; REFUSED if there is no room." in said["allocate_slots"]
    assert "tokens: Tokens to compute." in said["allocate_slots"]
    meaning = said["allocate_slots"].partition(" May return: ")[2]
    assert meaning.startswith(f"done {attribute_docs(Code)['DONE']} allocate_slots(")
    assert f" stale {attribute_docs(Code)['STALE']} " in meaning
    assert [code.value for code in Code if f" {code.value} {attribute_docs(Code)[code.name]} " in f" {meaning} "] == [
        *("done", "refused", "too_large", "present", "stale")
    ]
    assert "references: pairs of block and reference count, ascending." in said["observe"]


def test_turns_of_a_loop_are_no_calls_and_what_is_offered_is() -> None:
    assert "evict" not in {call.name for call in calls_of(component_named("lru"))}
    assert "finish" in {call.name for call in calls_of(component_named("object_store"))}


@pytest.mark.parametrize("there", ["lru_target.py", "test_lru.py", PATH])
def test_nothing_is_overwritten_and_then_nothing_is_written(call: Call, tmp_path: Path, there: str) -> None:
    path = tmp_path / "new" / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    said = call("init", "new", "--component", "lru", status=2)["error"]
    assert said == f"new/{there} is there, and nothing is overwritten: name another folder, or move it away"
    assert path.read_text() == "mine"
    assert [one for one in (tmp_path / "new").rglob("*") if one.is_file()] == [path]


def test_a_dangling_link_is_not_written_through(call: Call, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/test_lru.py").symlink_to(tmp_path / "elsewhere.py")
    assert "is there" in call("init", "new", "--component", "lru", status=2)["error"]
    assert not (tmp_path / "elsewhere.py").exists()


def test_a_folder_that_is_a_file_is_said(call: Call, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("mine")
    assert "new" in call("init", "new", "--component", "lru", status=2)["error"]
    assert (tmp_path / "new").read_text() == "mine"


def test_an_unknown_component_or_language_is_wrong_input(call: Call, tmp_path: Path) -> None:
    assert "unknown component 'lrv'" in call("init", "new", "--component", "lrv", status=2)["error"]
    assert "cobol" in call("init", "new", "--component", "lru", "--language", "cobol", status=2)["error"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("in_python", [True, False])
@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_the_workflow_is_one_that_github_can_read(component: AnyComponent, in_python: bool) -> None:
    read = yaml.safe_load(workflow(component, in_python=in_python))
    assert set(read[True]) == {"push", "pull_request", "schedule", "workflow_dispatch"}  # YAML reads `on` as true
    assert read["permissions"] == {"contents": "read"}
    (job,) = read["jobs"].values()
    assert job["timeout-minutes"] > 0
    steps = job["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    told = [step["run"] for step in steps if "run" in step]
    assert all("\n" not in line.strip() for line in told)
    assert {found for line in told for found in SECRETS.findall(line)} == {
        "github.event_name == 'schedule' && 'nightly' || 'ci'"
    }


def test_nothing_is_installed_from_an_index_by_the_package_s_name() -> None:
    """The package is on no index, where its name would find nothing, or something else."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text() for page in pages] + [workflow(component, in_python=True) for component in SCOPED]
    assert sum("pip install" in text for text in texts) > len(SCOPED)
    assert [text for text in texts if re.search(r"pip install [^\n]*[\s\"']cacheproof\b(?!-)", text)] == []


def test_the_pages_say_how_much_a_profile_is() -> None:
    few, many = (f"{PROFILES[name].steps:,}" for name in ("ci", "nightly"))
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    assert f"| `fuzz` | {few}; `--profile nightly`: {many} |" in page
    assert f"| tests of the plugin | {few} for each scope; `--cacheproof-profile nightly`: {many}, and" in page
    tutorial = (ROOT / "docs/your_implementation.md").read_text(encoding="utf-8")
    assert f"| `--cacheproof-profile nightly` | {many} calls in each scope instead of {few}, and" in tutorial


def test_the_page_shows_the_workflow_that_is_written() -> None:
    page = (ROOT / "docs/ci.md").read_text()
    shown, _ = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown == workflow(component_named("lru"), in_python=True)


def test_the_gate_is_written_and_shown_on_the_page(call: Call, tmp_path: Path) -> None:
    made = call("init", "checkout", "--gate", "0.33.0")
    assert made["files"] == [f"checkout/{gate.PATH}"]
    text = (tmp_path / "checkout" / gate.PATH).read_text()
    page = (ROOT / "docs/ci.md").read_text()
    assert f"```yaml\n{text}```" in page
    steps = yaml.safe_load(text)["jobs"]["gate"]["steps"]
    (compared,) = [step["run"] for step in steps if "conform" in step.get("run", "")]
    assert f"--seconds {gate.SECONDS}" in compared
    assert gate.SECONDS < 300


@pytest.mark.parametrize("given", [[], ["--component", "lru", "--gate", "0.33.0"], ["--gate", "newest"]])
def test_a_gate_or_a_component_is_named(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran(capsys, "init", "new", *given).status == ExitStatus.WRONG_INPUT
    assert not (tmp_path / "new").exists()
