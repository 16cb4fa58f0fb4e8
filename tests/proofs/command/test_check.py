"""`check` and `catalogue`: verdicts, golden counts, limits, interruptions, and what may be accepted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command_line import Ended, ran

from cacheproof.model.registry import PATH_VARIABLE
from cacheproof.model.store import HOME_VARIABLE

SCOPES = """# The first line stays.
[[scope]]
name = "five"
about = "Up to five."  # and so does this
variants = ["normative", "C0"]

[scope.config]
top = 5
"""
EXPECTED = """
[scope.expect.normative]
states = 6
transitions = 10
depth = 5
digest = "%s"

[scope.expect.C0]
states = 6
transitions = 9
depth = 5
digest = "%s"

[[scope.expect.C0.violations]]
property = "CNT-1"
catalogue = "C-CNT-1"
length = 5
"""
FOR_EVER = """
[[scope]]
name = "for-ever"
about = "No end."
variants = ["normative"]

[scope.config]
top = 0

[scope.uncovered]
"""


class Counter:
    """The command line where the counter is."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.scopes = folder / "counter.toml"
        self.home = folder / "home"

    def __call__(self, *arguments: str) -> Ended:
        return ran(self.capsys, *arguments)

    def check(self, text: str, *arguments: str) -> Ended:
        self.scopes.write_text(text)
        return self("check", "counter", "--jobs", "1", *arguments)


@pytest.fixture
def counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Counter:
    shutil.copy(Path(__file__).parent / "counter.py", tmp_path / "counter.py")
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Counter(tmp_path, capsys)


@pytest.fixture
def accepted(counter: Counter) -> str:
    """The scope file after its counts were accepted, with the violation of the era numbered."""
    counter.check(SCOPES, "--accept")
    text = counter.scopes.read_text()
    return text.replace('property = "CNT-1"', 'property = "CNT-1"\ncatalogue = "C-CNT-1"')


# Accepting ----------------------------------------------------------------------------------------------------------


def test_nothing_is_as_expected_before_it_was_accepted(counter: Counter) -> None:
    ended = counter.check(SCOPES)
    assert ended.status == 1
    assert "the scope file expects nothing yet" in ended.out
    assert counter.scopes.read_text() == SCOPES


def test_what_was_accepted_is_expected_from_then_on(counter: Counter, accepted: str) -> None:
    assert accepted.startswith(SCOPES)
    assert counter.check(accepted).status == 0
    again = counter.check(accepted, "--accept")
    assert (again.status, counter.scopes.read_text()) == (0, accepted)
    assert "0 of 2 expectations written" in again.err


def test_a_violation_of_the_normative_variant_is_not_accepted(counter: Counter, tmp_path: Path) -> None:
    source = (tmp_path / "counter.py").read_text()
    (tmp_path / "counter.py").write_text(source.replace("{Add: add, Reset", "{Add: add_too_much, Reset"))
    call = [sys.executable, "-m", "cacheproof", "check", "counter", "--variant", "normative", "--accept"]
    counter.scopes.write_text(SCOPES)
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "which cannot be accepted" in ended.stdout
    assert counter.scopes.read_text() == SCOPES


# Drift --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("states = 6", "states = 7", "states: 6, where 7 was expected"),
        ("transitions = 10", "transitions = 11", "transitions: 10, where 11 was expected"),
        ("depth = 5", "depth = 4", "depth: 5, where 4 was expected"),
        ('digest = "', 'digest = "0', "digest: "),
        ("length = 4", "length = 3", "counterexample has 4 operations; the scope file expects 3"),
        ("top = 5", "top = 9", "where 6 was expected"),
        ("[[scope.expect.C0.viol", "[scope.uncovered]\nadd = 'a reason'\n\n[[scope.expect.C0.viol", "add happened"),
    ],
)
def test_drift_falls_short(counter: Counter, accepted: str, old: str, new: str, said: str) -> None:
    assert old in accepted
    ended = counter.check(accepted.replace(old, new, 1))
    assert ended.status == 1, ended.out
    assert said in ended.out


def test_an_expected_violation_that_is_gone_falls_short(counter: Counter, accepted: str) -> None:
    ended = counter.check(accepted.replace("top = 5", "top = 1").replace("exhaust = true\n", ""), "--variant", "C0")
    assert ended.status == 1
    assert "CNT-1: holds, where 'violated' was expected" in ended.out or "CNT-1 not violated" in ended.out


def test_a_violation_that_is_not_expected_falls_short(counter: Counter, accepted: str) -> None:
    without = accepted.split("[[scope.expect.C0.violations]]", maxsplit=1)[0].replace("exhaust = true\n", "")
    ended = counter.check(without, "--json")
    assert ended.status == 1
    (verdict,) = ended.json["runs"][1]["verdicts"]
    assert (verdict["expected"], verdict["found"], verdict["trace_length"]) == ("holds", "violated", 4)


def test_an_operation_that_never_happens_needs_a_reason(counter: Counter) -> None:
    silent = SCOPES.replace('"normative", "C0"', '"normative"').replace("top = 5", "top = 5\n")
    ended = counter.check(silent.replace("top = 5", "top = 5") + "\n[scope.uncovered]\nreset = 'it does happen'\n")
    assert "operation reset happened, although uncovered says that it cannot" in ended.out


def test_a_property_that_no_scope_puts_to_the_test_falls_short(counter: Counter) -> None:
    endless = FOR_EVER.replace("top = 0", "top = 0").replace('about = "No end."', 'about = "No end."\ndepth = 5')
    counter.check(endless, "--accept")
    ended = counter("check", "counter", "--json")
    assert ended.status == 1
    assert ended.json["amiss"] == ["counter: CNT-1 is never put to the test: no default scope reaches its witness"]
    assert ended.json["runs"][0]["status"] == "as_expected"


# Limits, depth, interruption ----------------------------------------------------------------------------------------


def test_a_stated_depth_is_an_answer(counter: Counter) -> None:
    endless = SCOPES + FOR_EVER.replace('about = "No end."', 'about = "No end."\ndepth = 7')
    counter.check(endless, "--accept")
    ended = counter("check", "counter", "--variant", "normative")
    assert ended.status == 0
    assert "1 hold to depth 7" in ended.out


@pytest.mark.parametrize("limit", ["limit_states = 50", "limit_seconds = 0.2"])
def test_a_limit_is_inconclusive(counter: Counter, limit: str) -> None:
    ended = counter.check(FOR_EVER.replace("[scope.config]", f"{limit}\n[scope.config]"), "--json")
    assert ended.status == 3
    (run,) = ended.json["runs"]
    assert run["status"] == "inconclusive"
    assert [verdict["found"] for verdict in run["verdicts"]] == ["open"]


def _to_one(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)


def _to_all(process: subprocess.Popen[str], number: signal.Signals) -> None:
    os.killpg(process.pid, number)


PAIRS = (
    ("1", signal.SIGINT, _to_one),
    ("1", signal.SIGTERM, _to_all),
    ("2", signal.SIGINT, _to_all),
    ("2", signal.SIGTERM, _to_one),
)
"""The number of processes, the signal, and who gets it: each pair of values once."""


@pytest.mark.parametrize(("jobs", "number", "send"), PAIRS)
def test_interrupted_it_says_what_is_known(
    counter: Counter,
    jobs: str,
    number: signal.Signals,
    send: Callable[[subprocess.Popen[str], signal.Signals], None],
) -> None:
    counter.scopes.write_text(SCOPES.replace(', "C0"', "") + FOR_EVER)
    call = [sys.executable, "-m", "cacheproof", "check", "counter", "--jobs", jobs, "--json"]
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        first = counter.home / "runs" / "check" / "counter.normative.five.reference.json"
        while not first.exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        send(process, number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    found = json.loads(out)
    assert (found["ok"], found["interrupted"]) == (False, True)
    assert [run["ending"] for run in found["runs"]] == ["exhausted", "interrupted"]
    assert found["runs"][1]["states"] > 1


def test_the_answer_does_not_depend_on_the_number_of_processes(counter: Counter, accepted: str) -> None:
    counter.scopes.write_text(accepted)
    one, two = (counter("check", "counter", "--json", "--jobs", jobs).json["runs"] for jobs in "12")
    volatile = ("seconds", "peak_bytes")
    assert [{key: run[key] for key in run if key not in volatile} for run in one] == [
        {key: run[key] for key in run if key not in volatile} for run in two
    ]


# Catalogue ----------------------------------------------------------------------------------------------------------


def test_every_entry_is_derived_anew_beside_the_normative_variant(counter: Counter, accepted: str) -> None:
    counter.scopes.write_text(accepted)
    ended = counter("catalogue", "C-CNT-1", "--json", "--jobs", "1")
    assert ended.status == 0
    (entry,) = ended.json["entries"]
    assert entry == {
        "id": "C-CNT-1",
        "title": "",
        "status": "reproduced",
        "component": "counter",
        "variant": "C0",
        "scope": "five",
        "property": "CNT-1",
        "trace_length": 4,
        "expected_length": 4,
        "normative": "holds",
        "reason": "",
    }
    assert "[C-CNT-1]" in counter("show", "C-CNT-1").out


@pytest.mark.parametrize(
    ("old", "new", "status"), [("length = 4", "length = 9", "changed"), ("top = 5", "top = 1", "missing")]
)
def test_an_entry_that_is_not_shown_falls_short(
    counter: Counter, accepted: str, old: str, new: str, status: str
) -> None:
    counter.scopes.write_text(accepted.replace(old, new))
    ended = counter("catalogue", "C-CNT-1", "--json", "--jobs", "1")
    assert ended.status == 1
    assert [entry["status"] for entry in ended.json["entries"]] == [status]


def test_an_entry_that_no_scope_shows(counter: Counter, accepted: str) -> None:
    counter.scopes.write_text(accepted)
    ended = counter("catalogue", "C-CNT-9")
    assert (ended.status, ended.out) == (2, "")
    assert "no scope shows 'C-CNT-9'" in ended.err


# Runs without an end, and reductions that are unsound ---------------------------------------------------------------


ENDLESS = """
[[scope]]
name = "endless"
about = "counts for ever, and is expected to end"
variants = ["normative"]
[scope.config]
top = 0
[scope.expect.normative]
states = 3
transitions = 4
depth = 2
digest = "0000000000000000"
"""


def test_a_run_far_beyond_its_golden_count_ends_and_falls_short(counter: Counter) -> None:
    ended = counter.check(ENDLESS)
    assert ended.status == 1
    assert "states: 10003 and more, where 3 was expected: stopped there" in ended.out


def test_more_states_are_explored_if_that_is_asked_for(counter: Counter) -> None:
    ended = counter.check(
        ENDLESS
        + "\n[[scope]]"
        + ENDLESS.split("[[scope]]")[1].replace('"endless"', '"long"').replace("top = 0", "top = 20000"),
        "--scope",
        "long",
        "--to-the-end",
    )
    assert ended.status == 1
    assert "states: 20001, where 3 was expected" in ended.out


def test_an_unsound_reduction_is_a_verdict_on_its_run_alone(counter: Counter, tmp_path: Path) -> None:
    """The canonical form makes 4 into a number beyond the top, which no call leads to."""
    source = (tmp_path / "counter.py").read_text()
    unsound = "alphabet=calls,\n    normal=lambda config, state: State(99) if state.number == 4 else state,"
    broken = source.replace("alphabet=calls,", unsound).replace("{Add: add, Reset", "{Add: add_too_much, Reset")
    (tmp_path / "counter.py").write_text(broken)
    counter.scopes.write_text(SCOPES + SCOPES.replace("five", "three").replace("top = 5", "top = 3"))
    call = [sys.executable, "-m", "cacheproof", "check", "counter", "--variant", "normative", "--jobs", "1", "--json"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    five, three = json.loads(ended.stdout)["runs"]
    assert "does not respect the declared reduction" in five["amiss"][0]
    assert [verdict["property"] for verdict in five["verdicts"] if verdict["found"] == "violated"] == ["CNT-1"]
    assert (three["scope"], three["amiss"]) == ("three", [])
