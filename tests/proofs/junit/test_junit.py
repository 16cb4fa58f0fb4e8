"""JUnit XML: every verb that has it writes what the schema allows, and says no more and no less than its status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
import xmlschema
from tests.planting import Change, planted

from cacheproof import command
from cacheproof.command.frame import verbs
from cacheproof.foundation.errors import InputError
from cacheproof.foundation.junit import Case, CaseStatus, file_to_write, write
from cacheproof.replay.shipped import DATA
from cacheproof.vectors.files import RELEASED
from cachespec.lru import transitions

CHILD = Path(__file__).parents[2] / "examples" / "lru_child.py"
GROWTH = str(next(RELEASED.glob("lru.growth.exploration.*")))
REFUSALS = str(next(RELEASED.glob("lru.*.refusals.*")))
DYING = """input(); print('{\\"answer\\":\\"hello\\",\\"protocol\\":\\"1.0\\"}', flush=True)"""
CONSUME = ["consume", "lru", "--target", "spec:normative"]
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
    (right,) = cases("fuzz", "lru", "--target", "spec:normative", "--steps", "300", "--seed", "3")
    assert right.get("classname") == "cacheproof.fuzz.lru"
    assert right.get("name") == "spec:normative beside normative"
    assert {one.get("name"): one.get("value") for one in right.iter("property")}["seed"] == "3"
    (wrong,) = cases("fuzz", "lru", "--target", "spec:M2", "--steps", "3000", "--seed", "7", status=1)
    message, text = told(wrong, "failure")
    assert "the specification" in message
    assert "\n" not in message
    assert "breaks LRU-" in text
    assert "sequenceDiagram" not in text, "a diagram that nobody reads as text"


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


def kinds(found: list[ET.Element]) -> Counter[str]:
    """How many cases ended how."""
    return Counter(next((child.tag for child in case if child.tag != "properties"), "passed") for case in found)


def test_vectors_case_by_case(cases: Cases) -> None:
    found = cases("consume", "lru", "--target", f"exec:{sys.executable} {CHILD}", status=1)
    counted = kinds(found)
    assert all(counted[kind] > 0 for kind in ("passed", "failure", "skipped"))
    assert all((case.get("classname") or "").startswith("cacheproof.consume.lru.") for case in found)
    message, text = next(told(case, "failure") for case in found if case.find("failure") is not None)
    assert message.startswith("step ")
    assert "put(key=0, size=1)" in text


def test_what_is_declared_is_a_case_and_what_deviates_passes(cases: Cases) -> None:
    declared = ("--deviation", "C-LRU-2", "--deviation", "C-MIR-10", "--deviation", "C-KV-1")
    found = cases("consume", GROWTH, "--target", "spec:stale-growth", *declared, status=1)
    of = {case.get("name"): case for case in found if case.get("classname") == "cacheproof.consume.deviations"}
    assert told(of["C-MIR-10"], "failure")[0].startswith("declared, and it did not occur")
    assert told(of["C-KV-1"], "skipped")[0] == "no call that was made could show it"
    assert len(list(of["C-LRU-2"])) == 0
    noted = {one.get("value") for case in found for one in case.iter("property") if one.get("name") == "deviation"}
    assert noted == {"C-LRU-2"}


def test_vectors_of_which_none_ran_are_not_green(cases: Cases) -> None:
    found = cases("consume", REFUSALS, "--target", "spec:normative", status=3)
    assert kinds(found) == {"skipped": len(found) - 1, "error": 1}
    assert told(found[-1], "error")[0] == "nothing ran"
    (never,) = cases("consume", "lru", "--target", "exec:false", status=3)
    assert "exit status 1" in told(never, "error")[0]
    dying = f'exec:{sys.executable} -c "{DYING}"'
    found = cases("consume", GROWTH, "--target", dying, status=3)
    assert told(found[-1], "error")[0] == "given up: the driver failed 5 times"


def test_a_log_is_a_case(cases: Cases, tmp_path: Path) -> None:
    log = tmp_path / "a.ndjson"
    header = {"format": "cacheproof-log", "version": "0.1", "component": "lru", "config": {"capacity": 1, "sizes": [1]}}
    called = [{"operation": {"op": "get", "key": 0}, "outcome": {"code": code}} for code in ("miss", "hit")]
    lines = [json.dumps(one) + "\n" for one in (header, *called)]
    log.write_text("".join(lines[:2]))
    (right,) = cases("validate", str(log))
    assert (right.get("classname"), right.get("name")) == ("cacheproof.validate.lru", str(log))
    log.write_text("".join(lines))
    (wrong,) = cases("validate", str(log), status=1)
    message, text = told(wrong, "failure")
    assert "line 3 cannot have happened" in message
    assert "the specification has miss, the log says hit" in text
    log.write_text("".join(lines)[:-1])
    assert "truncated" in told(cases("validate", str(log), status=2)[0], "error")[0]


def test_a_search_for_stalls_is_a_case(cases: Cases) -> None:
    (found,) = cases("stalls", "spec:S2", "--steps", "5000", "--seed", "1", "--only", "stall", status=1)
    assert "no request is scheduled any more" in told(found, "failure")[0]
    (broken,) = cases("stalls", "exec:false", "--steps", "5", status=3)
    assert told(broken, "error")[0]


def test_a_replay_is_a_case(cases: Cases) -> None:
    (right,) = cases("replay", str(DATA / "pope_coco_slice.jsonl.gz"), "--component", "lru", "--capacity", "10")
    assert right.get("classname") == "cacheproof.replay.lru"
    clients = (str(DATA / "servegen_clients_slice.jsonl.gz"), "--option", "reuse=zipf", "--option", "start=43200")
    served = ("--component", "encoder_cache", "--variant", "E1", "--capacity", "8192", "--check-every", "1")
    (wrong,) = cases("replay", *clients, *served, status=1)
    assert "ENC-" in told(wrong, "failure")[0]


def test_an_obligation_is_a_case(cases: Cases) -> None:
    pytest.importorskip("z3")
    with planted(Change(transitions.get, "$cache.total + 1", "$cache.total")):
        found = cases("prove", "lru", "--method", "smt", "--no-second-opinion", "--jobs", "1", status=1)
    counted = kinds(found)
    assert counted["passed"] > 0
    assert counted["failure"] + counted["passed"] == len(found)
    refuted = next(case for case in found if case.get("name") == "LRU-4/get")
    assert told(refuted, "failure")[0].startswith("refuted: ")
    assert "config: Config(" in told(refuted, "failure")[1]


def test_a_mutant_is_a_case(cases: Cases, tmp_path: Path) -> None:
    sample = ("mutants", "lru", "--sample", "2", "--seed", "5", "--jobs", "1")
    found = cases(*sample)
    assert len(found) == 2
    assert all(case.get("classname") == "cacheproof.mutants.lru" for case in found)
    ledger = tmp_path / "survivors.toml"
    ledger.write_text('[[survivor]]\nname = "lru/no-such"\nchange = "a"\nreason = "b"\n')
    wrong = cases(*sample, "--survivors", str(ledger), status=1)[-1]
    assert told(wrong, "failure")[0] == "lru/no-such: listed as a survivor, and there is no such mutant"


def test_the_page_names_the_verbs_that_have_it() -> None:
    page = (Path(__file__).parents[3] / "docs" / "ci.md").read_text(encoding="utf-8")
    sentence = re.search(r"These verbs write JUnit XML[^:]*: (.*?)\.", page, re.DOTALL)
    assert sentence is not None
    having = [
        name for name, module in verbs().items() if "junit" in signature(import_module(module).command).parameters
    ]
    assert re.findall(r"`([a-z-]+)`", sentence[1]) == having


def test_what_was_interrupted_is_not_green(tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    write(path, "check", [Case("check.lru", "normative", CaseStatus.PASSED)], interrupted=True)
    assert told(checked(path)[-1], "error")[0] == "the run was interrupted"


def test_a_run_that_is_killed_leaves_an_error_and_nothing_of_an_earlier_run(tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    write(path, "check", [Case("check.lru", "normative", CaseStatus.PASSED)])
    killed = (
        "import os, signal\n"
        "from cacheproof import command\n"
        "from cacheproof.command import check\n"
        "check.perform_and_keep = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"command.main(['check', 'lru', '--scope', 'pins', '--junit', {str(path)!r}])\n"
    )
    done = subprocess.run([sys.executable, "-c", killed], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (case,) = checked(path)
    assert told(case, "error")[0] == "the run has not ended"


def test_wrong_input_leaves_an_error_too(cases: Cases) -> None:
    (case,) = cases("check", "no-such-component", status=2)
    assert told(case, "error")[0] == "the run has not ended"


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
    for verb in (
        ["check", "lru"],
        ["fuzz", "lru", "--target", "spec:M2"],
        ["catalogue"],
        ["conform"],
        CONSUME,
        ["validate", "-"],
    ):
        with pytest.raises(SystemExit) as ended:
            command.main([*verb, "--junit", str(tmp_path / place), "--json"])
        assert ended.value.code == 2
        assert said in json.loads(capsys.readouterr().out)["error"]


def test_a_file_with_something_else_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As when the log is named twice."""
    log = tmp_path / "a.ndjson"
    log.write_text("what was recorded\n")
    with pytest.raises(SystemExit) as ended:
        command.main(["validate", str(log), "--junit", str(log)])
    assert ended.value.code == 2
    assert f"--junit {log}: is there, and is not JUnit XML: name another file, or remove it" in capsys.readouterr().err
    assert log.read_text() == "what was recorded\n"


@pytest.mark.parametrize("earlier", ["", "<!-- of another tool -->\n<testsuite/>"])
def test_results_of_an_earlier_run_are_replaced(tmp_path: Path, earlier: str) -> None:
    path = tmp_path / "found.xml"
    path.write_text(earlier)
    file_to_write(path)
    assert "the run has not ended" in path.read_text()


def test_a_pipe_gets_the_results_once_and_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file_to_write(path)
    write(path, "check", [Case("check.lru", "normative", CaseStatus.PASSED)])
    assert os.read(reader, 65_536).count(b"<testcase ") == 1
    os.close(reader)
    assert path.is_fifo()


def test_the_schema_can_refuse(tmp_path: Path) -> None:
    path = tmp_path / "found.xml"
    write(path, "check", [Case("check", "one", CaseStatus.FAILED, "no")])
    path.write_text(path.read_text().replace('tests="1"', 'tests="one"'))
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        SCHEMA.validate(path)
