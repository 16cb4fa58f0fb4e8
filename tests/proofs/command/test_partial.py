"""No green by accident: a run that tested little has the status 3, unless `--allow-partial` accepts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.command_line import Run, beside

from cacheproof.foundation.errors import ExitStatus
from cacheproof.model.registry import component_named
from cacheproof.model.store import load_all
from cacheproof.present.evidence import evidence
from cacheproof.vectors.files import RELEASED

STAT = """
import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    answer = {"answer": "state"}
    if asked["do"] == "hello":
        answer = {"answer": "hello", "protocol": "1.0", "features": ["lru/operation/stat"]}
    elif asked["do"] == "apply":
        answer = {"answer": "outcome", "code": "done", "values": [0, 0]}
    print(json.dumps(answer), flush=True)
"""

FEW = '''
from cacheproof.model.registry import component_named
from cacheproof.targets.specification import SpecificationTarget
from cachespec.lru import Contains, Put


class Few:
    """A cache without most calls."""

    def __init__(self, config):
        component = component_named("lru")
        self.yours = SpecificationTarget(component, component.normative)
        self.yours.reset(config)

    def put(self, key, size):
        return self.yours.apply(Put(key, size))

    def contains(self, key):
        return self.yours.apply(Contains(key))
'''
THREE = next(RELEASED.glob("lru.three-keys.exploration.*"))
HEADER = {"format": "cacheproof-log", "version": "0.1", "component": "lru", "config": {"capacity": 2, "sizes": [1, 1]}}


@pytest.fixture
def cacheproof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return beside(tmp_path, {"stat.py": STAT, "few_calls.py": FEW}, monkeypatch, capsys)


def log(folder: Path, *lines: object) -> Path:
    path = folder / "run.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in (HEADER, *lines)))
    return path


def junit_of(path: Path) -> dict[str, int]:
    suite = ET.parse(path).getroot()  # written by us
    return {key: int(suite.attrib[key]) for key in ("tests", "failures", "errors")}


def counted() -> int:
    """The runs of lru that `status` counts as evidence."""
    return sum(cell.as_expected for cell in evidence([component_named("lru")], load_all()))


CALLS = {
    "nothing tried": ("fuzz", "lru", "--target", "python:few_calls:Few", "--seconds", "0.001", "--seed", "1"),
    "nothing changed": (
        *("fuzz", "lru", "--target", f"exec:{sys.executable} stat.py", "--steps", "60", "--seed", "1"),
        *("--driver", "lockstep"),
    ),
    "most cases skipped": ("consume", THREE, "--target", "python:few_calls:Few"),
    "no line": ("validate", "run.ndjson"),
}
SAYS = {
    "nothing tried": "no answer: nothing was tried",
    "nothing changed": "no answer: no call changed what is observed, and these were never called: clear, contains,",
    "most cases skipped": "cases ran, because the target lacks what the others need",
    "no line": "no answer: the log has no line after its header",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_run_that_tested_little_is_no_answer(
    name: str, cacheproof: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path)
    if name == "nothing tried":  # however fast the machine is
        monkeypatch.setattr("cacheproof.lockstep.tally.Limit.reached", lambda _limit, _done: True)
    ended = cacheproof(*CALLS[name], "--junit", "results.xml")
    assert ended.status == ExitStatus.INCONCLUSIVE
    assert SAYS[name] in ended.out
    assert "--allow-partial" in ended.out
    assert junit_of(tmp_path / "results.xml")["errors"] == 1
    assert counted() == 0
    told = cacheproof(*CALLS[name], "--json")
    assert (told.status, told.json["ok"]) == (ExitStatus.INCONCLUSIVE, False)
    assert told.json["partial"]
    allowed = cacheproof(*CALLS[name], "--allow-partial", "--junit", "results.xml")
    assert allowed.status == ExitStatus.AS_EXPECTED
    assert "no answer" not in allowed.out
    assert junit_of(tmp_path / "results.xml")["errors"] == 0


def test_a_log_of_which_most_lines_say_nothing_is_no_answer(cacheproof: Run, tmp_path: Path) -> None:
    calls = [{"operation": {"op": "put", "key": 0, "size": 1}}] * 3
    told = {**calls[0], "outcome": {"code": "done"}}
    assert cacheproof("validate", log(tmp_path, *calls, told)).status == ExitStatus.INCONCLUSIVE
    ended = cacheproof("validate", log(tmp_path, *calls, *[told] * 4))
    assert (ended.status, counted()) == (ExitStatus.AS_EXPECTED, 1)


def test_what_the_user_skips_is_not_held_against_the_run(cacheproof: Run) -> None:
    skips = (f"lru/operation/{name}" for name in ("clear", "get", "lookup", "pin", "pop", "stat", "touch"))
    options = [word for skip in skips for word in ("--skip", skip)]
    ended = cacheproof("consume", THREE, "--target", "spec:normative", *options, "--json")
    assert ended.status == ExitStatus.AS_EXPECTED
    assert ended.json["cases"]["skipped"] > ended.json["cases"]["passed"]


def test_an_inconclusive_log_is_called_no_run(cacheproof: Run, tmp_path: Path) -> None:
    """A call of which nothing is known comes first; a later line that fits nothing is then no proof of a fault."""
    unknown = {"operation": {"op": "put", "key": 0}}
    fine = {"operation": {"op": "contains", "key": 1}, "outcome": {"code": "miss"}}
    wrong = {"operation": {"op": "contains", "key": 1}, "outcome": {"code": "hit"}}
    ended = cacheproof("validate", log(tmp_path, unknown, fine, wrong))
    assert ended.status == ExitStatus.INCONCLUSIVE
    head, before = ended.out.splitlines()[-2:]
    assert head.startswith("no answer from line 4 on: the operands of put are not known in line 2, and only")
    assert head.endswith("no state that was followed leads past line 4")
    assert before == "the 2 lines before it may be a run of lru (normative)"
