"""A released package from the package index: its wheel, the modules of it that are wanted, and those that are needed.

Whoever drives a package says which of its files may be kept and which command finds out what it touches; what is
fetched, unpacked, tried and kept is the same for all.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.targets import environment
from cacheproof.targets.folders import UNFINISHED, finish, locked, remove, size_of, sweep
from cacheproof.targets.pip import run_pip

PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(45, 16, -1)),
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
)
"""Wheels for any machine will do, as hardly any compiled part is kept; releases are published for some of these."""
SECONDS_TO_PROBE = 300.0
WHEELS = "wheel-"
"""The beginning of the name of a folder with a wheel and nothing else."""


def downloaded(name: str, python: Path, into: Path, progress: Show) -> Path:
    """The wheel of `NAME==VERSION`, in this folder. Raises InputError and InconclusiveError."""
    into.mkdir(parents=True, exist_ok=True)
    platforms = [part for platform in PLATFORMS for part in ("--platform", platform)]
    arguments = ["download", name, "--no-deps", "--only-binary", ":all:", "--dest", str(into), *platforms]
    run_pip(python, arguments, f"downloading {name}", into / "scratch", progress)
    shutil.rmtree(into / "scratch", ignore_errors=True)
    wheels = sorted(into.glob("*.whl"))
    if len(wheels) != 1:
        raise InconclusiveError(f"{name}: pip downloaded {len(wheels)} wheels where one was expected")
    return wheels[0]


def unpack(wheel: Path, into: Path, wanted: Callable[[str], bool]) -> None:
    """The files of the wheel that are wanted, by their names in it; a damaged wheel is removed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(into, [name for name in archive.namelist() if wanted(name)])
    except zipfile.BadZipFile:
        wheel.unlink()
        raise InconclusiveError(f"{wheel.name} was damaged and has been removed: try again") from None


def probed(name: str, command: Sequence[str]) -> dict[str, Any]:
    """Which modules are touched, and which stand-ins, when everything that is driven is imported."""
    call = [*command, "--probe"]
    try:
        ended = subprocess.run(call, capture_output=True, text=True, check=False, timeout=SECONDS_TO_PROBE)  # noqa: S603  # our own script
    except subprocess.TimeoutExpired:
        raise InconclusiveError(f"{name}: importing its classes took over {SECONDS_TO_PROBE:g} s") from None
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        raise InconclusiveError(f"{name} cannot be driven: {said[-1] if said else 'its import failed'}")
    touched: dict[str, Any] = json.loads(ended.stdout)
    return touched


def _keep_what_is_needed(name: str, making: Path, command: Callable[[Path], Sequence[str]]) -> Mapping[str, Any]:
    """Of the modules in `making/all`, put those that are touched into `making/source`; what the trial found.

    `command` starts the driver on the modules in a folder. Raises InconclusiveError where nothing can be driven.
    """
    touched = probed(name, command(making / "all"))
    obstacles = touched["components"]
    if all(obstacles.values()):
        raise InconclusiveError(f"{name} cannot be driven: {next(iter(obstacles.values()))}")
    for file in touched["files"]:
        target = making / "source" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(making / "all" / file, target)
    if probed(name, command(making / "source")) != touched:
        raise InconclusiveError(f"{name}: its modules import others when others are missing")
    shutil.rmtree(making / "all")
    return touched


def put_in_place(
    name: str, making: Path, folder: Path, command: Callable[[Path], Sequence[str]], about: Mapping[str, Any]
) -> None:
    """Keep what is needed of the modules in `making/all`, and give the folder its name; `about` goes into its record.

    Raises InconclusiveError where nothing can be driven.
    """
    touched = _keep_what_is_needed(name, making, command)
    finish(making, folder, {**about, **touched, "bytes": size_of(making / "source")})


def discarded(root: Path, *folders: Path) -> int:
    """Remove these folders, and the environments with the last release; how many bytes that gave back."""
    with locked(root):
        before = size_of(root)
        sweep(root)
        for folder in folders:
            remove(folder)
        _remove_unused_environments(root)
        return before - size_of(root)


def _remove_unused_environments(root: Path) -> None:
    """The environments go with the last release, whichever package it is of. The caller holds the lock."""
    beginnings = (environment.PREFIX, WHEELS, UNFINISHED)
    if any(folder.is_dir() and not folder.name.startswith(beginnings) for folder in root.iterdir()):
        return
    for folder in environment.all_in(root):
        remove(folder)
