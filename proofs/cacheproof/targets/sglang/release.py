"""A released SGLang in the cache folder: added from the package index, found, removed.

It runs in the environment of the releases of vLLM, whose torch is enough: triton is stood for. Of the wheel, the
modules that are touched are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cacheproof.errors import InconclusiveError, InputError
from cacheproof.targets.vllm import environment
from cacheproof.targets.vllm.folders import (
    UNFINISHED,
    clear_disk_errors,
    finish,
    locked,
    record_of,
    remove,
    size_of,
    sweep,
    targets_folder,
)
from cacheproof.targets.vllm.pip import Progress, run_pip
from cacheproof.targets.vllm.release import PLATFORMS, SECONDS_TO_PROBE, needed_environment
from cacheproof.targets.vllm.release import START as START_OF_VLLM

START = Path(__file__).parent / "child" / "start.py"
PREFIX = "sglang=="
KEPT = (".py", ".so")
"""Of the folder of the caches; the compiled core of the tree needs torch only."""
SHARED = ("calls", "conversation", "stand_ins")
"""Modules of the driver for vLLM that are used as they are."""


@dataclass(frozen=True, slots=True)
class Package:
    """A version of the package, and the folder where it is kept if it is there."""

    version: str

    @classmethod
    def parsed(cls, text: str) -> Package:
        """The package that a target's name means; raises InputError."""
        match = re.fullmatch(r"sglang==([0-9]+(?:\.[0-9]+)*(?:\.post[0-9]+)?)", text.strip())
        if match is None:
            raise InputError(f"'{text}' is not a release: write it as in sglang==0.5.23")
        return cls(match.group(1))

    @property
    def name(self) -> str:
        """As it is written."""
        return f"{PREFIX}{self.version}"

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return targets_folder() / f"sglang-{self.version}"

    def record(self) -> Mapping[str, Any] | None:
        """What is known of it, if it is there, whole, and added for this driver."""
        record = record_of(self.folder)
        return record if record is not None and record.get("driver") == driver_digest() else None

    def command(self) -> str:
        """The command of the child process that drives it; raises InputError where it is not installed."""
        if self.record() is None:
            raise InputError(f"{self.name} is not installed: cacheproof target add {self.name}")
        return shlex.join(_call(needed_environment().python, self.folder / "source", self.version))


@cache
def driver_digest() -> str:
    """What the driver is, in a few letters: its own modules, and those that it shares."""
    digest = hashlib.sha256()
    shared = [START_OF_VLLM.parent / "driver" / f"{name}.py" for name in SHARED]
    for path in (*sorted(START.parent.glob("*.py")), *shared):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def add(package: Package, progress: Progress) -> Mapping[str, Any]:
    """Install it; what is there already is not made again. Raises InputError and InconclusiveError."""
    root = targets_folder()
    with locked(root):
        sweep(root)
        home = environment.ensured(root, progress)
        if package.record() is None:
            making = root / f"{UNFINISHED}{package.folder.name}"
            with clear_disk_errors(root):
                _install(package, making, home.python, progress)
    found = package.record()
    assert found is not None
    return found


def discard(package: Package) -> int:
    """Remove it; how many bytes that gave back."""
    root = targets_folder()
    if not package.folder.exists():
        raise InputError(f"{package.name} is not installed")
    with locked(root):
        before = size_of(root)
        remove(package.folder)
        return before - size_of(root)


def all_installed() -> list[Package]:
    """Every one that is there and whole."""
    found = (Package(folder.name.removeprefix("sglang-")) for folder in sorted(targets_folder().glob("sglang-*")))
    return [package for package in found if package.record() is not None]


def _install(package: Package, making: Path, python: Path, progress: Progress) -> None:
    """Wheel, modules, and a trial that finds out which of them are needed; then the folder gets its name."""
    making.mkdir(parents=True)
    platforms = [part for platform in PLATFORMS for part in ("--platform", platform)]
    arguments = ["download", package.name, "--no-deps", "--only-binary", ":all:", "--dest", str(making), *platforms]
    run_pip(python, arguments, f"downloading {package.name}", making / "scratch", progress)
    wheels = sorted(making.glob("*.whl"))
    if len(wheels) != 1:
        raise InconclusiveError(f"{package.name}: pip downloaded {len(wheels)} wheels where one was expected")
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(
            making / "all",
            [one for one in archive.namelist() if one.startswith("sglang/srt/mem_cache/") and one.endswith(KEPT)],
        )
    touched = _probed(package, python, making / "all")
    if touched["components"]["radix"]:
        raise InconclusiveError(f"{package.name} cannot be driven: {touched['components']['radix']}")
    for file in touched["files"]:
        target = making / "source" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(making / "all" / file, target)
    if _probed(package, python, making / "source") != touched:
        raise InconclusiveError(f"{package.name}: its modules import others when others are missing")
    about = {"version": package.version, "wheel": wheels[0].name, "driver": driver_digest()}
    for left in (making / "all", making / "scratch"):
        shutil.rmtree(left, ignore_errors=True)
    wheels[0].unlink()
    finish(making, package.folder, {**about, **touched, "bytes": size_of(making / "source")})


def _probed(package: Package, python: Path, source: Path) -> dict[str, Any]:
    """Which modules are touched, and which stand-ins, when everything that is driven is imported."""
    command = [*_call(python, source, package.version), "--probe"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_TO_PROBE)  # noqa: S603  # our own script
    except subprocess.TimeoutExpired:
        raise InconclusiveError(f"{package.name}: importing its classes took over {SECONDS_TO_PROBE:g} s") from None
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        raise InconclusiveError(f"{package.name} cannot be driven: {said[-1] if said else 'its import failed'}")
    touched: dict[str, Any] = json.loads(ended.stdout)
    return touched


def _call(python: Path, source: Path, version: str) -> list[str]:
    return [str(python), "-I", str(START), str(START_OF_VLLM.parent), str(source), version]
