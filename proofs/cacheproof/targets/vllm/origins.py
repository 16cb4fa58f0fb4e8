"""A vLLM that does not come from the package index: a checkout, a branch of one, a wheel or an sdist.

It is written `vllm@PATH`, or `vllm@PATH@BRANCH` for a branch, a tag or a commit of a checkout. Its modules are copied,
so a run never reads a file that is being edited.
"""

from __future__ import annotations

import errno
import hashlib
import io
import re
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cacheproof.foundation.errors import InputError

PACKAGE = "vllm"
PREFIX = f"{PACKAGE}@"
VERSION = r"[0-9]+(?:\.[0-9]+)*(?:(?:rc|a|b)[0-9]+)?(?:\.post[0-9]+)?"
"""The part of a version that is compared; a development build and a local label are left out."""
SDIST = ".tar.gz"


@dataclass(frozen=True, slots=True)
class Origin:
    """A folder with the package, a branch of one, a wheel or an sdist."""

    path: Path
    """Absolute."""
    branch: str = ""
    """A branch, a tag or a commit; empty for the files as they are."""

    @classmethod
    def parsed(cls, text: str) -> Origin:
        """The origin that is written behind `vllm@`; it need not exist. Raises InputError for an empty text."""
        if not text:
            raise InputError("'vllm@' names no path: write it as in vllm@/home/me/vllm")
        whole, (before, _, branch) = _absolute(text), text.rpartition("@")
        if whole.exists() or not before or not _absolute(before).exists():
            return cls(whole)
        return cls(_absolute(before), branch)

    def __str__(self) -> str:
        return f"{self.path}@{self.branch}" if self.branch else str(self.path)

    @property
    def folder(self) -> str:
        """The name of the folder in which its modules are kept."""
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.path.name}-{self.branch}").strip("-")
        return f"{PREFIX}{readable}-{hashlib.sha256(str(self).encode()).hexdigest()[:12]}"

    def version(self) -> str:
        """The version that it has by its own account; empty if it has none."""
        for text in self._accounts():
            match = re.search(rf"(?m)^(?:v|Version: |.*__version__ = (?:version = )?['\"])({VERSION})", text)
            if match is not None:
                return match.group(1)
        return ""

    def _accounts(self) -> Iterable[str]:
        """Texts that may have the version: the newest tag, and what a build wrote."""
        if self.path.is_dir():
            described = _git(self.path, "describe", "--tags", "--match", "v[0-9]*", self.branch or "HEAD")
            yield "" if described is None else described.decode()
            written = self.path / PACKAGE / "_version.py"
            yield written.read_text(encoding="utf-8") if written.is_file() and not self.branch else ""
        elif self.path.suffix == ".whl" and self.path.is_file():
            with _wheel(self.path) as archive:
                about = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
                yield from (archive.read(name).decode(errors="replace") for name in about)
        elif self.path.name.endswith(SDIST):
            yield "v" + self.path.name.removeprefix(f"{PACKAGE}-")

    def state(self) -> str:
        """What tells one state of a branch or a file from another; empty for a folder, and if the origin is gone."""
        if self.branch:
            return (_git(self.path, "rev-parse", f"{self.branch}:./{PACKAGE}") or b"").decode().strip()
        if not self.path.is_file():
            return ""
        about = self.path.stat()
        return f"{about.st_size} bytes of {about.st_mtime_ns}"

    def changed(self, state: str, kept: Path, files: Iterable[str]) -> bool:
        """Whether it differs from an earlier state, of which these files are kept. One that is gone does not."""
        if self.branch or not self.path.is_dir():
            return self.state() not in ("", state)
        pairs = ((self.path / name, kept / name) for name in files)
        return any(not now.is_file() or now.read_bytes() != then.read_bytes() for now, then in pairs)

    def unpack(self, into: Path) -> None:
        """Copy the package's Python modules into a folder. Raises InputError if there are none."""
        if self.branch:
            self._unpack_branch(into)
        elif self.path.is_dir():
            _copy(self.path / PACKAGE, into / PACKAGE)
        elif self.path.suffix == ".whl" and self.path.is_file():
            _unzip(self.path, into)
        elif self.path.name.endswith(SDIST) and self.path.is_file():
            _unpack_sdist(self.path, into)
        elif self.path.exists():
            raise InputError(f"{self.path} is no folder, no wheel (.whl) and no sdist ({SDIST})")
        else:
            raise InputError(f"{self.path} does not exist")
        if not (into / PACKAGE / "__init__.py").is_file():
            raise InputError(f"{self} has no package {PACKAGE}: name the folder that contains {PACKAGE}/__init__.py")

    def _unpack_branch(self, into: Path) -> None:
        packed = _git(self.path, "archive", "--format=tar", self.branch, PACKAGE)
        if packed is None:
            raise InputError(f"{self.path}: git has no branch, tag or commit '{self.branch}' with the folder {PACKAGE}")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            _extract(archive, into, strip=0)


def _absolute(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _git(folder: Path, *arguments: str) -> bytes | None:
    """The output of git in a folder; None if it fails, or is not installed."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  # our own arguments
    except FileNotFoundError:
        return None
    return ended.stdout if ended.returncode == 0 else None


def _copy(package: Path, into: Path) -> None:
    for file in package.rglob("*.py"):
        _write(into / file.relative_to(package), file.read_bytes())


@contextmanager
def _wheel(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """Raises InputError if the file is damaged, where it is opened or where it is read.

    An offset in a damaged file may be negative: the system calls that an invalid argument.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError):
        raise InputError(f"{wheel} is no wheel: it is damaged") from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise InputError(f"{wheel} is no wheel: it is damaged") from None


def _unzip(wheel: Path, into: Path) -> None:
    with _wheel(wheel) as archive:
        for name in filter(_is_module, archive.namelist()):
            _write(into / name, archive.read(name))


def _unpack_sdist(sdist: Path, into: Path) -> None:
    try:
        with tarfile.open(sdist) as archive:
            _extract(archive, into, strip=1)
    except tarfile.ReadError:
        raise InputError(f"{sdist} is no sdist: it is damaged") from None


def _extract(archive: tarfile.TarFile, into: Path, strip: int) -> None:
    """Write the package's modules, without the first `strip` parts of their names."""
    for member in archive:
        name = "/".join(PurePosixPath(member.name).parts[strip:])
        content = archive.extractfile(member) if member.isfile() and _is_module(name) else None
        if content is not None:
            _write(into / name, content.read())


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _is_module(name: str) -> bool:
    return name.startswith(f"{PACKAGE}/") and name.endswith(".py") and ".." not in PurePosixPath(name).parts
