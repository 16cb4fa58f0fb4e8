"""What a user gets who installs the package and no extra."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

TIMEOUT_SECONDS = 120


def cacheproof(python: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Call the command beside that Python, away from this tree and with nothing on the path of imports."""
    return subprocess.run(
        [python.parent / "cacheproof", *arguments],
        input=given,
        cwd=python.parent.parent,
        env=bare_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def bare_environment() -> dict[str, str]:
    """Without what would lead Python, or the command, to folders of this tree or of the user."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CACHEPROOF"))}


@pytest.fixture(params=["base", "editable"])
def python(request: pytest.FixtureRequest) -> Path:
    """The Python of an environment without extras, by wheel and by editable install."""
    found: Path = request.getfixturevalue(request.param)
    return found


def test_no_extra_is_there(python: Path) -> None:
    for module in ("torch", "hypothesis", "z3", "pytest"):
        tried = [str(python), "-c", f"import {module}"]
        assert subprocess.run(tried, env=bare_environment(), capture_output=True, check=False).returncode == 1


def test_the_base_install_lists_and_explains(python: Path) -> None:
    listed = cacheproof(python, "list", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "lru" in {component["name"] for component in json.loads(listed.stdout)["components"]}
    assert cacheproof(python, "explain", "LRU-1").returncode == 0


def test_the_base_install_checks(python: Path) -> None:
    checked = cacheproof(python, "check", "lru", "--variant", "normative", "--json")
    assert checked.returncode == 0, checked.stderr
    assert {"pins", "turns"} <= {run["scope"] for run in json.loads(checked.stdout)["runs"]}


def test_the_base_install_serves(python: Path) -> None:
    served = cacheproof(python, "serve", given='{"no": "such message"}\n')
    assert "Traceback" not in served.stderr
    assert json.loads(served.stdout.splitlines()[0])


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("fuzz", "lru", "--target", "spec:normative"), "fuzz"),
        (("prove",), "prove"),
        (("check", "lru", "--engine", "tensor"), "torch"),
    ],
)
def test_a_missing_extra_is_one_clear_line(python: Path, arguments: tuple[str, ...], extra: str) -> None:
    ended = cacheproof(python, *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = [line for line in ended.stderr.splitlines() if not line.startswith("seed ")]
    assert f"pip install 'CHECKOUT_OR_WHEEL[{extra}]'" in line
