"""Adding, listing and removing a release, end to end, with a real pip and a made-up package instead of the network."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cacheproof.foundation.errors import InconclusiveError, InputError
from cacheproof.model.registry import component_named
from cacheproof.releases.nearest import neighbours
from cacheproof.targets import environment, fetching
from cacheproof.targets.factory import open_target
from cacheproof.targets.folders import COMPLETE, mark_complete, record_of, targets_folder
from cacheproof.targets.vllm import release
from cacheproof.targets.vllm.eras import table
from cacheproof.targets.vllm.family import FAMILY
from cacheproof.targets.vllm.release import (
    Release,
    add,
    all_installed,
    discard,
    drives_as_before,
    installed,
    needed,
)
from cachespec.kernel import DONE
from cachespec.lru import Config, Put

MADE_UP = Release("9.9.9")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Iterator[Path]:
    """A cache folder with the made-up release in it, and a pip that sees nothing but the wheels."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CACHEPROOF_CACHE", str(folder))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setenv("PIP_CONFIG_FILE", "/dev/null")
        patch.delenv("TORCH_SPEC", raising=False)
        add(MADE_UP, progress=str)
        yield folder / "targets"


def test_what_is_kept(cache: Path) -> None:
    there = needed(MADE_UP)
    kept = sorted(str(path.relative_to(there.source)) for path in there.source.rglob("*") if path.is_file())
    assert [name for name in kept if name.endswith(".py")] == there.record["files"]
    assert "vllm/utils/never_imported.py" not in kept
    assert not [name for name in kept if name.endswith(".so")]
    assert sorted(path.name.partition("-")[0] for path in cache.iterdir()) == ["environment", "lock", "vllm"], (
        "the wheel and everything unfinished are gone"
    )


def test_it_is_a_target(cache: Path) -> None:
    component = component_named("lru")
    target = open_target(MADE_UP.name, component, component.normative)
    try:
        target.reset(Config(capacity=3, sizes=(1,)))
        assert target.apply(Put(0, 1)) == DONE
        assert target.observe()["order"] == (0,)
    finally:
        target.close()


def test_what_cannot_be_driven_says_why(cache: Path) -> None:
    folder = MADE_UP.folder(cache)
    record = dict(record_of(folder) or {})
    good = record["components"]
    mark_complete(folder, {**record, "components": {**good, "lru": "AttributeError: it has no LRUCache"}})
    component = component_named("lru")
    with pytest.raises(InputError, match=r"cannot be driven as lru: AttributeError: it has no LRUCache"):
        open_target(MADE_UP.name, component, component.normative)
    mark_complete(folder, record)


def test_other_versions_of_a_dependency_are_beside_the_environment(cache: Path) -> None:
    home = release.needed_environment()
    texts = [(home.overlay(other) / "cachetools.py").read_text(encoding="utf-8") for other in environment.OVERLAYS]
    assert texts == ["version = '7.1.6'\n"]


def test_an_environment_that_fails_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SPEC", "torch==0.0.1")
    with pytest.raises(InputError, match=r"installing torch==0.0.1: there is no such version"):
        add(MADE_UP, progress=str)
    assert len(list(cache.glob("environment-*"))) == 1
    assert not list(cache.glob("unfinished-*"))


def test_a_disk_without_room_for_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(environment, "SPACE_FOR_PIP_BYTES", 1 << 62)
    with pytest.raises(InconclusiveError, match="no space left on the disk"):
        environment.ensured(tmp_path, progress=str)
    monkeypatch.setattr(environment, "SPACE_FOR_PIP_BYTES", 0)
    with pytest.raises(InconclusiveError, match="no virtual environment can be made: no reason"):
        environment.ensured(tmp_path, progress=str)


def test_what_is_finished_is_not_done_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        pytest.fail(f"pip was called: {arguments}")

    monkeypatch.setattr(fetching, "run_pip", refuse)
    monkeypatch.setattr(environment, "run_pip", refuse)
    assert add(MADE_UP, progress=str) == needed(MADE_UP)


def test_an_interrupted_download_leaves_nothing_that_counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Release("9.9.8")

    def interrupted(_python: Path, _arguments: object, _what: str, scratch: Path, _progress: object) -> None:
        scratch.mkdir(parents=True)
        (scratch.parent / "vllm-9.9.8-py3-none-any.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "run_pip", interrupted)
    with pytest.raises(KeyboardInterrupt):
        add(other, progress=str)
    assert installed(other) is None
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"there is no such version; the newest there are: 9\.9\.9"):
        add(other, progress=str)
    assert not list(cache.glob("unfinished-*")) + list(cache.glob("wheel-*"))


def test_a_damaged_release_is_made_anew(cache: Path) -> None:
    folder = MADE_UP.folder(cache)
    (folder / COMPLETE).unlink()
    with pytest.raises(InputError, match=r"is not installed: cacheproof target add vllm==9\.9\.9"):
        needed(MADE_UP)
    add(MADE_UP, progress=str)
    assert record_of(folder) is not None


def test_what_another_driver_added_is_looked_at_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = MADE_UP.folder(cache)
    mark_complete(folder, {**(record_of(folder) or {}), "driver": "another"})
    assert installed(MADE_UP) is None
    with monkeypatch.context() as patch:
        patch.setattr(fetching, "run_pip", lambda *arguments: pytest.fail("what is enough is not fetched again"))
        add(MADE_UP, progress=str)
    mark_complete(folder, {**(record_of(folder) or {}), "driver": "another", "files": ["vllm/other.py"]})
    add(MADE_UP, progress=str)
    assert "vllm/utils/cache.py" in needed(MADE_UP).record["files"]


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ({"lru": ""}, {"lru": "", "engine": ""}, True),
        ({"lru": ""}, {"lru": "", "engine": "a module is missing"}, False),
        ({"lru": "", "ring": ""}, {"lru": ""}, False),
        ({"lru": ""}, {"lru": "it has changed"}, False),
    ],
)
def test_a_new_component_needs_nothing_new_if_the_kept_modules_drive_it(
    before: dict[str, str], now: dict[str, str], same: bool
) -> None:
    assert drives_as_before(before, now) is same


def test_a_damaged_wheel_is_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = needed(MADE_UP)
    wheel = cache / "wheel-9.9.9"
    wheel.mkdir()
    (wheel / "broken.whl").write_bytes(b"half of a wheel")
    (wheel / COMPLETE).write_text('{"wheel": "broken.whl"}', encoding="utf-8")
    (there.folder / COMPLETE).unlink()
    with pytest.raises(InconclusiveError, match="damaged and has been removed"):
        add(MADE_UP, progress=str)
    add(MADE_UP, progress=str)
    assert needed(MADE_UP).record == there.record


def test_another_torch_is_another_environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SPEC", "torch==2.14.0")
    with pytest.raises(InputError, match=r"no environment with torch==2\.14\.0: add a target again"):
        release.needed_environment()


def test_a_checkout_is_a_target_as_it_was_when_it_was_added(
    cache: Path, tmp_path: Path, made_up: Callable[[Mapping[str, str]], Path]
) -> None:
    """It is compared with the eras of its version, added again after a change, and listed and removed by its path."""
    folder, component = made_up({}), component_named("lru")
    name = f"vllm@{folder}"
    with pytest.raises(InputError, match=r"does not tell its version: name the nearest release, as in --era 0\.33\.0"):
        FAMILY.add(name, str)
    added = FAMILY.add(name, str, "0.33.0")
    assert (added.name, added.record["version"]) == (name, "0.33.0")
    assert [one.name for one in FAMILY.all_added()] == [name, MADE_UP.name]
    assert [era.variant for era in neighbours(table(), Release.parsed(name), "lru")] == ["M3"]
    text = (folder / "vllm/utils/cache.py").read_text(encoding="utf-8")
    (folder / "vllm/utils/cache.py").write_text(text + "\nchanged = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{folder} has changed since it was added: cacheproof target add {name}"):
        open_target(name, component, component.normative)
    FAMILY.add(name, str)
    target = open_target(name, component, component.normative)
    target.reset(Config(capacity=3, sizes=(1,)))
    assert target.apply(Put(0, 1)) == DONE
    target.close()
    assert FAMILY.discard(name) > 0
    assert [one.name for one in FAMILY.all_added()] == [MADE_UP.name]


def test_removing(cache: Path) -> None:
    assert [one.release for one in all_installed()] == [MADE_UP]
    assert discard(MADE_UP) > 0
    assert sorted(path.name for path in targets_folder().iterdir()) == ["lock"], "the environment went with the last"
    with pytest.raises(InputError, match=r"vllm==9\.9\.9 is not installed: no release is"):
        discard(MADE_UP)


@pytest.mark.parametrize("text", ["vllm", "vllm==", "vllm==x", "vllm>=1.0", "sglang==0.5", "vllm==0.7.3/../x", ""])
def test_what_is_not_a_release(text: str) -> None:
    with pytest.raises(InputError, match=r"write it as in vllm==0\.33\.0"):
        Release.parsed(text)


@pytest.mark.parametrize("text", ["vllm==0.33.0", " vllm==0.8.5.post1 ", "vllm==0.12.0rc1"])
def test_what_is(text: str) -> None:
    assert Release.parsed(text).name == text.strip()
