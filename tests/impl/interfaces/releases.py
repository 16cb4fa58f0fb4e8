"""Cases that ours must pass, and what is known of the released packages that do not."""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from cacheproof.targets.vllm.release import START, Release, add, needed_environment

HERE = Path(__file__).parent
VERSIONS = ("0.7.3", "0.11.0", "0.20.2", "0.33.0")


class Difference(NamedTuple):
    """Releases that end a case in another way, and why."""

    versions: tuple[str, ...]
    entry: str
    """The entry of the catalogue, or in a few words why there is none."""


Case = Callable[[Any], None]


def cases_of(module: ModuleType) -> Mapping[str, Case]:
    """The cases of a module, by name."""
    return {name.removeprefix("case_"): one for name, one in vars(module).items() if name.startswith("case_")}


def each(module: ModuleType) -> Iterable[Any]:
    """The cases of a module, for parametrize."""
    return [pytest.param(one, id=name) for name, one in cases_of(module).items()]


def outcomes(version: str, module: ModuleType) -> dict[str, str]:
    """What the cases come to with a released package, which is installed if need be."""
    there = add(Release(version), print)
    python = needed_environment().python
    script = [str(python), "-I", str(HERE / "released.py"), str(START.parent), str(there.source), version]
    command = [*script, str(inspect.getsourcefile(module))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


def check_release(version: str, module: ModuleType, differences: Mapping[str, Difference]) -> None:
    """Every case passes with the release, is absent there, or is a known difference; and each of those is one."""
    found = outcomes(version, module)
    assert set(found) == set(cases_of(module))
    assert set(differences) <= set(found)
    differs = {name for name, how in found.items() if how not in ("passed", "absent")}
    known = {name for name, one in differences.items() if version in one.versions}
    assert differs == known, {name: found[name] for name in differs ^ known}
    assert "passed" in found.values()
