"""Calls of pip, with what it has fetched so far shown, and its failures as one line."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.targets.folders import disk_is_full, size_of

SECONDS_BETWEEN_LOOKS = 0.5
MEGABYTE = 1_000_000
UNREACHABLE = (
    "Retrying (Retry",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Connection refused",
    "Read timed out",
    "ReadTimeoutError",
    "ConnectTimeoutError",
    "ProxyError",
    "SSLError",
    "Network is unreachable",
)
"""What pip says when it does not get to its index."""
NOT_THERE = ("No matching distribution found", "Could not find a version that satisfies")
FULL = ("No space left on device", "Disk quota exceeded")
NAMED_AT_MOST = 8
"""Versions that an error names."""


def run_pip(
    python: Path,
    arguments: Sequence[str],
    what: str,
    scratch: Path,
    progress: Show,
    *,
    into: Path | None = None,
    backend: Path | None = None,
) -> None:
    """Run the pip of an environment. It reads its own environment variables, and works in `scratch`.

    What is shown is how much there is in `scratch` and in the folder that it fills. `backend`: a folder with the build
    backend that reads the metadata of source packages, in the place of their own.

    Raises InputError where what was asked for is not to be had, InconclusiveError where pip could not finish.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONPATH", None)
    if backend is not None:
        environment["PYTHONPATH"] = str(backend)
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=environment)  # noqa: S603  # our own arguments
        try:
            status = _watched(process, what, (scratch, into or scratch / "nothing"), progress)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said.seek(0)
        lines = said.read().splitlines()
    if status != 0:
        raise failure(lines, what, scratch)


def failure(lines: Sequence[str], what: str, scratch: Path) -> Exception:
    """What went wrong, from what pip said."""
    if any(sign in line for line in lines for sign in FULL):
        return InconclusiveError(disk_is_full(scratch.parent))
    missing = next((line for line in lines if any(sign in line for sign in NOT_THERE)), None)
    offered = versions_offered(missing or "")
    if not offered and any(sign in line for line in lines for sign in UNREACHABLE):
        return InconclusiveError(
            f"{what}: pip cannot reach its package index; check the network, or PIP_INDEX_URL and PIP_PROXY"
        )
    if missing is not None and not offered:
        return InconclusiveError(
            f"{what}: pip found no version at all: its index is out of reach, or has none for this Python"
        )
    if missing is not None:
        named = ", ".join(offered[-NAMED_AT_MOST:])
        return InputError(f"{what}: there is no such version; the newest there are: {named}")
    errors = [line for line in lines if line.startswith("ERROR:")] or list(lines[-1:])
    told = errors[0].removeprefix("ERROR:").strip() if errors else "nothing"
    return InconclusiveError(f"{what}: pip failed, and said: {told}")


def versions_offered(line: str) -> list[str]:
    """The versions that pip found instead of the one asked for, oldest first."""
    _, _, rest = line.partition("(from versions:")
    listed = [part.strip() for part in rest.partition(")")[0].split(",")]
    return [part for part in listed if part and part != "none"]


def _watched(process: subprocess.Popen[bytes], what: str, folders: Sequence[Path], progress: Show) -> int:
    """Wait for the end; meanwhile show how much has arrived."""
    arrived = 0.0  # the largest sum, since pip removes temporary files
    while True:
        try:
            return process.wait(SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            arrived = max(arrived, sum(map(size_of, folders)) / MEGABYTE)
            progress(f"{what}: {arrived:,.0f} MB")
