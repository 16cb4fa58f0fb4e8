"""How a fresh clone sets itself up: which Python is taken, what is said where there is none, and what make calls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproof import command
from cacheproof.command.frame import verbs

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()

OLD = "#!/bin/sh\nexit 1\n"
REAL = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
RUNS_AND_IS_OLD = '#!/bin/sh\n[ "$2" = pass ]\n'
WITHOUT_PIP = f'#!/bin/sh\ncase "$2" in *ensurepip*|*pip*) exit 1;; esac\nexec {sys.executable} "$@"\n'
"""A Python as some distributions package it: `venv` is there, and nothing that brings pip."""


def environment(tmp_path: Path, pythons: dict[str, str], *given: str) -> subprocess.CompletedProcess[str]:
    """Run the script where only these Pythons are on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in pythons.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    call = ["/bin/sh", str(ROOT / ".ci/environment"), str(tmp_path / "made"), *given]
    return subprocess.run(
        call, env={**os.environ, "PATH": str(folder)}, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_first_python_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    ended = environment(tmp_path, {"python3.13": OLD, "python3.12": WITHOUT_PIP, "python3.11": REAL, "python3": OLD})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"making {tmp_path / 'made'} with python3.11\n"
    assert (tmp_path / "made" / "bin" / "python").exists()


@pytest.mark.parametrize(
    ("pythons", "given", "said"),
    [
        ({}, (), "cacheproof needs Python 3.11 or newer"),
        ({"python3": OLD}, (), "cacheproof needs Python 3.11 or newer"),
        ({"python3": WITHOUT_PIP}, (), "install its venv package"),
        ({"python3": REAL}, ("no-such-python",), "PYTHON=no-such-python cannot be run"),
        ({"python3": REAL, "mine": RUNS_AND_IS_OLD}, ("mine",), "PYTHON=mine is older than 3.11"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, pythons: dict[str, str], given: tuple[str, ...], said: str
) -> None:
    ended = environment(tmp_path, pythons, *given)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "made").exists()


def recipes() -> list[list[str]]:
    """What make calls of the command line, without variables of make."""
    calls = re.findall(r"^\t@?\$\(BIN\)/cacheproof +(.*?)(?:\\)?$", MAKEFILE, re.MULTILINE)
    assert calls
    return [call.split() for call in calls]


@pytest.mark.parametrize("call", recipes(), ids=" ".join)
def test_make_calls_verbs_and_options_that_exist(
    call: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *arguments = call
    assert verb in verbs()
    options = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        command.main([verb, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert all(option in shown for option in options), f"{verb} lacks one of {options}"


def test_make_lists_each_of_its_targets() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("check", "test", "nightly", "lint", "types", "docs", "prove", "clean", "help"):
        assert f"make {target} " in listed


PARTS = "nightly-good:\n\t@echo good\nnightly-bad:\n\t@echo bad\n\t@test -e mended\n"


def test_a_night_that_ended_early_goes_on_with_the_parts_that_have_not_passed(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "parts").write_text(PARTS)
    (tmp_path / "pyproject.toml").touch()
    for folder in ("spec", "impl", "proofs", "tests", "docs"):
        (tmp_path / folder).mkdir()
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}

    def ran() -> tuple[bool, list[str]]:
        call = ["make", "--silent", "--no-print-directory", "nightly", "NIGHTLY=nightly-good nightly-bad", "READY="]
        ended = subprocess.run(
            call, cwd=tmp_path, env={**environ, "MAKEFILES": "parts"}, capture_output=True, text=True, check=False
        )
        return ended.returncode == 0, ended.stdout.split()

    assert ran() == (False, ["good", "bad"])
    assert ran() == (False, ["bad"])
    changed = tmp_path / "spec" / "changed.py"
    changed.touch()
    later = (tmp_path / "build" / "nightly" / "nightly-good").stat().st_mtime + 1
    os.utime(changed, (later, later))
    assert ran() == (False, ["good", "bad"]), "after a change each part is run"
    (tmp_path / "mended").touch()
    os.utime(changed, (later - 60, later - 60))
    assert ran() == (True, ["bad"])
    assert ran() == (True, ["good", "bad"]), "a new night begins"


OF_THE_USER = {"vllm"}
"""What the plug-in for an engine finds on its user's machine: the checks install it in no environment of their own."""


def test_constraints_pin_everything_that_the_project_names() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    names = {name.lower().replace("_", "-") for name in pinned}
    declared = re.findall(r'"([\w-]+)>=[\d.]+"', (ROOT / "pyproject.toml").read_text())
    assert declared
    assert set(declared) - OF_THE_USER <= names
