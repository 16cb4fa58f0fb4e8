"""Which files of a release a component's driver reads, from the texts alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cacheproof.targets.vllm.driven_files import different_files, driven_files, file_of
from cacheproof.targets.vllm.release import Installed, Release, installed

NEWEST = Release("0.33.0")
FILES = {
    "vllm/utils/cache.py": "from vllm.utils.sizes import size_of\nfrom . import names\n",
    "vllm/utils/sizes.py": "import torch\ndef size_of():\n    from vllm.utils.late import late\n",
    "vllm/utils/names.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import vllm.utils.typed\n",
    "vllm/utils/late.py": "",
    "vllm/utils/typed.py": "",
    "vllm/config/cache.py": "",
    "vllm/v1/core/encoder_cache_manager.py": "import vllm.config.cache\n",
}


def there(folder: Path, files: Mapping[str, str] = FILES) -> Installed:
    for name, text in files.items():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "source" / name).write_text(text, encoding="utf-8")
    return Installed(NEWEST, folder, {"files": sorted(files)})


def test_a_driver_reads_what_it_names_and_what_that_imports(tmp_path: Path) -> None:
    """Neither imports inside functions, nor those for types."""
    assert driven_files(there(tmp_path), "lru") == {f"vllm/utils/{name}.py" for name in ("cache", "sizes", "names")}


def test_an_import_that_a_stand_in_answers_reads_no_file(tmp_path: Path) -> None:
    assert driven_files(there(tmp_path), "encoder_cache") == {"vllm/v1/core/encoder_cache_manager.py"}


def test_a_driver_that_reads_texts_reads_all_of_their_folder(tmp_path: Path) -> None:
    assert "vllm/config/cache.py" in driven_files(there(tmp_path), "mirror")


def test_files_that_differ_or_are_on_one_side_only(tmp_path: Path) -> None:
    changed = {name: text for name, text in FILES.items() if name != "vllm/utils/late.py"}
    one, other = there(tmp_path / "one"), there(tmp_path / "other", {**changed, "vllm/utils/names.py": "x = 1\n"})
    assert different_files(one, other) == {"vllm/utils/late.py", "vllm/utils/names.py"}
    assert different_files(one, one) == frozenset()


def test_the_file_of_a_module_and_of_a_package(tmp_path: Path) -> None:
    release = there(tmp_path, {"vllm/v1/utils/__init__.py": "", "vllm/v1/request.py": ""})
    assert file_of(release, "vllm.v1.utils") == "vllm/v1/utils/__init__.py"
    assert file_of(release, "vllm.v1.request") == "vllm/v1/request.py"
    assert file_of(release, "vllm.v1.absent") == ""


@pytest.mark.skipif(installed(NEWEST) is None, reason=f"{NEWEST.name} is not installed")
@pytest.mark.parametrize(
    ("file", "readers"),
    [
        ("vllm/v1/core/sched/scheduler.py", {"scheduler", "engine"}),
        ("vllm/utils/cache.py", {"lru", "mirror", "configuration", "engine"}),
        (
            "vllm/distributed/device_communicators/shm_object_storage.py",
            {"ring", "object_store", "configuration", "engine"},
        ),
        ("vllm/v1/core/encoder_cache_manager.py", {"encoder_cache", "encoder_budget", "scheduler", "engine"}),
    ],
)
def test_readers_of_released_files(file: str, readers: set[str]) -> None:
    release = installed(NEWEST)
    assert release is not None
    assert {one for one in release.record["components"] if file in driven_files(release, one)} == readers
