"""What is left to the night: it is there, and something of each group stands for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.sampling import FAMILIES, TAKE_LONG, left_to_the_night

ROOT = Path(__file__).parents[2]
FILES = sorted({name.partition("::")[0] for name in (*TAKE_LONG, *(family.test for family in FAMILIES))})


def collected(marks: str, files: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, *files],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return [line for line in done.stdout.splitlines() if "::" in line]


def group(name: str) -> tuple[str, str]:
    test, _, case = name.partition("[")
    return test, re.split(r"\W", case)[0]


def test_what_is_left_out_runs_at_night_and_something_stands_for_it() -> None:
    everything = collected("", FILES)
    night = left_to_the_night(everything)
    usual = [name for name in everything if name not in night]
    assert set(TAKE_LONG) <= set(everything)
    assert not set(TAKE_LONG) & set(usual)
    for family in FAMILIES:
        known = [name for name in everything if name.startswith(f"{family.test}[")]
        chosen = [name for name in usual if name.startswith(f"{family.test}[")]
        assert 0 < len(chosen) < len(known), family.test
        if family.grouped and not family.every:
            assert {group(name) for name in chosen} == {group(name) for name in known}, family.test
    for name in TAKE_LONG:
        file = name.partition("::")[0]
        assert any(other.startswith(f"{file}::") for other in usual), name


def test_pytest_leaves_them_out() -> None:
    test = FAMILIES[0].test
    file = [test.partition("::")[0]]
    everything = collected("", file)
    assert collected("not nightly", file) == [name for name in everything if name not in left_to_the_night(everything)]


def test_the_first_of_each_group_stays_and_some_of_the_others() -> None:
    test = next(family.test for family in FAMILIES if family.every == 3)
    names = [f"{test}[{name}]" for name in ("a-1", "a-2", "b-1", "a-3", "b-2", "b-3")]
    assert left_to_the_night(names) == {names[1], names[3], names[5]}
    assert left_to_the_night(["tests/other.py::test_that[a-1]", "tests/other.py::test_that[a-2]"]) == set()
