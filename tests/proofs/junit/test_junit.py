"""JUnit XML: every verb that has it writes what the schema allows, and says no more and no less than its status."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
import xmlschema

from cacheproof import command
from cacheproof.errors import InputError
from cacheproof.junit import Case, CaseStatus, file_to_write, write

SCHEMA = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))

Cases = Callable[..., list[ET.Element]]


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cases:
    """Runs a verb with `--junit`; the cases of what it wrote, checked."""
    monkeypatch.setenv("CACHEPROOF_HOME", str(tmp_path / "home"))

    def run(*arguments: str, status: int = 0) -> list[ET.Element]:
        path = tmp_path / "found.xml"
        with pytest.raises(SystemExit) as ended:
            command.main([*arguments, "--junit", str(path)])
        assert ended.value.code == status
        return checked(path)

    return run


def checked(path: Path) -> list[ET.Element]:
    SCHEMA.validate(path)
    suite = ET.parse(path).getroot()[0]
    found = suite.findall("testcase")
    counted = [
        len(found),
        *(sum(case.find(kind) is not None for case in found) for kind in ("failure", "error", "skipped")),
    ]
    assert [int(suite.get(name, "")) for name in ("tests", "failures", "errors", "skipped")] == counted
    return found


def told(case: ET.Element, kind: str) -> tuple[str, str]:
    element = case.find(kind)
    assert element is not None
    return element.get("message", ""), element.text or ""


def test_a_target_that_agrees_and_one_that_does_not(cases: Cases) -> None:
    (right,) = cases("fuzz", "lru", "--target", "spec:normative", "--steps", "50", "--seed", "3")
    assert right.get("classname") == "cacheproof.fuzz.lru"
    assert right.get("name") == "spec:normative beside normative in three-keys"
    assert {one.get("name"): one.get("value") for one in right.iter("property")}["seed"] == "3"
    (wrong,) = cases("fuzz", "lru", "--target", "spec:M2", "--steps", "3000", "--seed", "7", status=1)
    message, text = told(wrong, "failure")
    assert "the specification" in message
    assert "\n" not in message
    assert "sequenceDiagram" in text


def test_a_driver_that_fails_is_an_error(cases: Cases) -> None:
    (broken,) = cases("fuzz", "lru", "--target", "exec:false", "--steps", "5", status=3)
    assert "the target failed" in told(broken, "error")[0]


def test_every_run_of_check_is_a_case(cases: Cases) -> None:
    found = cases("check", "lru", "--scope", "three-keys")
    assert "normative three-keys" in [case.get("name") for case in found]
    assert all(case.get("classname") == "cacheproof.check.lru" for case in found)
    assert all(case.find("failure") is None for case in found)


def test_a_count_that_is_not_the_expected_one_is_a_failure(
    cases: Cases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy.py").write_text(
        "from dataclasses import replace\n"
        "from cachespec.lru import COMPONENT as LRU\n"
        "COMPONENT = replace(LRU, name='toy')\n"
    )
    (tmp_path / "toy.toml").write_text(
        '[[scope]]\nname = "whole"\nabout = "One key."\nvariants = ["normative"]\n'
        "config = {capacity = 1, sizes = [1], lookups = 0}\n[scope.expect.normative]\nstates = 7\n"
    )
    monkeypatch.setenv("CACHEPROOF_PATH", str(tmp_path))
    (counted, *_) = cases("check", "toy", "--scope", "whole", status=1)
    assert "7" in told(counted, "failure")[0]


def test_an_entry_outside_the_model_is_skipped_with_the_reason(cases: Cases) -> None:
    outside, shown = cases("catalogue", "C-MIR-10", "C-KV-16")
    assert shown.get("name") == "C-MIR-10"
    assert len(list(shown)) == 0
    assert told(outside, "skipped")[0].startswith("outside")


def test_what_was_interrupted_is_not_green(tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    write(path, "check", [Case("check.lru", "normative", CaseStatus.PASSED)], interrupted=True)
    assert told(checked(path)[-1], "error")[0] == "the run was interrupted"


def test_anything_can_be_said(tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    odd = 'a < b & "c" \x00\x1b[2K \ud800 ]]> \u2713'
    write(path, odd, [Case(odd, odd, CaseStatus.FAILED, odd + "\nsecond", odd, 0.5, {odd: odd})], properties={odd: odd})
    (case,) = checked(path)
    assert told(case, "failure") == ('a < b & "c" ??[2K ? ]]> \u2713 second', 'a < b & "c" ??[2K ? ]]> \u2713')


@pytest.mark.parametrize(("place", "said"), [(".", "is a folder"), ("gone/found.xml", "there is no folder")])
def test_a_file_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        file_to_write(tmp_path / place)
    for verb in (["check", "lru"], ["fuzz", "lru", "--target", "spec:M2"], ["catalogue"], ["conform"]):
        with pytest.raises(SystemExit) as ended:
            command.main([*verb, "--junit", str(tmp_path / place), "--json"])
        assert ended.value.code == 2
        assert said in json.loads(capsys.readouterr().out)["error"]


def test_the_schema_can_refuse(tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    write(path, "check", [Case("check", "one", CaseStatus.FAILED, "no")])
    path.write_text(path.read_text().replace('tests="1"', 'tests="one"'))
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        SCHEMA.validate(path)
