"""Packages that do not come from the index: checkouts, branches, wheels and sdists."""

from __future__ import annotations

import errno
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.targets.families import family_of
from cacheproof.targets.vllm import origins
from cacheproof.targets.vllm.origins import Origin
from cacheproof.targets.vllm.release import Release

MODULES = {
    "vllm/__init__.py": "",
    "vllm/utils/cache.py": "first = 1\n",
    "vllm/_C.so": "compiled",
    "README": "no module",
}
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def write(folder: Path) -> Path:
    for name, text in MODULES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a tag, a branch in which a module differs, and a change that is not committed."""
    folder = write(tmp_path / "checkout")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    git(folder, "tag", "v0.33.0")
    git(folder, "checkout", "--quiet", "-b", "topic/faster")
    (folder / "vllm/utils/cache.py").write_text("second = 2\n", encoding="utf-8")
    git(folder, "commit", "--quiet", "--all", "--message", "second")
    (folder / "vllm/utils/cache.py").write_text("third = 3\n", encoding="utf-8")
    return folder


def as_sdist(tmp_path: Path) -> Path:
    folder, path = write(tmp_path / "vllm-0.33.1"), tmp_path / "vllm-0.33.1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "vllm-0.33.1")
    return path


def as_wheel(tmp_path: Path, wheel: Callable[..., Path]) -> Path:
    return wheel(tmp_path, "vllm", "0.33.1.dev7+gabc", MODULES)


def unpacked(text: str, into: Path) -> dict[str, str]:
    Origin.parsed(text).unpack(into)
    files = (path for path in into.rglob("*") if path.is_file())
    return {path.relative_to(into).as_posix(): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize(
    ("branch", "content"), [("", "third = 3\n"), ("@topic/faster", "second = 2\n"), ("@v0.33.0", "first = 1\n")]
)
def test_a_checkout_and_its_branches(checkout: Path, tmp_path: Path, branch: str, content: str) -> None:
    files = unpacked(f"{checkout}{branch}", tmp_path / "into")
    assert files == {"vllm/__init__.py": "", "vllm/utils/cache.py": content}
    assert Origin.parsed(f"{checkout}{branch}").version() == "0.33.0", "the newest tag says so"


def test_a_wheel_and_an_sdist(tmp_path: Path, wheel: Callable[..., Path]) -> None:
    for number, path in enumerate((as_wheel(tmp_path, wheel), as_sdist(tmp_path))):
        files = unpacked(str(path), tmp_path / f"into{number}")
        assert files == {"vllm/__init__.py": "", "vllm/utils/cache.py": "first = 1\n"}
        assert Origin.parsed(str(path)).version() == "0.33.1", "without the label of a development build"


def test_what_a_build_wrote_is_the_version_without_a_tag(tmp_path: Path) -> None:
    folder = write(tmp_path / "plain")
    assert Origin.parsed(str(folder)).version() == ""
    (folder / "vllm/_version.py").write_text("__version__ = version = '0.32.1.dev5+g1'\n", encoding="utf-8")
    assert Origin.parsed(str(folder)).version() == "0.32.1"


def test_a_change_is_noticed(checkout: Path, tmp_path: Path) -> None:
    """A folder by its kept modules, a branch by its commit, a file by itself; one that is gone has not changed."""
    kept, files = tmp_path / "kept", ["vllm/utils/cache.py"]
    folder, branch = Origin.parsed(str(checkout)), Origin.parsed(f"{checkout}@topic/faster")
    folder.unpack(kept)
    before = branch.state()
    assert not folder.changed("", kept, files)
    assert not branch.changed(before, kept, files)
    (checkout / "vllm/__init__.py").write_text("plays = 'no part'\n", encoding="utf-8")
    assert not folder.changed("", kept, files)
    (checkout / "vllm/utils/cache.py").write_text("fourth = 4\n", encoding="utf-8")
    assert folder.changed("", kept, files)
    assert not branch.changed(before, kept, files), "nothing is committed"
    git(checkout, "commit", "--quiet", "--all", "--message", "fourth")
    assert branch.changed(before, kept, files)
    sdist = Origin.parsed(str(as_sdist(tmp_path)))
    before = sdist.state()
    assert not sdist.changed(before, kept, files)
    sdist.path.write_bytes(b"another one")
    assert sdist.changed(before, kept, files)
    sdist.path.unlink()
    assert not sdist.changed(before, kept, files)


def test_names(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout.parent)
    release = Release.parsed("vllm@checkout@topic/faster")
    assert release.name == f"vllm@{checkout}@topic/faster"
    assert Release.parsed(release.name) == release
    assert release.folder(Path()) != Release.parsed("vllm@checkout").folder(Path())
    assert "/" not in release.folder(Path()).name
    assert release.counted_as("0.20.2").parts == (0, 20, 2)
    assert family_of(release.name).package == "vllm"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "missing does not exist"),
        ("README", r"README is no folder, no wheel \(.whl\) and no sdist \(.tar.gz\)"),
        ("vllm", r"name the folder that contains vllm/__init__.py"),
        (".@no-branch", "git has no branch, tag or commit 'no-branch' with the folder vllm"),
        ("damaged.whl", "is no wheel: it is damaged"),
        ("damaged.tar.gz", "is no sdist: it is damaged"),
    ],
)
def test_what_is_no_origin(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.chdir(checkout)
    (checkout / "damaged.whl").write_bytes(b"half")
    (checkout / "damaged.tar.gz").write_bytes(b"half")
    with pytest.raises(InputError, match=message):
        Origin.parsed(name).unpack(tmp_path / "into")


def test_a_version_is_of_a_path_only() -> None:
    with pytest.raises(InputError, match="--era is for vllm@PATH"):
        Release("0.33.0").counted_as("0.33.0")
    with pytest.raises(InputError, match="names no path"):
        Release.parsed("vllm@")


def test_a_wheel_with_a_wrong_offset_is_damaged_and_a_full_disk_is_not_the_wheels(tmp_path: Path) -> None:
    path = tmp_path / "some.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some.py", "")
    with pytest.raises(InputError, match="is no wheel: it is damaged"), origins._wheel(path):
        raise OSError(errno.EINVAL, "Invalid argument")
    with pytest.raises(OSError, match="No space left"), origins._wheel(path):
        raise OSError(errno.ENOSPC, "No space left on device")
