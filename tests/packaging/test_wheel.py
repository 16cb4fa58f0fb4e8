"""What is in the wheel is what is in the tree, and only that."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"cachespec": "spec", "cacheimpl": "impl", "cacheproof": "proofs"}


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def tracked() -> list[str]:
    """The files of the three packages that git knows or would take, by their place in a wheel."""
    call = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES.values()]
    listed = subprocess.run(call, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [line.partition("/")[2] for line in listed if line and (ROOT / line).is_file()]


def test_the_wheel_holds_the_three_packages_whole(names: list[str]) -> None:
    inside = [name for name in names if ".dist-info/" not in name]
    assert sorted(inside) == sorted(tracked())
    assert {name.partition("/")[0] for name in inside} == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_says_that_it_is_typed(names: list[str], package: str) -> None:
    assert f"{package}/py.typed" in names


def test_scopes_data_and_licence_are_inside(names: list[str]) -> None:
    scopes = [path.name for path in (ROOT / "proofs/cacheproof/scopes").glob("*.toml")]
    assert scopes
    assert {f"cacheproof/scopes/{name}" for name in scopes} <= set(names)
    data = [
        path for path in (ROOT / "proofs/cacheproof/replay").rglob("*") if path.suffix in (".gz", ".jsonl", ".json")
    ]
    assert data
    assert {f"cacheproof/{path.relative_to(ROOT / 'proofs/cacheproof')}" for path in data} <= set(names)
    licences = {name.partition(".dist-info/licenses/")[2] for name in names}
    assert "LICENSE" in licences
    of_data = {str(path.relative_to(ROOT)) for path in (ROOT / "proofs/cacheproof/replay/data/LICENSES").iterdir()}
    assert of_data
    assert of_data <= licences


def test_pytest_finds_the_plugin(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/entry_points.txt")]
        assert "[pytest11]\ncacheproof = cacheproof.pytest_plugin\n" in archive.read(name).decode()
