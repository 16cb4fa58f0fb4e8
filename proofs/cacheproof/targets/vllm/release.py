"""A vLLM in the cache folder: added from the package index or a path, listed, removed, and started as a target."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.targets import environment
from cacheproof.targets.environment import Environment
from cacheproof.targets.fetching import WHEELS, discarded, downloaded, probed, put_in_place, unpack
from cacheproof.targets.folders import (
    UNFINISHED,
    clear_disk_errors,
    finish,
    locked,
    mark_complete,
    record_of,
    remove,
    sweep,
    targets_folder,
)
from cacheproof.targets.vllm.origins import PREFIX, VERSION, Origin

START = Path(__file__).parent / "child" / "start.py"


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the package, written `vllm==X`, or one from another origin, written `vllm@PATH`."""

    version: str
    """Of an origin, the version that it counts as; empty if it is not known."""
    origin: Origin | None = None

    @classmethod
    def parsed(cls, text: str) -> Release:
        """The release that a target's name means; raises InputError."""
        name = text.strip()
        if name.startswith(PREFIX):
            origin = Origin.parsed(name.removeprefix(PREFIX))
            record = record_of(targets_folder() / origin.folder)
            return cls(origin.version() if record is None else str(record["version"]), origin)
        match = re.fullmatch(rf"vllm==({VERSION})", name)
        if match is None:
            raise InputError(f"'{text}' is not a release: write it as in vllm==0.33.0, or as in vllm@/home/me/vllm")
        return cls(match.group(1))

    def counted_as(self, era: str) -> Release:
        """The same from its origin, as this version, such as 0.33.0; raises InputError."""
        if self.origin is None:
            raise InputError(f"--era is for vllm@PATH: {self.name} has its version")
        return Release(Release.parsed(f"vllm=={era.removeprefix('vllm==')}").version, self.origin)

    @property
    def name(self) -> str:
        """As it is written."""
        return f"vllm=={self.version}" if self.origin is None else f"{PREFIX}{self.origin}"

    @property
    def parts(self) -> tuple[int, ...]:
        """What it is sorted by."""
        return tuple(int(part) for part in re.findall(r"[0-9]+", self.version))

    def folder(self, root: Path) -> Path:
        """Where it is kept."""
        return root / (f"vllm-{self.version}" if self.origin is None else self.origin.folder)


@dataclass(frozen=True, slots=True)
class Installed:
    """A release that is there and whole."""

    release: Release
    folder: Path
    record: Mapping[str, Any]

    @property
    def source(self) -> Path:
        """The folder with the package's own modules."""
        return self.folder / "source"

    def obstacle(self, component: str) -> str:
        """Why it cannot be driven as this component; empty if it can."""
        return str(self.record["components"].get(component, f"there is no driver for {component}"))

    def command(self, python: Path, first: Path | None = None, *, readers_apart: bool = False, window: int = 0) -> str:
        """The command of the child process that drives it; `first` comes before the installed packages.

        `readers_apart`: each reader of a shared memory is a process of its own. `window`: the tokens that a layer of
        the scheduler looks back, which no era has.
        """
        extra = [] if first is None else ["--first", str(first)]
        extra += ["--readers-apart"] if readers_apart else []
        extra += ["--window", str(window)] if window else []
        return shlex.join([str(python), "-I", str(START), str(self.source), self.release.version, *extra])


def add(release: Release, progress: Show) -> Installed:
    """Install a release; what is there already is not made again. Raises InputError and InconclusiveError."""
    root = targets_folder()
    if not release.version:
        raise InputError(f"{release.name} does not tell its version: name the nearest release, as in --era 0.33.0")
    with locked(root):
        sweep(root)
        try:
            home = environment.ensured(root, progress)
            if installed(release) is None and not _renewed(release, root, home):
                _install(release, root, home, progress)
        finally:
            sweep(root)
    return needed(release)


def installed(release: Release) -> Installed | None:
    """The release, if it is there, whole, and added for this driver: another one may need other modules.

    One from another origin is as it was when it was added.
    """
    folder = release.folder(targets_folder())
    record = record_of(folder)
    if record is None or record.get("driver") != driver_digest() or _changed(release, record):
        return None
    return Installed(release, folder, record)


def _changed(release: Release, record: Mapping[str, Any]) -> bool:
    """Whether the origin has other modules now, or counts as another version. One that is gone has not changed."""
    if release.origin is None:
        return False
    kept = release.folder(targets_folder()) / "source"
    return record["version"] != release.version or release.origin.changed(record["state"], kept, record["files"])


@cache
def driver_digest() -> str:
    """What the driver is, in a few letters."""
    digest = hashlib.sha256()
    for path in sorted(path for ending in ("py", "toml") for path in START.parent.rglob(f"*.{ending}")):
        digest.update(path.relative_to(START.parent).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def needed(release: Release) -> Installed:
    """The release, or an error that says how to get it."""
    there = installed(release)
    if there is None:
        record = record_of(release.folder(targets_folder()))
        changed = record is not None and _changed(release, record)
        why = "has changed since it was added" if changed else "is not installed"
        raise InputError(f"{release.name} {why}: cacheproof target add {release.name}")
    return there


def needed_environment() -> Environment:
    """The environment that releases run in, or an error that says how to get it."""
    torch = environment.torch_wanted()
    home = environment.finished(targets_folder(), torch)
    if home is None:
        raise InputError(
            f"there is no environment with {torch}: add a target again, as in cacheproof target add vllm==0.33.0"
        )
    return home


def all_installed() -> list[Installed]:
    """Every release that is there and whole, by version."""
    root = targets_folder()
    releases = [Release(folder.name.removeprefix("vllm-")) for folder in root.glob("vllm-*")]
    for folder in root.glob(f"{PREFIX}*"):
        record = record_of(folder)
        if record is not None:
            releases.append(Release(str(record["version"]), Origin.parsed(str(record["origin"]))))
    found = (installed(release) for release in releases)
    return sorted((one for one in found if one is not None), key=lambda one: one.release.parts)


def discard(release: Release) -> int:
    """Remove a release, and the environments with the last one; how many bytes that gave back."""
    root = targets_folder()
    if not release.folder(root).exists():
        raise InputError(f"{release.name} is not installed: {_there_are(all_installed())}")
    return discarded(root, release.folder(root), _wheels(release, root))


def _renewed(release: Release, root: Path, home: Environment) -> bool:
    """Whether what an older driver kept is enough for this one; if so it is marked as such, and nothing is fetched."""
    folder = release.folder(root)
    record = record_of(folder)
    if record is None or not (folder / "source").is_dir() or _changed(release, record):
        return False
    touched = probed(release.name, _call(release, home, folder / "source"))
    same = drives_as_before(record.get("components", {}), touched["components"])
    if not same or any(touched[key] != record.get(key) for key in ("files", "read")):
        return False
    mark_complete(folder, {**record, **touched, "driver": driver_digest()})
    return True


def drives_as_before(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether every component is driven as before, and each new one is driven by the modules that are kept."""
    return all(why == before.get(component, "") for component, why in now.items()) and set(before) <= set(now)


def _install(release: Release, root: Path, home: Environment, progress: Show) -> None:
    """The modules, and a trial that finds out which of them are needed; then the folder gets its name."""
    wheel = _downloaded(release, root, home, progress) if release.origin is None else None
    making = root / f"{UNFINISHED}{release.folder(root).name}"
    about: dict[str, Any] = {"version": release.version, "driver": driver_digest()}
    with clear_disk_errors(root):
        progress(f"{release.name}: unpacking the Python modules")
        if wheel is not None:
            unpack(wheel, making / "all", lambda name: name.startswith("vllm/") and name.endswith(".py"))
            about["wheel"] = wheel.name
        elif release.origin is not None:
            release.origin.unpack(making / "all")
            about |= {"origin": str(release.origin), "state": release.origin.state()}
        put_in_place(release.name, making, release.folder(root), lambda source: _call(release, home, source), about)
        remove(_wheels(release, root))


def _wheels(release: Release, root: Path) -> Path:
    return root / f"{WHEELS}{release.version}"


def _downloaded(release: Release, root: Path, home: Environment, progress: Show) -> Path:
    """The wheel, fetched unless an earlier run got that far: it has hundreds of megabytes."""
    folder = _wheels(release, root)
    record = record_of(folder)
    if record is not None and (folder / record["wheel"]).is_file():
        return folder / str(record["wheel"])
    making = root / f"{UNFINISHED}{folder.name}"
    wheel = downloaded(release.name, home.python, making, progress)
    finish(making, folder, {"wheel": wheel.name})
    return folder / wheel.name


def _call(release: Release, home: Environment, source: Path) -> list[str]:
    return [str(home.python), "-I", str(START), str(source), release.version]


def _there_are(releases: Iterable[Installed]) -> str:
    names = ", ".join(one.release.name for one in releases)
    return f"there are {names}" if names else "no release is"
