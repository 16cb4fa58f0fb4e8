"""Findings: their scripts need nothing but a release, and end on it as recorded; so does `cacheproof reproduce`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.proofs.results.making import Ends, pretend, record

from cacheproof.command import results
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.present.book.findings_page import findings_part
from cacheproof.releases.reproduce.judge import Ending, judged
from cacheproof.releases.results import checking
from cacheproof.releases.results.cases import of_finding
from cacheproof.releases.results.checking import MISSING, Checked, of_scripts
from cacheproof.releases.results.findings.finding import SOURCES, Finding, ScriptEnding, findings, read
from cacheproof.releases.results.record import FINDINGS, save
from cacheproof.targets.specification import SpecificationTarget
from cacheproof.targets.vllm.release import Release, add, installed

VIOLATED, NOT_SHOWN = Ending.VIOLATED, Ending.NOT_SHOWN
ROOT = Path(__file__).parents[3]
KNOWN = findings()
TARGETS = sorted({target for finding in KNOWN for target in finding.ends})
LINE = "put_back_in_reverse"


def named(name: str) -> Finding:
    (found,) = (finding for finding in KNOWN if finding.name == name)
    return found


def needs(target: str) -> None:
    if installed(Release.parsed(target)) is None:
        pytest.skip(f"{target} is not installed")


def run(target: str, known: Sequence[Finding], folder: Path) -> dict[str, Checked]:
    return {Path(one.name).stem: one for one in of_scripts(known, target, folder)}


@pytest.mark.parametrize("finding", KNOWN, ids=lambda finding: finding.name)
def test_the_page_tells_of_it(finding: Finding) -> None:
    page = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert f"\n## {finding.heading}\n" in page
    assert f"(findings/{finding.name}.py)" in page
    assert f"[{finding.catalogue}](catalogue.md#{finding.catalogue.lower()})" in page


def test_the_table_says_what_is_said_of_the_scripts() -> None:
    line = next(line for line in findings_part(["releases"]).splitlines() if named(LINE).heading.lower() in line)
    assert line.endswith("| not run | seen | not seen | not seen |")
    with pytest.raises(InputError, match="releases"):
        findings_part(["everything"])


@pytest.mark.parametrize("finding", KNOWN, ids=lambda finding: finding.name)
def test_a_script_needs_nothing_of_ours(finding: Finding) -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse((ROOT / FINDINGS / f"{finding.name}.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert "vllm" in imported
    assert imported - set(sys.stdlib_module_names) <= {"vllm", "torch"}


@pytest.mark.parametrize("target", TARGETS)
def test_scripts_end_on_a_release_as_is_said(target: str) -> None:
    needs(target)
    found = run(target, KNOWN, ROOT / FINDINGS)
    assert set(found) == {finding.name for finding in KNOWN if target in finding.ends}
    assert [one for one in found.values() if not one.agrees] == []


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", TARGETS)
def test_scripts_end_on_a_release_that_is_fetched(target: str) -> None:
    add(Release.parsed(target), progress=print)
    assert installed(Release.parsed(target)) is not None
    test_scripts_end_on_a_release_as_is_said(target)


SCRIPTS = {
    "seen": ("print('VIOLATED: there')\nraise SystemExit(1)", 1, "VIOLATED: there"),
    "unseen": ("print('one')\nprint('NOT SHOWN: nothing')", 0, "NOT SHOWN: nothing"),
    "broken": ("import vllm.no_such_module", 1, "No module named 'vllm.no_such_module'"),
    "ended": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    "on_the_release": ("import vllm\nprint(vllm.NAME)", 0, "the release"),
}


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release of one module, and stand-ins for nothing, in this environment."""
    child = tmp_path / "child"
    (child / "driver").mkdir(parents=True)
    (child / "driver/stand_ins.py").write_text("import sys\n\ndef install(source): sys.path.insert(0, str(source))\n")
    (tmp_path / "vllm.py").write_text("NAME = 'the release'")
    monkeypatch.setattr(checking, "START", child / "start.py")
    monkeypatch.setattr(checking, "needed", lambda release: SimpleNamespace(source=tmp_path))
    monkeypatch.setattr(checking, "needed_environment", lambda: SimpleNamespace(python=sys.executable))
    return tmp_path


@pytest.mark.parametrize("name", SCRIPTS)
def test_how_a_script_ends_is_told(added: Path, name: str) -> None:
    text, status, last = SCRIPTS[name]
    script = added / "script.py"
    script.write_text(text)
    ended = checking.run(script, "vllm==0.33.0")
    assert ended[0] == status
    assert last in ended[1]


def test_a_script_that_does_not_end_cannot_be_run(added: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "SECONDS_FOR_A_SCRIPT", 0.1)
    script = added / "script.py"
    script.write_text("import time; time.sleep(60)")
    assert checking.run(script, "vllm==0.33.0")[0] == Ending.CANNOT_RUN


@pytest.mark.parametrize(
    ("ended", "agrees"),
    [
        ((NOT_SHOWN, "as recorded"), True),
        ((NOT_SHOWN, "in other words"), False),
        ((VIOLATED, "as recorded"), False),
    ],
)
def test_a_script_has_to_end_as_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: tuple[int, str], agrees: bool
) -> None:
    target = "vllm==0.33.0"
    known = [msgspec.structs.replace(named(LINE), ends={target: ScriptEnding(NOT_SHOWN, "as recorded")})]
    monkeypatch.setattr(checking, "run", lambda script, target: ended)
    (missing,) = of_scripts(known, target, tmp_path)
    assert (missing.status, missing.agrees) == (MISSING, False)
    (tmp_path / f"{LINE}.py").write_text("")
    (found,) = of_scripts(known, target, tmp_path)
    assert found.agrees == agrees
    assert list(of_scripts(known, "vllm==0.20.2", tmp_path)) == []


@pytest.mark.parametrize("wrong", ["", "output_without_a_place"])
def test_scripts_of_findings_are_checked_with_the_record(
    book: Path,
    ends: Ends,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    target = "vllm==0.20.2"
    pretend(monkeypatch, SpecificationTarget)

    def scripts(known: Sequence[Finding], name: str, folder: Path) -> Iterator[Checked]:
        for finding in known:
            ending = finding.ends[name]
            status = VIOLATED if finding.name == wrong else ending.status
            yield Checked(f"{finding.name}.py", status, ending.prints, ending.status, ending.prints)

    monkeypatch.setattr(results, "of_scripts", scripts)
    save(record(target=target), book)
    assert ends("results", "reproduce", "--check", target) == (1 if wrong else 0)
    shown = capsys.readouterr().out
    there = [finding for finding in KNOWN if target in finding.ends]
    assert f"{2 * len(there)} reproductions, {1 if wrong else 0} ended otherwise" in shown
    assert ("output_without_a_place.py: ended with 1" in shown) == bool(wrong)


@pytest.mark.parametrize(
    ("right", "other", "says"),
    [
        ('"C-SCH-13"', '"C-SCH-99"', "no C-SCH-99"),
        ('component = "scheduler"', 'component = "lru"', "no block_size"),
        ('"SCH-8/line"', '"SCH-99"', "no property SCH-99"),
        ('{op = "schedule"}', '{op = "plan"}', "unknown operation 'plan'"),
        ('component = "scheduler"', 'component = "nothing"', "nothing"),
        ('target = "vllm==0.11.0"', 'target = "vllm==0.7.3"', r"about vllm==0\.7\.3"),
        ('target = "vllm==0.11.0"', 'target = "vllm==0.20.2"', r"about vllm==0\.20\.2"),
        ('ends."vllm==0.20.2"', 'ends."0.20.2"', r"0\.20\.2"),
        ("status = 0", "status = 2", "not with 2"),
        ("block_size = 2", "block_sizes = 2", "block_sizes"),
        ("block_size = 2", "block_size = 0", "must be positive"),
        ("heading =", "headings =", "heading"),
        ("[config]", "[config", "line"),
    ],
)
def test_what_is_no_finding_is_refused(tmp_path: Path, right: str, other: str, says: str) -> None:
    text = (SOURCES / f"{LINE}.toml").read_text(encoding="utf-8")
    assert right in text
    path = tmp_path / "wrong.toml"
    path.write_text(text.replace(right, other, 1), encoding="utf-8")
    with pytest.raises(InputError, match=f"wrong.toml: .*{says}"):
        read(path)


@pytest.mark.parametrize(("variant", "behind"), [("S2", [1]), ("S2b", []), ("S3", []), ("normative", [])])
def test_the_specification_puts_back_as_its_releases_do(variant: str, behind: list[int]) -> None:
    """As many periods as the release goes through: in S2 the newest waits before the one that came second."""
    component = component_named("scheduler")
    config, era = config_from_message(component, named(LINE).config), variant_named(component, variant)
    state = era.start(config)

    def call(**message: object) -> None:
        nonlocal state
        state, outcome = era.call(config, state, operation_from_message(component.operations, message))
        assert outcome.code.value in ("done", "hit"), outcome

    for number in range(3):
        call(op="add", request=number)
    for newest in range(3, 40):
        call(op="schedule")
        call(op="update", accepted=0)
        waiting = component.observe(config, era.view(config, state))["waiting"]
        assert waiting == ((newest - 1, 1) if behind else (newest - 2, newest - 1))
        call(op="add", request=newest)


@pytest.mark.parametrize(
    ("finding", "target"),
    [pytest.param(each, target, id=f"{each.name}-{target}") for each in KNOWN for target in each.ends],
)
def test_its_calls_break_the_property_in_the_eras_of_releases_that_have_it(finding: Finding, target: str) -> None:
    case = of_finding(finding, target)
    assert case.recorded == finding.ends[target].status
    ended = judged(case, SpecificationTarget(case.subject.component, case.subject.variant))
    if not finding.rule:
        assert ended.ending is NOT_SHOWN, "no era has what is outside the model"
    else:
        assert ended.ending == case.recorded
