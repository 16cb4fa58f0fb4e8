"""Findings: their scripts are made of what is their own, need nothing but a release, and end on it as is said."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.proofs.results.making import Ends, charged_again

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.present.book.findings_page import findings_part
from cacheproof.releases.results import checking
from cacheproof.releases.results.checking import MISSING, Checked, checked, of_findings
from cacheproof.releases.results.findings.finding import SOURCES, Ending, Finding, findings, read
from cacheproof.releases.results.record import FINDINGS
from cacheproof.releases.results.scripts.performing import CANNOT_RUN, NOT_SHOWN, VIOLATED, Performed
from cacheproof.targets.vllm.release import Release, add, installed

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
    return {one.script.stem: one for one in checked(target, of_findings(known, target, folder))}


def written(finding: Finding, folder: Path) -> Path:
    path = folder / f"{finding.name}.py"
    path.write_text(finding.script, encoding="utf-8")
    return path


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
        for node in ast.walk(ast.parse(finding.script))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert "vllm" in imported
    assert imported - set(sys.stdlib_module_names) <= {"vllm", "torch"}


@pytest.mark.parametrize("target", TARGETS)
def test_scripts_end_on_a_release_as_is_said(target: str) -> None:
    needs(target)
    found = run(target, KNOWN, ROOT / FINDINGS)
    assert set(found) == {finding.name for finding in KNOWN}
    assert [one for one in found.values() if not one.agrees] == []


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", TARGETS)
def test_scripts_end_on_a_release_that_is_fetched(target: str) -> None:
    add(Release.parsed(target), progress=print)
    assert installed(Release.parsed(target)) is not None
    test_scripts_end_on_a_release_as_is_said(target)


def test_what_is_wrongly_said_of_a_release_is_refused(tmp_path: Path) -> None:
    target = "vllm==0.33.0"
    needs(target)
    right = named(LINE)
    said = right.ends[target]
    wrong = {
        "status": msgspec.structs.replace(said, status=VIOLATED),
        "words": msgspec.structs.replace(said, prints=said.prints.replace("0 of 37", "1 of 37")),
        "both": Ending(VIOLATED, right.ends[right.target].prints),
    }
    known = [right, *(msgspec.structs.replace(right, name=name, ends={target: end}) for name, end in wrong.items())]
    for finding in known:
        written(finding, tmp_path)
    found = run(target, known, tmp_path)
    assert {name for name, one in found.items() if one.agrees} == {LINE}
    assert {one.status for one in found.values()} == {NOT_SHOWN}


def test_a_script_that_does_something_else_is_refused(tmp_path: Path) -> None:
    needs(named(LINE).target)
    changes = {
        "unseen": ("call(engine.update, 0)\n    lines", "call(engine.update, 0)\n    lines[:] = []\n    lines"),
        "broken": ("engine.shown()", "engine.no_such_method()"),
        "unprinted": ("return last == len(lines)", "return not last == len(lines)"),
    }
    known = []
    for name, (right, other) in changes.items():
        text = named(LINE).reproduce
        assert text.count(right) == 1
        known.append(msgspec.structs.replace(named(LINE), name=name, reproduce=text.replace(right, other)))
        written(known[-1], tmp_path)
    known.append(msgspec.structs.replace(named(LINE), name="gone"))
    found = run(named(LINE).target, known, tmp_path)
    assert {name: one.status for name, one in found.items()} == {
        "unseen": NOT_SHOWN,
        "broken": CANNOT_RUN,
        "unprinted": NOT_SHOWN,
        "gone": MISSING,
    }
    assert not any(one.agrees for one in found.values())


@pytest.mark.parametrize("wrong", ["", "output_without_a_place"])
def test_scripts_of_findings_are_checked_with_those_of_the_record(
    book: Path,
    ends: Ends,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
) -> None:
    def performed(target: str, scripts: Sequence[Path], first: str = "") -> Mapping[Path, Performed]:
        said = {one.script: Performed(one.status, one.printed) for one in of_findings(KNOWN, target, FINDINGS)}
        assert set(said) <= set(scripts)
        recorded = Performed(VIOLATED, charged_again().verdict)
        found = {script: said.get(script, recorded) for script in scripts}
        return {script: Performed(VIOLATED, "") if script.stem == wrong else one for script, one in found.items()}

    monkeypatch.setattr(checking, "performed", performed)
    assert ends("results", "write") == 0
    assert ends("results", "scripts", "--check", "vllm==0.33.0") == (1 if wrong else 0)
    shown = capsys.readouterr().out
    assert f"{1 + len(KNOWN)} scripts were run" in shown
    assert ("output_without_a_place.py: ended with 1" in shown) == bool(wrong)


def test_scripts_that_are_not_current_are_refused(book: Path, ends: Ends) -> None:
    assert ends("results", "write") == 0
    script = FINDINGS / f"{LINE}.py"
    assert script.read_text(encoding="utf-8") == (ROOT / script).read_text(encoding="utf-8")
    script.write_text(script.read_text(encoding="utf-8").replace("range(3, 40)", "range(3, 41)"), encoding="utf-8")
    assert ends("results", "write", "--check") == 1
    assert ends("results", "write") == 0
    script.with_name("of_nobody.py").write_text("", encoding="utf-8")
    assert ends("results", "write", "--check") == 1
    assert ends("results", "write") == 0
    assert ends("results", "write", "--check") == 0
    assert not script.with_name("of_nobody.py").exists()


@pytest.mark.parametrize(
    ("right", "other", "says"),
    [
        ('"C-SCH-13"', '"C-SCH-99"', "no C-SCH-99"),
        ('component = "scheduler"', 'component = "block_hash"', "block_hash"),
        ('component = "scheduler"', 'component = "nothing"', "nothing"),
        ('target = "vllm==0.11.0"', 'target = "vllm==0.7.3"', r"about vllm==0\.7\.3"),
        ('target = "vllm==0.11.0"', 'target = "vllm==0.20.2"', r"about vllm==0\.20\.2"),
        ('ends."vllm==0.20.2"', 'ends."0.20.2"', r"0\.20\.2"),
        ("status = 0", "status = 2", "not with 2"),
        ("block_size = 2", "block_sizes = 2", "block_sizes"),
        ("block_size = 2", "block_size = 0", "must be positive"),
        ("for number in range(3):", "for number in range(3)", "not Python"),
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
