"""Archives, in a Python that has the package and nothing else: not cacheproof, nor anything that is installed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.proofs.results.making import charged_again, made_up, run_with

from cacheproof.foundation.errors import InputError
from cacheproof.releases.reproduce.archive import write
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results.cases import of_violation

ABSENT = "import importlib.util, sys; sys.exit(importlib.util.find_spec('cacheproof') is None)"
"""Ends with 1 where cacheproof is not there."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "charged.pyz"
    write(of_violation(charged_again()), path)
    return path


@pytest.mark.parametrize(
    ("where_present", "ending", "last"),
    [
        ("pass", Ending.VIOLATED, charged_again().verdict),
        ("if content in self.cached: return", Ending.NOT_SHOWN, "it is not as E2: free is 1, not 0"),
        ("if content in self.cached: raise ValueError('present')", Ending.NOT_SHOWN, "it answers failed, not done"),
        (
            "if content in self.cached: request.no_such_attribute",
            Ending.CANNOT_RUN,
            "has no no_such_attribute",
        ),
    ],
)
def test_an_archive_says_what_a_package_does(
    tmp_path: Path, archive: Path, where_present: str, ending: Ending, last: str
) -> None:
    package = made_up(tmp_path / "package", where_present)
    assert run_with(package, "-c", ABSENT).returncode == 1
    ended = run_with(package, str(archive))
    assert (ended.returncode, ended.stderr) == (ending, "")
    assert ended.stdout.splitlines()[-1].startswith(ending.words)
    assert last in ended.stdout.splitlines()[-1]


def test_an_archive_prints_the_calls_or_json(tmp_path: Path, archive: Path) -> None:
    package = made_up(tmp_path, "pass")
    lines = run_with(package, str(archive)).stdout.splitlines()
    assert lines[0].startswith("encoder_cache-E2-ENC-2-C-ENC-2 (")
    assert len([line for line in lines if "allocate(request=0, input=0)  -> done" in line]) == 2
    ended = run_with(package, str(archive), "--json")
    told = json.loads(ended.stdout)
    assert (told["violated"], told["verdict"], ended.returncode) == (True, charged_again().verdict, 1)
    assert [call["answer"] for call in told["calls"]] == ["done", "done"]


def test_what_an_archive_cannot_do(tmp_path: Path, archive: Path) -> None:
    without = run_with(tmp_path, str(archive))
    assert without.returncode == Ending.CANNOT_RUN
    assert without.stdout.splitlines()[-1] == "CANNOT RUN: there is no package vllm: pip install vllm==0.33.0"
    assert run_with(tmp_path, str(archive), "--strange").returncode == 2
    package = made_up(tmp_path / "package", "pass")
    (package / "torch.py").unlink()
    lacking = run_with(package, str(archive))
    assert (lacking.returncode, "No module named 'torch'" in lacking.stdout) == (Ending.CANNOT_RUN, True)
    (package / "vllm/v1/core/encoder_cache_manager.py").unlink()
    (package / "torch.py").write_text("")
    assert run_with(package, str(archive)).returncode == Ending.CANNOT_RUN


def test_another_version_than_the_recorded_one_is_told(tmp_path: Path, archive: Path) -> None:
    package = made_up(tmp_path, "pass")
    metadata = package / "vllm-0.34.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.34.0\n")
    assert run_with(package, str(archive)).stdout.startswith("note: vllm is 0.34.0 here, and 0.33.0 in the record\n")


def test_an_archive_is_written_once_and_where_it_can_be(tmp_path: Path, archive: Path) -> None:
    case = of_violation(charged_again())
    with pytest.raises(InputError, match="exists"):
        write(case, archive)
    with pytest.raises(InputError, match="cannot be written"):
        write(case, tmp_path / "no_such_folder" / "file.pyz")
    assert stat.S_ISREG(archive.stat().st_mode)
    assert archive.stat().st_size < 400_000
