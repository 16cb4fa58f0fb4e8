"""Checks are performed each by itself: what becomes of one does not lose the others, and the file is always whole."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cacheproof import command
from cacheproof.device.listing import CHECKS, Asked, Check, DifferenceError, Found
from cacheproof.device.running import CheckResult, Outcome, not_run, performed, performed_apart, resumed, run
from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import ExitStatus, InputError

ASKED = Asked("cpu", True, 5)
MACHINE = {"device": "cpu", "torch": "any"}


def quiet(line: str) -> None:
    """Nobody looks."""


def good(asked: Asked, found: Found, show: Show) -> None:
    found.count("steps", 3)


def wrong(asked: Asked, found: Found, show: Show) -> None:
    found.count("steps", 2)
    raise DifferenceError("step 2: 1, not 2")


def broken(asked: Asked, found: Found, show: Show) -> None:
    raise RuntimeError("CUDA error: device-side assert triggered\nand more lines")


def interrupted(asked: Asked, found: Found, show: Show) -> None:
    found.count("steps", 1)
    raise KeyboardInterrupt


def check(name: str) -> Check:
    return Check(name, "", f"{__name__}:{name}", "")


class Direct:
    """Checks of this module, which tests do not import by name."""

    def __call__(self, one: Check, asked: Asked, show: Show) -> Outcome:
        function = globals()[one.name]

        class Here(Check):
            def perform(self, asked: Asked, found: Found, show: Show) -> None:
                function(asked, found, show)

        return performed(Here(one.name, "", "", ""), asked, show)


def ran(path: Path, *names: str, **how: Any) -> tuple[CheckResult, dict[str, Any]]:
    result = CheckResult(ASKED, MACHINE)
    run([check(name) for name in names], result, quiet, perform=Direct(), output=path, **how)
    return result, json.loads(path.read_text())


def test_a_failure_and_a_crash_do_not_lose_the_others(tmp_path: Path) -> None:
    result, file = ran(tmp_path / "r.json", "wrong", "broken", "good")
    assert [one["status"] for one in file["checks"]] == ["failed", "crashed", "passed"]
    assert file["checks"][0]["detail"] == "step 2: 1, not 2"
    assert file["checks"][1]["detail"].startswith("RuntimeError: CUDA error: device-side assert triggered (")
    assert [one["counts"] for one in file["checks"]] == [{"steps": 2}, {}, {"steps": 3}]
    assert (file["ok"], file["complete"], result.status) == (False, True, ExitStatus.FELL_SHORT)


def test_a_crash_alone_is_no_answer_and_all_passed_is_one(tmp_path: Path) -> None:
    assert ran(tmp_path / "r.json", "broken", "good")[0].status is ExitStatus.INCONCLUSIVE
    result, file = ran(tmp_path / "r.json", "good")
    assert (result.status, file["ok"]) == (ExitStatus.AS_EXPECTED, True)


def test_an_interruption_keeps_what_is_known(tmp_path: Path) -> None:
    result, file = ran(tmp_path / "r.json", "good", "interrupted", "wrong")
    assert [one["status"] for one in file["checks"]] == ["passed", "interrupted", "not run"]
    assert (file["interrupted"], file["complete"], result.status) == (True, False, ExitStatus.INCONCLUSIVE)
    assert file["not_run"] == [{"what": "wrong", "reason": "interrupted before"}]


def test_a_limit_of_time_begins_no_more(tmp_path: Path) -> None:
    _, file = ran(tmp_path / "r.json", "good", "wrong", seconds=0.0)
    assert [one["status"] for one in file["checks"]] == ["not run", "not run"]
    assert "limit of 0 seconds" in file["not_run"][0]["reason"]


def test_a_missed_goal_falls_short() -> None:
    result = CheckResult(ASKED, MACHINE, complete=True)
    figure = {"name": "decode-recorded", "median": 40.0, "met": False}
    result.outcomes["a"] = Outcome("a", "passed", "", 1.0, {}, [figure], [])
    missed = result.status
    figure["met"] = None
    assert (missed, result.status) == (ExitStatus.FELL_SHORT, ExitStatus.AS_EXPECTED)


def test_it_goes_on_from_a_file_of_the_same_run_only(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    ran(path, "good", "interrupted", "wrong")
    again = CheckResult(ASKED, MACHINE)
    resumed(again, path)
    assert list(again.outcomes) == ["good"]
    run([check(name) for name in ("good", "wrong")], again, quiet, perform=Direct(), output=path)
    assert [one["status"] for one in json.loads(path.read_text())["checks"]] == ["passed", "failed"]
    for asked, machine, said in (
        (ASKED._replace(seed=6), MACHINE, "seed is 5, not 6"),
        (ASKED._replace(small=False), MACHINE, "small is True"),
        (ASKED, {"device": "NVIDIA H200"}, "of another machine"),
    ):
        with pytest.raises(InputError, match=said):
            resumed(CheckResult(asked, machine), path)
    path.write_text("{}")
    with pytest.raises(InputError, match="gone on from"):
        resumed(CheckResult(ASKED, MACHINE), path)
    resumed(CheckResult(ASKED, MACHINE), tmp_path / "none.json")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        ran(tmp_path / "none" / "r.json", "good")


def test_a_process_of_its_own_ends_with_its_check(tmp_path: Path) -> None:
    arena = next(one for one in CHECKS if one.name == "arena-speed")
    outcome = performed_apart(arena, ASKED, quiet, 60)
    assert (outcome.status, outcome.name) == ("passed", "arena-speed")
    assert outcome.counts["bytes moved"] > 0
    assert performed_apart(check("none"), ASKED, quiet, 60).detail == "its process ended with status 1"


def test_a_check_without_end_is_given_up() -> None:
    started = time.monotonic()
    outcome = performed_apart(CHECKS[0], ASKED._replace(small=False), quiet, 0.5)
    assert (outcome.status, outcome.detail) == ("crashed", "no end within 0.5 seconds")
    assert time.monotonic() - started < 60


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        command.main(["device", *arguments, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    words = ("arena-speed", "round-speed", "--device", "cpu", "--small", "--seed", "4", "--output", str(path))
    status, said = call(capsys, *words)
    file = json.loads(path.read_text())
    assert (status, said["ok"], file["ok"]) == (0, True, True)
    assert {one["name"] for one in file["figures"]} >= {"copy", "gather", "gather-share", "round-eager"}
    assert {"what": "round-recorded", "reason": "it needs a CUDA device"} in file["not_run"]
    assert (file["seed"], file["machine"]["device"], file["version"]) == (4, "cpu", said["version"])
    assert {"torch", "host", "kernel"} <= set(file["machine"])
    before = path.stat().st_mtime_ns
    status, said = call(capsys, *words, "--resume")
    assert status == 0
    assert path.stat().st_mtime_ns > before


def test_the_verb_refuses_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkey = ("--output", str(tmp_path / "r.json"))
    assert call(capsys, "no-such", *monkey)[0] == 2
    assert call(capsys, "--device", "meta", *monkey)[0] == 2
    assert call(capsys, "--device", "cuda:99", *monkey)[0] == 2
    assert not (tmp_path / "r.json").exists()
    status, said = call(capsys, "--list")
    assert (status, len(said["checks"])) == (0, len(CHECKS))


def test_what_was_not_begun_says_so() -> None:
    assert not_run(check("good"), "why")[:3] == ("good", "not run", "why")


@pytest.mark.parametrize("apart", [True, False])
def test_what_is_known_is_kept_when_it_is_ended(tmp_path: Path, *, apart: bool) -> None:
    path = tmp_path / "r.json"
    words = ["device", "recorded-decode", "example", "--device", "cpu", "--seed", "1", "--output", str(path)]
    words.append("--apart" if apart else "--together")
    child = subprocess.Popen([sys.executable, "-m", "cacheproof", *words], stderr=subprocess.PIPE, text=True)
    while not path.exists() and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    file = json.loads(path.read_text())
    assert child.returncode == 3
    assert [one["status"] for one in file["checks"]] == ["interrupted", "not run"]
    assert (file["interrupted"], file["complete"]) == (True, False)
