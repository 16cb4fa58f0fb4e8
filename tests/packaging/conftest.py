"""Wheels of this tree, and fresh environments that hold nothing but one of them and what it declares to need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from hatchling import build
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def built(hook: Callable[[str], str], folder: Path) -> Path:
    """What one of the backend's hooks builds; it works in the current folder."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return folder / hook(str(folder))
    finally:
        os.chdir(before)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(build.build_wheel, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def editable_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install --editable` installs."""
    return built(build.build_editable, tmp_path_factory.mktemp("editable"))


def requirements(wheel: Path) -> list[Requirement]:
    """What the wheel's metadata says that the base install needs."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    return [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]


def closure(wanted: list[Requirement]) -> Iterator[str]:
    """The distributions that those requirements bring, as this environment has them; extras are not asked for."""
    pending, seen = list(wanted), set[str]()
    while pending:
        requirement = pending.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in seen or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        yield name
        try:
            pending.extend(Requirement(text) for text in distribution(name).requires or [])
        except PackageNotFoundError:
            pytest.fail(f"{name} is needed by the base install and is not in this environment")


def link_distribution(name: str, site: Path) -> None:
    """Puts the files of an installed distribution into another environment."""
    found = distribution(name)
    for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
        source = Path(str(found.locate_file(top)))
        if source.exists() and not (site / top).exists() and top != "__pycache__":
            (site / top).symlink_to(source)


def fresh(folder: Path, wheel: Path) -> Path:
    """A new environment with that wheel and its base requirements; returns its Python. Nothing is downloaded."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    call = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*call, str(wheel)], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for name in closure(requirements(wheel)):
        link_distribution(name, site)
    return python


@pytest.fixture(scope="session")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and no extra."""
    return fresh(tmp_path_factory.mktemp("base"), wheel)


@pytest.fixture(scope="session")
def editable(editable_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with this tree, installed editable, and no extra."""
    return fresh(tmp_path_factory.mktemp("editable-environment"), editable_wheel)
