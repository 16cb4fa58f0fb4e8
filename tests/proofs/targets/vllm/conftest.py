"""A made-up release with planted failures, its modules where the real ones are; and wheels of it, for a pip offline."""

from __future__ import annotations

import textwrap
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

LRU = """
    from collections import OrderedDict
    import transformers
    from vllm.platforms import current_platform

    class LRUCache:
        '''Keys 7, 8 and 9 are planted failures.'''
        def __init__(self, capacity, getsizeof):
            self.maxsize, self.getsizeof = capacity, getsizeof
            self.order, self._Cache__size, self._hits, self._total = OrderedDict(), {}, 0, 0
        currsize = property(lambda self: sum(self._Cache__size.values()))
        def __contains__(self, key):
            if key == 5:
                current_platform.there()
            return key in self.order
        def touch(self, key):
            while key == 7:
                pass
            assert key != 8
            if key == 9:
                raise AttributeError('no such attribute')
        def put(self, key, size):
            if size > self.maxsize:
                raise ValueError('value too large')
            self.order[key], self._Cache__size[key] = None, size
"""

ENCODER = """
    from vllm.sampling_params import SamplingParams

    class EncoderCacheManager:
        def __init__(self, cache_size):
            self.num_free_slots = self.num_freeable_slots = cache_size
            self.cached, self.freeable, self.freed = {}, {}, []
        def check_and_update_cache(self, request: SamplingParams, input_id: int):
            return False
"""

MIRROR = """
    class MMInputCacheClient:
        pass

    class MMInputCacheServer:
        def __init__(self, model_config):
            self.capacity = VLLM_MM_INPUT_CACHE_SIZE
"""

RELEASE: Mapping[str, str] = {
    "vllm/__init__.py": "raise RuntimeError('the whole engine would be imported')",
    "vllm/utils/__init__.py": "",
    "vllm/utils/cache.py": LRU,
    "vllm/utils/never_imported.py": "",
    "vllm/v1/__init__.py": "",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/encoder_cache_manager.py": ENCODER,
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/mm_input_cache.py": MIRROR,
    "vllm/_C.so": "not a module",
}

DEPENDENCIES = ("torch", "numpy", "cachetools", "msgspec", "packaging")


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A wheel that pip takes: the files, and the least that it must say of itself."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    told = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in {**files, **told}.items():
            archive.writestr(member, textwrap.dedent(text))
    return path


@pytest.fixture
def wheel() -> Callable[..., Path]:
    """Makes a wheel: takes its folder, its name, its version and its files."""
    return make_wheel


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up release, unpacked, with stand-ins of the dependencies that are installed beside a real one."""
    folder = write(tmp_path_factory.mktemp("release"), RELEASE)
    write(folder / "dependencies", {f"{name}.py": "" for name in DEPENDENCIES})
    return folder


@pytest.fixture
def made_up(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """The made-up release with some modules replaced."""
    return lambda changes: write(tmp_path / "release", {**RELEASE, **changes})


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that `target add vllm==9.9.9` asks pip for."""
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "vllm", "9.9.9", RELEASE)
    versions = {
        "torch": ("2.13.0",),
        "numpy": ("2.0",),
        "cachetools": ("8.0.0", "7.1.6"),
        "msgspec": ("0.22",),
        "packaging": ("25.0",),
    }
    for name, all_versions in versions.items():
        for version in all_versions:
            make_wheel(folder, name, version, {f"{name}.py": f"version = '{version}'\n"})
    return folder
