"""The Python environment that released packages run in: one for all releases with the same dependencies."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.targets.folders import (
    UNFINISHED,
    clear_disk_errors,
    disk_is_full,
    mark_complete,
    record_of,
    remove,
    size_of,
)
from cacheproof.targets.pip import run_pip

TORCH_VARIABLE = "TORCH_SPEC"
TORCH = "torch==2.13.0"
"""Only the bytes of a tensor are asked for, so any build will do; one for the CPU is the smallest."""
DEPENDENCIES = ("cachetools==8.0.0", "msgspec", "numpy", "packaging")
"""What the driven modules use of the packages that they import. No release pins cachetools."""
OVERLAYS = ("cachetools==7.1.6",)
"""Other versions that an era depends on, kept beside the environment and put before it when asked for."""

PREFIX = "environment-"
SPACE_FOR_PIP_BYTES = 50_000_000
"""Where less is free and no environment can be made, that is why; the standard library does not say."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A finished environment."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return interpreter(self.folder)

    def overlay(self, requirement: str) -> Path:
        """The folder that has this other version of a dependency."""
        return self.folder / "overlays" / requirement


def interpreter(folder: Path) -> Path:
    """Where the interpreter of a virtual environment is."""
    return folder / "bin" / "python"


def torch_wanted() -> str:
    """What pip is asked to install as torch."""
    return os.environ.get(TORCH_VARIABLE) or TORCH


def folder_of(root: Path, torch: str) -> Path:
    """The environment's name says what is in it, so that another torch or Python gets another one."""
    parts = (f"{sys.version_info.major}.{sys.version_info.minor}", torch, *DEPENDENCIES, *OVERLAYS)
    return root / f"{PREFIX}{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}"


def finished(root: Path, torch: str) -> Environment | None:
    """The environment, if it is there and whole."""
    folder = folder_of(root, torch)
    return Environment(folder) if record_of(folder) is not None and interpreter(folder).exists() else None


def ensured(root: Path, progress: Show) -> Environment:
    """The environment, made if it is not there. The caller holds the lock."""
    torch = torch_wanted()
    return finished(root, torch) or _made(root, torch, progress)


def all_in(root: Path) -> Iterator[Path]:
    """The folders of environments, whole or not."""
    return (folder for folder in sorted(root.glob(f"{PREFIX}*")) if folder.is_dir())


def _made(root: Path, torch: str, progress: Show) -> Environment:
    """Made in place, as it knows its own path; what is left of a failure is removed."""
    folder = folder_of(root, torch)
    remove(folder)
    with clear_disk_errors(root):
        try:
            _fill(folder, root, torch, progress)
        except BaseException:
            remove(folder)
            raise
    return Environment(folder)


def _fill(folder: Path, root: Path, torch: str, progress: Show) -> None:
    progress(f"making {folder}")
    _make_empty(folder, root)
    python, scratch = interpreter(folder), root / f"{UNFINISHED}scratch"
    run_pip(python, ["install", torch, *DEPENDENCIES], f"installing {torch}", scratch, progress, into=folder)
    for overlay in OVERLAYS:
        target = str(Environment(folder).overlay(overlay))
        run_pip(python, ["install", "--no-deps", "--target", target, overlay], overlay, scratch, progress)
    mark_complete(folder, {"torch": torch, "dependencies": DEPENDENCIES, "bytes": size_of(folder)})


def _make_empty(folder: Path, root: Path) -> None:
    command = [sys.executable, "-m", "venv", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own interpreter
    if made.returncode == 0:
        return
    if shutil.disk_usage(root).free < SPACE_FOR_PIP_BYTES:
        raise InconclusiveError(disk_is_full(root))
    said = (made.stderr or made.stdout).strip().splitlines()
    raise InconclusiveError(f"{folder}: no virtual environment can be made: {said[-1] if said else 'no reason'}")
