"""A family of such packages: a release in the cache folder, added from the package index, found, removed.

It runs in the environment of the releases of vLLM, whose torch is enough. Of the wheel, the modules that are touched
are kept.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.targets import environment
from cacheproof.targets.families import Added
from cacheproof.targets.fetching import discarded, downloaded, put_in_place, unpack
from cacheproof.targets.folders import UNFINISHED, clear_disk_errors, locked, record_of, sweep, targets_folder
from cacheproof.targets.vllm.release import START as START_OF_VLLM
from cacheproof.targets.vllm.release import needed_environment

START = Path(__file__).parent / "child" / "start.py"
SHARED = ("calls", "conversation", "reading", "stand_ins")
"""Modules of the driver for vLLM that are used as they are."""
OBSERVED = "kv_blocks"


@dataclass(frozen=True)
class PrefixFamily:
    """Releases of one package, and how they are driven."""

    package: str
    """Its name on the index."""
    newest: str
    """A version, for messages."""
    child: Path
    """The folder of its driver: `declared.py`, and what that names."""
    inside: str
    """The folder of the wheel that has all that may be touched."""
    endings: tuple[str, ...]
    """Of the files in it that may be."""
    configurations: Mapping[str, Mapping[str, Any]]
    """What its caches are walked in, by name."""
    served: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Of its drivers those that serve, and what each is walked in, by name."""
    observed: str | None = OBSERVED
    claims: tuple[str, ...] = ()
    """What is claimed for its caches: with `eviction_order`, the least recently used page is evicted first."""

    @property
    def example(self) -> str:
        """A release, as it is written."""
        return f"{self.package}=={self.newest}"

    def parsed(self, text: str) -> Package:
        """The release that a target's name means; raises InputError."""
        number = r"[0-9]+(?:\.[0-9]+)*(?:\.post[0-9]+)?"
        match = re.fullmatch(rf"{re.escape(self.package)}==({number})", text.strip())
        if match is None:
            raise InputError(f"'{text}' is not a release: write it as in {self.example}")
        return Package(self, match.group(1))

    def canonical(self, text: str) -> str:
        """The name of the release that a text means; raises InputError."""
        return self.parsed(text).name

    def add(self, text: str, progress: Show, era: str = "") -> Added:
        """Install it; what is there already is not made again. Raises InputError and InconclusiveError."""
        if era:
            raise InputError(f"--era is for vllm@PATH: {self.package} has no eras")
        package, root = self.parsed(text), targets_folder()
        with locked(root):
            sweep(root)
            home = environment.ensured(root, progress)
            if package.record() is None:
                with clear_disk_errors(root):
                    _install(package, root / f"{UNFINISHED}{package.folder.name}", home.python, progress)
        return package.added()

    def discard(self, text: str) -> int:
        """Remove it; how many bytes that gave back."""
        package = self.parsed(text)
        if not package.folder.exists():
            raise InputError(f"{package.name} is not installed")
        return discarded(targets_folder(), package.folder)

    def all_added(self) -> list[Added]:
        """Every one that is there and whole, by version."""
        folders = targets_folder().glob(f"{self.package}-*")
        packages = [Package(self, folder.name.removeprefix(f"{self.package}-")) for folder in folders]
        whole = (one for one in packages if one.record() is not None)
        return [
            one.added()
            for one in sorted(whole, key=lambda one: [int(part) for part in re.findall("[0-9]+", one.version)])
        ]

    def driver_digest(self) -> str:
        """What the driver is, in a few letters: its own modules, and those that it shares."""
        return _digest(self.child)

    def call(self, python: Path, source: Path, version: str) -> list[str]:
        """The command that drives the modules in a folder."""
        return [str(python), "-I", str(START), str(START_OF_VLLM.parent), str(self.child), str(source), version]


@dataclass(frozen=True, slots=True)
class Package:
    """A version of a package, and the folder where it is kept if it is there."""

    family: PrefixFamily
    version: str

    @property
    def name(self) -> str:
        """As it is written."""
        return f"{self.family.package}=={self.version}"

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return targets_folder() / f"{self.family.package}-{self.version}"

    def record(self) -> Mapping[str, Any] | None:
        """What is known of it, if it is there, whole, and added for this driver."""
        record = record_of(self.folder)
        return record if record is not None and record.get("driver") == self.family.driver_digest() else None

    def added(self) -> Added:
        """The same as an installed release; raises InputError where it is not installed."""
        record = self.record()
        if record is None:
            raise InputError(f"{self.name} is not installed: cacheproof target add {self.name}")
        return Added(self.name, self.folder, record)

    def command(self) -> str:
        """The command of the child process that drives it; raises InputError where it is not installed."""
        source = self.added().folder / "source"
        return shlex.join(self.family.call(needed_environment().python, source, self.version))


@cache
def _digest(child: Path) -> str:
    digest = hashlib.sha256()
    shared = [START_OF_VLLM.parent / "driver" / f"{name}.py" for name in SHARED]
    for path in (*sorted(START.parent.glob("*.py")), *sorted(child.glob("*.py")), *shared):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _install(package: Package, making: Path, python: Path, progress: Show) -> None:
    """Wheel, modules, and a trial that finds out which of them are needed; then the folder gets its name."""
    family = package.family
    wheel = downloaded(package.name, python, making, progress)
    unpack(wheel, making / "all", lambda name: name.startswith(family.inside) and name.endswith(family.endings))
    wheel.unlink()
    about = {"version": package.version, "wheel": wheel.name, "driver": family.driver_digest()}
    put_in_place(
        package.name, making, package.folder, lambda source: family.call(python, source, package.version), about
    )
